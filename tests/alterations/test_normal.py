"""Standard normal numbers of 16 random bits each."""

import jax
import numpy as np
import pytest
from scipy import stats

from jaxrob.alterations._normal import normal

KEY = jax.random.key(42)
# The middles of 65,536 equally probable parts, scaled to variance 1.
QUANTILES = stats.norm.ppf((np.arange(2**16) + 0.5) / 2**16)
QUANTILES /= QUANTILES.std()

drawn = jax.jit(normal, static_argnums=1)


def test_numbers_are_scaled_quantiles_each_as_probable():
    numbers = np.asarray(drawn(KEY, (2**21,)), np.float64)
    nearest = np.searchsorted((QUANTILES[1:] + QUANTILES[:-1]) / 2, numbers)
    np.testing.assert_allclose(numbers, QUANTILES[nearest], rtol=1e-5, atol=1e-9)
    assert stats.chisquare(np.bincount(nearest, minlength=2**16)).pvalue > 1e-3
    assert np.abs(numbers).max() <= 4.3250


@pytest.mark.parametrize("shape", [(), (1,), (3, 5, 3), (28, 28, 1)])
def test_a_key_gives_the_same_in_a_batch(shape):
    keys = jax.random.split(KEY, 4)
    many = jax.jit(jax.vmap(lambda key: normal(key, shape)))(keys)
    assert many.shape == (4, *shape)
    for key, numbers in zip(keys, many):
        np.testing.assert_array_equal(drawn(key, shape), numbers)


def test_halves_of_a_word_are_independent():
    numbers = np.asarray(drawn(KEY, (2, 2**19)))
    assert abs(np.corrcoef(numbers)[0, 1]) < 3.3 / 2**9.5
    assert abs(np.corrcoef(numbers**2)[0, 1]) < 3.3 / 2**9.5


@pytest.mark.parametrize("key", [jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")])
def test_any_key_will_do(key):
    assert stats.kstest(np.asarray(drawn(key, (10_000,))), "norm").pvalue > 1e-3
