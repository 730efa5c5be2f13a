import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpyro import distributions as dist
from scipy import integrate, stats

from jaxrob import metrics
from jaxrob.metrics import tolerance_robustness
from jaxrob.metrics._level_weights import level_weights
from jaxrob.metrics._tolerance import check_scoring, scored_robustness

quick = settings(deadline=None, max_examples=30)
UNIT = st.integers(0, 20).map(lambda n: n / 20)
NAMES = [None, "linear", "step"]


def definition_6(x, th, x_max):
    """Computes the paper's linear tolerance; undefined where x_max is th."""
    return max(min(x, x_max) - th, 0) / (x_max - th)


@st.composite
def curves(draw):
    """Draws levels, values and a threshold; the values often meet it."""
    levels = draw(st.lists(st.integers(-100, 100), min_size=2, max_size=8, unique=True))
    values = draw(st.lists(UNIT, min_size=len(levels), max_size=len(levels)))
    threshold = draw(UNIT | st.sampled_from(values))
    return np.array(levels) / 8, np.array(values), threshold


def by_loop(levels, values, threshold, reward, penalty, mass):
    """Computes Definition 8, one interval after the other."""
    points = sorted(zip(levels, values))
    integral = 0.0
    for (left, a), (right, b) in zip(points, points[1:]):
        ends = [reward(x, threshold) - penalty(x, threshold) for x in (a, b)]
        integral += mass(left, right) * sum(ends) / 2
    return integral / mass(points[0][0], points[-1][0]) / 2 + 1 / 2


def between(left, right):
    return right - left


def counts(correct, wrong, unknown):
    return np.array([[[correct, wrong, unknown], [0, 0, 0]]])


# The functions of Definitions 6 and 7.


@quick
@given(UNIT, UNIT, UNIT)
def test_linear_tolerance_is_the_papers(x, th, x_max):
    got = metrics.linear_tolerance(x, th, x_max)
    if x_max > th:
        assert got == pytest.approx(definition_6(x, th, x_max), abs=1e-15)
    else:
        assert got == (x >= th and x > 0)


def test_linear_tolerance_by_hand():
    values = np.array([0.0, 0.4, 0.5, 0.6, 0.9, 1.0])
    expected = [0, 0, 0, 0.25, 1, 1]
    got = metrics.linear_tolerance(values, 0.5, 0.9)
    np.testing.assert_allclose(got, expected, atol=1e-15)


def test_linear_tolerance_without_room_above_the_threshold():
    # A faultless network with the highest demand.
    assert metrics.linear_tolerance(1.0, 1.0, 1.0) == 1
    assert metrics.linear_tolerance(0.9, 0.8, 0.75) == 1
    assert metrics.linear_tolerance(0.79, 0.8, 0.75) == 0
    # Nothing is decided, and nothing required: no merit.
    assert metrics.linear_tolerance(0.0, 0.0, 0.0) == 0


def test_penalizations_by_hand():
    values = np.array([0.0, 0.2, 0.4, 0.8, 0.9, 1.0])
    np.testing.assert_allclose(
        metrics.linear_penalization(values, 0.8), [1, 0.75, 0.5, 0, 0, 0], atol=1e-15
    )
    np.testing.assert_array_equal(
        metrics.step_penalization(values, 0.8), [1, 1, 1, 0, 0, 0]
    )
    for penalization in metrics.penalizations.values():
        np.testing.assert_array_equal(penalization(values, 0.0), np.zeros(6))


@quick
@given(UNIT, UNIT, UNIT)
def test_the_functions_keep_definitions_6_and_7(x, th, x_max):
    linear = functools.partial(metrics.linear_tolerance, x_max=x_max)
    for tolerance in (linear, metrics.step_tolerance):
        assert 0 <= tolerance(x, th) <= (x >= th)
    for penalization in metrics.penalizations.values():
        assert 0 <= penalization(x, th) <= (x <= th)


# The integral of Definitions 8, 9 and 11.


@pytest.mark.parametrize("tolerance", NAMES)
@pytest.mark.parametrize("penalization", NAMES)
@quick
@given(curves(), UNIT)
def test_definition_8_interval_by_interval(tolerance, penalization, case, nominal):
    reward = metrics.tolerances[tolerance or "step"]
    if tolerance == "linear":
        reward = functools.partial(reward, x_max=nominal)
    penalty = metrics.penalizations[penalization or "step"]
    expected = by_loop(*case, reward, penalty, between)
    got = tolerance_robustness(*case, tolerance, penalization, nominal=nominal)
    assert got == pytest.approx(expected, abs=1e-12)
    assert 0 <= got <= 1


@quick
@given(curves(), st.sampled_from([None, dist.Normal(1.0, 5.0), dist.Exponential(0.3)]))
def test_both_steps_are_the_2020_papers_definition_4(case, distribution):
    levels, values, threshold = case
    try:
        weights = level_weights(levels, distribution)
    except ValueError:
        assert levels.max() <= 0  # beyond an Exponential's support
        return
    expected = weights[values >= threshold].sum()
    got = tolerance_robustness(*case, level_distribution=distribution)
    assert got == pytest.approx(expected, abs=1e-12)


def test_both_steps_agree_with_heaviside_robustness():
    levels = np.linspace(-3, 5, 20_001)
    values = (1 + np.sin(levels)) / 2
    expected = metrics.heaviside_robustness(levels, values, 0.7, "linear")
    assert tolerance_robustness(levels, values, 0.7) == pytest.approx(
        expected, abs=2e-4
    )


def test_the_papers_setting_is_half_and_half_the_relative_accuracy():
    # Section 5.3: threshold 0, linear, x_max the nominal accuracy, uniform.
    levels, values = np.linspace(0, 2, 21), np.linspace(0.98, 0.3, 21)
    got = tolerance_robustness(levels, values, 0.0, "linear", nominal=0.98)
    assert got == pytest.approx(1 / 2 + (0.98 + 0.3) / 2 / 0.98 / 2)
    nothing = tolerance_robustness(levels, 0 * values, 0.0, "linear", nominal=0.98)
    assert nothing == 0.5


def test_uneven_levels_of_a_straight_line():
    levels = np.array([0.0, 0.1, 0.15, 0.7, 1.0])
    got = tolerance_robustness(levels, levels, 0.0, "linear", nominal=1.0)
    assert got == pytest.approx(0.75)


@pytest.mark.slow
@quick
@given(curves(), st.data())
def test_the_order_of_the_levels_does_not_matter(case, data):
    levels, values, threshold = case
    order = np.array(data.draw(st.permutations(range(len(levels)))))
    for distribution in (None, dist.Normal(0.0, 3.0)):
        settings = dict(
            tolerance="linear", nominal=0.9, level_distribution=distribution
        )
        expected = tolerance_robustness(*case, **settings)
        got = tolerance_robustness(levels[order], values[order], threshold, **settings)
        assert got == expected
        weights = level_weights(levels, distribution)
        placed = level_weights(levels[order], distribution)
        np.testing.assert_array_equal(placed, weights[order])


@quick
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True).filter(
        lambda levels: np.diff(sorted(levels)).all()
    )
)
def test_all_and_none_accepted_are_exactly_1_and_0(levels):
    ones = np.ones(len(levels))
    assert tolerance_robustness(levels, ones, 1.0) == 1
    assert tolerance_robustness(levels, 0 * ones, 0.5) == 0
    assert tolerance_robustness(levels, ones, 0.5, "linear", nominal=0.9) == 1


def test_a_users_functions():
    def reward(x, th):
        return x**2 if x >= th else 0  # not for arrays

    def nothing(x, th):
        return 0

    levels, values = np.array([0.0, 1.0, 4.0]), np.array([1.0, 0.8, 0.3])
    got = tolerance_robustness(levels, values, 0.8, reward, nothing)
    expected = by_loop(levels, values, 0.8, reward, nothing, between)
    assert got == pytest.approx(expected)
    assert got == pytest.approx(((1 + 0.64) / 2 * 1 + 0.64 / 2 * 3) / 4 / 2 + 1 / 2)

    x_max = functools.partial(metrics.linear_tolerance, x_max=0.9)
    for tolerance in (x_max, metrics.linear_tolerance, "linear"):
        robustness = tolerance_robustness(levels, values, 0.5, tolerance, nominal=0.9)
        assert robustness == tolerance_robustness(levels, values, 0.5, x_max)


# The alteration probability of Definition 3.


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (dist.Normal(0.3, 0.2), stats.norm(0.3, 0.2)),
        (dist.Normal(0.0, 100.0), stats.norm(0, 100)),
        (dist.Beta(0.5, 0.5), stats.beta(0.5, 0.5)),
        (dist.Gamma(0.3, 2.0), stats.gamma(0.3, scale=0.5)),
        (dist.Exponential(3.0), stats.expon(scale=1 / 3)),
        (dist.HalfNormal(0.5), stats.halfnorm(scale=0.5)),
        (dist.LogNormal(0.0, 1.0), stats.lognorm(1.0)),
        (dist.Uniform(0.2, 3.0), stats.uniform(0.2, 2.8)),
        (dist.TruncatedNormal(0.1, 1.0, low=0.0, high=0.5), None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_masses_are_differences_of_the_cdf(ours, theirs):
    if theirs is None:
        theirs = stats.truncnorm(-0.1, 0.4, loc=0.1)
    rng = np.random.default_rng(0)
    levels = np.concatenate([[-0.4, 0.0], np.sort(rng.random(30)), [1.0, 1.2]])
    values = rng.random(len(levels))

    def mass(left, right):
        return theirs.cdf(right) - theirs.cdf(left)

    got = tolerance_robustness(
        levels, values, 0.4, "linear", "linear", nominal=1.0, level_distribution=ours
    )
    reward = functools.partial(metrics.linear_tolerance, x_max=1.0)
    parts = reward, metrics.linear_penalization, mass
    assert got == pytest.approx(by_loop(levels, values, 0.4, *parts), abs=1e-7)


def test_against_the_integral_with_the_density():
    levels = np.linspace(0, 2, 4001)

    def accuracy(level):
        return 0.95 * np.exp(-(level**2))

    def integrand(level):
        x = accuracy(level)
        score = definition_6(x, 0.5, 0.95) - max(0.5 - x, 0) / 0.5
        return score * stats.norm.pdf(level, 0.5, 0.6)

    share = stats.norm.cdf(2, 0.5, 0.6) - stats.norm.cdf(0, 0.5, 0.6)
    expected = integrate.quad(integrand, 0, 2, epsabs=1e-10)[0] / share / 2 + 1 / 2
    got = tolerance_robustness(
        levels,
        accuracy(levels),
        0.5,
        "linear",
        "linear",
        nominal=0.95,
        level_distribution=dist.Normal(0.5, 0.6),
    )
    assert got == pytest.approx(expected, abs=1e-5)


def test_uniform_is_the_default():
    levels = np.array([-1.0, 0.5, 0.6, 2.0])
    expected = [0.25, 1.6 / 6, 0.25, 1.4 / 6]
    for uniform in (None, dist.Uniform(-1.0, 2.0), dist.Uniform(-5.0, 5.0)):
        weights = level_weights(levels, uniform)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
        assert weights.dtype == np.float64 and math.fsum(weights) == pytest.approx(1)


def test_neighbours_close_together_keep_their_mass():
    # In float32 these 4,096 masses would be rounding errors alone.
    levels = np.linspace(0, 0.2, 4097)
    weights = level_weights(levels, dist.Normal(0.0, 1000.0))
    np.testing.assert_allclose(weights[1:-1], 1 / 4096, rtol=1e-6)


def test_a_tail_of_the_distribution():
    levels = np.linspace(4, 6, 9)
    weights = level_weights(levels, dist.Normal(0.0, 1.0))
    masses = np.diff(-stats.norm.sf(levels)) / 2
    expected = np.append(masses, 0) + np.append(0, masses)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-6)


def test_beyond_the_outermost_levels_the_measure_is_constant():
    levels, values = np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.7, 0.9])
    whole = np.array([0.0, 1.0, 2.0, 4.0, 8.0]), np.array([0.9, 0.9, 0.7, 0.9, 0.9])
    for distribution in (None, dist.Gamma(2.0, 1.0)):
        settings = dict(level_distribution=distribution)
        expected = tolerance_robustness(*whole, 0.8, **settings)
        got = tolerance_robustness(levels, values, 0.8, bounds=(0, 8), **settings)
        assert got == pytest.approx(expected)
    assert tolerance_robustness([3.0], [0.9], 0.8, bounds=(0, 8)) == 1


# Effectiveness, and its threshold.


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


@quick
@given(st.floats(0, 1), st.floats(0, 1))
def test_beta_of_any_numbers(theta, gamma):
    expected = theta * gamma / (2 - gamma)
    assert metrics.beta(theta, gamma) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert 0 <= metrics.beta(theta, gamma) <= theta
    assert metrics.beta(theta, 1) == theta


@quick
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_effectiveness_has_the_papers_properties(correct, wrong, unknown):
    if correct + wrong + unknown == 0:
        return
    confusion = counts(correct, wrong, unknown)
    accuracy = metrics.accuracy(confusion)[0]
    indecision = metrics.indecision(confusion)[0]
    effectiveness = metrics.effectiveness(confusion)[0]
    expected = accuracy * (1 - indecision) / (indecision + 1)
    assert effectiveness == pytest.approx(expected, abs=1e-15)
    if indecision == 0:
        assert effectiveness == accuracy
    if accuracy == 0 or indecision == 1:
        assert effectiveness == 0
    assert metrics.decided_ratio(confusion)[0] == pytest.approx(1 - indecision)


def test_the_decided_ratio_meets_its_threshold():
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


# Errors.

LEVELS, VALUES = np.array([0.0, 1.0, 2.0]), np.array([0.9, 0.8, 0.7])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(threshold=1.2), r"threshold must lie in \[0, 1\]; got 1.2"),
        (dict(threshold=math.nan), r"threshold must lie in \[0, 1\]; got nan"),
        (dict(values=[90, 80, 70]), r"values must lie in \[0, 1\]; got 90"),
        (dict(values=[0.9, math.nan, 0.7]), "values must be finite"),
        (dict(values=[0.9, 0.8]), "values .* with n = 3"),
        (dict(levels=[0, 1, 1]), "levels must be distinct"),
        (dict(levels=[0], values=[1]), "at least 2"),
        (dict(bounds=(0.5, 2)), "levels must lie in the bounds"),
        (dict(bounds=(2, 0)), "bounds must be the finite ends"),
        (dict(tolerance="quadratic"), "tolerance must be one of .*got 'quadratic'"),
        (dict(penalization="none"), "penalization must be one of .*got 'none'"),
        (dict(tolerance="linear"), "nominal, .* got None"),
        (dict(tolerance="linear", nominal=95), r"nominal must lie in \[0, 1\]"),
        (dict(tolerance="linear", nominal=math.nan), "nominal must lie in"),
        (dict(tolerance=lambda x, th: 2), r"tolerance must give numbers in \[0, 1\]"),
        (dict(tolerance=lambda x, th: x), "0 below the threshold; got 0.7 for"),
        (dict(tolerance=lambda x, th: math.nan), "tolerance must give numbers"),
        (dict(penalization=lambda x, th: x), "0 above the threshold; got 0.9 for"),
        (dict(penalization=lambda x, th: -1), "penalization must give numbers"),
    ],
)
def test_errors(change, message):
    settings = dict(levels=LEVELS, values=VALUES, threshold=0.8) | change
    with pytest.raises(ValueError, match=message):
        tolerance_robustness(**settings)


@pytest.mark.parametrize("name", ["tolerance", "penalization"])
def test_neither_a_name_nor_a_function(name):
    with pytest.raises(TypeError, match=f"{name} must be one of"):
        tolerance_robustness(LEVELS, VALUES, 0.8, **{name: 0.5})


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (dist.Uniform(5.0, 6.0), r"must have mass in the range; got none in \[0, 2\]"),
        (dist.Uniform(-6.0, -5.0), "must have mass in the range"),
        (dist.LogNormal(400.0, 0.1), "must have mass in the range"),
        (dist.Normal(-50.0, 1.0), "must have mass in the range"),
        (dist.Poisson(1.0), "continuous distribution of one number; .* discrete"),
        (dist.Normal(np.zeros(2), 1.0), r"one number; got Normal of the shape \(2,\)"),
        (dist.Dirichlet(np.ones(3)), "one number"),
        (dist.Delta(1.0), "must have a CDF; Delta has none"),
    ],
)
def test_distribution_errors(distribution, message):
    with pytest.raises(ValueError, match=message):
        tolerance_robustness(LEVELS, VALUES, 0.8, level_distribution=distribution)
    with pytest.raises(ValueError, match=message):
        check_scoring(0.8, None, None, distribution, (0, 2))


@pytest.mark.parametrize("distribution", [0.5, "uniform", dist.Normal, stats.norm()])
def test_wrong_types_of_distributions(distribution):
    with pytest.raises(TypeError, match="must be a NumPyro distribution"):
        level_weights(LEVELS, distribution)


def test_settings_are_checked_before_there_are_values():
    normal = dist.Normal(0.0, 1.0)
    for tolerance in (None, "linear", "step", metrics.linear_tolerance):
        check_scoring(0.8, tolerance, "linear", normal, (0, 2))
    for change, message in [
        (dict(threshold=-0.1), "threshold"),
        (dict(tolerance="quadratic"), "tolerance"),
        (dict(tolerance=lambda x, th: x), "0 below the threshold"),
        (dict(penalization=lambda x, th: 1), "0 above the threshold"),
    ]:
        settings = dict(
            threshold=0.8,
            tolerance=None,
            penalization=None,
            level_distribution=None,
            bounds=(0, 2),
        )
        with pytest.raises(ValueError, match=message):
            check_scoring(**(settings | change))


@pytest.mark.parametrize("number", [-0.1, 1.1, math.nan, math.inf])
def test_shares_outside_their_range(number):
    for name in ("theta", "gamma"):
        with pytest.raises(ValueError, match=rf"{name} must lie in \[0, 1\]"):
            metrics.beta(**({"theta": 0.5, "gamma": 0.5} | {name: number}))
    with pytest.raises(ValueError, match="x_max must lie in"):
        metrics.linear_tolerance(0.5, 0.5, number)
    for function in (metrics.step_tolerance, *metrics.penalizations.values()):
        with pytest.raises(ValueError, match="threshold must lie in"):
            function(0.5, number)


@pytest.mark.parametrize(
    ("scores", "weights", "message"),
    [
        ([1.0, -1.0], [0.9, -0.1], r"weights must be at least 0; got -0.1 at index 1"),
        ([1.0, -1.0], [0.0, 0.0], "weights must not all be 0"),
        ([1.0, -1.0], [1.0], "weights must have the shape"),
        ([1.5, -1.0], [0.5, 0.5], r"scores must lie in \[-1, 1\]; got 1.5"),
        ([math.nan, 1.0], [0.5, 0.5], "scores must be finite"),
    ],
)
def test_wrong_scores_and_weights(scores, weights, message):
    with pytest.raises(ValueError, match=message):
        scored_robustness(np.array(scores), np.array(weights))
