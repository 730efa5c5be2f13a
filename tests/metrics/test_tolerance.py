import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import metrics
from jaxrob.metrics import tolerance_robustness
from jaxrob.metrics._tolerance import check_scoring, level_weights, scored_robustness

quick = settings(deadline=None, max_examples=15)
UNIT = st.integers(0, 20).map(lambda n: n / 20)


@pytest.fixture(scope="module")
def dist():
    from numpyro import distributions

    return distributions


@st.composite
def curves(draw):
    levels = draw(st.lists(st.integers(-100, 100), min_size=2, max_size=8, unique=True))
    values = draw(st.lists(UNIT, min_size=len(levels), max_size=len(levels)))
    threshold = draw(UNIT | st.sampled_from(values))
    return np.array(levels) / 8, np.array(values), threshold


def by_loop(levels, values, threshold, reward, penalty, cdf):
    """Computes Definition 8, one interval after the other."""
    points = sorted(zip(levels, values))
    integral = 0.0
    for (left, a), (right, b) in zip(points, points[1:]):
        ends = [reward(x, threshold) - penalty(x, threshold) for x in (a, b)]
        integral += (cdf(right) - cdf(left)) * sum(ends) / 2
    return integral / (cdf(points[-1][0]) - cdf(points[0][0])) / 2 + 1 / 2


def level(x):
    """The CDF of the uniform distribution, up to constants."""
    return x


def counts(correct, wrong, unknown):
    return np.array([[[correct, wrong, unknown], [0, 0, 0]]])


def test_tolerances_and_penalizations_by_hand():
    values = np.float32([0.0, 0.2, 0.4, 0.5, 0.6, 0.9, 1.0])
    for got, expected in (
        (metrics.linear_tolerance(values, 0.5, 0.9), [0, 0, 0, 0, 0.25, 1, 1]),
        # Without room above the threshold; a value of 0 has no merit.
        (metrics.linear_tolerance(values, 0.6, 0.5), [0, 0, 0, 0, 1, 1, 1]),
        (metrics.linear_tolerance(values, 0.0, 0.0), [0, 1, 1, 1, 1, 1, 1]),
        (metrics.linear_tolerance(values, 1.0, 1.0), [0, 0, 0, 0, 0, 0, 1]),
        (metrics.step_tolerance(values, 0.9), [0, 0, 0, 0, 0, 1, 1]),
        (metrics.linear_penalization(values, 0.8), [1, 0.75, 0.5, 0.375, 0.25, 0, 0]),
        (metrics.linear_penalization(values, 0.0), [0] * 7),
        (metrics.step_penalization(values, 0.6), [1, 1, 1, 1, 0, 0, 0]),
    ):
        np.testing.assert_allclose(got, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("tolerance", "penalization"), [(None, "linear"), ("linear", None), (None, None)]
)
@quick
@given(curves(), UNIT)
def test_definition_8_interval_by_interval(tolerance, penalization, case, nominal):
    reward, penalty = metrics.step_tolerance, metrics.step_penalization
    if tolerance:
        reward = functools.partial(metrics.linear_tolerance, x_max=nominal)
    if penalization:
        penalty = metrics.linear_penalization
    got = tolerance_robustness(*case, tolerance, penalization, nominal=nominal)
    assert got == pytest.approx(by_loop(*case, reward, penalty, level), abs=1e-12)
    assert 0 <= got <= 1
    # All and none accepted are exactly 1 and 0.
    levels, values, _ = case
    assert tolerance_robustness(levels, 0 * values + 1, 1.0) == 1
    assert tolerance_robustness(levels, 0 * values, 0.5) == 0


def test_the_papers_setting_is_half_and_half_the_relative_accuracy():
    # Section 5.3: threshold 0, linear, x_max the nominal accuracy, uniform.
    levels, values = np.linspace(0, 2, 21), np.linspace(0.98, 0.3, 21)
    got = tolerance_robustness(levels, values, 0.0, "linear", nominal=0.98)
    assert got == pytest.approx(1 / 2 + (0.98 + 0.3) / 2 / 0.98 / 2)
    assert tolerance_robustness(levels, 0 * values, 0.0, "linear", nominal=0.98) == 0.5


def test_a_users_functions():
    def reward(x, th):
        return x**2 if x >= th else 0  # not for arrays

    def nothing(x, th):
        return 0

    levels, values = np.array([0.0, 1.0, 4.0]), np.array([1.0, 0.8, 0.3])
    got = tolerance_robustness(levels, values, 0.8, reward, nothing)
    assert got == pytest.approx(((1 + 0.64) / 2 * 1 + 0.64 / 2 * 3) / 4 / 2 + 1 / 2)
    x_max = functools.partial(metrics.linear_tolerance, x_max=0.9)
    for tolerance in (x_max, metrics.linear_tolerance, "linear"):
        robustness = tolerance_robustness(levels, values, 0.5, tolerance, nominal=0.9)
        assert robustness == tolerance_robustness(levels, values, 0.5, x_max)


def test_masses_are_differences_of_the_cdf(dist):
    ours, theirs = dist.Exponential(3.0), stats.expon(scale=1 / 3)
    rng = np.random.default_rng(0)
    # In any order, and beyond the support of some.
    levels = rng.permutation([-0.4, 0.0, *rng.random(30), 1.0, 1.2])
    values = rng.random(len(levels))
    got = tolerance_robustness(
        levels, values, 0.4, "linear", "linear", nominal=1.0, level_distribution=ours
    )
    reward = functools.partial(metrics.linear_tolerance, x_max=1.0)
    parts = reward, metrics.linear_penalization, theirs.cdf
    assert got == pytest.approx(by_loop(levels, values, 0.4, *parts), abs=1e-7)


def test_weights_of_levels(dist):
    levels = np.array([-1.0, 0.5, 0.6, 2.0])
    expected = [0.25, 1.6 / 6, 0.25, 1.4 / 6]
    changed = dist.Uniform(-5.0, 1.0)
    changed.high = 5.0
    for uniform in (None, dist.Uniform(-1.0, 2.0), changed):
        weights = level_weights(levels, uniform)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
        assert weights.dtype == np.float64 and math.fsum(weights) == pytest.approx(1)
    # In float32 these masses would be rounding errors alone.
    close = level_weights(np.linspace(0, 1e-3, 61), dist.Normal(0.0, 1000.0))
    np.testing.assert_allclose(close[1:-1], 1 / 60, rtol=1e-6)
    levels = np.linspace(4, 6, 9)
    weights = level_weights(levels, dist.Normal(0.0, 1.0))
    masses = np.diff(-stats.norm.sf(levels)) / 2
    expected = np.append(masses, 0) + np.append(0, masses)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-6)


def test_beyond_the_outermost_levels_the_measure_is_constant(dist):
    levels, values = np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.7, 0.9])
    whole = np.array([0.0, 1.0, 2.0, 4.0, 8.0]), np.array([0.9, 0.9, 0.7, 0.9, 0.9])
    for distribution in (None, dist.Exponential(0.3)):
        settings = dict(level_distribution=distribution)
        expected = tolerance_robustness(*whole, 0.8, **settings)
        got = tolerance_robustness(levels, values, 0.8, bounds=(0, 8), **settings)
        assert got == pytest.approx(expected)
    assert tolerance_robustness([3.0], [0.9], 0.8, bounds=(0, 8)) == 1


@quick
@given(st.integers(0, 20), st.integers(0, 20))
def test_beta_is_the_effectiveness_at_both_thresholds(accurate, certain):
    theta, gamma = accurate / 20, certain / 20
    # Of 400 inputs, exactly as many decided and correct as required.
    decided = 20 * certain
    correct = certain * accurate
    confusion = counts(correct, decided - correct, 400 - decided)
    beta = metrics.beta(theta, gamma)
    assert metrics.effectiveness(confusion)[0] == beta
    assert metrics.decided_ratio(confusion)[0] == gamma
    indecision = 1 - gamma
    expected = theta * (1 - indecision) / (1 + indecision)
    assert beta == pytest.approx(expected, abs=1e-15)
    # 1 - 0.9 is less than 0.1.
    assert metrics.decided_ratio(counts(3, 7, 90))[0] == 0.1


def test_the_three_robustnesses_of_a_network_that_never_decides():
    confusion = np.repeat(counts(0, 0, 10), 3, axis=0)
    accuracy, decided, effectiveness = (
        measure(confusion)
        for measure in (metrics.accuracy, metrics.decided_ratio, metrics.effectiveness)
    )
    levels = np.arange(3)
    assert tolerance_robustness(levels, accuracy, 0.8) == 1
    assert tolerance_robustness(levels, decided, 0.5) == 0
    assert tolerance_robustness(levels, effectiveness, metrics.beta(0.8, 0.5)) == 0
    # With the paper's thresholds of 0 the least is a half.
    settings = dict(tolerance="linear", nominal=0.0)
    assert tolerance_robustness(levels, decided, 0.0, **settings) == 0.5


LEVELS, VALUES = np.array([0.0, 1.0, 2.0]), np.array([0.9, 0.8, 0.7])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (dict(threshold=1.2), "threshold"),
        (dict(values=[90, 80, 70]), "values"),
        (dict(values=[0.9, 0.8]), "values"),
        (dict(levels=[0, 1, 1]), "levels"),
        (dict(levels=[0], values=[1]), "at least 2"),
        (dict(bounds=(0.5, 2)), "bounds"),
        (dict(tolerance=0.5), "tolerance"),
        (dict(penalization="none"), "penalization"),
        (dict(tolerance="linear"), "nominal"),
        (dict(tolerance="linear", nominal=95), "nominal"),
        (dict(tolerance=lambda x, th: 2), "tolerance"),
        (dict(tolerance=lambda x, th: x), "0 below the threshold"),
        (dict(penalization=lambda x, th: x), "0 above the threshold"),
        (dict(penalization=lambda x, th: -1), "penalization"),
        (dict(level_distribution="uniform"), "level_distribution"),
    ],
)
def test_errors(change, name):
    settings = dict(levels=LEVELS, values=VALUES, threshold=0.8) | change
    with pytest.raises((TypeError, ValueError), match=name):
        tolerance_robustness(**settings)


@pytest.mark.parametrize(
    ("kind", "parameters", "says"),
    [
        ("Uniform", (5.0, 6.0), "mass in the range"),
        ("Normal", (-50.0, 1.0), "mass in the range"),
        ("Poisson", (1.0,), "discrete"),
        ("Normal", (np.zeros(2), 1.0), "of one number"),
        ("Delta", (1.0,), "CDF"),
    ],
)
def test_distribution_errors(dist, kind, parameters, says):
    distribution = getattr(dist, kind)(*parameters)
    with pytest.raises(ValueError, match=f"level_distribution.*{says}"):
        level_weights(LEVELS, distribution)
    with pytest.raises(ValueError, match=f"level_distribution.*{says}"):
        check_scoring(0.8, None, None, distribution, (0, 2))


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (metrics.beta, (-0.1, 0.5), "theta"),
        (metrics.beta, (0.5, math.nan), "gamma"),
        (metrics.linear_tolerance, (0.5, 0.5, 1.1), "x_max"),
        (metrics.linear_tolerance, (0.5, 1.1, 0.5), "threshold"),
        (metrics.step_tolerance, (1.5, 0.5), "value"),
        (metrics.step_penalization, (0.5, -0.1), "threshold"),
        (metrics.linear_penalization, (0.5, math.inf), "threshold"),
        (scored_robustness, (np.ones(2), np.zeros(2)), "weights"),
    ],
)
def test_numbers_outside_their_range(function, arguments, name):
    with pytest.raises(ValueError, match=name):
        function(*arguments)
