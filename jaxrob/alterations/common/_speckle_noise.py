"""Speckle noise by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._gaussian_noise import draw_noise
from jaxrob.alterations._speckle_noise import add_speckle
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import SPECKLE_NOISE


def speckle_noise(size: int | None = None) -> Alteration:
    """Normal noise in proportion to the value.

    It is one of the four corruptions held back for validation.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(SPECKLE_NOISE, _apply, size=size, draw=draw_noise)


def _apply(image: jax.Array, noise: jax.Array, parameters: jax.Array) -> jax.Array:
    return add_speckle(image, noise, parameters[0])
