"""Odds ratios, ranks and evidence, against SciPy and exact probabilities."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import metrics
from jaxrob.metrics._testing import (
    count_evidence,
    mean_evidence,
    mean_interval,
    rank_intervals,
    surely_better,
)

quick = settings(deadline=None, max_examples=15)


@quick
@given(st.integers(0, 2**32), st.sampled_from([0, 0.3, 0.8, 1]), st.sampled_from("fd"))
def test_counts_one_by_one(seed, alpha, kind):
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(3, size=(4, 25)), rng.integers(3, size=25)
    tenths = rng.integers(0, 11, (4, 25))
    expected = np.zeros((4, 2, 2), int)
    for level, i in np.ndindex(4, 25):
        is_decided = tenths[level, i] <= 10 - 10 * alpha
        expected[level, int(is_decided), int(predicted[level, i] == labels[i])] += 1
    got = metrics.unknown_counts(predicted, labels, tenths.astype(kind) / 10, alpha)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.int64


@quick
@given(
    st.lists(st.integers(0, 30), min_size=4, max_size=4),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_ratio_and_interval_are_scipys(cells, confidence):
    table = np.reshape(cells, (2, 2))
    ratio, low, high = metrics.odds_ratio(table, confidence)
    theirs = stats.contingency.odds_ratio(table, kind="conditional")
    interval = theirs.confidence_interval(confidence)
    same = dict(rel=1e-6, nan_ok=True)
    assert ratio == pytest.approx(theirs.statistic, **same)
    assert low == pytest.approx(interval.low, **same)
    assert high == pytest.approx(interval.high, **same)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[0, 5], [6, 20]], (0, 0, None)),
        ([[5, 0], [6, 20]], (np.inf, None, np.inf)),
        ([[0, 0], [4, 9]], (np.nan, 0, np.inf)),
        ([[0, 0], [0, 0]], (np.nan, 0, np.inf)),
    ],
)
def test_empty_cells(table, expected):
    for got, value in zip(metrics.odds_ratio(table), expected):
        if value is None:
            assert 0 < got < np.inf
        else:
            np.testing.assert_array_equal(got, value)


def test_many_inputs_are_as_the_cells_have_it():
    cells = a, b, c, d = 300, 150, 40, 20_000
    ratio, low, high = metrics.odds_ratio([[a, b], [c, d]])
    assert ratio == pytest.approx(a * d / (b * c), rel=0.01)
    error = 1.96 * math.sqrt(sum(1 / cell for cell in cells))  # Woolf, 1955
    assert low == pytest.approx(ratio / math.exp(error), rel=0.05)
    assert high == pytest.approx(ratio * math.exp(error), rel=0.05)


def test_extreme_tables_and_confidences():
    tables = [[[1, 10**3], [10**3, 1]], [[10**3, 1], [1, 10**3]], [[1, 1], [1, 10**3]]]
    for confidence in (1e-9, 1 - 1e-12):
        ratio, low, high = metrics.odds_ratio(tables, confidence)
        assert ((0 < low) & (low < ratio) & (ratio < high) & (high < math.inf)).all()


NONE = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (dict(uncertainty=None), "uncertainty"),
        (dict(uncertainty=np.full((2, 3), np.nan)), "uncertainty"),
        (dict(uncertainty=np.zeros(3)), "uncertainty"),
        (dict(labels=np.zeros(2, int)), "labels"),
        (dict(predicted=np.zeros(3, int)), "predicted"),
        (dict(alpha=1.5), "alpha"),
        (dict(alpha=None), "alpha"),
    ],
)
def test_count_errors(change, name):
    arguments = dict(predicted=NONE.astype(int), labels=np.zeros(3, int), alpha=0.5)
    with pytest.raises((TypeError, ValueError), match=name):
        metrics.unknown_counts(**(arguments | dict(uncertainty=NONE) | change))


@pytest.mark.parametrize(
    ("counts", "confidence", "name"),
    [
        (np.ones((2, 3), int), 0.95, "counts"),
        (np.ones((2, 2)), 0.95, "counts"),
        ([[1, -1], [2, 3]], 0.95, "counts"),
        ([[1, 1], [2, 3]], 95, "confidence_level"),
    ],
)
def test_odds_errors(counts, confidence, name):
    with pytest.raises((TypeError, ValueError), match=name):
        metrics.odds_ratio(counts, confidence)


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


def probability_ever(stops, right_in_all):
    """That a random order of all inputs ever meets a `stops[right, seen]`."""
    total = len(stops) - 1
    going = {0: Fraction(1)}
    stopped = Fraction(0)
    for seen in range(total + 1):
        after = {}
        for right, share in going.items():
            if stops[right, seen]:
                stopped += share
                continue
            if seen == total:
                continue
            next_right = Fraction(right_in_all - right, total - seen)
            for more, chance in ((1, next_right), (0, 1 - next_right)):
                if chance:
                    after[right + more] = after.get(right + more, 0) + share * chance
        going = after
    return float(stopped)


@pytest.mark.parametrize(("total", "error"), [(7, 0.2), (13, 0.05)])
def test_count_evidence_is_rarely_wrong(total, error):
    right, seen = np.mgrid[: total + 1, : total + 1]
    possible = right <= seen
    for least in range(1, total + 1):
        evidence = count_evidence(np.where(possible, right, 0), seen, total, least)
        bound = math.log(1 / error)
        for truth in range(total + 1):
            wrong = evidence.rejected if truth >= least else evidence.accepted
            stops = possible & (wrong >= bound)
            assert probability_ever(stops, truth) <= error + 1e-12


def test_mean_interval_rarely_misses():
    generator = np.random.default_rng(22)
    total, runs, error = 200, 40, 0.1
    scores = generator.random(total) * 1.5 - 0.5
    misses = 0
    for _ in range(runs):
        order = generator.permutation(scores)
        bounds = [
            mean_interval(order[:seen], total, error, (-0.5, 1.0))
            for seen in (10, 80, 150)
        ]
        mean = scores.mean()
        misses += any(not low - 1e-9 <= mean <= high + 1e-9 for low, high in bounds)
    assert misses <= scipy.stats.binom.ppf(0.999, runs, error)


def test_mean_evidence_ends_certain():
    scores = np.repeat([0.0, 0.5, 1.0], [10, 20, 70])
    below = mean_evidence(scores, 100, scores.mean() - 0.01, (0.0, 1.0))
    above = mean_evidence(scores, 100, scores.mean() + 0.01, (0.0, 1.0))
    assert below.accepted > math.log(1e6) and above.rejected > math.log(1e6)
