"""Contrast."""

import jax
import jax.numpy as jnp

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range


def contrast(lower: float = 0.05, upper: float = 1.0) -> Alteration:
    """Draws every value towards the mean of its channel, as haze or flat light does.

    The level is the factor of the distance to the mean; 0 leaves a single colour, and
    levels above 1 raise the contrast. The result is clipped to [0, 1].

    Args:
      lower: lowest factor, at least 0 and at most 1.
      upper: highest factor, at least 1.

    Returns:
      The alteration; identity 1.

    Raises:
      ValueError: if `lower` is below 0 or the range does not hold 1.
    """
    lower, upper = checked_range("contrast", lower, upper, 1.0, at_least=0)
    return Alteration(
        "contrast",
        _at_factor,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        prepare=_with_means,
        about=About(
            "of the distance to the mean of each channel",
            range_from="ImageNet-C's severity 5",
        ),
    )


def channel_means(image: jax.Array) -> jax.Array:
    """Returns the mean of each channel, `[C]`."""
    return image.mean((0, 1))


def about_means(
    image: jax.Array, means: jax.Array, factor: jax.typing.ArrayLike
) -> jax.Array:
    """Scales the image's distance to the means by a factor; clips to [0, 1]."""
    # Not the means plus the product: this form is exactly the image at a factor of 1.
    return jnp.clip(image * factor + means * (1 - factor), 0.0, 1.0)


def _with_means(image: jax.Array) -> tuple[jax.Array, jax.Array]:
    check_image("contrast", image)
    return image, channel_means(image)


def _at_factor(
    image_and_means: tuple[jax.Array, jax.Array], level: jax.Array
) -> jax.Array:
    return about_means(*image_and_means, level)
