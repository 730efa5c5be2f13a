import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import metrics

quick = settings(deadline=None, max_examples=15)


@quick
@given(st.integers(0, 2**32), st.sampled_from([0, 0.3, 0.5, 1]))
def test_counts_one_by_one(seed, alpha):
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(3, size=(4, 25)), rng.integers(3, size=25)
    uncertainty = rng.integers(0, 11, (4, 25)) / np.float32(10)
    expected = np.zeros((4, 2, 2), int)
    for level in range(4):
        for i in range(25):
            unknown = uncertainty[level, i] > 1 - alpha
            wrong = predicted[level, i] != labels[i]
            expected[level, 0 if unknown else 1, 0 if wrong else 1] += 1
    got = metrics.unknown_counts(predicted, labels, uncertainty, alpha)
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


def test_swapped_rows_are_the_reciprocal():
    table = np.array([[[12, 3], [7, 40]], [[5, 0], [2, 9]]])
    ratio, low, high = metrics.odds_ratio(table)
    alone = metrics.odds_ratio(table[0])
    assert alone == (ratio[0], low[0], high[0])
    swapped = metrics.odds_ratio(table[:, ::-1])
    np.testing.assert_allclose(swapped.ratio, 1 / ratio)  # 1 / inf is 0
    np.testing.assert_allclose(swapped.high, 1 / low)
    assert high[1] == math.inf and swapped.low[1] == 0


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
