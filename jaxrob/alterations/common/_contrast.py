"""Contrast by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._contrast import about_means, channel_means
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import CONTRAST


def contrast(size: int | None = None) -> Alteration:
    """Values drawn towards the mean of their channel, as by flat light.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(CONTRAST, _apply, size=size, prepare=channel_means)


def _apply(image: jax.Array, means: jax.Array, parameters: jax.Array) -> jax.Array:
    return about_means(image, means, parameters[0])
