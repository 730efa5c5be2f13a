import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxrob import uncertainty
from jaxrob.uncertainty import unknown_threshold

quick = settings(deadline=None, max_examples=30)
log_softmax = jax.jit(jax.nn.log_softmax)
# Compiled as a whole, because each operation alone takes as long.
ALL = aleatoric, epistemic, total, predictive_entropy, mutual_information = [
    jax.jit(measure)
    for measure in (
        uncertainty.aleatoric,
        uncertainty.epistemic,
        uncertainty.total,
        uncertainty.predictive_entropy,
        uncertainty.mutual_information,
    )
]


def some_samples(seed, shape, concentration=0.5):
    """Draws probabilities, and their logarithms in float32; some are 0."""
    rng = np.random.default_rng(seed)
    *leading, num_classes = shape
    p = rng.dirichlet(np.full(num_classes, concentration), leading)
    p = np.where(rng.random(shape) < 0.2, 0, p) + 1e-300
    p = p / p.sum(-1, keepdims=True)
    p = np.where(p < 1e-200, 0, p)
    with np.errstate(divide="ignore"):
        return p, np.log(p).astype(np.float32)


def kwon(samples):
    """Returns the trace of mean_t(diag(p_t) - p_t p_t'), over that at uniform p."""
    num_classes = samples.shape[-1]

    def trace(samples):
        total = np.zeros((num_classes, num_classes))
        for p in samples:
            total += np.diag(p) - np.outer(p, p)
        return np.trace(total / len(samples))

    return trace(samples) / trace(np.full((1, num_classes), 1 / num_classes))


@pytest.mark.parametrize("num_samples", [1, 4])
@pytest.mark.parametrize("num_classes", [2, 5])
@quick
@given(seed=st.integers(0, 2**32))
def test_against_the_matrices(num_samples, num_classes, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(num_classes, 0.5), (num_samples, 3))
    with np.errstate(divide="ignore"):
        got = aleatoric(np.log(p).astype(np.float32))
    assert got.shape == (3,)
    expected = [kwon(p[:, image]) for image in range(3)]
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("num_samples", [1, 4])
@pytest.mark.parametrize("num_classes", [2, 5])
@quick
@given(seed=st.integers(0, 2**32))
def test_epistemic_against_the_matrices(num_samples, num_classes, seed):
    p, log_p = some_samples(seed, (num_samples, 3, num_classes))
    largest = 1 - 1 / num_classes
    for image in range(3):
        deviations = p[:, image] - p[:, image].mean(axis=0)
        matrix = sum(np.outer(d, d) for d in deviations) / num_samples
        got = epistemic(log_p[:, image])
        assert got == pytest.approx(np.trace(matrix) / largest, abs=1e-6)
        if num_samples == 1:
            assert got == 0


@pytest.mark.parametrize("num_classes", [2, 10, 1000])
@quick
@given(seed=st.integers(0, 2**32), num_samples=st.sampled_from([1, 10]))
def test_both_parts_are_the_total(num_classes, seed, num_samples):
    p, log_p = some_samples(seed, (num_samples, 4, num_classes))
    expected = (1 - (p.mean(0) ** 2).sum(-1)) / (1 - 1 / num_classes)
    got = np.asarray(total(log_p))
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(aleatoric(log_p) + epistemic(log_p), got, atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 10])
@quick
@given(seed=st.integers(0, 2**32), num_samples=st.sampled_from([1, 5]))
def test_entropies_are_scipys(num_classes, seed, num_samples):
    p, log_p = some_samples(seed, (num_samples, 4, num_classes))
    entropy = stats.entropy(p.mean(0), axis=-1)
    np.testing.assert_allclose(predictive_entropy(log_p), entropy, atol=1e-5)
    # The mean divergence of the samples from the mean.
    information = stats.entropy(p, p.mean(0), axis=-1).mean(0)
    got = np.asarray(mutual_information(log_p))
    np.testing.assert_allclose(got, information, atol=1e-5)
    assert (got >= 0).all()
    assert (got <= np.log(min(num_samples, num_classes)) + 1e-6).all()


@pytest.mark.parametrize("num_classes", [2, 7, 10])
def test_certain_and_contradicting_samples(num_classes):
    # Each sample is certain of another class.
    with np.errstate(divide="ignore"):
        contradicting = np.log(np.eye(num_classes, dtype=np.float32))
    assert aleatoric(contradicting) == 0
    assert epistemic(contradicting) == pytest.approx(1, abs=1e-6)
    assert total(contradicting) == pytest.approx(1, abs=1e-6)
    most = pytest.approx(np.log(num_classes), rel=1e-6)
    assert predictive_entropy(contradicting) == most
    assert mutual_information(contradicting) == most

    sure = np.repeat(contradicting[:1], 3, axis=0)
    for measure in ALL:
        assert measure(sure) == 0

    uniform = np.full((3, num_classes), -np.log(num_classes), np.float32)
    assert predictive_entropy(uniform) == most
    for measure in (epistemic, mutual_information):
        assert measure(uniform) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (aleatoric, 0),
        (epistemic, 0.75),
        (total, 0.75),
        (predictive_entropy, np.log(2)),
        (mutual_information, np.log(2)),
    ],
)
def test_very_improbable_classes(measure, expected):
    with_gradient = jax.jit(jax.value_and_grad(measure))
    # Around the smallest normal and subnormal numbers, e**-87.3 and e**-103.3.
    for least in (-50, -87.5, -90, -103, -104, -1e4, -3e38, -np.inf):
        log_p = np.array([[0, least, least], [least, 0, least]], np.float32)
        value, gradient = with_gradient(log_p)
        assert value == pytest.approx(expected, abs=1e-6)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("measure", ALL)
def test_gradients_of_logits_by_differences(measure):
    logits = np.random.default_rng(0).normal(0, 2, (4, 3, 5)).astype(np.float32)

    @jax.jit
    def whole(logits):
        return measure(jax.nn.log_softmax(logits)).sum()

    gradient = np.asarray(jax.grad(whole)(logits))
    direction = np.random.default_rng(1).normal(size=logits.shape).astype(np.float32)
    step = 1e-2
    rise = whole(logits + step * direction) - whole(logits - step * direction)
    slope = float(rise) / (2 * step)
    assert (gradient * direction).sum() == pytest.approx(slope, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ALL)
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 2, 4)])
def test_under_jit_and_vmap(measure, shape):
    _, log_p = some_samples(0, shape)
    expected = measure.__wrapped__(log_p)
    assert expected.shape == shape[1:-1] and expected.dtype == np.float32
    np.testing.assert_allclose(measure(log_p), expected, atol=1e-6)
    many = np.stack([log_p, log_p[..., ::-1]])
    mapped = jax.vmap(measure)(many)
    np.testing.assert_allclose(mapped[0], expected, atol=1e-6)
    np.testing.assert_allclose(mapped[1], expected, atol=1e-6)


@pytest.mark.parametrize("measure", ALL)
@pytest.mark.parametrize("shape", [(4,), (3, 1), (3, 2, 1), ()])
def test_no_samples_of_classes(measure, shape):
    with pytest.raises(ValueError, match=r"log_probabilities must have the shape"):
        measure(np.zeros(shape, np.float32))


def test_disagreement_is_not_aleatoric():
    infinity = np.inf
    sure = np.array([[0, -infinity, -infinity], [-infinity, 0, -infinity]])
    assert aleatoric(sure) == 0
    in_doubt = np.array([[0, -infinity, -infinity], [np.log(0.5)] * 2 + [-infinity]])
    assert aleatoric(in_doubt) == pytest.approx(0.25 / (2 / 3))


@pytest.mark.parametrize("num_classes", [2, 3, 6, 7, 10, 14, 100, 1000])
def test_the_ends_of_the_range(num_classes):
    uniform = aleatoric(log_softmax(np.zeros((3, 1, num_classes), np.float32)))
    assert uniform == pytest.approx(1, abs=1e-4)
    # Rounding must not make the most uncertain answer unknown at alpha = 0.
    assert uniform <= unknown_threshold(0)
    certain = np.full((1, num_classes), -np.inf)
    certain[0, 1] = 0
    assert aleatoric(certain) == 0


@quick
@given(st.integers(0, 2**32), st.sampled_from([1e-6, 0.1, 10, 1000]))
def test_never_outside_its_range(seed, scale):
    logits = np.random.default_rng(seed).normal(0, scale, (4, 200, 10))
    log_probabilities = log_softmax(logits.astype(np.float32))
    for measure in (aleatoric, epistemic, total):
        got = np.asarray(measure(log_probabilities))
        assert ((got >= 0) & (got <= 1)).all()


@pytest.mark.parametrize("measure", ALL)
def test_nan_stays_nan(measure):
    assert np.isnan(measure(np.full((1, 3), np.nan)))
    assert np.isnan(measure(np.array([[0.0, -np.inf], [np.nan, 0.0]])))


def test_the_threshold_of_the_paper():
    assert unknown_threshold(0) == 1
    assert unknown_threshold(1) == 0
    assert unknown_threshold(0.75) == 0.25
    for alpha in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
            unknown_threshold(alpha)
