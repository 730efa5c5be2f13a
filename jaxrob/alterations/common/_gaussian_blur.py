"""Gaussian blur by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._gaussian_blur import gaussian_blur as of_radius
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import GAUSSIAN_BLUR

# The benchmark cuts the Gaussian off at 4 standard deviations, this one at 5: a
# difference of 6e-5.
_BLUR = of_radius(0.0, 6.5)


def gaussian_blur(size: int | None = None) -> Alteration:
    """Convolution with a Gaussian, as of a lens out of focus.

    It is one of the four corruptions held back for validation.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(GAUSSIAN_BLUR, _apply, size=size, prepare=_BLUR.prepared)


def _apply(image: jax.Array, prepared: tuple, parameters: jax.Array) -> jax.Array:
    return _BLUR.at_level(prepared, parameters[0])
