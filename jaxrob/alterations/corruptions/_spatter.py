"""Spatter by severity."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._normal import normal
from jaxrob.alterations.corruptions._corruption import corruption
from jaxrob.alterations.corruptions._parameters import (
    SPATTER,
    Table,
    checked_size,
    size_for,
)
from jaxrob.alterations.corruptions._water import water_on

_WATER = np.array([175, 238, 238], np.float32) / 255
_MUD = np.array([63, 42, 20], np.float32) / 255
# Thinner mud is ignored.
_THINNEST = 0.8

# Parameters cannot be interpolated between water and mud. Linear in the level is the
# share of each severity's own layer.
_ALONE = tuple(tuple(map(float, row)) for row in np.eye(5))
_SHARES = Table(
    SPATTER.corruption, 5 * (0.0,), _ALONE, _ALONE, _ALONE, _ALONE, SPATTER.sets
)


class Layers(NamedTuple):
    """The amount on each pixel, `[H, W]` for each severity; None if it has none."""

    water: tuple[jax.Array | None, ...]
    mud: tuple[jax.Array | None, ...]


def spatter(size: int | None = None) -> Alteration:
    """Drops on the lens: water at severities 1 to 3, mud at 4 and 5.

    Between severities the layers of both are mixed. It is one of the four corruptions
    held back for validation. No gradient passes through the drops.

    Args:
      size: the image size whose parameters it takes; see
        `jaxrob.alterations.corruptions`.

    Returns:
      The alteration, of images with three channels; levels in [0, 5], identity 0.

    Raises:
      ValueError: if there are no parameters for `size`; when applied, if the image
        has no three channels.
    """
    size = checked_size("spatter", size)
    return corruption(
        _SHARES,
        _apply,
        size=size,
        draw=hashable_partial(_draw, size=size),
        in_colour=True,
    )


def _draw(image: jax.Array, key: jax.Array, *, size: int | None) -> Layers:
    rows = SPATTER.rows(size_for("spatter", image.shape, size))
    return layers(normal(key, image.shape[:2]), rows)


def layers(noise: jax.Array, rows: np.ndarray) -> Layers:
    """Returns the layers of all severities, from one standard normal map `[H, W]`."""
    water, mud = [], []
    for mean, spread, sigma, threshold, strength, is_mud in rows[1:].tolist():
        liquid = mean + spread * _blurred(noise, sigma)
        if is_mud:
            covered = (liquid > threshold).astype(jnp.float32)
            thick = _blurred(covered, strength)
            mud.append(jnp.where(thick < _THINNEST, 0.0, thick))
            water.append(None)
        else:
            liquid = jnp.where(liquid < threshold, 0.0, liquid)
            water.append(strength * water_on(liquid))
            mud.append(None)
    return Layers(tuple(water), tuple(mud))


def _apply(image: jax.Array, found: Layers, *shares: jax.Array) -> jax.Array:
    water, mud = (_mixed(layer, shares) for layer in found)
    return jnp.clip(image * (1 - mud) + mud * _MUD + water * _WATER, 0.0, 1.0)


def _mixed(
    layer: tuple[jax.Array | None, ...], shares: tuple[jax.Array, ...]
) -> jax.Array:
    return jnp.stack(
        [share * one for share, one in zip(shares, layer) if one is not None], -1
    ).sum(-1, keepdims=True)


def _blurred(plane: jax.Array, sigma: float) -> jax.Array:
    """Convolves with a Gaussian of a fixed standard deviation, edges repeated."""
    rows, columns = (
        scipy.ndimage.gaussian_filter1d(np.eye(size), sigma, axis=0, mode="nearest")
        for size in plane.shape
    )
    highest = jax.lax.Precision.HIGHEST
    right = jnp.matmul(plane, columns.T.astype(np.float32), precision=highest)
    return jnp.matmul(rows.astype(np.float32), right, precision=highest)
