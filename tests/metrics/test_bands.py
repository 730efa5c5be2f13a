"""Bands and intervals, against SciPy's and exact probabilities."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import metrics
from jaxrob.metrics import _bands
from jaxrob.metrics._curvature import envelope

from .test_measures import confusion_of as counts

quick = settings(deadline=None, max_examples=15)


def some_counts(k, num_levels=4, total=200, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=total)
    answers = rng.integers(k + 1, size=(num_levels, total))
    return counts(labels, np.where(rng.random(answers.shape) < 0.6, labels, answers), k)


@quick
@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_wilson_is_scipys(total, share, confidence):
    successes = round(share * total)
    low, high = metrics.wilson([successes], [total], confidence)
    expected = stats.binomtest(successes, total).proportion_ci(confidence, "wilson")
    assert low[0] == pytest.approx(expected.low, abs=1e-12)
    assert high[0] == pytest.approx(expected.high, abs=1e-12)
    assert 0 <= low[0] <= successes / total <= high[0] <= 1


def test_wilson_at_the_edges():
    totals = np.array([0, 1, 7, 200, 10**9])
    none_low, none_high = metrics.wilson(np.zeros(5, int), totals)
    all_low, all_high = metrics.wilson(totals, totals)
    assert (none_low == 0).all() and (all_high == 1).all()
    assert none_high[0] == 1 and all_low[0] == 0
    assert (none_high[1:] < 1).all() and (all_low[1:] > 0).all()
    np.testing.assert_allclose(none_high, 1 - all_low)


def test_proportions_have_wilson_bands():
    confusion = some_counts(2)
    pairs = [
        ("accuracy", np.trace(confusion, axis1=1, axis2=2), confusion[..., :2]),
        ("recall", confusion[:, 1, 1], confusion[:, 1, None, :2]),
    ]
    for measure, hits, decided in pairs:
        expected = metrics.wilson(hits, decided.sum((-2, -1)), 0.9)
        np.testing.assert_array_equal(metrics.bands(confusion, measure, 0.9), expected)


@pytest.mark.slow
@quick
@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_resampled_values_are_the_measures_of_the_inputs_drawn(k, total, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=total)
    answers = rng.integers(k + 1, size=(3, total))
    weights = rng.integers(3, size=(total, 4)) * 1.0
    weights[0] += 1  # none is empty
    for truth in metrics.measures.values():
        values = _bands.resampled_values(truth, labels, answers, k, weights)
        for b in range(4):
            drawn = np.repeat(np.arange(total), weights[:, b].astype(int))
            expected = truth(counts(labels[drawn], answers[:, drawn], k))
            np.testing.assert_allclose(values[:, b], expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "measure"), [(2, "precision"), (4, "recall"), (4, "f1")])
def test_the_other_bands_are_scipys_bootstrap_over_inputs(k, measure):
    confusion = some_counts(k, num_levels=1)
    labels, answers = np.nonzero(confusion[0])
    drawn = np.repeat(np.arange(len(labels)), confusion[0][labels, answers])
    labels, answers = labels[drawn], answers[drawn]

    expected = stats.bootstrap(
        (labels, answers),
        lambda labels, answers: metrics.measures[measure](
            counts(labels, answers[None], k)
        )[0],
        n_resamples=1500,
        paired=True,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(5),
    )
    low, high = metrics.bands(confusion, measure)
    # An end's Monte Carlo error is 8 % of the standard error, SciPy's 7 %.
    tolerance = 0.35 * expected.standard_error
    assert low[0] == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert high[0] == pytest.approx(expected.confidence_interval.high, abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("measure", metrics.measures)
def test_bands_hold_the_measured_values_and_shrink_with_more_data(measure):
    confusion = some_counts(3)
    values = metrics.measures[measure](confusion)
    low, high = metrics.bands(confusion, measure)
    assert low.shape == high.shape == (4,) and low.dtype == np.float64
    assert (low >= 0).all() and (high <= 1).all()
    assert (low < values).all() and (values < high).all()

    wider = metrics.bands(confusion, measure, 0.99)
    assert (wider[0] < low).all() and (high < wider[1]).all()
    # A hundred times the data give a tenth of the width.
    narrow = metrics.bands(100 * confusion, measure)
    np.testing.assert_allclose(narrow[1] - narrow[0], (high - low) / 10, rtol=0.2)
    # Each level is taken alone, and always alike.
    alone = metrics.bands(confusion[2:3], measure)
    assert (low[2], high[2]) == (alone[0][0], alone[1][0])


@pytest.mark.parametrize("k", [2, 3])
def test_bands_are_0_and_1_where_the_measure_is_undefined(k):
    confusion = np.zeros((1, k, k + 1), int)
    confusion[0, :, -1] = 5
    for measure in ("precision", "recall", "f1"):
        assert np.isnan(metrics.measures[measure](confusion)[0])
        low, high = metrics.bands(confusion, measure)
        assert (low[0], high[0]) == (0, 1)
    # Accuracy is 1 by definition there, without evidence.
    low, high = metrics.bands(confusion, "accuracy")
    assert (low[0], high[0]) == (0, 1)
    assert metrics.bands(confusion, "effectiveness") == (0, 0)
    # 37 % of the resamples lack the one input of class 1.
    low, high = metrics.bands(np.array([[[20, 0, 0], [0, 1, 0]]]), "precision")
    assert low[0] == high[0] == 1


@quick
@given(st.data())
def test_robustness_interval_is_that_of_its_bands(data):
    n = data.draw(st.integers(2, 9))
    levels = data.draw(st.permutations(range(n)))
    values = st.lists(st.integers(0, 10), min_size=n, max_size=n)
    bands = np.sort([data.draw(values), data.draw(values)], axis=0) / 10
    threshold = data.draw(st.integers(0, 11)) / 10
    interval = metrics.robustness_interval(levels, *bands, threshold)
    assert interval.low <= interval.high
    for end, band in zip(interval, bands):
        expected = metrics.heaviside_robustness(levels, band, threshold, "linear")
        assert end == pytest.approx(expected, abs=1e-14)
    # Bounds at levels change nothing.
    bounds = 0, n - 1
    assert metrics.robustness_interval(levels, *bands, threshold, bounds) == interval


def test_nothing_is_known_beyond_the_outermost_levels():
    levels, low, high = [0.75, 0.25], [0.3, 0.7], [0.5, 0.9]
    got = metrics.robustness_interval(levels, low, high, 0.5, (-1, 1))
    assert got == pytest.approx((0.25 / 2, (0.5 + 1.5) / 2))
    assert metrics.robustness_interval([0.3], [0.4], [0.6], 0.5, (0, 1)) == (0, 1)


def test_bands_of_a_straight_curve_are_nearly_straight():
    correct = np.arange(1000, 199, -100)
    confusion = np.zeros((9, 2, 3), int)
    confusion[:, 0, 0], confusion[:, 0, 1] = correct, 1000 - correct
    levels = np.linspace(0, 1, 9)
    bands = metrics.wilson(correct, np.full(9, 1000))
    expected = metrics.robustness_interval(levels, *bands, 0.75)
    got = metrics.confidence_interval(levels, confusion, "accuracy", 0.75)
    # The flips that single inputs may hide widen it.
    assert got.low <= expected.low and got.high >= expected.high
    assert got.high - got.low <= 1.25 * (expected.high - expected.low)


def inside_the_envelope(levels, curve, fine):
    """Whether a curve, known at some levels, stays within the envelope between them."""
    found = envelope(levels, curve(levels), None)
    for i, (start, end) in enumerate(zip(levels[:-1], levels[1:])):
        some = fine[(fine >= start) & (fine <= end)]
        share = (some - start) / (end - start)
        chord = np.interp(some, levels, curve(levels))
        above = np.interp(share, found.share[:, 0], found.above[:, i])
        below = np.interp(share, found.share[:, 0], found.below[:, i])
        # The envelope has 32 straight pieces, which cut a corner of up to 2 by this
        # much.
        slack = 2 / 4 / 32 * (end - start) + 1e-9
        if (curve(some) > chord + above + slack).any():
            return False
        if (curve(some) < chord - below - slack).any():
            return False
    return True


@pytest.mark.parametrize("jumps", [False, True])
@quick
@given(st.integers(5, 17), st.floats(0, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_one_kink_or_jump_lies_within_the_envelope(jumps, number, at, before, after):
    def curve(x):
        side = np.where(x < at, before, after)
        return side / 2 if jumps else 0.5 + side * (x - at)

    levels = np.linspace(0, 1, number)
    # In the outermost intervals only one neighbour shows it. At a known level, a jump
    # is in the interval before it.
    inner = (at > levels[1]) & (at <= levels[-2])
    fine = np.linspace(0, 1, 4097) if inner else levels
    if jumps:  # The envelope has straight pieces.
        fine = fine[np.abs(fine - at) > 1 / 256]
    assert inside_the_envelope(levels, curve, fine)


@quick
@given(
    st.lists(st.integers(0, 1024), min_size=5, max_size=12, unique=True),
    *(st.floats(-1, 1), st.floats(0, 1)),
)
def test_a_straight_curve_has_no_envelope(levels, slope, start):
    levels = np.sort(levels) / 1024
    found = envelope(levels, start + slope * levels, None)
    assert max(found.above.max(), found.below.max()) < 1e-9


CONFUSION = some_counts(2)


def interval(levels, low, high, bounds=None):
    return metrics.robustness_interval(levels, low, high, 0.5, bounds)


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (metrics.wilson, ([1, 2], [3]), "totals"),
        (metrics.wilson, ([4], [3]), "successes"),
        (metrics.wilson, ([-1], [3]), "successes"),
        (metrics.wilson, ([1], [-1]), "totals"),
        (metrics.wilson, ([1], [2], 1), "confidence_level"),
        (metrics.bands, (CONFUSION, "auc"), "measure"),
        (metrics.bands, (CONFUSION[0], "f1"), "counts"),
        (metrics.bands, (0 * CONFUSION, "effectiveness"), "input at each level"),
        (metrics.bands, (CONFUSION, "f1", 0), "confidence_level"),
        # A bootstrap would need too many replicates.
        (metrics.bands, (CONFUSION, "f1", 0.99999), "confidence_level"),
        (interval, ([0, 1], [0, 0], [1]), "high"),
        (interval, ([0, 1], [0, 0.7], [1, 0.6]), "low"),
        (interval, ([0, 1], [0, math.nan], [1, 1]), "low"),
        (interval, ([0], [0], [1]), "at least 2"),
        (interval, ([], [], [], (0, 1)), "levels"),
        (interval, ([0, 0], [0, 0], [1, 1], (0, 1)), "distinct"),
        (interval, ([0, 2], [0, 0], [1, 1], (0, 1)), "bounds"),
        (interval, ([0, 1], [0, 0], [1, 1], (1, 0)), "bounds"),
        (metrics.bounded_mean, ([[0.5, 1.1]], 0.95), "scores"),
        (metrics.bounded_mean, ([[-0.1]], 0.95), "scores"),
        (metrics.bounded_mean, ([0.5], 0.95), "scores"),
        (metrics.bounded_mean, ([[0.5]], 95), "confidence_level"),
    ],
)
def test_wrong_arguments_are_named(function, arguments, name):
    with pytest.raises(ValueError, match=name):
        function(*arguments)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([0, 1, 2], CONFUSION, "f1", 0.8), "n = 3"),
        (([0, 1, 2, 2], CONFUSION, "f1", 0.8), "distinct"),
        ((range(4), CONFUSION, "f1", math.nan), "threshold"),
        ((range(4), CONFUSION, "f1", 0.8, 0), "confidence_level"),
        ((range(4), CONFUSION, "f1", 0.8, 0.95, (1, 3)), "bounds"),
    ],
)
def test_confidence_interval_fails_before_the_bootstrap(monkeypatch, arguments, name):
    monkeypatch.setattr(_bands, "bootstrap", None)
    with pytest.raises(ValueError, match=name):
        metrics.confidence_interval(*arguments)


SCORES = st.lists(
    st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), min_size=1
)
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.999, 1 - 1e-9])


def ends(scores, confidence=0.95):
    low, high = metrics.bounded_mean(np.array([scores], np.float64), confidence)
    return low[0], high[0]


@quick
@given(st.integers(1, 3000), st.floats(0, 1), CONFIDENCES)
def test_zeros_and_ones_have_clopper_and_pearsons(total, share, confidence):
    ones = round(share * total)
    scores = np.arange(total) < ones
    low, high = ends(scores, confidence)
    opposite_low, opposite_high = ends(~scores, confidence)
    # By their definition: under a lower end, as many ones or more are that rare.
    tail = pytest.approx((1 - confidence) / 2, rel=1e-6)
    for end, number in ((low, ones), (opposite_low, total - ones)):
        assert stats.binom.sf(number - 1, total, end) == tail if number else end == 0
    np.testing.assert_allclose([high, opposite_high], [1 - opposite_low, 1 - low])


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
