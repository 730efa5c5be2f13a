"""Saturation by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._saturation import saturated
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import SATURATE


def saturate(size: int | None = None) -> Alteration:
    """Paler colours at severities 1 and 2, more vivid ones from 3 on.

    Not monotone: accuracy may rise from severity 2 to 3. It is one of the four
    corruptions held back for validation.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration, of images with three channels; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`; when applied, if the image
        has no three channels.
    """
    return corruption(SATURATE, _apply, size=size, in_colour=True)


def _apply(image: jax.Array, prepared: None, parameters: jax.Array) -> jax.Array:
    return saturated(image, *parameters)
