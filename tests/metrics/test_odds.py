import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import Curve, metrics

quick = settings(deadline=None, max_examples=30)


def coverage(total, p_unknown, p_decided, confidence=0.95):
    """How often the interval holds the ratio, over all tables of two such groups."""
    wrong = np.arange(total + 1)
    tables = np.stack(np.meshgrid(wrong, wrong, indexing="ij"), axis=-1)
    counts = np.stack([tables, total - tables], axis=-1)
    chance = np.outer(
        stats.binom.pmf(wrong, total, p_unknown),
        stats.binom.pmf(wrong, total, p_decided),
    )
    _, low, high = metrics.odds_ratio(counts, confidence)
    truth = p_unknown / (1 - p_unknown) / (p_decided / (1 - p_decided))
    return chance[(low <= truth) & (truth <= high)].sum()


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


def test_counts_agree_with_the_curve():
    rng = np.random.default_rng(0)
    predicted, labels = rng.integers(3, size=(4, 50)), rng.integers(3, size=50)
    uncertainty = rng.random((4, 50)).astype(np.float32)
    uncertainty[:, 0] = np.float32(1 - 0.8)  # on the threshold
    curve = Curve(np.arange(4.0), predicted, None, uncertainty, labels, 3, alpha=0.8)
    counts = metrics.unknown_counts(predicted, labels, uncertainty, 0.8)
    np.testing.assert_array_equal(counts[:, 0].sum(-1), curve.unknown.sum(-1))
    np.testing.assert_allclose(counts[:, 0].sum(-1) / 50, curve.indecision)
    decided = counts[:, 1]
    np.testing.assert_allclose(decided[:, 1] / decided.sum(-1), curve.accuracy)


@quick
@given(st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_the_ratio_is_the_one_of_the_cells_and_a_half(cells):
    a, b, c, d = (cell + 0.5 for cell in cells)
    table = np.reshape(cells, (2, 2))
    ratio, low, high = metrics.odds_ratio(table)
    if 0 in (*table.sum(0), *table.sum(1)):
        assert np.isnan(ratio) and (low, high) == (0, math.inf)
        return
    assert ratio == pytest.approx(a * d / (b * c))
    error = 1.959963984540054 * math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    if table[0, 0] * table[1, 1]:
        assert low == pytest.approx(ratio / math.exp(error))
    else:
        assert low == 0
    if table[0, 1] * table[1, 0]:
        assert high == pytest.approx(ratio * math.exp(error))
    else:
        assert high == math.inf


@pytest.mark.parametrize(
    "table",
    [[[30, 70], [10, 90]], [[300, 150], [40, 2000]], [[80, 800], [90, 700]]],
)
def test_many_inputs_agree_with_scipy(table):
    ratio, low, high = metrics.odds_ratio(table)
    for kind in ("sample", "conditional"):
        theirs = stats.contingency.odds_ratio(table, kind=kind)
        expected = theirs.confidence_interval(0.95)
        assert ratio == pytest.approx(theirs.statistic, rel=0.04)
        assert low == pytest.approx(expected.low, rel=0.12)
        assert high == pytest.approx(expected.high, rel=0.12)


@pytest.mark.parametrize(
    "table",
    [
        [[0, 5], [6, 20]],
        [[5, 0], [6, 20]],
        [[5, 6], [0, 20]],
        [[5, 6], [20, 0]],
        [[7, 0], [0, 9]],
        [[0, 7], [9, 0]],
        [[0, 0], [4, 9]],
        [[0, 4], [0, 9]],
    ],
)
def test_with_empty_cells_the_interval_ends_where_the_exact_one_does(table):
    _, low, high = metrics.odds_ratio(table)
    exact = stats.contingency.odds_ratio(table).confidence_interval(0.95)
    assert (low == 0) == (exact.low == 0)
    assert (high == math.inf) == (exact.high == math.inf)


@pytest.mark.parametrize("total", [5, 20, 100])
def test_coverage(total):
    shares = [0.01, 0.1, 0.3, 0.5, 0.8, 0.99]
    held = [coverage(total, p, q) for p in shares for q in shares]
    assert min(held) > 0.94


def test_swapped_rows_are_the_reciprocal():
    table = np.array([[[12, 3], [7, 40]], [[5, 0], [2, 9]]])
    ratio, low, high = metrics.odds_ratio(table)
    swapped = metrics.odds_ratio(table[:, ::-1])
    np.testing.assert_allclose(swapped.ratio, 1 / ratio)
    np.testing.assert_allclose(swapped.high[low > 0], 1 / low[low > 0])
    assert high[1] == math.inf and swapped.low[1] == 0


def test_shapes():
    counts = np.arange(24).reshape(2, 3, 2, 2)
    result = metrics.odds_ratio(counts)
    assert all(part.shape == (2, 3) for part in result)
    for index in np.ndindex(2, 3):
        alone = metrics.odds_ratio(counts[index])
        assert alone == tuple(part[index] for part in result)


def test_unknown_where_wrong_and_at_random():
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=2000)
    wrong = rng.random(2000) < 0.2
    predicted = np.where(wrong, (labels + 1) % 10, labels)[None]
    for uncertainty, related in [
        (0.5 * wrong + 0.5 * rng.random(2000), True),
        (rng.random(2000), False),
    ]:
        counts = metrics.unknown_counts(predicted, labels, uncertainty[None], 0.3)
        ratio, low, high = metrics.odds_ratio(counts)
        assert (low[0] > 1) == related
        assert low[0] < ratio[0] < high[0]


PREDICTED, LABELS = np.zeros((2, 3), int), np.zeros(3, int)
UNCERTAINTY = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(uncertainty=None), r"uncertainty is missing \(None\)"),
        (dict(uncertainty=np.full((2, 3), np.nan)), "uncertainty must not be NaN"),
        (dict(uncertainty=np.zeros(3)), r"got \(2, 3\), \(3,\) and \(3,\)"),
        (dict(labels=np.zeros(2, int)), r"labels \[N\]"),
        (dict(predicted=np.zeros(3, int)), r"must have the shape \[L, N\]"),
        (dict(alpha=1.5), r"alpha must lie in \[0, 1\]; got 1.5"),
        (dict(alpha=math.nan), r"alpha must lie in \[0, 1\]"),
        (dict(alpha=None), r"alpha must lie in \[0, 1\]; got None"),
    ],
)
def test_count_errors(change, message):
    arguments = dict(
        predicted=PREDICTED, labels=LABELS, uncertainty=UNCERTAINTY, alpha=0.5
    )
    with pytest.raises(ValueError, match=message):
        metrics.unknown_counts(**(arguments | change))


@pytest.mark.parametrize(
    ("counts", "confidence", "message"),
    [
        (np.ones((2, 3), int), 0.95, r"shape \[..., 2, 2\]; got \(2, 3\)"),
        (np.ones((2, 2)), 0.95, "counts must be integers"),
        ([[1, -1], [2, 3]], 0.95, "counts must be integers of at least 0"),
        ([[1, 1], [2, 3]], 95, r"confidence must lie in \(0, 1\)"),
    ],
)
def test_odds_errors(counts, confidence, message):
    with pytest.raises(ValueError, match=message):
        metrics.odds_ratio(counts, confidence)
