import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from jaxrob import metrics

quick = settings(deadline=None, max_examples=30)


@st.composite
def answered(draw, ties=True, max_inputs=30):
    """Draws confidences `[L, N]` and whether the answers are right."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, max_inputs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    confidence = rng.integers(0, 5, shape) / 4 if ties else rng.random(shape)
    return confidence, rng.random(shape) < draw(st.floats(0, 1))


@quick
@given(answered(ties=False))
def test_risk_input_by_input(case):
    confidence, correct = case
    coverage, risk = metrics.risk_coverage(confidence, correct)
    num_inputs = confidence.shape[1]
    for level in range(len(confidence)):
        surest = sorted(range(num_inputs), key=lambda i: -confidence[level, i])
        for n in range(1, num_inputs + 1):
            wrong = sum(not correct[level, i] for i in surest[:n])
            assert coverage[n - 1] == n / num_inputs
            assert risk[level, n - 1] == wrong / n


@settings(deadline=None, max_examples=20)
@given(answered(max_inputs=6))
def test_ties_give_the_mean_over_their_orders(case):
    confidence, correct = case
    num_inputs = confidence.shape[1]
    _, risk = metrics.risk_coverage(confidence, correct)
    for level, got in enumerate(risk):
        risks = []
        for order in itertools.permutations(range(num_inputs)):
            surest = sorted(order, key=lambda i: -confidence[level, i])
            wrong = np.cumsum([not correct[level, i] for i in surest])
            risks.append(wrong / np.arange(1, num_inputs + 1))
        np.testing.assert_allclose(got, np.mean(risks, axis=0), atol=1e-12)


@quick
@given(answered())
def test_the_area_is_sklearns_under_the_steps(case):
    coverage, risk = metrics.risk_coverage(*case)
    area = metrics.aurc(*case)
    assert area.shape == (len(risk),) and area.dtype == np.float64
    ends = np.concatenate([[0], np.repeat(coverage, 2)[:-1]])
    for level, got in enumerate(area):
        if len(coverage) > 1:
            expected = sk.auc(ends, np.repeat(risk[level], 2))
        else:
            expected = risk[level, 0]
        assert got == pytest.approx(expected, abs=1e-12)


@quick
@given(answered(), st.integers(0, 2**32))
def test_the_order_of_the_inputs_does_not_matter(case, seed):
    confidence, correct = case
    order = np.random.default_rng(seed).permutation(confidence.shape[1])
    np.testing.assert_array_equal(
        metrics.aurc(*case), metrics.aurc(confidence[:, order], correct[:, order])
    )


def test_areas_by_hand():
    confidence = np.array([[0.9, 0.8, 0.7, 0.6]])
    for correct, expected in [
        ([1, 1, 1, 1], 0),
        ([0, 0, 0, 0], 1),
        ([1, 1, 1, 0], 1 / 4 / 4),
        ([0, 1, 1, 1], (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4),
    ]:
        assert metrics.aurc(confidence, [correct])[0] == pytest.approx(expected)
    # An uninformative confidence: the error rate at every coverage.
    same = metrics.risk_coverage(np.ones((1, 4)), [[1, 0, 1, 1]])
    np.testing.assert_allclose(same.risk, 0.25)


def test_a_negated_uncertainty_will_do():
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.random((2, 50)), rng.random((2, 50)) < 0.7
    expected = metrics.aurc(1 - uncertainty, correct)
    np.testing.assert_array_equal(metrics.aurc(-uncertainty, correct), expected)
    infinite = np.array([[-np.inf, 0, np.inf, np.inf]])
    finite = np.array([[-1, 0, 1, 1]])
    correct = [[0, 1, 1, 0]]
    np.testing.assert_array_equal(
        metrics.risk_coverage(infinite, correct).risk,
        metrics.risk_coverage(finite, correct).risk,
    )


def calibration(confidence, correct, num_bins):
    """Computes Guo et al. (2017), equation 3, bin by bin."""
    total = 0.0
    for m in range(1, num_bins + 1):
        rows = [
            i
            for i, p in enumerate(confidence)
            if (m - 1) / num_bins < p <= m / num_bins or (m == 1 and p == 0)
        ]
        if rows:
            gap = np.mean(correct[rows]) - np.mean(confidence[rows])
            total += len(rows) / len(confidence) * abs(gap)
    return total


@quick
@given(answered(ties=False), st.integers(1, 20))
def test_calibration_bin_by_bin(case, num_bins):
    got = metrics.expected_calibration_error(*case, num_bins)
    expected = [calibration(*level, num_bins) for level in zip(*case)]
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert ((got >= 0) & (got <= 1)).all()


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_calibration_by_sklearns_curve(num_bins):
    rng = np.random.default_rng(1)
    confidence = rng.random((3, 400))
    confidence[0, :50] = rng.integers(0, 5, 50) / 4  # on the bins' edges
    correct = rng.random(confidence.shape) < confidence**2
    got = metrics.expected_calibration_error(confidence, correct, num_bins)
    edges = np.linspace(0, 1, num_bins + 1)[1:-1]
    for level, (sure, right) in enumerate(zip(confidence, correct)):
        true, mean = calibration_curve(right, sure, n_bins=num_bins)
        sizes = np.bincount(np.searchsorted(edges, sure), minlength=num_bins)
        sizes = sizes[sizes > 0]
        expected = np.sum(sizes * np.abs(true - mean)) / sizes.sum()
        assert got[level] == pytest.approx(expected, abs=1e-12)


def test_calibration_by_hand():
    confidence = np.array([[0.75, 0.75, 0.75, 0.75], [1.0, 1.0, 1.0, 1.0]], np.float32)
    correct = np.array([[True, True, True, False], [False] * 4])
    got = metrics.expected_calibration_error(confidence, correct)
    np.testing.assert_allclose(got, [0, 1], atol=1e-12)
    # The rounded mean of certain samples may exceed 1.
    above = np.nextafter(np.float32(1), np.float32(2))
    assert metrics.expected_calibration_error([[above]], [[True]])[0] == 0


@pytest.mark.parametrize(
    "function",
    [metrics.risk_coverage, metrics.aurc, metrics.expected_calibration_error],
)
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        (None, [[True]], r"confidence is missing \(None\)"),
        ([[0.5, 0.5]], [[True]], r"correct .* with L = 1, N = 2; got \(1, 1\)"),
        ([0.5], [True], r"confidence must have the shape \[L, N\]"),
        (np.zeros((2, 0)), np.zeros((2, 0)), r"shape \[L, N\]; got \(2, 0\)"),
        ([[math.nan]], [[True]], "confidence must not be NaN; got nan at"),
        ([[0.5]], [[2]], "correct must be true or false"),
    ],
)
def test_errors(function, confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        function(confidence, correct)


def test_calibration_errors():
    for confidence in (-0.1, 1.1, 95, math.inf):
        with pytest.raises(ValueError, match=r"confidence must lie in \[0, 1\]"):
            metrics.expected_calibration_error([[confidence]], [[True]])
    with pytest.raises(ValueError, match="num_bins must be at least 1; got 0"):
        metrics.expected_calibration_error([[0.5]], [[True]], 0)
    with pytest.raises(TypeError, match="num_bins must be an integer"):
        metrics.expected_calibration_error([[0.5]], [[True]], 1.5)
