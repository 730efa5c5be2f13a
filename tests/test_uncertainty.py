import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from jaxrob import uncertainty
from jaxrob.uncertainty import unknown_threshold

quick = settings(deadline=None, max_examples=8)
ALL = {
    name: getattr(uncertainty, name)
    for name in uncertainty.__all__
    if name != "unknown_threshold"
}


# All of them in one program for each shape, because compiling takes longest.
@jax.jit
def compiled(log_p):
    return {name: measure(log_p) for name, measure in ALL.items()}


@jax.jit
def with_gradients(log_p):
    return {name: jax.value_and_grad(one)(log_p) for name, one in ALL.items()}


def measured(log_p):
    found = compiled(np.asarray(log_p, np.float32))
    return {name: np.asarray(value) for name, value in found.items()}


def some_samples(seed, shape):
    """Draws probabilities, and their logarithms in float32; some are 0."""
    rng = np.random.default_rng(seed)
    *leading, num_classes = shape
    p = rng.dirichlet(np.full(num_classes, 0.5), leading)
    p = np.where(rng.random(shape) < 0.2, 0, p) + 1e-300
    p = p / p.sum(-1, keepdims=True)
    p = np.where(p < 1e-200, 0, p)
    with np.errstate(divide="ignore"):
        return p, np.log(p).astype(np.float32)


def test_half_precision_is_not_computed_in():
    _, log_p = some_samples(0, (9, 2, 500))
    half = np.float16(np.maximum(log_p, -99))
    for measure in ALL.values():
        np.testing.assert_array_equal(measure(half), measure(np.float32(half)))


def kwon(samples):
    """The traces of both matrices of Kwon et al., over that of uniform samples."""
    num_classes = samples.shape[-1]
    aleatoric, epistemic = np.zeros((2, num_classes, num_classes))
    for p in samples:
        deviation = p - samples.mean(0)
        aleatoric += (np.diag(p) - np.outer(p, p)) / len(samples)
        epistemic += np.outer(deviation, deviation) / len(samples)
    largest = 1 - 1 / num_classes
    return np.trace(aleatoric) / largest, np.trace(epistemic) / largest


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 2, 3, 5)])
@quick
@given(seed=st.integers(0, 2**32))
def test_the_definitions(shape, seed):
    p, log_p = some_samples(seed, shape)
    got = measured(log_p)
    assert {value.shape for value in got.values()} == {shape[1:-1]}
    assert {value.dtype for value in got.values()} == {np.dtype(np.float32)}
    for place in np.ndindex(shape[1:-1]):
        aleatoric, epistemic = kwon(p[:, *place])
        assert got["aleatoric"][place] == pytest.approx(aleatoric, abs=1e-5)
        assert got["epistemic"][place] == pytest.approx(epistemic, abs=1e-6)
    whole = (1 - (p.mean(0) ** 2).sum(-1)) / (1 - 1 / shape[-1])
    np.testing.assert_allclose(got["total"], whole, atol=1e-6)
    both = got["aleatoric"] + got["epistemic"]
    np.testing.assert_allclose(both, whole, atol=1e-6)
    entropy = stats.entropy(p.mean(0), axis=-1)
    np.testing.assert_allclose(got["predictive_entropy"], entropy, atol=1e-5)
    # The mean divergence of the samples from the mean.
    information = stats.entropy(p, p.mean(0), axis=-1).mean(0)
    np.testing.assert_allclose(got["mutual_information"], information, atol=1e-5)
    assert (got["mutual_information"] >= 0).all()


def test_certain_and_contradicting_samples():
    # Each sample is certain of another class.
    with np.errstate(divide="ignore"):
        contradicting = np.log(np.eye(7))
    most = np.log(7)
    assert measured(contradicting) == {
        "aleatoric": 0,
        "epistemic": pytest.approx(1, abs=1e-6),
        "total": pytest.approx(1, abs=1e-6),
        "predictive_entropy": pytest.approx(most, rel=1e-6),
        "mutual_information": pytest.approx(most, rel=1e-6),
    }
    sure = np.repeat(contradicting[:1], 7, axis=0)
    assert set(map(float, measured(sure).values())) == {0}
    uniform = measured(np.full((7, 7), -most))
    assert uniform["predictive_entropy"] == pytest.approx(most, rel=1e-6)
    for name in ("epistemic", "mutual_information"):
        assert uniform[name] == pytest.approx(0, abs=1e-6)


def test_very_improbable_classes():
    expected = {
        "aleatoric": 0,
        "epistemic": 0.75,
        "total": 0.75,
        "predictive_entropy": np.log(2),
        "mutual_information": np.log(2),
    }
    # Around the smallest normal and subnormal numbers, e**-87.3 and e**-103.3.
    for least in (-50, -87.5, -90, -103, -104, -1e4, -3e38, -np.inf):
        log_p = np.array([[0, least, least], [least, 0, least]], np.float32)
        for name, (value, gradient) in with_gradients(log_p).items():
            assert value == pytest.approx(expected[name], abs=1e-6)
            assert np.isfinite(gradient).all()


def test_rounding_leaves_no_range():
    num_classes = 1000
    # It must not make the most uncertain answer unknown at alpha = 0.
    uniform = measured(np.full((3, 50, num_classes), -np.log(num_classes)))
    assert uniform["aleatoric"] == pytest.approx(np.ones(50), abs=1e-4)
    rng = np.random.default_rng(0)
    for scale in (1e-6, 0.1, 10, 1000):
        logits = rng.normal(0, scale, (3, 50, num_classes))
        got = measured(special.log_softmax(logits, axis=-1))
        for found in (uniform, got):
            for name in ("aleatoric", "epistemic", "total"):
                assert (found[name] >= 0).all()
                assert (found[name] <= unknown_threshold(0)).all()
            assert (found["mutual_information"] >= 0).all()


def test_nan_stays_nan():
    for wrong in (np.full((2, 3), np.nan), [[0.0, -np.inf, -np.inf], [np.nan, 0, 0]]):
        assert np.isnan(list(measured(wrong).values())).all()


@pytest.mark.parametrize("shape", [(4,), (3, 2, 1), (0, 3), ()])
def test_no_samples_of_classes(shape):
    for measure in ALL.values():
        with pytest.raises(ValueError, match="log_probabilities"):
            measure(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (np.zeros((1, 2), int), TypeError),
        ([[0.0, 0.0]], TypeError),
        # Probabilities, or logits.
        (np.array([[0.5, 0.5]], np.float32), ValueError),
    ],
)
def test_no_log_probabilities(given, error):
    with pytest.raises(error, match="log_probabilities"):
        uncertainty.total(given)
    # As far as rounding may put them above 0.
    uncertainty._checked(np.array([[1e-4, np.nan]], np.float32))


def test_the_threshold_of_the_paper():
    assert unknown_threshold(0) == 1
    assert unknown_threshold(1) == 0
    assert unknown_threshold(0.75) == 0.25
    for alpha in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="alpha"):
            unknown_threshold(alpha)
