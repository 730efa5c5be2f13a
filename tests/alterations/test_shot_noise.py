import jax
import numpy as np
import pytest
from scipy.stats import poisson

from jaxrob.alterations import shot_noise
from jaxrob.alterations._shot_noise import poisson_quantile, shot_draws

COUNT = 100_000
UNIFORM = np.float32(np.random.RandomState(0).randint(0, 2**23, COUNT)) / 2**23
VALUES = np.float32(np.random.RandomState(1).rand(COUNT))
NOISE = jax.jit(shot_noise())


@jax.jit
def counts(mean, uniform):
    return poisson_quantile(mean, shot_draws(uniform))


@pytest.mark.parametrize(
    "photons",
    [0.5, 12, 500]
    + [pytest.param(mean, marks=pytest.mark.slow) for mean in (3, 25, 60, 100)],
)
def test_counts_are_the_poisson_distributions_quantiles(photons):
    mean = VALUES * np.float32(photons)
    found = np.asarray(counts(mean, UNIFORM))
    expected = np.maximum(poisson.ppf(np.float64(UNIFORM), np.float64(mean)), 0)
    # For values next to a step, float32 cannot decide the side.
    assert np.sum(found != expected) <= 5
    assert np.abs(found - expected).max() <= 1


def test_the_ends_of_both_axes_have_counts():
    uniform = np.float32([0.0, 2.0**-23, 0.5, 1 - 2.0**-23])
    mean = np.float32([0.0, 1e-30, 1e-3, 10.0, 88.0, 1e4, 1e7])[:, None]
    found = np.asarray(counts(mean, uniform))
    assert np.isfinite(found).all() and (found >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all() and (found[0] == 0).all()
    expected = poisson.ppf(np.float64(uniform[1:]), np.float64(mean[:5]))
    np.testing.assert_array_equal(found[:5, 1:], expected)
    expected = poisson.ppf(np.float64(uniform[1:]), np.float64(mean[5:]))
    np.testing.assert_allclose(found[5:, 1:], expected, rtol=1e-6, atol=1)


@pytest.mark.parametrize("level", [1 / 3, 0.1, 0.01])
def test_mean_and_variance(level):
    image = np.full((200, 200, 1), 0.25, np.float32)
    found = np.float64(NOISE(image, level, jax.random.key(0)))
    # The level times the value; with few photons the part above 1 is clipped.
    if level < 0.2:
        np.testing.assert_allclose(found.mean(), 0.25, atol=4 * found.std() / 200)
        np.testing.assert_allclose(found.var(), 0.25 * level, rtol=0.05)
    assert np.unique(np.round(found / level, 3)).size < 60


def test_no_noise_and_little_noise():
    image = np.random.default_rng(1).random((16, 16, 3), np.float32)
    noise = jax.jit(shot_noise(0.0, 1.0))
    key = jax.random.key(2)
    np.testing.assert_array_equal(noise(image, 0.0, key), image)
    for level in (1e-12, 1e-8, 1e-5):
        found = noise(image, level, key)
        assert np.abs(found - image).max() < 6 * np.sqrt(level) + 1e-6
    total = jax.grad(lambda image, level: noise(image, level, key).sum(), (0, 1))
    gradient = jax.jit(total)
    for level in (0.0, 1e-6, 0.5):
        assert all(np.isfinite(part).all() for part in gradient(image, level))
