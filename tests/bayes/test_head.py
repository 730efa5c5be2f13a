"""Heads: from outputs to log-probabilities, against slow Monte Carlo in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from jaxrob.bayes._model import checked_head, log_probabilities, normals

RANDOM = np.random.default_rng(0)
OUTPUTS = np.float32(RANDOM.normal(size=(6, 2 * 5)) * 2)
MEAN, RAW_SCALE = OUTPUTS[:, :5], OUTPUTS[:, 5:]


def random_bits(seed, *shape):
    return np.random.default_rng(seed).integers(0, 2**32, shape, np.uint32)


@functools.cache
def reference(num_draws=60_000):
    """`[B, K]`: the mean over draws of softmax(Normal(mean, softplus(scale)))."""
    noise = RANDOM.normal(size=(num_draws, 5))
    scale = np.log1p(np.exp(RAW_SCALE))
    return np.stack(
        [special.softmax(m + s * noise, axis=1).mean(0) for m, s in zip(MEAN, scale)]
    )


@functools.cache
def estimates(noise_draws, repeats):
    """`[repeats, B, K]`: the head's probabilities with so many draws."""

    def probabilities(bits):
        return jnp.exp(log_probabilities(OUTPUTS, normals(bits, noise_draws)))

    bits = random_bits(noise_draws, repeats, len(OUTPUTS), 5)
    return np.asarray(jax.jit(jax.vmap(probabilities))(bits))


def test_plain_outputs_are_logits():
    log_p = jax.jit(lambda: log_probabilities(OUTPUTS, None))()
    np.testing.assert_allclose(log_p, special.log_softmax(OUTPUTS, axis=1), atol=1e-6)


def test_many_draws_agree_with_monte_carlo():
    (p,) = estimates(4096, 1)
    np.testing.assert_allclose(p, reference(), atol=0.005)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("noise_draws", [1, 8])
def test_few_draws_have_no_bias(noise_draws):
    p = estimates(noise_draws, 10_000)
    error = 5 * np.std(p, axis=0) / np.sqrt(len(p)) + 0.002
    assert (np.abs(p.mean(axis=0) - reference()) < error).all()


def test_eight_draws_are_worth_thirty_independent_ones():
    noise = RANDOM.normal(size=(2000, 30, 1, 5))
    scale = np.log1p(np.exp(RAW_SCALE))
    independent = special.softmax(MEAN + scale * noise, axis=-1).mean(axis=1)
    variance = np.var(estimates(8, 10_000), axis=0)
    assert variance.mean() < np.var(independent, axis=0).mean()


def test_each_draw_is_standard_normal():
    bits = random_bits(3, 20_000, 3)
    noise = np.asarray(jax.jit(lambda bits: normals(bits, 5))(bits))
    assert noise.shape == (5, 3, 20_000)
    for draw in noise:
        for coordinate in draw:
            assert stats.kstest(coordinate, "norm").pvalue > 1e-4
        np.testing.assert_allclose(np.corrcoef(draw), np.eye(3), atol=0.04)
    np.testing.assert_array_equal(noise[0], -noise[3])


def test_the_extreme_bits_are_finite():
    noise = np.asarray(jax.jit(lambda: normals(np.uint32([[0, 2**32 - 1]]), 8))())
    assert np.isfinite(noise).all() and np.abs(noise).max() < 6


def test_tiny_probabilities_keep_their_logarithm():
    outputs = np.float32([[0.0, -300.0, -20.0, -20.0]])
    bits = random_bits(0, 1, 2)
    log_p = jax.jit(lambda: log_probabilities(outputs, normals(bits, 8)))()
    np.testing.assert_allclose(log_p, [[0, -300]], atol=1e-4)


@pytest.mark.parametrize(
    "name, noise_draws, wrong", [("gaussian", 8, "head"), ("plain", 0, "noise_draws")]
)
def test_bad_input(name, noise_draws, wrong):
    with pytest.raises(ValueError, match=wrong):
        checked_head(name, noise_draws)
