"""SVI, NUTS and exact posteriors of Bayesian logistic regressions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen
from jax.flatten_util import ravel_pytree

import jaxrob
from jaxrob import bayes

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
