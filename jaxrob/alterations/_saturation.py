"""Saturation."""

import jax
import jax.numpy as jnp

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_colours
from jaxrob.alterations._checks import checked_range


def saturation(lower: float = 0.0, upper: float = 2.0) -> Alteration:
    """Makes colours paler or more vivid, at the same hue and value (V of HSV).

    The level is the factor of the saturation, S of HSV, which stays at most 1. At 0
    each pixel is as bright as its brightest channel, and grey.

    Args:
      lower: lowest factor, at least 0 and at most 1.
      upper: highest factor, at least 1.

    Returns:
      The alteration, of images with three channels; identity 1.

    Raises:
      ValueError: if `lower` is below 0 or the range does not hold 1; when applied, if
        the image has no three channels.
    """
    lower, upper = checked_range("saturation", lower, upper, 1.0, at_least=0)
    return Alteration(
        "saturation",
        _at_factor,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        about=About(
            "of the saturation, S of HSV; 0 is grey",
            range_from="from grey to ImageNet-C's severity 3",
        ),
    )


def saturated(
    image: jax.Array, factor: jax.typing.ArrayLike, offset: jax.typing.ArrayLike
) -> jax.Array:
    """Multiplies the image's saturation by a factor and adds an offset."""
    # The saturation is clipped to [0, 1]. Grey has the hue of red.
    value = image.max(-1, keepdims=True)
    spread = value - image.min(-1, keepdims=True)
    # Grey pixels have no hue, and black ones no saturation: 1 avoids NaN in both.
    is_grey = spread == 0
    of_grey = jnp.clip(jnp.asarray(offset, jnp.float32), 0.0, 1.0)
    red = value * (1 - of_grey * jnp.array([0, 1, 1], jnp.float32))
    before = jnp.where(is_grey, 1.0, spread) / jnp.where(value > 0, value, 1.0)
    before = jnp.minimum(before, 1.0)
    more = (jnp.clip(factor * before + offset, 0.0, 1.0) - before) / before
    # Where nothing is added this is exactly the image, however XLA divides.
    coloured = jnp.where(is_grey, red, image + (image - value) * more)
    return jnp.clip(coloured, 0.0, 1.0)


def _at_factor(image: jax.Array, level: jax.Array) -> jax.Array:
    check_colours("saturation", image)
    return saturated(image, level, 0.0)
