"""ASAP on functions of a level, no network in sight."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxrob
from jaxrob import metrics
from jaxrob.metrics import heaviside_robustness
from jaxrob.strategies import ASAP, History, Task


def known(levels, values, num_inputs=1000):
    if num_inputs is None:
        return History(levels, values)
    return History(levels, values, np.full(len(levels), num_inputs))


def bound(strategy, task, levels, values, num_inputs=1000):
    return strategy.result(task, known(levels, values, num_inputs)).error_bound


def sample(strategy, function, lower=0.0, upper=1.0, threshold=0.8, num_inputs=1000):
    """All levels the strategy asks for, the values there, and the rounds."""
    task = Task(lower, upper, threshold)
    levels, rounds = np.array([]), 0
    while True:
        history = known(levels, function(levels), num_inputs)
        asked = [one.level for one in strategy.ask(task, history, history)[0]]
        if not len(asked):
            return task, levels, function(levels), rounds
        rounds += 1
        assert not np.isin(asked, levels).any() and len(np.unique(asked)) == len(asked)
        levels = np.sort(np.append(levels, asked))


def algorithm_1(function, lower, upper, threshold, a, smallest):
    """The recursion of the paper as printed, but `>` for the smallest step."""
    found = {}

    def intersects(x_a, x_b, a):
        (y_a, y_b) = found[x_a] - threshold, found[x_b] - threshold
        if (y_a < 0) != (y_b < 0):
            return True
        b, c = np.linalg.solve(
            [[x_a, 1], [x_b, 1]], [found[x_a] - a * x_a**2, found[x_b] - a * x_b**2]
        )
        x_v, y_v = -b / (2 * a), -(b**2 - 4 * a * c) / (4 * a)
        return x_a <= x_v <= x_b and (y_a < 0) != (y_v - threshold < 0)

    def evaluate(x_a, x_b):
        for x in (x_a, x_b):
            found.setdefault(x, float(function(np.array([x]))[0]))
        if (intersects(x_a, x_b, a) or intersects(x_a, x_b, -a)) and (
            x_b - x_a > smallest * (1 + 1e-9)
        ):
            middle = (x_a + x_b) / 2
            evaluate(x_a, middle)
            evaluate(middle, x_b)

    evaluate(lower, upper)
    return np.array(sorted(found))


def wave(amplitude, frequency, phase, offset):
    return lambda x: offset + amplitude * np.sin(frequency * x + phase)


waves = st.builds(
    wave,
    st.floats(0.01, 0.5),
    st.floats(0.1, 20),
    st.floats(0, 2 * math.pi),
    st.floats(0.4, 1.0),
)


@settings(deadline=None, max_examples=25)
@given(waves, st.sampled_from([2.0, 32.0, 128.0]), st.sampled_from([8, 64, 1024]))
def test_levels_are_those_of_the_recursion(function, a, n):
    _, levels, _, _ = sample(ASAP(n=n, concavity=a), function)
    np.testing.assert_array_equal(
        levels, algorithm_1(function, 0.0, 1.0, 0.8, a, 1 / n)
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.floats(0.01, 0.5), st.floats(0.1, 20), st.floats(0, 7), st.floats(0.4, 1))
def test_the_bound_holds_where_the_curvature_is_bounded(
    amplitude, frequency, phase, offset
):
    # |f''| / 2 <= amplitude frequency**2 / 2 everywhere.
    a = max(amplitude * frequency**2 / 2, 1e-3)
    function = wave(amplitude, frequency, phase, offset)
    strategy = ASAP(n=256, concavity=a)
    task, levels, values, _ = sample(strategy, function)
    truth = np.mean(function(np.linspace(0, 1, 200_001)) >= 0.8)
    off = abs(heaviside_robustness(levels, values, 0.8, "right") - truth)
    # The reference itself is off by its own step at each of a few crossings.
    assert off <= bound(strategy, task, levels, values) + 4e-5


@pytest.mark.parametrize(
    "strategy", [ASAP(n=64, concavity=32.0), ASAP(statistical_stopping=False)]
)
def test_levels_are_those_of_the_range_mapped_to_the_unit_interval(strategy):
    function = wave(0.3, 5.0, 0.3, 0.75)
    levels = sample(strategy, function)[1]
    stretched = sample(strategy, lambda x: function((x + 20) / 40), -20.0, 20.0)[1]
    np.testing.assert_allclose((stretched + 20) / 40, levels, atol=1e-12)


def test_one_crossing_takes_the_levels_of_a_bisection():
    strategy = ASAP(n=1024, concavity=1e-3)
    task, levels, values, rounds = sample(strategy, lambda x: 1.0 - x / 3)
    assert len(levels) == 2 + 10 and rounds == 11
    assert bound(strategy, task, levels, values) == 1 / 1024
    assert abs(heaviside_robustness(levels, values, 0.8, "right") - 0.6) <= 1 / 1024


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("distance", "splits"), [(0.2 + 1e-9, 0), (0.2 - 1e-9, 1)])
def test_a_parabola_reaches_a_quarter_of_the_concavity(sign, distance, splits):
    # Over [0, 1] with equal ends the vertex lies a / 4 beyond them.
    strategy = ASAP(n=2, concavity=4 * 0.2)
    history = History(np.array([0.0, 1.0]), np.full(2, 0.5 + sign * distance))
    asked, _ = strategy.ask(Task(0, 1, 0.5), history, history)
    assert len(asked) == splits


# What follows is of the automatic concavity.

AUTO = ASAP(statistical_stopping=False)
GRID = np.arange(1025) / 1024


def by_limits(limits):
    """The accuracy when each input is right up to its limit, wrong beyond it."""
    ordered = np.sort(limits)
    return lambda x: 1 - np.searchsorted(ordered, x) / len(ordered)


def aligned(function, threshold):
    """The robustness on the grid of 1,024 intervals, by the right end of each."""
    return np.mean(function(GRID[1:]) >= threshold)


def error(levels, values, function, threshold=0.8):
    """How far the robustness by the levels is from that on the grid."""
    robustness = heaviside_robustness(levels, values, threshold)
    return abs(robustness - aligned(function, threshold))


@settings(deadline=None, max_examples=25)
@given(
    st.floats(0.5, 8),
    st.floats(0.5, 8),
    st.floats(0.0, 0.9),
    st.floats(0.1, 3.0),
    st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95]),
    st.integers(0, 1000),
)
def test_falling_curves_of_inputs_with_a_limit_each(
    a, b, start, scale, threshold, seed
):
    limits = start + scale * np.random.default_rng(seed).beta(a, b, 1000)
    function = by_limits(limits)
    task, levels, values, rounds = sample(AUTO, function, threshold=threshold)
    robustness = heaviside_robustness(levels, values, threshold)
    assert robustness == aligned(function, threshold)
    assert len(levels) <= 24 and rounds <= 16


@settings(deadline=None, max_examples=25)
@given(st.floats(0.01, 0.5), st.floats(0.1, 8), st.floats(0, 7), st.floats(0.4, 1.0))
def test_the_automatic_bound_holds_on_waves(amplitude, frequency, phase, offset):
    # At most 1.3 periods: no excursion is narrower than the intervals it begins with.
    function = wave(amplitude, frequency, phase, offset)
    task, levels, values, _ = sample(AUTO, function, num_inputs=None)
    most = bound(AUTO, task, levels, values, None) + 1e-12
    assert error(levels, values, function) <= most


@pytest.mark.parametrize("value", [0.0, 0.85])
def test_auto_takes_the_first_levels_only_far_from_the_threshold(value):
    task, levels, values, rounds = sample(AUTO, lambda x: 0 * x + value)
    np.testing.assert_array_equal(levels, np.linspace(0, 1, 9))
    assert rounds == 1 and bound(AUTO, task, levels, values) == 0


def test_a_curve_on_the_threshold_has_a_bound_of_the_whole_range():
    task, levels, values, _ = sample(ASAP(n=64), lambda x: 0 * x + 0.8)
    assert bound(AUTO, task, levels, values) == 1.0


def test_a_jump_costs_little_more_than_its_bisection():
    _, levels, _, _ = sample(AUTO, lambda x: np.where(x < 0.413, 0.95, 0.4))
    assert len(levels) <= 9 + 7 + 2
    # As a translation that crops has it at its identity.
    _, levels, _, _ = sample(AUTO, lambda x: np.where(x == 0.5, 0.95, 0.6 - x / 10))
    assert len(levels) <= 9 + 2 * 7 + 2


@pytest.mark.parametrize("n", [2, 50])
def test_auto_keeps_to_its_grid(n):
    strategy = ASAP(n=n, statistical_stopping=False)
    _, levels, _, _ = sample(strategy, lambda x: 1 - x / 3)
    parts = 2 ** math.ceil(math.log2(n))
    np.testing.assert_array_equal(levels * parts, np.rint(levels * parts))
    assert levels[0] == 0 and levels[-1] == 1


@settings(deadline=None, max_examples=12)
@given(st.floats(1, 5), st.floats(1, 5), st.integers(0, 100))
def test_sampling_stops_where_the_inputs_decide(a, b, seed):
    function = by_limits(1.2 * np.random.default_rng(seed).beta(a, b, 1000))
    task, levels, values, _ = sample(ASAP(), function)

    def interval(levels):
        correct = np.rint(1000 * function(levels))
        bands = metrics.wilson(correct, np.full(len(levels), 1000))
        return np.array(metrics.robustness_interval(levels, *bands, 0.8))

    exact = interval(GRID)
    width = np.ptp(exact)
    most = bound(ASAP(), task, levels, values)
    # About a quarter of the interval reported for these levels, or nothing is left
    # to divide.
    correct = np.rint(1000 * values).astype(int)
    confusion = np.zeros((len(levels), 2, 3), int)
    confusion[:, 0, 0], confusion[:, 0, 1] = correct, 1000 - correct
    reported = metrics.confidence_interval(levels, confusion, "accuracy", 0.8)
    more, _ = AUTO.ask(task, *[known(levels, values)] * 2)
    assert most <= 0.3 * np.ptp(reported) or not len(more)
    truth = heaviside_robustness(GRID, function(GRID), 0.8)
    assert abs(heaviside_robustness(levels, values, 0.8) - truth) <= most
    # The interval is that of all levels, up to a part of its width.
    np.testing.assert_allclose(interval(levels), exact, atol=0.4 * width + 2 / 1024)


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_extreme_thresholds(threshold):
    function = by_limits(1.5 * np.random.default_rng(0).beta(2, 2, 1000))
    task, levels, values, _ = sample(ASAP(), function, threshold=threshold)
    most = bound(ASAP(), task, levels, values)
    assert error(levels, values, function, threshold) <= most


@pytest.mark.parametrize("positives", [10, 100])
def test_few_inputs_behind_a_value(positives):
    # The recall of a class with few inputs of many.
    held = 0
    for seed in range(15):
        function = by_limits(1.2 * np.random.default_rng(seed).beta(2, 3, positives))
        task, levels, values, _ = sample(AUTO, function, num_inputs=positives)
        most = bound(AUTO, task, levels, values, positives) + 1e-12
        held += error(levels, values, function) <= most
        assert len(levels) <= 40
    assert held >= 14


def test_a_narrow_peak_at_the_identity_is_seen():
    def function(x):
        return 0.4 + 0.5 * np.exp(-(((x - 0.2) / 0.02) ** 2))

    # Without the identity no level comes near it.
    assert sample(AUTO, function)[2].max() < 0.5
    task = Task(0.0, 1.0, 0.8, identity=0.2)
    found, _ = jaxrob.strategies.sample(AUTO, task, function, 1000)
    assert error(found.levels, found.values, function) == 0 and len(found.levels) < 30


@settings(deadline=None, max_examples=10)
@given(
    st.lists(st.floats(1 / 8, 1 / 2), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from([50, 1000, None]),
)
def test_auto_sees_every_excursion_of_an_eighth_of_the_range(
    widths, seed, above, num_inputs
):
    ends = np.cumsum(widths)
    ends = ends[ends <= 7 / 8]

    def function(x):
        # A hash of the level: as rough as can be on each side of the threshold.
        x = np.atleast_1d(x)
        noise = np.modf(np.sin(x * 12.9898 + seed % 1000) * 43758.5453)[0] ** 2
        is_above = (np.searchsorted(ends, x, side="right") % 2 == 0) == above
        exact = np.where(is_above, 0.8 + 0.2 * noise, 0.79 * noise)
        if num_inputs is None:
            return exact
        counts = np.where(
            is_above, np.ceil(exact * num_inputs), np.floor(exact * num_inputs)
        )
        return counts / num_inputs

    strategy = ASAP()
    task, levels, values, _ = sample(strategy, function, num_inputs=num_inputs)
    around = np.concatenate([[0.0], ends, [1.0]])
    sides = (np.arange(len(around) - 1) % 2 == 0) == above
    truth = np.diff(around)[sides].sum()
    off = abs(heaviside_robustness(levels, values, 0.8) - truth)
    assert off <= bound(strategy, task, levels, values, num_inputs) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("concavity", "narrowest"), [("auto", 0.03), (128.0, 0.2), ("auto", 1 / 64)]
)
def test_an_excursion_as_wide_as_the_narrowest_is_met(concavity, narrowest):
    strategy = ASAP(concavity=concavity, narrowest=narrowest)
    for start in np.linspace(0, 1 - narrowest, 12):

        def dip(x, start=start):
            return np.where((start <= x) & (x <= start + narrowest), 0.5, 0.99)

        task, levels, values, _ = sample(strategy, dip)
        assert values.min() == 0.5
        most = bound(strategy, task, levels, values) + 2 / 1024
        assert error(levels, values, dip) <= most


def test_the_narrowest_changes_nothing_else():
    function = wave(0.15, 5.0, 0.3, 0.75)
    for wide in (0.125, 0.5, 1.0):
        found = sample(ASAP(narrowest=wide), function)[1]
        np.testing.assert_array_equal(found, sample(ASAP(), function)[1])
    _, levels, _, rounds = sample(ASAP(narrowest=0.04), lambda x: 0 * x + 0.95)
    np.testing.assert_array_equal(levels, np.linspace(0, 1, 33))
    assert rounds == 1
