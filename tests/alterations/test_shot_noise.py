import jax
import numpy as np
import pytest
from scipy.stats import poisson

from jaxrob.alterations import shot_noise
from jaxrob.alterations._noise import poisson_quantile, shot_draws

from .pictures import apply, random_key

COUNT = 10_000
NOISE = shot_noise(0.0, 1.0)


@jax.jit
def counts(mean, uniform):
    return poisson_quantile(mean, shot_draws(uniform))


@pytest.mark.slow
@pytest.mark.parametrize("photons", [0.5, 3, 12, 25, 60, 500])
def test_counts_are_the_poisson_distributions_quantiles(photons):
    uniform = np.float32(np.random.RandomState(0).randint(0, 2**23, COUNT)) / 2**23
    mean = np.float32(np.random.RandomState(1).rand(COUNT)) * np.float32(photons)
    found = np.asarray(counts(mean, uniform))
    expected = np.maximum(poisson.ppf(np.float64(uniform), np.float64(mean)), 0)
    # For values next to a step, float32 cannot decide the side.
    assert np.sum(found != expected) <= 1
    assert np.abs(found - expected).max() <= 1


def test_the_ends_of_both_axes_have_counts():
    uniform = np.float32([0.0, 2.0**-23, 0.5, 1 - 2.0**-23])
    mean = np.float32([0.0, 1e-30, 1e-3, 10.0, 88.0, 1e4, 1e7])[:, None]
    # Of the other test's shape, whose program it takes.
    pairs = (np.resize(one, COUNT) for one in np.broadcast_arrays(mean, uniform))
    found = np.asarray(counts(*pairs))[:28].reshape(7, 4)
    assert np.isfinite(found).all() and (found >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all() and (found[0] == 0).all()
    expected = poisson.ppf(np.float64(uniform[1:]), np.float64(mean[:5]))
    np.testing.assert_array_equal(found[:5, 1:], expected)
    expected = poisson.ppf(np.float64(uniform[1:]), np.float64(mean[5:]))
    np.testing.assert_allclose(found[5:, 1:], expected, rtol=1e-6, atol=1)


def test_the_variance_is_the_level_times_the_value():
    image, level = np.full((200, 200, 1), 0.25, np.float32), 0.1
    found = np.float64(apply(NOISE, image, level, random_key(0)))
    np.testing.assert_allclose(found.mean(), 0.25, atol=4 * found.std() / 200)
    np.testing.assert_allclose(found.var(), 0.25 * level, rtol=0.05)
    assert np.unique(np.round(found / level, 3)).size < 60
    # No noise, and little noise.
    np.testing.assert_array_equal(apply(NOISE, image, 0.0, random_key(0)), image)
    for level in (1e-12, 1e-8, 1e-5):
        found = apply(NOISE, image, level, random_key(0))
        assert np.abs(found - image).max() < 6 * np.sqrt(level) + 1e-6


def test_nan_gives_no_photon_count():
    image = np.full((200, 200, 1), 0.5, np.float32)
    image[3, 4, 0] = np.nan
    found = np.asarray(apply(NOISE, image, 1.0, random_key(0)))
    assert np.argwhere(np.isnan(found)).tolist() == [[3, 4, 0]]
