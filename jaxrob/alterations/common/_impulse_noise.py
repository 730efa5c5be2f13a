"""Impulse noise by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._impulse_noise import (
    ImpulseDraws,
    draw_impulses,
    set_impulses,
)
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import IMPULSE_NOISE


def impulse_noise(size: int | None = None) -> Alteration:
    """Salt and pepper on single values, as of bit errors.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(IMPULSE_NOISE, _apply, size=size, draw=draw_impulses)


def _apply(image: jax.Array, draws: ImpulseDraws, parameters: jax.Array) -> jax.Array:
    return set_impulses(image, draws, parameters[0])
