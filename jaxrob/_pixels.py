"""Conversion of bytes to pixels."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.warnings import warn


@jax.jit
def as_floats(images: Any) -> jax.Array:
    """Converts images to float32 in [0, 1]; bytes are divided by 255."""
    images = jnp.asarray(images)
    if images.dtype == jnp.uint8:
        return unit_range(images)
    return images.astype(jnp.float32)


def unit_range(levels: jax.Array) -> jax.Array:
    """Divides levels 0-255 by 255, in float32, correctly rounded."""
    # XLA's own division multiplies by 1 / 255, and is an ulp off at half of the levels.
    # Of the factor split in two, the larger product is exact.
    levels = levels.astype(jnp.float32)
    high = round(2**23 / 255) * 2.0**-23
    return levels * high + levels * (1 / 255 - high)


def warn_beyond_pixels(epsilon: float, norm: str) -> None:
    """Warns if an L-infinity ball holds every image, whatever its centre."""
    if norm == "linf" and epsilon > 1:
        warn(
            f"epsilon is {epsilon:g}, but pixels lie in [0, 1], so that every image is "
            f"in the ball. For pixels of 0-255 divide by 255: epsilon={epsilon:g}/255."
        )
