"""Strategies whose levels do not depend on the answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob.strategies import ASAP, History, Including, Random, Task, Uniform, sample

NOTHING = History()


def ask(strategy, lower=0.0, upper=1.0):
    task = Task(lower, upper, threshold=0.8)
    return np.array([one.level for one in strategy.ask(task, NOTHING, NOTHING)[0]])


@settings(deadline=None, max_examples=20)
@given(
    st.integers(1, 300),
    st.integers(0, 2**40),
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_levels_lie_in_the_range_and_scale_with_it(n, seed, lower, width):
    upper = lower + width
    levels = ask(Random(n, seed), lower, upper)
    assert levels.shape == (n,) and levels.dtype == np.float64
    assert (levels >= lower).all() and (levels <= upper).all()
    unit = ask(Random(n, seed))
    np.testing.assert_allclose((levels - lower) / (upper - lower), unit, atol=1e-9)


def test_levels_are_uniform_and_independent():
    levels = ask(Random(20_000, seed=3))
    assert stats.kstest(levels, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(levels[:-1], levels[1:])[0, 1]) < 0.03


def test_a_seed_is_a_draw():
    np.testing.assert_array_equal(ask(Random(9, 5)), ask(Random(9, 5)))
    assert not np.isin(ask(Random(9, 5)), ask(Random(9, 6))).any()


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 500), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_levels_are_evenly_spaced_from_end_to_end(n, lower, width):
    upper = lower + width
    levels = ask(Uniform(n), lower, upper)
    assert len(levels) == n
    assert levels[0] == lower and levels[-1] == upper
    assert (np.diff(levels) > 0).all()
    exact = lower + np.arange(n) * (upper - lower) / (n - 1)
    np.testing.assert_allclose(levels, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("upper", [0.5, 180])
def test_a_symmetric_range_has_symmetric_levels(upper):
    for n in range(2, 100):
        levels = ask(Uniform(n), -upper, upper)
        np.testing.assert_array_equal(levels, -levels[::-1])
        assert (0 in levels) == (n % 2 == 1)


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
