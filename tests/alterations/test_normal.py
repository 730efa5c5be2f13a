"""Standard normal numbers of 16 random bits each."""

import jax
import numpy as np
import pytest
from scipy import stats

from jaxrob.alterations._noise import normal

from .pictures import random_key

drawn = jax.jit(normal, static_argnums=1)


@pytest.mark.slow
def test_numbers_are_scaled_quantiles_each_as_probable():
    # The middles of 65,536 equally probable parts, scaled to variance 1.
    quantiles = stats.norm.ppf((np.arange(2**16) + 0.5) / 2**16)
    quantiles /= quantiles.std()
    numbers = np.asarray(drawn(random_key(42), (2**19,)), np.float64)
    nearest = np.searchsorted((quantiles[1:] + quantiles[:-1]) / 2, numbers)
    np.testing.assert_allclose(numbers, quantiles[nearest], rtol=1e-5, atol=1e-9)
    assert stats.chisquare(np.bincount(nearest, minlength=2**16)).pvalue > 1e-3
    assert np.abs(numbers).max() <= 4.3250
    # Both halves of a random word.
    halves = numbers.reshape(2, -1)
    for one in (halves, halves**2):
        assert abs(np.corrcoef(one)[0, 1]) < 3.3 / 2**9


@pytest.mark.parametrize("kind", ["raw", "rbg"])
def test_any_key_will_do(kind):
    raw = kind == "raw"
    key = jax.random.PRNGKey(3) if raw else jax.random.key(3, impl="rbg")
    assert stats.kstest(np.asarray(drawn(key, (10_000,))), "norm").pvalue > 1e-3
