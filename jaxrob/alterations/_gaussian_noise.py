"""Additive Gaussian noise."""

import math

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import checked_flag
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import (
    Alteration,
    as_given,
    check_floating,
    check_image,
)
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._normal import normal


def gaussian_noise(
    lower: float = 0.0, upper: float = 200 / 255**2, clip: bool = True
) -> Alteration:
    """Adds zero-mean normal noise, independent for each pixel and channel.

    Arcaini et al. (2020), table I (GN). The level is the variance, for pixels in
    [0, 1]: the paper's [0, 200] on pixels in 0-255 is [0, 200 / 255**2]. The same key
    gives the same noise at every level, up to its scale, and for images of every
    precision.

    Args:
      lower: lowest variance, 0: the range must hold the identity.
      upper: highest variance.
      clip: whether the result is clipped to [0, 1], as a sensor saturates. Without it
        the alteration takes arrays of any shape.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0 or the range empty.
    """
    lower, upper = checked_range("gaussian_noise", lower, upper, 0.0, at_least=0)
    clip = checked_flag("gaussian_noise: clip", clip)
    return Alteration(
        "gaussian noise",
        hashable_partial(_add_noise, clip=clip),
        lower,
        upper,
        identity=0.0,
        unit="variance",
        stochastic=True,
        prepare=_draw_image_noise if clip else _draw_noise,
        about=About(
            "of what is added to each pixel, pixels lying in [0, 1]",
            {"clip": clip},
            {"clip": f"pixels {'stay in' if clip else 'may leave'} [0, 1]"},
            range_from="200 / 255**2, as in the paper of 2020",
            doubt=_doubt,
            leaves_range=not clip,
        ),
    )


def _doubt(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    if upper <= 1:
        return None
    return (
        f"a variance of {upper:g} is a standard deviation of {math.sqrt(upper):.3g}, "
        "but pixels lie in [0, 1], so that nothing is left of the image. For pixels of "
        f"0-255 divide it by 255**2: {upper / 255**2:.3g}."
    )


def draw_noise(image: jax.Array, key: jax.Array) -> jax.Array:
    """Draws standard normal numbers, float32, one for each of the array's values."""
    # Drawn in the array's own type, one key would give other noise for each type.
    return normal(key, image.shape)


def add_noise(
    image: jax.Array, noise: jax.Array, scale: jax.typing.ArrayLike
) -> jax.Array:
    """Adds noise of a standard deviation to the image; clips to [0, 1]."""
    return as_given(jnp.clip(image + scale * noise, 0.0, 1.0), image)


def _draw_image_noise(image: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    check_image("gaussian_noise", image)
    return _draw_noise(image, key)


def _draw_noise(image: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    check_floating("gaussian_noise", image)
    return image, draw_noise(image, key)


def _add_noise(
    image_and_noise: tuple[jax.Array, jax.Array], level: jax.Array, *, clip: bool
) -> jax.Array:
    image, noise = image_and_noise
    # The square root's slope at 0 is infinite: keep 0 out of the branch not taken.
    positive = level > 0
    scale = jnp.where(positive, jnp.sqrt(jnp.where(positive, level, 1.0)), 0.0)
    if clip:
        return add_noise(image, noise, scale)
    return as_given(image + scale * noise, image)
