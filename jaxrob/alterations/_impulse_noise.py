"""Impulse noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, as_given, check_image
from jaxrob.alterations._checks import checked_range


class ImpulseDraws(NamedTuple):
    """The random draws for each of the image's values.

    Attributes:
      uniform: in [0, 1), the share of values above which this one is hit.
      is_salt: whether a hit sets it to 1, else to 0.
    """

    uniform: jax.Array
    is_salt: jax.Array


def impulse_noise(lower: float = 0.0, upper: float = 0.3) -> Alteration:
    """Salt and pepper: sets a share of the values to 0 or 1, as bit errors do.

    The level is the share. Each value of each channel is hit on its own, and is set to
    0 as often as to 1. A value that is hit at one level is hit, and set to the same, at
    all levels above.

    Args:
      lower: lowest share, 0: the range must hold the identity.
      upper: highest share, at most 1.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0, `upper` above 1 or the range empty.
    """
    lower, upper = checked_range(
        "impulse_noise", lower, upper, 0.0, at_least=0, at_most=1
    )
    return Alteration(
        "impulse noise",
        _at_share,
        lower,
        upper,
        identity=0.0,
        unit="share of values",
        stochastic=True,
        prepare=_with_draws,
        about=About(
            "values that are set to 0 or 1", range_from="about ImageNet-C's severity 5"
        ),
    )


def draw_impulses(image: jax.Array, key: jax.Array) -> ImpulseDraws:
    """Draws hits and their values from one random word: 24 bits and one more bit."""
    word = jax.random.bits(key, image.shape, jnp.uint32)
    return ImpulseDraws((word >> 8).astype(jnp.float32) * 2.0**-24, (word & 1) == 1)


def set_impulses(
    image: jax.Array, draws: ImpulseDraws, share: jax.typing.ArrayLike
) -> jax.Array:
    """Sets a share of the image's values to 0 or 1."""
    impulse = as_given(draws.is_salt, image)
    return jnp.where(draws.uniform < share, impulse, image)


def _with_draws(image: jax.Array, key: jax.Array) -> tuple[jax.Array, ImpulseDraws]:
    check_image("impulse_noise", image)
    return image, draw_impulses(image, key)


def _at_share(
    image_and_draws: tuple[jax.Array, ImpulseDraws], level: jax.Array
) -> jax.Array:
    return set_impulses(*image_and_draws, level)
