"""Shot noise by severity."""

import jax

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._shot_noise import ShotDraws, count_photons, draw_shots
from jaxrob.alterations.common._corruption import corruption
from jaxrob.alterations.common._parameters import SHOT_NOISE


def shot_noise(size: int | None = None) -> Alteration:
    """Counts of photons, as of a sensor in low light.

    Args:
      size: whose parameters it takes; see `jaxrob.alterations.common`.

    Returns:
      The alteration; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`.
    """
    return corruption(SHOT_NOISE, _apply, size=size, draw=draw_shots)


def _apply(image: jax.Array, draws: ShotDraws, parameters: jax.Array) -> jax.Array:
    return count_photons(image, draws, parameters[0])
