"""Copies of images, altered at levels chosen in a training step."""

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
    """Alters each image at its own levels."""
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
    """Draws levels uniformly from the range."""
    return jax.random.uniform(
        key, shape, jnp.float32, alteration.lower, alteration.upper
    )


def grid_levels(
    alteration: Alteration, num_copies: int, copy: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Returns the levels of the 2020 paper's scripts, one for each copy of an image."""
    # They are the upper end of the range and the point halfway there from the identity
    # and, with four copies, the same for the lower end. If the identity is the upper
    # end, two copies use the lower end instead.
    identity = alteration.identity
    sides = (alteration.upper, alteration.lower)
    if identity == alteration.upper:
        sides = sides[::-1]
    ends = sides[: num_copies // 2]
    grid = [identity + share * (end - identity) for end in ends for share in (0.5, 1)]
    return jnp.broadcast_to(jnp.asarray(grid, jnp.float32)[copy], shape)
