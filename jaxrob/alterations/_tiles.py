"""Rotated images for TPUs: each tile of pixels is a product with a window of the image.

A tile of 8x8 pixels shows few pixels of the image wherever it lies: with weights of 0
for the others, at most a window of 10x12 (14x16 if nothing is scaled up). All images of
a batch share the windows' places and the weights, and fill the columns of the products.

A TPU holds arrays in tiles of 8 rows, which windows must not cut. So the image is cut
into blocks of 2x4 pixels, each one such row group.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

_TILE = 8
_BLOCK = 2, 4


def by_tiles(
    image: jax.Array, rows: jax.Array, columns: jax.Array, slope: float
) -> jax.Array:
    """Samples the image as `_resample.bilinear` does with edge pixels repeated."""
    height, width, channels = image.shape
    reach = math.ceil((_TILE - 1) * slope) + 2
    # The blocks of a window, which starts anywhere in its first one.
    window = tuple(-(-(reach + size - 1) // size) for size in _BLOCK)
    blocks = _blocks(image, window)
    row_tiles, column_tiles = _tiles(rows, height), _tiles(columns, width)
    top = _first_blocks(row_tiles, _BLOCK[0], blocks.shape[1] - window[0])
    left = _first_blocks(column_tiles, _BLOCK[1], blocks.shape[2] - window[1])
    # A window's pixels, block by block.
    index = np.indices((*window, *_BLOCK)).reshape(4, -1)
    weights = _weights(row_tiles - _BLOCK[0] * top[..., None], index[0::2], 0)
    weights *= _weights(column_tiles - _BLOCK[1] * left[..., None], index[1::2], 1)

    def tile(i: int, j: int) -> jax.Array:
        found = jax.lax.dynamic_slice(
            blocks,
            (np.uint32(0), top[i, j], left[i, j], np.uint32(0)),
            (channels, *window, blocks.shape[-1]),
        )
        tall = min(_TILE, rows.shape[0] - i * _TILE)
        wide = min(_TILE, rows.shape[1] - j * _TILE)
        # TPUs would multiply in bfloat16 at a lower precision.
        pixels = jnp.matmul(
            found.reshape(channels, -1),
            weights[i, j, : tall * _TILE].T,
            precision=jax.lax.Precision.HIGHEST,
        )
        return pixels.reshape(channels, tall, _TILE)[..., :wide]

    down_tiles, across_tiles = row_tiles.shape[:2]
    lines = (
        jnp.concatenate([tile(i, j) for j in range(across_tiles)], axis=2)
        for i in range(down_tiles)
    )
    return jnp.moveaxis(jnp.concatenate([*lines], axis=1), 0, -1)


def _blocks(image: jax.Array, least: tuple[int, ...]) -> jax.Array:
    """Returns the image's blocks `[C, rows, columns, pixels]`, at least so many."""
    planes = jnp.moveaxis(image, -1, 0)
    for axis, (size, few) in enumerate(zip(_BLOCK, least), start=1):
        planes = _lengthened(
            planes, axis, size * max(few, -(-planes.shape[axis] // size))
        )
    channels, height, width = planes.shape
    rows, columns = height // _BLOCK[0], width // _BLOCK[1]
    planes = planes.reshape(channels, rows, _BLOCK[0], columns, _BLOCK[1])
    # Concatenations, because XLA moves them out of the loop over levels: they make
    # nothing larger, as padding does.
    return jnp.concatenate([planes[:, :, i] for i in range(_BLOCK[0])], axis=-1)


def _lengthened(planes: jax.Array, axis: int, length: int) -> jax.Array:
    """Appends pixels, whichever, whose weights are 0."""
    while (missing := length - planes.shape[axis]) > 0:
        more = jax.lax.slice_in_dim(
            planes, 0, min(missing, planes.shape[axis]), 1, axis
        )
        planes = jnp.concatenate([planes, more], axis)
    return planes


def _tiles(positions: jax.Array, size: int) -> jax.Array:
    """Cuts positions `[H', W']`, clipped to the image, to `[rows, columns, pixels]`."""
    missing = [(0, -length % _TILE) for length in positions.shape]
    whole = jnp.pad(jnp.clip(positions, 0, size - 1), missing, "edge")
    height, width = (length // _TILE for length in whole.shape)
    tiles = whole.reshape(height, _TILE, width, _TILE).swapaxes(1, 2)
    return tiles.reshape(height, width, _TILE**2)


def _first_blocks(tiles: jax.Array, size: int, last: int) -> jax.Array:
    """Returns the block, at most the last, that each tile's window starts with."""
    first = jnp.floor(tiles.min(-1)).astype(jnp.int32) // size
    # Unsigned, for which `dynamic_slice` does not ask whether they count from the end.
    return jnp.clip(first, 0, last).astype(jnp.uint32)


def _weights(positions: jax.Array, index: np.ndarray, axis: int) -> jax.Array:
    """The weights along an axis of a window's pixels, `[..., pixels, window]`."""
    places = (index[0] * _BLOCK[axis] + index[1]).astype(np.float32)
    # Rounding may put a position just behind the window.
    within = jnp.minimum(positions, places.max())
    return jnp.maximum(0, 1 - jnp.abs(within[..., None] - places))
