"""Quadrature against `scipy.integrate.quad`, called directly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from jaxrob.metrics import heaviside_robustness
from jaxrob.strategies import History, Quadrature, Task

THRESHOLD = 0.8
quick = settings(deadline=None, max_examples=12)


def ask(strategy, levels, values, lower=0.0, upper=1.0):
    task = Task(lower, upper, threshold=THRESHOLD)
    return np.array([one.level for one in strategy.ask(task, History(levels, values))])


def sample(strategy, function, lower, upper, snap=lambda levels: levels):
    """The levels, the values there, and the proposals, as `jaxrob.assess` asks."""
    levels, proposals = np.array([]), []
    while True:
        asked = ask(strategy, levels, function(levels), lower, upper)
        assert len(np.unique(asked)) == len(asked)
        assert not np.isin(asked, levels).any()
        new = np.setdiff1d(snap(asked), levels)
        if not len(new):
            return levels, function(levels), proposals
        proposals.append(asked)
        levels = np.sort(np.append(levels, new))


def robustness(levels, values, lower, upper):
    rule = Quadrature().rule
    return heaviside_robustness(levels, values, THRESHOLD, rule, bounds=(lower, upper))


def quad(function, lower, upper, limit):
    """What quad finds: the integral (None if it failed) and the points in order."""
    points = []

    def integrand(x):
        points.append(x)
        return float(function(np.array([x]))[0] >= THRESHOLD)

    integral, _, info, *message = integrate.quad(
        integrand, lower, upper, limit=limit, full_output=1
    )
    assert len(points) == info["neval"] == 21 * (2 * info["last"] - 1)
    return (None if message else integral), points


def check_against_quad(function, lower, upper, limit):
    """All that holds of any function; returns whether quad converged."""
    levels, values, proposals = sample(Quadrature(limit), function, lower, upper)
    integral, points = quad(function, lower, upper, limit)
    found = robustness(levels, values, lower, upper)
    asked = np.concatenate(proposals)
    assert [len(proposal) for proposal in proposals] == [21] + [42] * (
        len(proposals) - 1
    )
    assert len(levels) == 21 * (2 * len(proposals) - 1)
    assert len(proposals) <= limit - 1
    np.testing.assert_array_equal(np.sort(points[: len(asked)]), levels)
    if integral is None:
        assert np.isnan(found)
        # The last bisection cannot save quad.
        assert len(points) - len(asked) == (42 if len(proposals) == limit - 1 else 0)
    else:
        assert len(points) == len(asked)
        assert found == np.clip(integral / (upper - lower), 0, 1)
    return integral is not None


def steps(crossings, first):
    """1 or 0, changing at each crossing; `first` is the value below all of them."""
    return lambda x: (np.searchsorted(crossings, x) + first) % 2 * 1.0


@st.composite
def ranges(draw):
    lower = draw(st.sampled_from([0.0, -1.0, -0.5]) | st.floats(-100, 100))
    return lower, lower + draw(st.sampled_from([1.0, 2.0]) | st.floats(0.01, 300))


@st.composite
def crossings(draw, most):
    """Places in [0, 1] where a curve may cross the threshold, ascending."""
    places = st.floats(0, 1) | st.integers(0, 64).map(lambda i: i / 64)
    found = draw(st.lists(places, min_size=0, max_size=most, unique=True))
    if found and draw(st.booleans()):  # a narrow excursion
        found.append(found[0] + 10 ** draw(st.floats(-8, -1)))
    return np.sort(found)


@pytest.mark.slow
@quick
@given(ranges(), crossings(3), st.booleans(), st.sampled_from([2, 3, 10, 24, 40]))
def test_same_points_same_integral_same_failures_as_quad(span, places, first, limit):
    lower, upper = span
    function = steps(lower + places * (upper - lower), first)
    check_against_quad(function, lower, upper, limit)


@pytest.mark.slow
def test_one_crossing_at_many_places():
    rng = np.random.default_rng(0)
    converged = [
        check_against_quad(steps([place], 1), 0.0, 1.0, limit)
        for place, limit in zip(rng.random(6), [24, 60] * 3)
    ]
    # Neither always nor never: both branches were tested.
    assert 1 <= sum(converged) <= 5


@pytest.mark.parametrize(
    ("value", "lower", "upper"), [(0.79, -3.0, 177.0), (0.8, -0.5, 0.5)]
)
def test_a_flat_curve_takes_21_levels(value, lower, upper):
    levels, values, proposals = sample(
        Quadrature(), lambda x: 0 * x + value, lower, upper
    )
    assert len(levels) == 21 and len(proposals) == 1
    expected = float(value >= THRESHOLD)
    found = robustness(levels, values, lower, upper)
    assert found == pytest.approx(expected, abs=1e-14) and 0 <= found <= 1
    assert check_against_quad(lambda x: 0 * x + value, lower, upper, 2)


@pytest.mark.slow
def test_a_curve_of_integer_levels():
    # As JPEG quality: between two integers nothing changes.
    for last in (0, 41, 70):
        check_against_quad(
            lambda x, last=last: np.where(np.round(x) <= last, 0.9, 0.3),
            0.0,
            100.0,
            60,
        )


def test_the_last_bisection_is_not_evaluated_for_quad_fails_at_its_limit():
    function = steps([0.3], 1)
    _, points = quad(function, 0.0, 1.0, 1000)
    intervals = (len(points) // 21 + 1) // 2
    # It converges with so many intervals, and yet fails where they are its limit.
    assert quad(function, 0.0, 1.0, intervals)[0] is None
    assert not check_against_quad(function, 0.0, 1.0, intervals)
    assert check_against_quad(function, 0.0, 1.0, intervals + 1)


def test_the_default_stays_below_the_papers_1024_points():
    chaos = steps(np.sort(np.random.default_rng(0).random(50)), 0)
    _, points = quad(chaos, 0.0, 1.0, Quadrature().limit)
    assert len(points) == 987 < 1024 < 987 + 42
    levels, values, proposals = sample(Quadrature(), chaos, 0.0, 1.0)
    assert len(levels) == 945 and len(proposals) == 23
    assert np.isnan(robustness(levels, values, 0.0, 1.0))


def test_a_caller_that_moves_levels_far_is_not_asked_for_ever():
    # All levels become one of eleven: whatever is still missing cannot become known.
    levels, values, proposals = sample(
        Quadrature(),
        steps([0.3], 1),
        0.0,
        1.0,
        snap=lambda levels: np.round(levels, 1),
    )
    assert len(levels) <= 11 and len(proposals) <= 2
    assert np.isnan(robustness(levels, values, 0.0, 1.0))


def test_levels_of_a_group_that_are_known_are_not_proposed():
    nothing = np.array([])
    nodes = np.sort(ask(Quadrature(), nothing, nothing))
    some = nodes[::4]
    asked = ask(Quadrature(), some, steps([0.3], 1)(some))
    np.testing.assert_array_equal(np.sort(asked), np.setdiff1d(nodes, some))


@pytest.mark.parametrize("gone", [0, 10, 20])
def test_without_one_level_the_integral_is_unknown(gone):
    levels, values, _ = sample(Quadrature(), lambda x: 0 * x + 1, 0.0, 1.0)
    kept = np.arange(21) != gone
    assert np.isnan(robustness(levels[kept], values[kept], 0.0, 1.0))
    # Nor are levels of another strategy enough.
    assert np.isnan(robustness(np.linspace(0, 1, 200), np.ones(200), 0.0, 1.0))


def test_more_levels_than_needed_do_no_harm():
    function = steps([0.3], 1)
    levels, values, _ = sample(Quadrature(60), function, 0.0, 1.0)
    expected = robustness(levels, values, 0.0, 1.0)
    more = np.union1d(levels, np.linspace(0, 1, 100))
    assert robustness(more, function(more), 0.0, 1.0) == expected
    order = np.random.default_rng(0).permutation(len(more))
    assert robustness(more[order], function(more)[order], 0.0, 1.0) == expected
