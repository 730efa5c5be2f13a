"""Levels of one's own beside a strategy's."""

import numpy as np
import pytest

from jaxrob.strategies import ASAP, Including, Random, Task, Uniform, sample

SEVERITIES = (0, 1, 2, 3, 4, 5)


def test_the_levels_are_among_those_evaluated():
    def value(level):
        return 0.95 - 0.04 * level**1.5

    task = Task(0.0, 5.0, 0.8, 0.0)
    crossing = (0.15 / 0.04) ** (2 / 3)
    for concavity in ("auto", 16.0):
        asap = ASAP(concavity=concavity)
        found, seen = sample(Including(asap, SEVERITIES), task, value)
        alone, _ = sample(asap, task, value)
        assert set(SEVERITIES) < set(found.levels)
        assert len(found.levels) <= len(alone.levels) + len(SEVERITIES)
        near = found.levels[np.abs(found.levels - crossing).argsort()[:2]]
        assert np.ptp(near) <= 5 / 1024 * 1.01
        assert seen.error_bound <= 2 / 1024


def test_rules_are_those_that_take_levels_anywhere():
    assert Including(ASAP(), SEVERITIES).rules == ("right", "linear")
    assert Including(ASAP(), SEVERITIES).rule == "right"
    assert Including(Uniform(4), SEVERITIES).rule == "linear"


@pytest.mark.parametrize(
    "arguments, error, name",
    [
        ((Random(), (1,)), ValueError, "rules"),
        ((ASAP, (1,)), TypeError, "strategy"),
        ((ASAP(), ()), ValueError, "levels"),
        ((ASAP(), (1, float("nan"))), ValueError, "levels"),
        ((ASAP(), ("1",)), TypeError, "levels"),
        ((ASAP(), 3), ValueError, "levels"),
    ],
)
def test_what_is_refused(arguments, error, name):
    with pytest.raises(error, match=name):
        Including(*arguments)


def test_a_level_outside_the_range_is_refused():
    with pytest.raises(ValueError, match="got 3"):
        sample(Including(ASAP(), SEVERITIES), Task(0.0, 2.0, 0.8), np.ones_like)
