"""JPEG for TPUs: passes of the DCT as products with matrices of whole blocks.

A block's 64 numbers lie on one axis, and a pass along either of the block's axes is a
product with a 64x64 matrix (`kron`), which a TPU does faster than it would reorder the
numbers. float32 holds integers below 2^24; so the DCT's matrix is split as
M = 128 h + l with |h| <= 89 and |l| <= 49, and

    (M x + 2^(n-1)) >> n  =  floor((h x + floor((l x + 2^(n-1)) / 128)) / 2^(n-7)).

No sum exceeds 2^24, in any order of summation. The absolute values of a row of M add up
to at most 65,536 (512 in h, 384 in l), those of a column to 61,214 (479 and 239). So:

* forward, along rows: pixels are at most 128, so |M x| <= 2^23, and M is not split;
* forward, along columns: |x| <= 2^12, so the products are at most 2^21;
* inverse, along columns: |x| <= 1024 + 255 / 2 < 2^11, so below 2^20;
* inverse, along rows: |x| < 2^13 (`_jpeg_fused.py` says why), so below 2^22.

Rounding by halves of 2^(n-1) <= 2^17 adds little.

A TPU multiplies bfloat16 numbers, exactly, and adds up in float32. Integers up to 2^8
are such numbers, those below 2^16 sums of two. One factor of each product is of the
first kind. So `Precision.HIGH` loses nothing, which splits both factors in two and
leaves out the product of the smaller parts.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental.layout import Layout, with_layout_constraint

from jaxrob._numbers import unit_range
from jaxrob.alterations._jpeg_loops import (
    CHROMA_TABLE,
    DCT,
    LUMA_TABLE,
    TO_RGB,
    inverse_steps,
    is_smooth,
    planes_of,
    quantisation_steps,
    upsampling,
)

# The fewest images that are laid out: below, VGG16 at 32 px takes 1 % longer with it.
_MANY = 512
_COARSE = (DCT + 64) // 128
_FINE = DCT - 128 * _COARSE


def coefficients(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    # The memory order is block by block, reshaped.
    return jax.tree.map(_forward_dct, planes_of(image))


def decode(
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array | int,
    shape: tuple[int, int, int],
) -> jax.Array:
    height, width, _ = shape
    blocks = -(-height // 8), -(-width // 8)
    luma = _dequantised(luma, LUMA_TABLE, quality, (1, *blocks))
    if chroma is None:
        return _one_batch(_grey, shape)(luma[None])[0]
    blocks = -(-height // 16), -(-width // 16)
    chroma = _dequantised(chroma, CHROMA_TABLE, quality, (2, *blocks))
    return _one_batch(_rgb, shape)(luma[None], *chroma[:, None])[0]


def _grey(luma: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
    return unit_range(_inverse_dct(luma[0])[: shape[0], : shape[1], None])


def _rgb(
    luma: jax.Array, blue: jax.Array, red: jax.Array, shape: tuple[int, int, int]
) -> jax.Array:
    """Returns pixels [H, W, 3] of dequantised blocks; planes stay apart to the end."""
    height, width, _ = shape
    luma = _inverse_dct(luma[0])[:height, None, :width]
    blue, red = (
        _upsample(_inverse_dct(one), height, width)[:, None] - 128
        for one in (blue, red)
    )
    shift = blue * TO_RGB[0][:, None] + red * TO_RGB[1][:, None]
    pixels = luma + jnp.floor((shift + 2.0**15) * 2.0**-16)
    return unit_range(jnp.clip(pixels, 0, 255)).swapaxes(1, 2)


def _one_batch(
    function: Callable[..., jax.Array], shape: tuple[int, int, int]
) -> Callable[..., jax.Array]:
    """Maps the function over a first axis, with which `vmap` merges its own."""
    # A network takes levels and images as one axis. Merged at the end, the axes would
    # cost a copy of each colour, which is more than is copied here.

    @custom_vmap
    def over_rows(*parts: jax.Array) -> jax.Array:
        found = jax.vmap(functools.partial(function, shape=shape))(*parts)
        return _with_images_in_lanes(found)

    @over_rows.def_vmap
    def _(size: int, batched: list[bool], *parts: jax.Array) -> tuple[jax.Array, bool]:
        whole = (
            part if has_axis else jnp.broadcast_to(part, (size, *part.shape))
            for part, has_axis in zip(parts, batched)
        )
        rows = over_rows(*(part.reshape(-1, *part.shape[2:]) for part in whole))
        return rows.reshape(size, -1, *rows.shape[1:]), True

    return over_rows


def _with_images_in_lanes(images: jax.Array) -> jax.Array:
    """Lays images [N, H, W, C] out as a TPU's convolutions read many small ones."""
    # XLA would choose a layout in which three colours take the place of four, and a
    # convolution would lay them out again.
    if len(images) < _MANY:
        return images
    # Default layouts have the last axis in the lanes.
    lanes_last = images.transpose(1, 3, 2, 0)
    lanes_last = with_layout_constraint(lanes_last, Layout((0, 1, 2, 3)))
    return lanes_last.transpose(3, 0, 2, 1)


def _forward_dct(planes: jax.Array) -> jax.Array:
    count, height, width = planes.shape
    blocks = planes.reshape(count, height // 8, 8, width // 8, 8) - 128
    blocks = blocks.transpose(0, 1, 3, 2, 4).reshape(count, height // 8, -1, 64)
    across = _product(blocks, _across(DCT).T, 1)
    rows = jnp.floor((across + 2.0**10) * 2.0**-11)
    found = _pass(rows, _down(_COARSE), _down(_FINE), shift=15)
    return found.astype(jnp.int32).reshape(8, 8, -1)


def _dequantised(
    coefficients: jax.Array,
    table: np.ndarray,
    quality: jax.Array | int,
    blocks: tuple[int, int, int],
) -> jax.Array:
    """Returns coefficients as the file holds them, float32 [P, rows, columns, 64]."""
    steps = quantisation_steps(table, quality).reshape(64)
    found = coefficients.reshape(*blocks, 64).astype(jnp.float32)
    return jnp.round(found * inverse_steps(steps)) * steps.astype(jnp.float32)


def _inverse_dct(blocks: jax.Array) -> jax.Array:
    """Returns levels 0-255, float32 [H, W], of blocks [rows, columns, 64]."""
    rows, columns, _ = blocks.shape
    down = _pass(blocks, _down(_COARSE.T), _down(_FINE.T), shift=11)
    levels = _pass(down, _across(_COARSE.T), _across(_FINE.T), shift=18) + 128
    levels = jnp.clip(levels, 0, 255)
    levels = levels.reshape(rows, columns, 8, 8).transpose(0, 2, 1, 3)
    return levels.reshape(8 * rows, 8 * columns)


def _pass(
    blocks: jax.Array, coarse: np.ndarray, fine: np.ndarray, shift: int
) -> jax.Array:
    """Computes ((128 coarse + fine) x + half) >> shift of blocks [..., 64], float32."""
    low = jnp.floor((_product(blocks, fine.T, 1) + 2.0 ** (shift - 1)) * 2.0**-7)
    return jnp.floor((_product(blocks, coarse.T, 1) + low) * 2.0 ** (7 - shift))


def _down(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix of a pass along a block's columns."""
    return np.kron(matrix, np.eye(8)).astype(np.float32)


def _across(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix of a pass along a block's rows."""
    return np.kron(np.eye(8), matrix).astype(np.float32)


def _upsample(chroma: jax.Array, height: int, width: int) -> jax.Array:
    """Interpolates chroma [H'', W''] to float32 [height, width]."""
    smooth = is_smooth(width)
    down = upsampling(chroma.shape[0], height, smooth)
    right = upsampling(chroma.shape[1], width, smooth)
    tall = _product(chroma, down, ((0,), (0,)))
    sums = _product(tall, right, ((0,), (0,)))
    bias = 8 - np.arange(width, dtype=np.float32) % 2
    return jnp.floor((sums + bias) * 2.0**-4)


def _product(
    a: jax.Array, b: np.ndarray, axes: int | tuple[tuple[int, ...], tuple[int, ...]]
) -> jax.Array:
    """Contracts the axes of integers, exactly, also in two bfloat16 parts."""
    return jnp.tensordot(a, b, axes, precision=jax.lax.Precision.HIGH)
