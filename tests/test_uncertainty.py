import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob.uncertainty import aleatoric, unknown_threshold

quick = settings(deadline=None, max_examples=30)
log_softmax = jax.jit(jax.nn.log_softmax)


def kwon(samples):
    """The trace of mean_t(diag(p_t) - p_t p_t'), over its value at uniform p."""
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
    got = np.asarray(aleatoric(log_softmax(logits.astype(np.float32))))
    assert ((got >= 0) & (got <= 1)).all()


def test_nan_stays_nan():
    assert np.isnan(aleatoric(np.full((1, 3), np.nan)))


def test_the_threshold_of_the_paper():
    assert unknown_threshold(0) == 1
    assert unknown_threshold(1) == 0
    assert unknown_threshold(0.75) == 0.25
    for alpha in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
            unknown_threshold(alpha)
