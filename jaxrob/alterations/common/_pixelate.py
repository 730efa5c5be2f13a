"""Pixelation by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._pixelation import pixelated, planes
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import PIXELATE


def pixelate(size: int | None = None) -> Alteration:
    """Larger pixels, as of a sensor of lower resolution.

    The number of pixels is an integer: the picture moves by steps.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(PIXELATE, _apply, size=size, prepare=planes)


def _apply(image: jax.Array, planes: jax.Array, parameters: jax.Array) -> jax.Array:
    return pixelated(planes, parameters[0])
