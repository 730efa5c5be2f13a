"""Gaussian noise by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._gaussian_noise import add_noise, draw_noise
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import GAUSSIAN_NOISE


def gaussian_noise(size: int | None = None) -> Alteration:
    """Normal noise on every value, as of a sensor in low light.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(GAUSSIAN_NOISE, _apply, size=size, draw=draw_noise)


def _apply(image: jax.Array, noise: jax.Array, parameters: jax.Array) -> jax.Array:
    return add_noise(image, noise, parameters[0])
