"""Copies of images, altered at levels that a training step chooses."""

import jax
import jax.numpy as jnp

from jaxrob.alterations import Alteration

LEVELS = ("random", "grid")


def altered(
    alteration: Alteration,
    images: jax.Array,
    levels: jax.Array,
    key: jax.Array,
) -> jax.Array:
    """Images at levels of their own.

    Args:
      alteration: the alteration.
      images: `[b, ...]`.
      levels: `[candidates, b]`; each row gives one level to each image.
      key: a random key for noise; that of an image is the same at all its levels.

    Returns:
      `[candidates, b, ...]`.
    """
    keys = jax.random.split(key, len(images))
    prepared = (
        jax.vmap(alteration.prepared)(images, keys)
        if alteration.stochastic
        else jax.vmap(alteration.prepared)(images)
    )
    over_images = jax.vmap(alteration.at_level)
    return jax.vmap(over_images, (None, 0))(prepared, levels)


def random_levels(
    alteration: Alteration, shape: tuple[int, ...], key: jax.Array
) -> jax.Array:
    """Levels drawn uniformly from the range."""
    return jax.random.uniform(
        key, shape, minval=alteration.lower, maxval=alteration.upper
    )


def grid_levels(
    alteration: Alteration, num_copies: int, copy: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """The levels of the 2020 paper's scripts, one for each copy of an image.

    Half of the way to the upper end and all of it and, if there are four copies, to the
    lower end too. Where the identity is the upper end, they lie on the other side.

    Args:
      alteration: the alteration.
      num_copies: copies of each image, 2 or 4.
      copy: int32 `[b]`, which copy each image is.
      shape: `(..., b)`, that of the result.
    """
    identity = alteration.identity
    sides = (alteration.upper, alteration.lower)
    if identity == alteration.upper:
        sides = sides[::-1]
    ends = sides[: num_copies // 2]
    grid = [identity + share * (end - identity) for end in ends for share in (0.5, 1)]
    return jnp.broadcast_to(jnp.asarray(grid, jnp.float32)[copy], shape)
