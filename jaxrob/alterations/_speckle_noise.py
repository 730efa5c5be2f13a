"""Speckle noise."""

import jax

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._gaussian_noise import add_noise, draw_noise


def speckle_noise(lower: float = 0.0, upper: float = 0.6) -> Alteration:
    """Normal noise in proportion to the value, as in coherent light, radar or sound.

    The level is the noise's standard deviation as a share of the value: `x + level x n`
    with a standard normal n for each value, clipped to [0, 1].

    Args:
      lower: lowest level, 0: the range must hold the identity.
      upper: highest level.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0 or the range empty.
    """
    lower, upper = checked_range("speckle_noise", lower, upper, 0.0, at_least=0)
    return Alteration(
        "speckle noise",
        _at_share,
        lower,
        upper,
        identity=0.0,
        unit="share of the value",
        stochastic=True,
        prepare=_with_noise,
        about=About(
            "the noise's standard deviation", range_from="ImageNet-C's severity 5"
        ),
    )


def add_speckle(
    image: jax.Array, noise: jax.Array, scale: jax.typing.ArrayLike
) -> jax.Array:
    """Adds to the image itself times noise of a standard deviation; clips to [0, 1]."""
    return add_noise(image, image * noise, scale)


def _with_noise(image: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    check_image("speckle_noise", image)
    return image, draw_noise(image, key)


def _at_share(
    image_and_noise: tuple[jax.Array, jax.Array], level: jax.Array
) -> jax.Array:
    return add_speckle(*image_and_noise, level)
