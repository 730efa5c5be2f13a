import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import Curve, metrics

quick = settings(deadline=None, max_examples=30)


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
        ([[5, 6], [20, 0]], (0, 0, None)),
        ([[5, 0], [6, 20]], (np.inf, None, np.inf)),
        ([[7, 0], [0, 9]], (np.inf, None, np.inf)),
        ([[0, 0], [4, 9]], (np.nan, 0, np.inf)),
        ([[0, 4], [0, 9]], (np.nan, 0, np.inf)),
        ([[0, 0], [0, 0]], (np.nan, 0, np.inf)),
    ],
)
def test_empty_cells(table, expected):
    for got, value in zip(metrics.odds_ratio(table), expected):
        if value is None:
            assert 0 < got < np.inf
        else:
            np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize(
    "table",
    [[[300, 150], [40, 20_000]], [[80, 800], [90, 700]], [[1, 10**3], [10**3, 10**3]]],
)
def test_many_inputs_are_as_the_cells_have_it(table):
    (a, b), (c, d) = table
    ratio, low, high = metrics.odds_ratio(table)
    assert ratio == pytest.approx(a * d / (b * c), rel=0.01)
    if a > 30:
        error = 1.96 * math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)  # Woolf, 1955
        assert low == pytest.approx(ratio / math.exp(error), rel=0.05)
        assert high == pytest.approx(ratio * math.exp(error), rel=0.05)


@pytest.mark.parametrize("confidence", [1e-9, 0.95, 1 - 1e-12])
def test_extreme_tables_and_confidences(confidence):
    for table in (
        [[1, 10**3], [10**3, 1]],
        [[10**3, 1], [1, 10**3]],
        [[1, 1], [1, 10**3]],
        [[10**3, 1], [1, 1]],
    ):
        ratio, low, high = metrics.odds_ratio(table, confidence)
        assert 0 < low < ratio < high < math.inf


@pytest.mark.parametrize("total", [5, 20])
def test_it_covers_the_ratio_at_least_as_often_as_asked_for(total):
    # Over all tables of two groups of this size.
    wrong = np.arange(total + 1)
    tables = np.stack(np.meshgrid(wrong, wrong, indexing="ij"), axis=-1)
    counts = np.stack([tables, total - tables], axis=-1)
    _, low, high = metrics.odds_ratio(counts, 0.9)
    for p, q in itertools.product([0.01, 0.1, 0.3, 0.5, 0.8, 0.99], repeat=2):
        chance = np.outer(*(stats.binom.pmf(wrong, total, share) for share in (p, q)))
        truth = p / (1 - p) / (q / (1 - q))
        assert chance[(low <= truth) & (truth <= high)].sum() >= 0.9


def test_swapped_rows_are_the_reciprocal():
    table = np.array([[[12, 3], [7, 40]], [[5, 0], [2, 9]]])
    ratio, low, high = metrics.odds_ratio(table)
    swapped = metrics.odds_ratio(table[:, ::-1])
    np.testing.assert_allclose(swapped.ratio, 1 / ratio)  # 1 / inf is 0
    np.testing.assert_allclose(swapped.high, 1 / low)
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
        (0.2 * wrong + 0.8 * rng.random(2000), True),
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
        (
            dict(uncertainty=np.full((2, 3), np.nan)),
            "uncertainty must be finite; got nan at",
        ),
        (dict(uncertainty=np.zeros(3)), r"uncertainty must have the shape \[L, N\]"),
        (dict(labels=np.zeros(2, int)), r"labels must have the shape \[N\] with N = 3"),
        (dict(predicted=np.zeros(3, int)), r"must have the shape \[L, N\]"),
        (dict(alpha=1.5), r"alpha must lie in \[0, 1\]; got 1.5"),
        (dict(alpha=math.nan), r"alpha must lie in \[0, 1\]"),
        (dict(alpha=None), "alpha must be a number; got None"),
    ],
)
def test_count_errors(change, message):
    arguments = dict(
        predicted=PREDICTED, labels=LABELS, uncertainty=UNCERTAINTY, alpha=0.5
    )
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.unknown_counts(**(arguments | change))


@pytest.mark.parametrize(
    ("counts", "confidence", "message"),
    [
        (np.ones((2, 3), int), 0.95, r"shape \[..., 2, 2\]; got \(2, 3\)"),
        (np.ones((2, 2)), 0.95, "of integers; got ndarray of float64"),
        ([[1, -1], [2, 3]], 0.95, "counts must be at least 0; got -1"),
        ([[1, 1], [2, 3]], 95, r"confidence_level must lie in \(0, 1\)"),
    ],
)
def test_odds_errors(counts, confidence, message):
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.odds_ratio(counts, confidence)
