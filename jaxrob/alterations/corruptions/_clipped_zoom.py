"""The benchmark's zoom: the middle of an image, resampled to the whole size."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._warp import between_pixels


class ZoomTable(NamedTuple):
    """The source positions of an axis' pixels under some zooms.

    Attributes:
      before: int32 `[K, N]`, the pixel at or before each position.
      share: float32 `[K, N]`, the distance from it, in [0, 1].
    """

    before: np.ndarray
    share: np.ndarray


def zoom_table(size: int, factors: np.ndarray) -> ZoomTable:
    """Returns the positions along an axis of `size` pixels for factors from 1 up."""
    positions = np.stack([_positions(size, factor) for factor in factors])
    before = np.clip(np.floor(positions), 0, max(size - 2, 0))
    return ZoomTable(before.astype(np.int32), (positions - before).astype(np.float32))


def zoomed(
    image: jax.Array, rows: ZoomTable, columns: ZoomTable, place: jax.typing.ArrayLike
) -> jax.Array:
    """Returns the image under one of the zooms, `[H, W, C]`."""
    top, left = jnp.asarray(rows.before)[place], jnp.asarray(columns.before)[place]
    down, right = jnp.asarray(rows.share)[place], jnp.asarray(columns.share)[place]
    return between_pixels(image, top[:, None], left, down[:, None], right)


def _positions(size: int, factor: float) -> np.ndarray:
    """Returns float64 `[size]`: the crop's ends become the zoom's, which is trimmed."""
    crop = int(np.ceil(size / factor))
    zoomed = max(round(crop * factor), size)
    first = (zoomed - size) // 2
    step = (crop - 1) / max(zoomed - 1, 1)
    return (size - crop) // 2 + np.arange(first, first + size) * step
