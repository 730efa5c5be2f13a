"""Standard normal numbers, as cheap as random bits allow."""

import math

import jax
import jax.numpy as jnp

from jaxrob._keys import random_words

# The standard deviation of the 2**16 numbers that halves of words are mapped to.
_SPREAD = 0.99998986


def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draws standard normal numbers with 16 random bits each."""
    # Random bits take a CPU, GPU or TPU most of the time of a normal number, so half a
    # word has to do: 65,536 equally probable numbers, the quantiles in the middle of as
    # many equal parts, scaled to variance 1. The largest is 4.325, which a normal
    # number exceeds with a probability of 1.5e-5, and the kurtosis is 2.9992. The bits
    # are the same on all platforms.
    size = math.prod(shape)
    words = random_words(key, -(-size // 2))
    # Each half by itself: XLA does not vectorise the quantiles of joined halves, which
    # take a CPU seven times as long.
    numbers = jnp.stack([_quantiles(words >> 16), _quantiles(words & 0xFFFF)])
    return numbers.reshape(-1)[:size].reshape(shape)


def _quantiles(halves: jax.Array) -> jax.Array:
    """Maps whole numbers below 2**16, equally probable, to standard normal ones."""
    # Through int32, because CPUs convert signed integers faster.
    middle = (halves.astype(jnp.int32).astype(jnp.float32) + 0.5) * 2**-15 - 1
    return math.sqrt(2) / _SPREAD * jax.scipy.special.erfinv(middle)
