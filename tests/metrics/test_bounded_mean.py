import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import metrics

quick = settings(deadline=None, max_examples=12)
SCORES = st.lists(
    st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), min_size=1
)
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.999, 1 - 1e-9])


def ends(scores, confidence=0.95):
    low, high = metrics.bounded_mean(np.array([scores], np.float64), confidence)
    return low[0], high[0]


def clopper_pearson(ones, total, confidence=0.95):
    found = stats.binomtest(ones, total).proportion_ci(confidence, "exact")
    return found.low, found.high


@quick
@given(st.integers(1, 3000), st.floats(0, 1), CONFIDENCES)
def test_zeros_and_ones_have_clopper_and_pearsons(total, share, confidence):
    ones = round(share * total)
    scores = np.arange(total) < ones
    expected = clopper_pearson(ones, total, confidence)
    np.testing.assert_allclose(ends(scores, confidence), expected, rtol=1e-6)


def tail_below(scores, mean):
    """The probability of a lower mean, of one more 0, exactly (a B-spline)."""
    points = [Fraction(0), *map(Fraction, scores.tolist())]
    mean, power = Fraction(mean), len(scores)
    above = sum(
        (a - mean) ** power / math.prod(a - b for b in points if b != a)
        for a in points
        if a > mean
    )
    return float(1 - above)


@pytest.mark.parametrize(
    ("shape", "total", "error"),
    [
        ((0.1, 0.1), 2, 0.04),
        ((5.0, 1.0), 3, 0.04),
        ((0.3, 2.0), 12, 1 / 60),
        ((1.0, 1.0), 25, 1 / 60),
    ],
)
def test_the_tail_of_distinct_scores(shape, total, error):
    scores = np.random.default_rng(total).beta(*shape, total)
    low, high = ends(scores)
    assert tail_below(scores, low) == pytest.approx(0.025, rel=error)
    assert tail_below(1 - scores, 1 - high) == pytest.approx(0.025, rel=error)


def test_the_tail_of_many_scores():
    rng = np.random.default_rng(0)
    scores = np.where(rng.random(300) < 0.4, rng.integers(2, size=300), rng.random(300))
    low, _ = ends(scores)
    weights = rng.exponential(size=(20_000, 301))
    tail = np.mean(weights[:, 1:] @ scores < low * weights.sum(1))
    assert abs(tail - 0.025) < 4 * math.sqrt(0.025 / 20_000)


@quick
@given(SCORES, CONFIDENCES, st.randoms(use_true_random=False))
def test_the_interval_holds_the_mean_in_any_order(scores, confidence, random):
    low, high = ends(scores, confidence)
    mean = math.fsum(scores) / len(scores)
    assert 0 <= low <= mean * (1 + 1e-15) and mean <= high * (1 + 1e-15) and high <= 1
    other = [*scores, math.nan, math.nan]
    random.shuffle(other)
    assert ends(other, confidence) == (low, high)
    # Scores next to 0 have no mirror image, so a closed form may replace the other.
    mirrored = ends(1 - np.array(scores), confidence)
    np.testing.assert_allclose(mirrored, (1 - high, 1 - low), rtol=0.02, atol=1e-9)
    assert ends(scores, 1 - (1 - confidence) / 2)[0] <= low
    # With hardly any confidence no saddlepoint is needed.
    narrow_low, narrow_high = ends(scores, 0.01)
    assert low <= narrow_low <= mean * (1 + 1e-15) and narrow_high <= high


def test_each_level_is_alone():
    scores = np.random.default_rng(1).random((3, 50))
    scores[1, 10:] = np.nan
    scores[2] = np.nan
    low, high = metrics.bounded_mean(scores)
    assert (low[0], high[0]) == ends(scores[0])
    assert (low[1], high[1]) == ends(scores[1, :10])
    assert (low[2], high[2]) == (0, 1)
    assert low.dtype == high.dtype == np.float64


def test_scores_alike():
    assert ends(np.zeros(20)) == (0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert ends(np.ones(20)) == (pytest.approx(0.025 ** (1 / 20)), 1)
    low, high = ends(np.full(20, 0.3))
    assert low == pytest.approx(0.3 * 0.025 ** (1 / 20))
    assert high == pytest.approx(1 - 0.7 * 0.025 ** (1 / 20))
    assert ends([0.5]) == (pytest.approx(0.0125), pytest.approx(0.9875))


@pytest.mark.parametrize(
    ("scores", "confidence", "name"),
    [
        ([[0.5, 1.1]], 0.95, "scores"),
        ([[-0.1]], 0.95, "scores"),
        ([0.5], 0.95, "scores"),
        ([[0.5]], 95, "confidence_level"),
    ],
)
def test_errors(scores, confidence, name):
    with pytest.raises(ValueError, match=name):
        metrics.bounded_mean(scores, confidence)
