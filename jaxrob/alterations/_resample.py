"""Resampling an image.

Values that depend on the level alone are computed once for each level under `vmap` over
images: the matrices of `separable`, and on a CPU the indices and weights of `bilinear`.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._forms import by_platform

# The fill in words, for positions outside the image; callers handle "crop".
FILLS = {
    "crop": "cropped and scaled up, so that no border appears",
    "edge": "edge pixels repeat where the image leaves the frame",
    "constant": "black where the image leaves the frame",
}


def separable(planes: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Computes `rows @ plane @ columns.T` for each channel."""

    def product(planes: jax.Array, matrix: jax.Array, axis: int) -> jax.Array:
        # TPUs would multiply in bfloat16 and GPUs in TF32 at a lower precision.
        return jnp.tensordot(
            planes, matrix, ((axis,), (1,)), precision=jax.lax.Precision.HIGHEST
        )

    # This order leaves XLA the least to transpose between the products.
    return product(product(planes, columns, 2), rows, 1).T


def grid(image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str) -> jax.Array:
    """Samples the image at every pair of a row and a column; see `bilinear`."""
    size = max(image.shape[:2])
    return by_platform("grid", size, GRID, image, rows, columns, fill=fill)


def _grid_by_gathers(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> jax.Array:
    return bilinear(image, rows[:, None], columns, fill)


def _grid_by_products(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> jax.Array:
    def matrix(positions: jax.Array, size: int) -> jax.Array:
        if fill == "constant":
            return _hat(positions, size)
        return _weights(positions, size)

    height, width, _ = image.shape
    planes = jnp.moveaxis(image, -1, 0)
    return separable(planes, matrix(rows, height), matrix(columns, width))


# The forms of `grid`: functions of the image, the row and column positions, the fill.
GRID = {"products": _grid_by_products, "gathers": _grid_by_gathers}


def bilinear(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> jax.Array:
    """Samples bilinearly, at positions that all images of a batch share."""
    image, rows, columns = framed(image, rows, columns, fill)
    rows, columns = jnp.broadcast_arrays(rows, columns)
    return by_platform("bilinear", max(image.shape[:2]), BILINEAR, image, rows, columns)


def framed(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns image and positions with which repeated edge pixels are the fill."""
    if fill != "constant":
        return image, rows, columns
    # A black frame one pixel wide, which positions outside the image reach.
    return jnp.pad(image, ((1, 1), (1, 1), (0, 0))), rows + 1, columns + 1


def window_positions(
    start: jax.typing.ArrayLike, scale: jax.typing.ArrayLike, size: int
) -> jax.Array:
    """The positions of `size` pixels in a window from `start`, `scale` apart."""
    pixels = jnp.arange(size, dtype=jnp.float32)
    return jnp.asarray(start + (pixels + 0.5) * scale - 0.5)


def _pixels_by_table(
    image: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    """Gathers pixels by a table that is computed once for all images."""
    return gathered(image, *_table(rows, columns, *image.shape[:2]))


def warped(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Gathers pixels in one kernel, which computes the indices for each image."""
    # For positions that images do not share, in a third of the time of `bilinear`.
    return gathered(image, *_neighbours(rows, columns, *image.shape[:2]))


def _by_planes(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Gathers with channels outermost, which spares a TPU the transposition."""
    height, width, channels = image.shape
    corner, weights = _neighbours(rows, columns, height, width)
    planes = jnp.moveaxis(image, -1, 0).reshape(channels, height * width)
    found = sum(
        weight.reshape(-1)
        * jnp.take(planes, (corner + offset).reshape(-1), axis=1, mode="clip")
        for weight, offset in zip(weights, _offsets(height, width))
    )
    return jnp.moveaxis(jnp.asarray(found).reshape(channels, *rows.shape), 0, -1)


def _by_channels(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Gathers each channel alone, which takes a TPU the least memory for few images."""
    height, width, channels = image.shape
    corner, weights = _neighbours(rows, columns, height, width)
    corner, weights = corner.reshape(-1), [weight.reshape(-1) for weight in weights]
    planes = [image[..., channel].reshape(-1) for channel in range(channels)]
    found = [
        sum(
            weight * jnp.take(plane, corner + offset, mode="clip")
            for weight, offset in zip(weights, _offsets(height, width))
        )
        for plane in planes
    ]
    return jnp.stack(found, axis=-1).reshape(*rows.shape, channels)


def _by_product(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Multiplies once by the weights of all pixels; only for small images."""
    height, width, _ = image.shape
    down, across = _weights(rows, height), _weights(columns, width)
    weights = down[..., :, None] * across[..., None, :]
    # TPUs would multiply in bfloat16 at a lower precision.
    return jnp.tensordot(weights, image, 2, precision=jax.lax.Precision.HIGHEST)


# The forms of `bilinear`: functions of the image and of row and column positions.
BILINEAR = {
    "table": _pixels_by_table,
    "at once": warped,
    "planes": _by_planes,
    "channels": _by_channels,
    "product": _by_product,
}


def gathered(
    image: jax.Array, corner: jax.Array, weights: tuple[jax.Array, ...]
) -> jax.Array:
    """Adds up the four neighbours of each pixel `corner`, with their weights."""
    height, width, channels = image.shape
    pixels = image.reshape(height * width, channels)
    # XLA turns sums of weight times gather, in this form, into one fast loop.
    found = sum(
        weight.reshape(-1, 1)
        * jnp.take(pixels, (corner + offset).reshape(-1), axis=0, mode="clip")
        for weight, offset in zip(weights, _offsets(height, width))
    )
    return jnp.asarray(found).reshape(*corner.shape, channels)


# Jitted, because eager calls would otherwise compile the loop at each call.
@functools.partial(jax.jit, static_argnames=("height", "width"))
def _table(
    rows: jax.Array, columns: jax.Array, height: int, width: int
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    # A loop, because XLA would otherwise fuse parts into the gathers and recompute them
    # for each image: the loop halves the time of an MLP's step at 28x28.
    return jax.lax.map(
        lambda line: _neighbours(line[0], line[1], height, width), (rows, columns)
    )


def _neighbours(
    rows: jax.Array, columns: jax.Array, height: int, width: int
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """Returns the index of the pixel before each position, and the weights `[4]`."""
    top, down = _neighbour(rows, height)
    left, right = _neighbour(columns, width)
    return top * width + left, corner_weights(down, right)


def corner_weights(down: jax.Array, right: jax.Array) -> tuple[jax.Array, ...]:
    """Returns the weights of four pixels at a distance from the first."""
    up, left = 1 - down, 1 - right
    return up * left, up * right, down * left, down * right


def _neighbour(positions: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Returns the pixel before each position, and the distance from it."""
    positions = jnp.clip(positions, 0, size - 1)
    before = jnp.minimum(jnp.floor(positions), max(size - 2, 0))
    return before.astype(jnp.int32), positions - before


def _offsets(height: int, width: int) -> tuple[int, int, int, int]:
    """Returns offsets to a pixel itself and its right, lower, diagonal neighbours."""
    beside, below = min(width - 1, 1), width * min(height - 1, 1)
    return 0, beside, below, below + beside


def _weights(positions: jax.Array, size: int) -> jax.Array:
    """Returns each pixel's weight at each (clipped) position: `[..., size]`."""
    return _hat(jnp.clip(positions, 0, size - 1), size)


def _hat(positions: jax.Array, size: int) -> jax.Array:
    pixels = jnp.arange(size, dtype=jnp.float32)
    return jnp.maximum(0.0, 1.0 - jnp.abs(positions[..., None] - pixels))


_TILE = 8
_TILE_BLOCK = 2, 4


def by_tiles(
    image: jax.Array, rows: jax.Array, columns: jax.Array, slope: float
) -> jax.Array:
    """Samples the image as `_resample.bilinear` does with edge pixels repeated."""
    height, width, channels = image.shape
    reach = math.ceil((_TILE - 1) * slope) + 2
    # The blocks of a window, which starts anywhere in its first one.
    window = tuple(-(-(reach + size - 1) // size) for size in _TILE_BLOCK)
    blocks = _tile_blocks(image, window)
    row_tiles, column_tiles = _tiles(rows, height), _tiles(columns, width)
    top = _first_blocks(row_tiles, _TILE_BLOCK[0], blocks.shape[1] - window[0])
    left = _first_blocks(column_tiles, _TILE_BLOCK[1], blocks.shape[2] - window[1])
    # A window's pixels, block by block.
    index = np.indices((*window, *_TILE_BLOCK)).reshape(4, -1)
    weights = _tile_weights(row_tiles - _TILE_BLOCK[0] * top[..., None], index[0::2], 0)
    weights *= _tile_weights(
        column_tiles - _TILE_BLOCK[1] * left[..., None], index[1::2], 1
    )

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


def _tile_blocks(image: jax.Array, least: tuple[int, ...]) -> jax.Array:
    """Returns the image's blocks `[C, rows, columns, pixels]`, at least so many."""
    planes = jnp.moveaxis(image, -1, 0)
    for axis, (size, few) in enumerate(zip(_TILE_BLOCK, least), start=1):
        planes = _lengthened(
            planes, axis, size * max(few, -(-planes.shape[axis] // size))
        )
    channels, height, width = planes.shape
    rows, columns = height // _TILE_BLOCK[0], width // _TILE_BLOCK[1]
    planes = planes.reshape(channels, rows, _TILE_BLOCK[0], columns, _TILE_BLOCK[1])
    # Concatenations, because XLA moves them out of the loop over levels: they make
    # nothing larger, as padding does.
    return jnp.concatenate([planes[:, :, i] for i in range(_TILE_BLOCK[0])], axis=-1)


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


def _tile_weights(positions: jax.Array, index: np.ndarray, axis: int) -> jax.Array:
    """The weights along an axis of a window's pixels, `[..., pixels, window]`."""
    places = (index[0] * _TILE_BLOCK[axis] + index[1]).astype(np.float32)
    # Rounding may put a position just behind the window.
    within = jnp.minimum(positions, places.max())
    return jnp.maximum(0, 1 - jnp.abs(within[..., None] - places))
