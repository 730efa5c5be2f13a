import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob.metrics import RULES, accepted_intervals, heaviside_robustness

quick = settings(deadline=None, max_examples=15)
NASTY = np.array([-0.3, -0.1, 0.1, 0.2, 0.30000000000000004, 0.7, 1 / 3 + 0.7, 1.1])


@st.composite
def counted(draw):
    """Draws distinct levels, correct answers of N at each, and a threshold m of N."""
    levels = draw(
        st.lists(st.integers(-1000, 1000), min_size=2, max_size=12, unique=True)
    )
    total = draw(st.integers(1, 300))
    count = st.lists(st.integers(0, total), min_size=len(levels), max_size=len(levels))
    # A threshold of a small denominator, or one that a level meets exactly.
    right = draw(count)
    threshold = draw(
        st.sampled_from(right).map(lambda m: Fraction(m, total))
        | st.fractions(0, 1, max_denominator=20)
    )
    return [Fraction(level, 8) for level in levels], right, total, threshold


def as_floats(case):
    levels, correct, total, threshold = case
    values = np.array(correct) / total
    return np.array(levels, float), values, float(threshold)


@quick
@given(counted())
def test_count_is_definition_5(case):
    levels, correct, total, threshold = case
    accepted = [Fraction(m, total) >= threshold for m in correct]
    expected = Fraction(sum(accepted), len(accepted))
    assert heaviside_robustness(*as_floats(case), "count") == float(expected)


@quick
@given(counted())
def test_right_is_the_papers_sum(case):
    levels, correct, total, threshold = case
    points = sorted(zip(levels, correct))
    area = sum(
        (x_b - x_a)
        for (x_a, _), (x_b, m) in zip(points, points[1:])
        if Fraction(m, total) >= threshold
    )
    expected = area / (points[-1][0] - points[0][0])
    assert heaviside_robustness(*as_floats(case), "right") == float(expected)


@quick
@given(counted())
def test_linear_is_the_length_above_the_threshold_of_the_polyline(case):
    levels, correct, total, threshold = case
    points = sorted((x, Fraction(m, total)) for x, m in zip(levels, correct))
    length = Fraction(0)
    for (x_a, a), (x_b, b) in zip(points, points[1:]):
        above = [a >= threshold, b >= threshold]
        if all(above):
            length += x_b - x_a
        elif any(above):
            length += (x_b - x_a) * (max(a, b) - threshold) / abs(a - b)
    expected = length / (points[-1][0] - points[0][0])
    got = heaviside_robustness(*as_floats(case), "linear")
    assert got == pytest.approx(float(expected), abs=1e-12)
    assert 0 <= got <= 1


def test_a_straight_line_and_seven_of_41_levels_as_in_the_2020_paper():
    assert heaviside_robustness([0, 1], [1, 0], 0.75, "linear") == 0.25
    assert heaviside_robustness([-2, 2], [0, 1], 0.75, "linear") == 0.25
    assert accepted_intervals([-2, 2], [0, 1], 0.75) == ((1, 2),)
    levels = np.linspace(-50, 50, 41)
    values = np.where(np.abs(levels) <= 7.5, 0.85, 0.6)
    assert f"{heaviside_robustness(levels, values, 0.8, 'count'):.2%}" == "17.07%"


@pytest.mark.parametrize("rule", RULES)
def test_rounding_and_order_do_not_matter(rule):
    values = np.array([0.9, 0.7, 0.8, 0.81, 0.2, 0.79, 0.99, 0.1])
    expected = heaviside_robustness(NASTY, values, 0.8, rule)
    order = [3, 0, 7, 1, 6, 2, 5, 4]
    assert heaviside_robustness(NASTY[order], values[order], 0.8, rule) == expected
    assert heaviside_robustness(NASTY, [160 / 200] * 8, 0.8, rule) == 1
    assert heaviside_robustness(NASTY, [159 / 200] * 8, 0.8, rule) == 0


def test_a_single_level_on_the_threshold_is_an_interval_of_no_length():
    rng = np.random.default_rng(0)
    for levels in np.sort(rng.random((200, 3)) * 10 ** rng.uniform(-2, 2, (200, 1))):
        values = [0.5, 0.8, 0.3]
        assert accepted_intervals(levels, values, 0.8) == ((levels[1], levels[1]),)
        assert heaviside_robustness(levels, values, 0.8, "linear") == 0


@quick
@given(counted())
def test_intervals_ascend_and_hold_the_accepted_levels(case):
    levels, values, threshold = as_floats(case)
    intervals = accepted_intervals(levels, values, threshold)
    flat = [end for interval in intervals for end in interval]
    assert flat == sorted(flat)
    for level, value in zip(levels, values):
        inside = any(start <= level <= end for start, end in intervals)
        assert inside if value >= threshold else True
    if (values < threshold).all():
        assert intervals == ()


def test_one_level_is_enough_to_count():
    assert accepted_intervals([3.0], [0.9], 0.8) == ((3.0, 3.0),)
    assert accepted_intervals([3.0], [0.7], 0.8) == ()
    assert heaviside_robustness([3.0], [0.9], 0.8, "count") == 1
    for rule in ("right", "linear"):
        with pytest.raises(ValueError, match="at least 2"):
            heaviside_robustness([3.0], [0.9], 0.8, rule)


@pytest.mark.parametrize(
    ("levels", "values", "threshold", "rule", "name"),
    [
        ([0, 1], [1, math.nan], 0.8, "right", "values"),
        ([0, math.inf], [1, 1], 0.8, "right", "levels"),
        ([0, 1, 2], [1, 1], 0.8, "right", "values"),
        ([[0, 1]], [[1, 1]], 0.8, "right", "levels"),
        ([], [], 0.8, "count", "levels"),
        ([0, 2, 1, 2], [1] * 4, 0.8, "linear", "distinct"),
        ([0.0, -0.0], [1, 1], 0.8, "right", "distinct"),
        ([0, 1], [1, 1], math.nan, "right", "threshold"),
        ([0, 1], [1, 1], 0.8, "left", "rule"),
        ([0, 1], [1, 1], 0.8, None, "rule"),
    ],
)
def test_errors(levels, values, threshold, rule, name):
    with pytest.raises((TypeError, ValueError), match=name):
        heaviside_robustness(levels, values, threshold, rule)
