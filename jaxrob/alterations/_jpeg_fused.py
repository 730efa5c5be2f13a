"""JPEG for GPUs: few kernels, each of which reads and writes in the pixels' order.

Within a row of blocks, frequencies or pixels come before or after the blocks, as the
next pass reads them, so that nothing is ever transposed. A pass is one kernel: eight
int32 products of eight slices, broadcast along the axis that they become. Between the
passes the numbers are stored in the fewest bytes that hold them:

* after the first pass of the forward transform |t| <= 128 x 8 x 8192 / 2^11 = 2^12;
* after that of the inverse |v| < 2^13: without quantisation the same 2^12, and steps of
  at most 255 move each of the column's coefficients by at most 127.5, which adds at
  most 127.5 x 61,214 / 2^11 = 3,811 (the largest sum of a sample's factors is 61,214).

Both fit int16, and no sum exceeds 2^30.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._numbers import unit_range
from jaxrob.alterations._jpeg_loops import (
    CHROMA_TABLE,
    DCT,
    FROM_RGB,
    FROM_RGB_BIAS,
    LUMA_TABLE,
    TO_RGB,
    chroma_samples,
    inverse_steps,
    is_smooth,
    levels_of,
    quantisation_steps,
)


def coefficients(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    # The memory order is [row of blocks, vertical, horizontal frequency, block],
    # reshaped.
    height, width, channels = jnp.shape(image)
    levels = levels_of(image).astype(jnp.int32)
    if channels == 1:
        luma, chroma = levels[None, :, :, 0], None
    else:
        luma, *others = (
            (sum(levels[..., i] * factor[i] for i in range(3)) + bias) >> 16
            for factor, bias in zip(FROM_RGB, FROM_RGB_BIAS)
        )
        luma, chroma = luma[None], _forward_dct(_downsample(jnp.stack(others)))
    padding = ((0, 0), (0, -height % 8), (0, -width % 8))
    return _forward_dct(jnp.pad(luma, padding, "edge")), chroma


def decode(
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array | int,
    shape: tuple[int, int, int],
) -> jax.Array:
    height, width, _ = shape
    plane = (1, -(-height // 8), -(-width // 8))
    levels = _decode_blocks(luma, LUMA_TABLE, quality, plane)[0, :height, :width]
    levels = levels.astype(jnp.int32)[..., None]
    if chroma is None:
        return unit_range(levels)
    planes = (2, -(-height // 16), -(-width // 16))
    chroma = _decode_blocks(chroma, CHROMA_TABLE, quality, planes)
    blue, red = _upsample(chroma, height, width)[..., None] - 128
    to_blue, to_red = TO_RGB.astype(np.int32)
    shift = (blue * to_blue + red * to_red + 2**15) >> 16
    return unit_range(jnp.clip(levels + shift, 0, 255))


def _forward_dct(planes: jax.Array) -> jax.Array:
    count, height, width = planes.shape
    pixels = _written(planes - 128, jnp.int16)
    pixels = pixels.reshape(count, height // 8, 8, width // 8, 8)
    rows = _pass(_slices(pixels, 4), DCT, axis=3, shift=11)
    blocks = _pass(_slices(_written(rows, jnp.int16), 2), DCT, axis=2, shift=15)
    return _written(blocks, jnp.int32).reshape(8, 8, -1)


def _decode_blocks(
    coefficients: jax.Array,
    table: np.ndarray,
    quality: jax.Array | int,
    blocks: tuple[int, int, int],
) -> jax.Array:
    """Quantises coefficients and returns levels 0-255, uint8 [P, H, W]."""
    count, rows, columns = blocks
    steps = quantisation_steps(table, quality)[:, :, None]
    found = coefficients.reshape(count, rows, 8, 8, columns).astype(jnp.float32)
    found = jnp.round(found * inverse_steps(steps)).astype(jnp.int32) * steps
    down = _pass(_slices(found, 2), DCT.T, axis=2, shift=11)
    across = _pass(_slices(_written(down, jnp.int16), 3), DCT.T, axis=4, shift=18)
    levels = _written(jnp.clip(across + 128, 0, 255), jnp.uint8)
    return levels.reshape(count, 8 * rows, 8 * columns)


def _pass(
    slices: Sequence[jax.Array], matrix: np.ndarray, axis: int, shift: int
) -> jax.Array:
    """Computes (matrix x + half) >> shift of eight slices, int32, as a new axis."""
    shape = [1] * (slices[0].ndim + 1)
    shape[axis] = 8
    total = jnp.int32(1 << (shift - 1))
    for one, factors in zip(slices, matrix.T):
        wide = jnp.expand_dims(one.astype(jnp.int32), axis)
        total = total + wide * factors.reshape(shape)
    return total >> shift


def _slices(blocks: jax.Array, axis: int) -> list[jax.Array]:
    return [
        jax.lax.index_in_dim(blocks, i, axis, keepdims=False)
        for i in range(blocks.shape[axis])
    ]


def _written(x: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    # XLA underestimates the cost of fusing: a pass fused into the next one would be
    # repeated for each of the eight slices that read it.
    return jax.lax.optimization_barrier(x.astype(dtype))


def _downsample(chroma: jax.Array) -> jax.Array:
    _, height, width = chroma.shape
    rows, columns = (height + 1) // 2, -(-width // 16) * 8
    # Columns are repeated before averaging and rows after it, as libjpeg does.
    padding = ((0, 0), (0, height % 2), (0, 2 * columns - width))
    fours = jnp.pad(chroma, padding, "edge").reshape(2, rows, 2, columns, 2)
    sums = sum(fours[:, :, i, :, j] for i in range(2) for j in range(2))
    means = (sums + 1 + np.arange(columns, dtype=np.int32) % 2) >> 2
    return jnp.pad(means, ((0, 0), (0, -rows % 8), (0, 0)), "edge")


def _upsample(chroma: jax.Array, height: int, width: int) -> jax.Array:
    """Interpolates chroma [2, H'', W''] to int32 [2, height, width]."""

    def at(rows: np.ndarray, columns: np.ndarray) -> jax.Array:
        return chroma[:, rows][:, :, columns].astype(jnp.int32)

    smooth = is_smooth(width)
    own_row, row = chroma_samples(height, smooth)
    own_column, column = chroma_samples(width, smooth)
    own = 3 * at(own_row, own_column) + at(row, own_column)
    other = 3 * at(own_row, column) + at(row, column)
    return (3 * own + other + 8 - np.arange(width, dtype=np.int32) % 2) >> 4
