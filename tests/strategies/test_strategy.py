"""What a strategy must have and receives, how it is driven, and fixed levels."""

import contextlib
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import strategies
from jaxrob.metrics import RULES, heaviside_robustness
from jaxrob.strategies import (
    ASAP,
    Found,
    History,
    Including,
    Random,
    Task,
    Uniform,
    Volume,
    all_images,
    sample,
)
from jaxrob.strategies._drive import Seen, Subject, drive

TASK = Task(0.0, 1.0, 0.8)


class Ends:
    """The least that is a strategy."""

    rule = "linear"
    rules = ("linear",)

    def init(self, task):
        return History()

    def ask(self, task, state, history):
        known = len(history.levels) > 0
        return [] if known else all_images([task.lower, task.upper]), history

    def result(self, task, state):
        return Found()


@pytest.mark.parametrize("kind", [np.float32, jnp.float32, np.asarray])
def test_a_number_s_type_does_not_matter(kind):
    number, values = 0.8, np.array([1.0, 0.8 + 1e-8, 0.7])
    accepted = (values >= number).mean()
    assert heaviside_robustness([0, 1, 2], values, kind(0.8), "count") == accepted
    few = Uniform(np.uint8(200)), Uniform(200)
    found = [sample(one, TASK, np.square)[0].levels for one in few]
    np.testing.assert_array_equal(*found)
    asked = [
        sample(ASAP(np.uint8(128)), TASK._replace(threshold=one), lambda x: 1 - x / 2)
        for one in (kind(0.8), number)
    ]
    np.testing.assert_array_equal(asked[0][0].levels, asked[1][0].levels)


@pytest.mark.parametrize("part", ["rule", "rules", "init", "ask", "result"])
def test_a_part_that_is_missing_is_named(part):
    parts = {name: value for name, value in vars(Ends).items() if name != part}
    with pytest.raises(TypeError, match=f"{part}$"):
        sample(type("Mine", (), parts)(), TASK, lambda x: x)


def shipped():
    for name in strategies.__all__:
        one = getattr(strategies, name)
        if hasattr(one, "ask") and one not in (strategies.Strategy, strategies.Volume):
            with contextlib.suppress(TypeError, ValueError):
                yield one()


@pytest.mark.parametrize("strategy", [*shipped(), ASAP(64, 128.0), Ends()])
def test_every_strategy_has_all_parts(strategy):
    assert strategy.rule in strategy.rules and set(strategy.rules) <= set(RULES)
    bound = sample(strategy, TASK, lambda x: 1 - x / 2)[1].error_bound
    assert bound is None or 0 <= bound <= 1
    # The papers' levels are the default.
    assert strategies.Uniform() == strategies.Uniform(41)
    assert strategies.Random() == strategies.Random(41, 0)


def test_positions_and_levels_are_inverse_and_exact_at_the_ends():
    task = Task(-4.0, 4.0, 0.8)
    np.testing.assert_array_equal(task.levels_at(np.array([0.0, 0.5, 1.0])), [-4, 0, 4])
    levels = np.array([-4.0, -1.5, 0.0, 4.0])
    np.testing.assert_allclose(task.levels_at(task.positions_of(levels)), levels)


def test_the_typical_number_is_the_median_over_distinct_effects():
    levels = np.arange(5.0)
    inputs = np.array([100, 90, 10, 10, 10])
    assert History(levels, levels, inputs).typical_inputs == 10
    shared = History(levels, levels, inputs, np.array([0, 2, 1, 1, 1]))
    np.testing.assert_array_equal(shared.distinct, [0, 1, 2])
    assert shared.typical_inputs == 90
    assert History(levels, levels).typical_inputs is None
    assert History(levels[:0], levels[:0], inputs[:0]).typical_inputs is None


@pytest.mark.parametrize("strategy", [Random(3), Uniform(3)])
def test_nothing_is_asked_twice(strategy):
    asked, state = strategy.ask(TASK, strategy.init(TASK), History())
    levels = np.sort([one.level for one in asked])
    assert len(levels) == 3
    assert not strategy.ask(TASK, state, History(levels, np.ones(3)))[0]


@pytest.mark.parametrize(
    ("make", "settings", "error", "name"),
    [
        (Random, {"n": 0}, ValueError, "n must"),
        (Random, {"seed": -1}, ValueError, "seed"),
        (Uniform, {"n": 1}, ValueError, "n must"),
        (ASAP, {"n": 1}, ValueError, "n must"),
        (ASAP, {"concavity": 0}, ValueError, "concavity"),
        (ASAP, {"concavity": math.inf}, ValueError, "concavity"),
        (ASAP, {"concavity": "automatic"}, ValueError, "concavity"),
        # No level of a grid of 16 could meet the last one.
        (ASAP, {"n": 16, "narrowest": 0}, ValueError, "narrowest"),
        (ASAP, {"n": 16, "narrowest": 1.5}, ValueError, "narrowest"),
        (ASAP, {"n": 16, "narrowest": 1 / 20}, ValueError, "narrowest"),
        (Random, {"n": 41.0}, TypeError, "n must"),
        (Volume, {"half_width": 0.0}, ValueError, "half_width"),
        (Volume, {"half_width": 0.5}, ValueError, "half_width"),
        (Volume, {"budget": 0}, ValueError, "budget"),
        (Volume, {"guarantee": "sure"}, ValueError, "guarantee"),
        (Including, {"strategy": Random(), "levels": (1,)}, ValueError, "rules"),
        (Including, {"strategy": ASAP, "levels": (1,)}, TypeError, "strategy"),
        (Including, {"strategy": ASAP(), "levels": ()}, ValueError, "levels"),
        (Including, {"strategy": ASAP(), "levels": (1, np.nan)}, ValueError, "levels"),
        (Including, {"strategy": ASAP(), "levels": ("1",)}, TypeError, "levels"),
        (Including, {"strategy": ASAP(), "levels": 3}, ValueError, "levels"),
    ],
)
def test_bad_settings(make, settings, error, name):
    with pytest.raises(error, match=name):
        make(**settings)


def subject(threshold):
    return Subject("curve", Task(0.0, 1.0, threshold), np.asarray, np.asarray)


def test_a_search_is_asked_while_others_wait_for_answers():
    events = []
    subjects = [subject(threshold) for threshold in (0.1, 0.2)]

    class Noted(Uniform):
        def ask(self, task, state, history):
            events.append(("asked", task.threshold, len(history.levels)))
            return super().ask(task, state, history)

    def look(parts, learn):
        for part in parts:
            events.append(("answered", part.alteration))
            learn(part, Seen(part.level, None))

    found = drive(Noted(3), subjects, look)
    assert [one.history.levels.tolist() for one in found] == [[0.0, 0.5, 1.0]] * 2
    assert events == [
        ("asked", 0.1, 0),
        ("asked", 0.2, 0),
        *[("answered", 0)] * 3,
        ("asked", 0.1, 3),
        *[("answered", 1)] * 3,
        ("asked", 0.2, 3),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_answers_may_come_in_any_order(backwards):
    def value(place, level):
        return 1.0 if level < 0.3 * (place + 1) else 0.0

    def look(parts, learn):
        for part in reversed(parts) if backwards else parts:
            learn(part, Seen(value(part.alteration, part.level), None))

    strategy = ASAP(64, concavity=8.0)
    subjects = [subject(threshold) for threshold in (0.2, 0.5, 0.8)]
    for place, found in enumerate(drive(strategy, subjects, look)):

        def alone(parts, learn, place=place):
            for part in parts:
                learn(part, Seen(value(place, part.level), None))

        (expected,) = drive(strategy, subjects[place : place + 1], alone)
        history, other = found.history, expected.history
        np.testing.assert_array_equal(history.levels, other.levels)
        np.testing.assert_array_equal(history.values, other.values)
        assert history.rounds == other.rounds


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


def test_levels_are_uniform_and_independent_and_a_seed_is_a_draw():
    levels = ask(Random(20_000, seed=3))
    assert stats.kstest(levels, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(levels[:-1], levels[1:])[0, 1]) < 0.03
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


def test_rules_take_levels_anywhere_in_the_range():
    assert Including(ASAP(), SEVERITIES).rules == ("right", "linear")
    assert Including(ASAP(), SEVERITIES).rule == "right"
    assert Including(Uniform(4), SEVERITIES).rule == "linear"
    with pytest.raises(ValueError, match="got 3"):
        sample(Including(ASAP(), SEVERITIES), Task(0.0, 2.0, 0.8), np.ones_like)
