"""Ranks, against the normal distribution and a published example."""

import numpy as np
import pytest
import scipy

from jaxrob.metrics._bootstrap import rank_intervals, surely_better


def _drawn(errors, number=20_000):
    rng = np.random.default_rng(3)
    return rng.standard_normal((len(errors), number)) * np.asarray(errors)[:, None]


def test_the_critical_value_is_tukeys():
    """Equal errors, independent: the studentized range over the square root of two."""
    drawn = _drawn([1.0] * 5)
    expected = scipy.stats.studentized_range.ppf(0.95, 5, np.inf)
    for by, is_found in ((1.02, True), (0.98, False)):
        values = np.array([expected * by, 0, 0, 0, 0])
        better = surely_better(values, drawn, 0.95, np.inf)
        assert better[0, 1:].all() == is_found and not better[1:].any()


def test_the_published_example():
    """Ends that the documentation of R's csranks (0.2.0) prints for ten populations."""
    values = np.linspace(1, 3, 10)
    low, high = rank_intervals(surely_better(values, _drawn([0.2] * 10), 0.95, np.inf))
    np.testing.assert_array_equal(low, [7, 6, 5, 4, 3, 2, 1, 1, 1, 1])
    np.testing.assert_array_equal(high, [10, 10, 10, 10, 9, 8, 7, 6, 5, 4])


def test_later_steps_find_more():
    """Once those that are far off are found, a smaller difference suffices."""
    drawn, apart = _drawn([1.0] * 4), 2.5 * np.sqrt(2)
    alone = surely_better(np.array([apart, 0, 0, 0]), drawn, 0.95, np.inf)
    assert not alone.any()  # 2.5 < 2.57
    stepwise = surely_better(np.array([apart, 0, -50, -100]), drawn, 0.95, np.inf)
    assert stepwise[0, 1] and not stepwise[1, 0]


def test_order_and_sign():
    values, drawn = np.array([0.0, 9.0, 4.0]), _drawn([1.0] * 3)
    better = surely_better(values, drawn, 0.95, np.inf)
    low, high = rank_intervals(better)
    order = [2, 0, 1]
    turned = surely_better(values[order], drawn[order], 0.95, np.inf)
    np.testing.assert_array_equal(turned, better[np.ix_(order, order)])
    np.testing.assert_array_equal(low, [3, 1, 2])
    np.testing.assert_array_equal(high, low)


@pytest.mark.parametrize("gap, expected", [(0.0, False), (0.1, True)])
def test_a_difference_without_variance_is_known(gap, expected):
    drawn = np.vstack([_drawn([1.0])] * 2)
    better = surely_better(np.array([gap, 0.0]), drawn, 0.95, np.inf)
    assert better[0, 1] == expected and not better[1, 0]
