"""Fog by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations.corruptions._corruption import corruption
from jaxrob.alterations.corruptions._parameters import FOG


class FogDraws(NamedTuple):
    """The random draws of fog, and the image's brightest value.

    Attributes:
      uniform: numbers in [-1, 1) for each step of the map, from the coarsest to the
        finest: `[3, n, n]` with n = 1, 2, 4, ..., for the centres of the squares, the
        middles of their upper edges and those of their left edges.
      brightest: the image's largest value.
    """

    uniform: tuple[jax.Array, ...]
    brightest: jax.Array


def fog(size: int | None = None) -> Alteration:
    """A bright plasma map over the image, which loses contrast.

    The map is a diamond-square fractal on a torus whose side is the smallest power of
    two not smaller than the image.

    Of `size`, of levels and errors see `jaxrob.alterations.corruptions`.
    """
    return corruption(FOG, _apply, size=size, draw=_draw)


def _draw(image: jax.Array, key: jax.Array) -> FogDraws:
    side = 1 << max((max(image.shape[:2]) - 1).bit_length(), 1)
    # One call for all steps, because each call compiles to a program of its own.
    numbers = jax.random.uniform(key, (side**2 - 1,), jnp.float32, -1.0)
    uniform = []
    while side > 1:
        side //= 2
        count = 3 * side**2
        uniform.append(numbers[-count:].reshape(3, side, side))
        numbers = numbers[:-count]
    return FogDraws(tuple(reversed(uniform)), image.max())


def _apply(
    image: jax.Array, draws: FogDraws, strength: jax.Array, decay: jax.Array
) -> jax.Array:
    height, width, _ = image.shape
    density = plasma(draws.uniform, decay)[:height, :width, None]
    foggy = image + strength * density
    # A black image without fog would give 0 / 0.
    total = draws.brightest + strength
    positive = total > 0
    share = jnp.where(positive, draws.brightest / jnp.where(positive, total, 1.0), 1.0)
    return jnp.clip(foggy * share, 0.0, 1.0)


def plasma(uniform: tuple[jax.Array, ...], decay: jax.Array) -> jax.Array:
    """Returns a map `[2 n, 2 n]` with values in [0, 1]; n is that of the last step."""
    corners = jnp.zeros((1, 1), jnp.float32)
    amplitude = jnp.float32(1)
    for centre, upper, left in uniform:
        corners = _refined(corners, amplitude * jnp.stack([centre, upper, left]))
        amplitude = amplitude / decay**2
    lowest, highest = corners.min(), corners.max()
    return (corners - lowest) / (highest - lowest)


def _refined(corners: jax.Array, noise: jax.Array) -> jax.Array:
    """Halves the squares, `[n, n]` to `[2 n, 2 n]`: the means plus noise."""
    right = jnp.roll(corners, -1, 1)
    across = corners + right
    centre = (across + jnp.roll(across, -1, 0)) / 4 + noise[0]
    upper = (centre + jnp.roll(centre, 1, 0) + across) / 4 + noise[1]
    down = corners + jnp.roll(corners, -1, 0)
    left = (centre + jnp.roll(centre, 1, 1) + down) / 4 + noise[2]
    size = len(corners)
    upper_rows = jnp.stack([corners, upper], -1).reshape(size, 2 * size)
    lower_rows = jnp.stack([left, centre], -1).reshape(size, 2 * size)
    return jnp.stack([upper_rows, lower_rows], 1).reshape(2 * size, 2 * size)
