"""SVI and NUTS against each other, on Bayesian logistic regressions."""

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

STEPS = 1500
OPTIMIZER = optax.adam(optax.cosine_decay_schedule(0.05, STEPS))


class Logistic(linen.Module):
    """Logits 0 and x'w; or with a heteroscedastic head, two fixed scales as well."""

    scales: tuple[float, ...] = ()

    @linen.compact
    def __call__(self, x):
        logit = linen.Dense(1, use_bias=False)(x)
        scales = [jnp.full_like(logit, scale) for scale in self.scales]
        return jnp.concatenate([jnp.zeros_like(logit), logit, *scales], axis=1)


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


@functools.cache
def svi(make, guide):
    data = make()
    settings = {"epochs": STEPS, "batch_size": len(data), "optimizer": OPTIMIZER}
    return bayes.svi(Logistic(), data, key=jax.random.key(0), guide=guide, **settings)


@functools.cache
def nuts(make):
    settings = {"num_warmup": 300, "num_draws": 2500}
    return bayes.nuts(Logistic(), make(), key=jax.random.key(1), **settings)


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


@pytest.mark.parametrize(
    "make, guide", [(correlated, "full_rank"), (orthogonal, "mean_field")]
)
def test_nuts_and_svi_agree(make, guide):
    exact, approximate = nuts(make), svi(make, guide)
    scale = flat(exact.scale)
    deviation = (flat(approximate.location) - flat(exact.location)) / scale
    assert np.abs(deviation).max() < 0.1
    assert np.abs(flat(approximate.scale) / scale - 1).max() < 0.15
    if guide == "full_rank":
        samples = np.reshape(exact.samples["Dense_0"]["kernel"], (-1, 3))
        factor = np.asarray(approximate.factor)
        scale = flat(approximate.scale)
        correlation = factor @ factor.T / np.outer(scale, scale)
        np.testing.assert_allclose(correlation, np.corrcoef(samples.T), atol=0.1)


def test_draws_have_the_moments_of_the_posterior():
    posterior = svi(correlated, "full_rank")
    classifier = bayes.classifier(posterior, 20_000, key=jax.random.key(3))
    draws = np.reshape(classifier.variables["params"]["Dense_0"]["kernel"], (-1, 3))
    covariance = np.asarray(posterior.factor @ posterior.factor.T)
    np.testing.assert_allclose(draws.mean(0), flat(posterior.location), atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.002)
    np.testing.assert_allclose(draws.std(0), flat(posterior.scale), rtol=0.05)
    assert posterior.num_parameters == 3 + 6


def test_fit_by_nuts_of_a_heteroscedastic_head():
    # With much noise in the logits, the same frequencies need larger weights: for
    # small ones by 1 / (4 E[s(1 - s)]), s the sigmoid of that noise.
    data, scale = orthogonal(), 2.0
    classifier = bayes.fit(
        Logistic((scale, scale)),
        data,
        key=jax.random.key(1),
        num_samples=1000,
        inference="nuts",
        head="heteroscedastic",
        noise_draws=16,
        num_warmup=300,
        num_draws=1000,
    )
    s = 1 / (1 + np.exp(-np.random.default_rng(0).normal(0, 3.0, 100_000)))
    factor = 1 / (4 * np.mean(s * (1 - s)))
    weights = np.reshape(classifier.variables["params"]["Dense_0"]["kernel"], (-1, 3))
    plain = flat(nuts(orthogonal).location)
    np.testing.assert_allclose(weights.mean(axis=0), factor * plain, atol=0.15)


@pytest.mark.parametrize("name", ["num_warmup", "num_draws"])
def test_nuts_refuses_bad_values(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
        bayes.nuts(Logistic(), correlated(), key=jax.random.key(0), **{name: 0})
