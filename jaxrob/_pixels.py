"""Bytes as pixels."""

import jax
import jax.numpy as jnp


def unit_range(levels: jax.Array) -> jax.Array:
    """Levels 0-255 divided by 255, float32, correctly rounded.

    XLA multiplies by 1 / 255, which is an ulp off for half of the levels. With the
    factor split in two, the larger product is exact and the sum is rounded once.
    """
    levels = levels.astype(jnp.float32)
    high = round(2**23 / 255) * 2.0**-23
    return levels * high + levels * (1 / 255 - high)
