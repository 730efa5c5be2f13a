"""SVI, NUTS, exact posteriors of logistic regressions, and heteroscedastic heads."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen
from jax.flatten_util import ravel_pytree
from scipy import special, stats

import jaxrob
from jaxrob import bayes
from jaxrob.bayes._model import checked_head, log_probabilities, normals

STEPS = 1000


class Logistic(linen.Module):
    """Logits 0 and x'w."""

    @linen.compact
    def __call__(self, x):
        logit = linen.Dense(1, use_bias=False)(x)
        return jnp.concatenate([jnp.zeros_like(logit), logit], axis=1)


def regression(design, weights):
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(-design @ weights))
    return jaxrob.Dataset(np.float32(design), np.int32(rng.random(len(p)) < p))


def correlated():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(300, 3)) @ [[1, 0.6, 0.3], [0, 0.8, 0.4], [0, 0, 0.9]]
    return regression(design, np.array([1.0, -0.5, 0.3]))


def orthogonal():
    """Each input has one coordinate, so that the posterior's are independent."""
    return regression(np.repeat(2 * np.eye(3), 150, axis=0), np.array([0.6, -0.4, 0.1]))


def exact():
    """Means and standard deviations of `orthogonal`, on a grid."""
    grid = np.linspace(-4, 4, 4001)
    p = 1 / (1 + np.exp(-2 * grid))
    ones = orthogonal().labels.reshape(3, 150).sum(axis=1, keepdims=True)
    log_density = ones * np.log(p) + (150 - ones) * np.log(1 - p) - grid**2 / 2
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    density /= density.sum(axis=1, keepdims=True)
    mean = density @ grid
    return mean, np.sqrt(density @ grid**2 - mean**2)


@functools.cache
def svi(make, guide):
    data = make()
    return bayes.svi(
        Logistic(),
        data,
        key=jax.random.key(0),
        guide=guide,
        epochs=STEPS,
        batch_size=len(data),
        num_particles=16,
        optimizer=optax.adam(optax.cosine_decay_schedule(0.03, STEPS)),
    )


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


def assert_close(location, scale, expected_location, expected_scale):
    deviation = (location - expected_location) / expected_scale
    assert np.abs(deviation).max() < 0.1
    assert np.abs(scale / expected_scale - 1).max() < 0.15


@pytest.mark.slow
def test_nuts_and_the_full_rank_guide_agree():
    settings = {"num_warmup": 200, "num_draws": 1000, "key": jax.random.key(1)}
    nuts = bayes.nuts(Logistic(), correlated(), **settings)
    guide = svi(correlated, "full_rank")
    assert_close(*map(flat, (guide.location, guide.scale, nuts.location, nuts.scale)))
    samples = np.reshape(nuts.samples["Dense_0"]["kernel"], (-1, 3))
    factor = np.asarray(guide.factor) / flat(guide.scale)[:, None]
    np.testing.assert_allclose(factor @ factor.T, np.corrcoef(samples.T), atol=0.1)


@pytest.mark.slow
def test_the_mean_field_guide_is_exact_where_parameters_are_independent():
    guide = svi(orthogonal, "mean_field")
    assert_close(flat(guide.location), flat(guide.scale), *exact())


@pytest.mark.slow
def test_draws_have_the_moments_of_the_posterior():
    posterior = svi(correlated, "full_rank")
    classifier = bayes.classifier(posterior, 20_000, key=jax.random.key(3))
    draws = np.reshape(classifier.variables["params"]["Dense_0"]["kernel"], (-1, 3))
    covariance = np.asarray(posterior.factor @ posterior.factor.T)
    np.testing.assert_allclose(draws.mean(0), flat(posterior.location), atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.002)
    np.testing.assert_allclose(draws.std(0), flat(posterior.scale), rtol=0.05)
    assert posterior.num_parameters == 3 + 6


@pytest.mark.parametrize("name", ["num_warmup", "num_draws"])
def test_nuts_refuses_bad_values(name):
    with pytest.raises(ValueError, match=name):
        bayes.nuts(Logistic(), correlated(), key=jax.random.key(0), **{name: 0})


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
    # The extreme bits.
    noise = np.asarray(jax.jit(lambda: normals(np.uint32([[0, 2**32 - 1]]), 8))())
    assert np.isfinite(noise).all() and np.abs(noise).max() < 6


def test_plain_outputs_are_logits_and_tiny_probabilities_keep_their_logarithm():
    log_p = jax.jit(lambda: log_probabilities(OUTPUTS, None))()
    np.testing.assert_allclose(log_p, special.log_softmax(OUTPUTS, axis=1), atol=1e-6)
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
