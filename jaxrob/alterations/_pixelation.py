"""Pixelation."""

import jax
import jax.numpy as jnp

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._resample import separable


def pixelation(lower: float = 1.0, upper: float = 4.0) -> Alteration:
    """Shows the image by larger pixels, as a sensor of lower resolution does.

    The level is the side of a new pixel in pixels of the image, along either axis. As
    many new pixels as fit in are used, so the visible level moves in steps. A new pixel
    is the mean of the pixels whose centres it covers (Pillow's `BOX`).

    Args:
      lower: lowest level, 1: the range must hold the identity.
      upper: highest level, in pixels.

    Returns:
      The alteration; identity 1.

    Raises:
      ValueError: if `lower` is not 1 or the range empty.
    """
    lower, upper = checked_range("pixelation", lower, upper, 1.0, at_least=1)
    return Alteration(
        "pixelation",
        _at_length,
        lower,
        upper,
        identity=1.0,
        unit="px",
        prepare=planes,
        about=About(
            "the side of the new pixels, in pixels of the image",
            range_from="ImageNet-C's severity 5",
            size_matters=True,
        ),
    )


def planes(image: jax.Array) -> jax.Array:
    """Returns `[C, H, W]`, the argument of `pixelated`."""
    check_image("pixelation", image)
    return jnp.moveaxis(image, -1, 0)


def pixelated(planes: jax.Array, share: jax.typing.ArrayLike) -> jax.Array:
    """Returns the image `[H, W, C]` with a share of the pixels along either axis."""
    _, height, width = planes.shape
    return separable(planes, _means(share, height), _means(share, width))


def _at_length(planes: jax.Array, level: jax.Array) -> jax.Array:
    return pixelated(planes, 1 / level)


def _means(share: jax.typing.ArrayLike, size: int) -> jax.Array:
    """Returns `[size, size]`: row i averages the new pixel in which pixel i lies."""
    # Rounding must not turn 0.9 of 100 into 89.
    number = jnp.floor(share * size + 1e-3).astype(jnp.int32)
    number = jnp.clip(number, 1, size)
    pixel = jnp.arange(size, dtype=jnp.int32)
    new = (2 * pixel + 1) * number // (2 * size)
    # The new pixel's ends, rounded to pixels, halves upwards. Pillow does the same up
    # to the rounding of doubles, as for 74 pixels of 299.
    start, stop = ((2 * (new + i) * size + number) // (2 * number) for i in (0, 1))
    inside = (start[:, None] <= pixel) & (pixel < stop[:, None])
    return inside / (stop - start).astype(jnp.float32)[:, None]
