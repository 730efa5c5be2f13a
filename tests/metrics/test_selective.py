import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob import metrics

quick = settings(deadline=None, max_examples=15)


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
    np.testing.assert_allclose(metrics.aurc(confidence, correct), risk.mean(1))
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


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_calibration_by_sklearns_curve(num_bins):
    from sklearn.calibration import calibration_curve

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


def test_confidence_may_be_infinite():
    confidence, correct = np.array([[-np.inf, 0, np.inf, np.inf]]), [[0, 1, 1, 0]]
    np.testing.assert_array_equal(
        metrics.risk_coverage(confidence, correct).risk,
        metrics.risk_coverage([[-1, 0, 1, 1]], correct).risk,
    )


def test_calibration_by_hand():
    confidence = np.array([[0.75, 0.75, 0.75, 0.75], [1.0, 1.0, 1.0, 1.0]], np.float32)
    correct = np.array([[True, True, True, False], [False] * 4])
    got = metrics.expected_calibration_error(confidence, correct)
    np.testing.assert_allclose(got, [0, 1], atol=1e-12)
    # The rounded mean of certain samples may exceed 1.
    above = np.nextafter(np.float32(1), np.float32(2))
    assert metrics.expected_calibration_error([[above]], [[True]])[0] == 0


@pytest.mark.parametrize(
    ("confidence", "correct", "name"),
    [
        (None, [[True]], "confidence"),
        ([[0.5, 0.5]], [[True]], "correct"),
        ([0.5], [True], "confidence"),
        (np.zeros((2, 0)), np.zeros((2, 0)), "confidence"),
        ([[math.nan]], [[True]], "confidence"),
        ([[0.5]], [[2]], "correct"),
    ],
)
def test_errors(confidence, correct, name):
    for function in (
        metrics.risk_coverage,
        metrics.aurc,
        metrics.expected_calibration_error,
    ):
        with pytest.raises(ValueError, match=name):
            function(confidence, correct)


@pytest.mark.parametrize(
    ("confidence", "num_bins", "error", "name"),
    [
        (-0.1, 15, ValueError, "confidence"),
        (1.1, 15, ValueError, "confidence"),
        (0.5, 0, ValueError, "num_bins"),
        (0.5, 1.5, TypeError, "num_bins"),
    ],
)
def test_calibration_errors(confidence, num_bins, error, name):
    with pytest.raises(error, match=name):
        metrics.expected_calibration_error([[confidence]], [[True]], num_bins)
