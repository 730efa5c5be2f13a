"""JPEG for CPUs: coefficients with the blocks innermost, passes in a loop of two.

A pass is eight int32 products added up, which vectorise over all blocks at once.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._pixels import unit_range
from jaxrob.alterations._jpeg_constants import (
    CHROMA_TABLE,
    DCT,
    LUMA_TABLE,
    TO_RGB,
    inverse_steps,
    quantisation_steps,
)
from jaxrob.alterations._jpeg_planes import is_smooth, planes_of, product, upsampling

# Added to a number below 2^22, it leaves the nearest integer in the low bits.
_ROUNDING = np.float32(1.5 * 2**23)


def coefficients(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Returns coefficients x 8 of luma and chroma, int32 [8, 8, block]."""
    luma, chroma = planes_of(image)
    return _forward_dct(luma), None if chroma is None else _forward_dct(chroma)


def decode(
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array | int,
    shape: tuple[int, int, int],
) -> jax.Array:
    """Returns the pixels, float32 `[H, W, C]`, of coefficients at a quality."""
    height, width, _ = shape
    luma_shape = (1, height + -height % 8, width + -width % 8)
    levels = _decode_blocks(luma, LUMA_TABLE, quality)
    levels = _planes(levels, luma_shape)[0, :height]
    if chroma is None:
        return unit_range(levels[:, :width, None])
    # A product crops; slices would make XLA reorder the blocks for each colour.
    levels = product(levels, np.eye(luma_shape[2], width, dtype=np.float32), 1)
    chroma = _decode_blocks(chroma, CHROMA_TABLE, quality)
    chroma = _planes(chroma, (2, -(-height // 16) * 8, -(-width // 16) * 8))
    chroma = _upsample(chroma, height, width)[..., None] - 128
    shift = chroma[0] * TO_RGB[0] + chroma[1] * TO_RGB[1]
    pixels = levels[..., None] + jnp.floor((shift + 2.0**15) * 2.0**-16)
    return unit_range(jnp.clip(pixels, 0, 255))


def _forward_dct(planes: jax.Array) -> jax.Array:
    """Transforms levels [P, H, W], H and W multiples of 8, to coefficients x 8."""
    count, height, width = planes.shape
    blocks = planes.astype(jnp.int32) - 128
    blocks = blocks.reshape(count, height // 8, 8, width // 8, 8)
    # Rows come first here, columns in the inverse.
    across = blocks.transpose(4, 2, 0, 1, 3).reshape(8, 8, -1)
    return _transform(across, DCT, shifts=(11, 15)).swapaxes(0, 1)


def _decode_blocks(
    coefficients: jax.Array, table: np.ndarray, quality: jax.Array | int
) -> jax.Array:
    """Quantises coefficients [8, 8, N] and returns levels 0-255, int32 [8, 8, N]."""
    steps = quantisation_steps(table, quality)[:, :, None]
    # An addition rounds, because XLA's conversion to integers saturates, which costs
    # time.
    rounded = coefficients.astype(jnp.float32) * inverse_steps(steps) + _ROUNDING
    rounded = _bits(rounded) - _bits(_ROUNDING)
    levels = _transform(rounded * steps, DCT.T, shifts=(11, 18)) + 128
    return jnp.clip(levels, 0, 255)


def _bits(x: jax.Array | np.float32) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _transform(
    blocks: jax.Array, matrix: np.ndarray, shifts: tuple[int, int]
) -> jax.Array:
    """Applies (matrix x + half) >> shift along axis 0, then along axis 1, int32."""

    def along_first(blocks: jax.Array, shift: Any) -> tuple[jax.Array, None]:
        # The axis moves behind the other one; two passes restore the order.
        terms = (blocks[i][:, None] * matrix[:, i, None] for i in range(8))
        return (sum(terms) + (1 << (shift - 1))) >> shift, None

    # A loop; otherwise XLA would fuse the passes and repeat the first for each term of
    # the second.
    return jax.lax.scan(along_first, blocks, np.array(shifts, np.int32))[0]


def _planes(blocks: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
    """Returns planes [P, H, W], float32, of blocks [8, 8, N]."""
    count, height, width = shape
    blocks = blocks.reshape(8, 8, count, height // 8, width // 8)
    return blocks.transpose(2, 3, 0, 4, 1).reshape(shape).astype(jnp.float32)


def _upsample(chroma: jax.Array, height: int, width: int) -> jax.Array:
    """Interpolates chroma [2, H'', W''] to [2, height, width]."""
    rows = (height + 1) // 2
    smooth = is_smooth(width)
    right = upsampling(chroma.shape[2], width, smooth)
    wide = product(chroma[:, :rows], right, axes=((2,), (0,)))

    above = below = wide
    if smooth:
        above = jnp.concatenate([wide[:, :1], wide[:, :-1]], axis=1)
        below = jnp.concatenate([wide[:, 1:], wide[:, -1:]], axis=1)
    sums = jnp.stack([3 * wide + above, 3 * wide + below], axis=2)
    sums = sums.reshape(2, 2 * rows, width)[:, :height]
    bias = 8 - np.arange(width, dtype=np.float32) % 2
    return jnp.floor((sums + bias) * 2.0**-4)
