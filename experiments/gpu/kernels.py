"""Pallas kernels for a GPU, as further forms of the blur and of JPEG.

They are no part of the library: a form moves there when a measurement on a GPU chooses
it (`gpu_day.py --parts=forms`). They take what the forms take that they stand beside
(`jaxrob.alterations._blur.BLUR`, `_jpeg.JPEG_FORMS`), and `jax.vmap` adds a
dimension to their grids for the images and one for the levels.

* Blur, "kernel": a kernel for the rows and one for the columns, each a sum of shifts.
  Only the taps within five standard deviations of the level are read, at least half of
  which the plain forms multiply by zero at most levels.
* JPEG, "kernel": a plane's dequantisation and both passes of its transform in one
  kernel, in int32, bit for bit as the plain forms.

Arrays in a kernel have 2^k elements, as Triton asks: the last pixels are computed more
than once, or cut off when they are stored.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from jaxrob._pixels import unit_range
from jaxrob.alterations import _blur, _forms, _jpeg, _jpeg_fused
from jaxrob.alterations._jpeg_loops import (
    CHROMA_TABLE,
    DCT,
    FROM_RGB,
    FROM_RGB_BIAS,
    LUMA_TABLE,
    TO_RGB,
    inverse_steps,
    levels_of,
    quantisation_steps,
)

# Pixels of a program of the blur.
_PIXELS = 1024
# Blocks of 8 x 8 pixels in a program of JPEG's.
_BLOCKS = 4
#: The kernels' names, by the part of an alteration.
NAMES = {"blur": ("kernel",), "jpeg": ("kernel",)}


@contextlib.contextmanager
def as_forms(interpret: bool) -> Iterator[None]:
    """Adds the kernels to the library's forms; interpreted for a CPU, on one."""
    known = {"blur": _blur.BLUR, "jpeg": _jpeg.JPEG_FORMS}
    blur = functools.partial(blur_by_shifts, interpret=interpret)
    for part, form in {"blur": blur, "jpeg": jpeg_form(interpret)}.items():
        known[part][NAMES[part][0]] = form
    try:
        yield
    finally:
        for part, names in NAMES.items():
            for name in names:
                del known[part][name]


@contextlib.contextmanager
def chosen(part: str, platform: _forms.Platform, name: str) -> Iterator[None]:
    """Lets a platform take the form `name` of a part, whatever the image's size."""
    before = _forms.FORMS
    one = _forms.Form(part, platform, math.inf, name, "chosen to be measured")
    others = (row for row in before if (row.part, row.platform) != (part, platform))
    _forms.FORMS = (one, *others)
    # Programs were traced with the forms of before.
    jax.clear_caches()
    try:
        yield
    finally:
        _forms.FORMS = before
        jax.clear_caches()


def blur_by_shifts(
    planes: jax.Array, level: jax.Array, *, reach: int, interpret: bool
) -> jax.Array:
    """Blurs planes `[C, H, W]` to `[H, W, C]`, by shifts along each axis in turn."""
    channels, height, width = planes.shape
    weights = _blur._kernel(level, reach, reach)
    taps = jnp.ceil(level * _blur._TRUNCATE).astype(jnp.int32)
    taps = jnp.minimum(taps, reach)[None]
    image = jnp.stack(list(planes), axis=-1).reshape(-1)
    for length, step in ((height, width * channels), (width, channels)):
        image = pl.pallas_call(
            functools.partial(_shift_kernel, length=length, step=step, reach=reach),
            out_shape=jax.ShapeDtypeStruct(image.shape, jnp.float32),
            grid=(pl.cdiv(image.size, _PIXELS),),
            interpret=interpret,
            compiler_params=triton.CompilerParams(num_warps=4),
        )(weights, taps, image)
    return image.reshape(height, width, channels)


def _shift_kernel(
    weights: Any, taps: Any, image: Any, out: Any, *, length: int, step: int, reach: int
) -> None:
    """Sums the shifts along an axis, whose elements lie `step` apart."""
    at = pl.program_id(0) * _PIXELS + jnp.arange(_PIXELS, dtype=jnp.int32)
    at = jnp.minimum(at, image.size - 1)
    place = jax.lax.rem(jax.lax.div(at, step), length)

    def add(tap: jax.Array, total: jax.Array) -> jax.Array:
        # Edge pixels repeat.
        moved = jnp.clip(place + tap, 0, length - 1) - place
        return total + weights[tap + reach] * image[at + moved * step]

    zeros = jnp.zeros(_PIXELS, jnp.float32)
    out[at] = jax.lax.fori_loop(-taps[0], taps[0] + 1, add, zeros)


def jpeg_form(interpret: bool) -> _jpeg.JpegForm:
    """JPEG by a kernel a plane; the rest is that of the form "fused"."""
    return _jpeg.JpegForm(
        functools.partial(_coefficients, interpret=interpret),
        functools.partial(_decode, interpret=interpret),
    )


def _coefficients(
    image: jax.Array, *, interpret: bool
) -> tuple[jax.Array, jax.Array | None]:
    """As `_jpeg_fused.coefficients`."""
    height, width, channels = jnp.shape(image)
    levels = levels_of(image).astype(jnp.int32)
    if channels == 1:
        luma, chroma = levels[None, :, :, 0], None
    else:
        luma, *others = (
            (sum(levels[..., i] * factor[i] for i in range(3)) + bias) >> 16
            for factor, bias in zip(FROM_RGB, FROM_RGB_BIAS)
        )
        halved = _jpeg_fused._downsample(jnp.stack(others))
        luma, chroma = luma[None], _forward(halved, interpret)
    padding = ((0, 0), (0, -height % 8), (0, -width % 8))
    return _forward(jnp.pad(luma, padding, "edge"), interpret), chroma


def _decode(
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array | int,
    shape: tuple[int, int, int],
    *,
    interpret: bool,
) -> jax.Array:
    """As `_jpeg_fused.decode`."""
    height, width, _ = shape
    plane = (1, -(-height // 8), -(-width // 8))
    levels = _inverse(luma, LUMA_TABLE, quality, plane, interpret)[0, :height, :width]
    levels = levels.astype(jnp.int32)[..., None]
    if chroma is None:
        return unit_range(levels)
    planes = (2, -(-height // 16), -(-width // 16))
    chroma = _inverse(chroma, CHROMA_TABLE, quality, planes, interpret)
    blue, red = _jpeg_fused._upsample(chroma, height, width)[..., None] - 128
    to_blue, to_red = TO_RGB.astype(np.int32)
    shift = (blue * to_blue + red * to_red + 2**15) >> 16
    return unit_range(jnp.clip(levels + shift, 0, 255))


def _forward(planes: jax.Array, interpret: bool) -> jax.Array:
    """Transforms levels [P, H, W] to coefficients x 8, int32 [8, 8, N]."""
    count, height, width = planes.shape
    blocks = count, height // 8, width // 8
    found = _transformed(
        _forward_kernel,
        blocks,
        jnp.int32,
        interpret,
        planes.astype(jnp.uint8).reshape(-1),
    )
    return found.reshape(8, 8, -1)


def _forward_kernel(matrix: Any, levels: Any, out: Any, *, columns: int) -> None:
    """Rows, then columns: libjpeg's order."""
    row, blocks = _where(columns)
    eight = jnp.arange(8, dtype=jnp.int32)

    def pixels(x: int) -> jax.Array:
        # [pixel's row, block].
        at = (8 * row + eight[:, None]) * 8 * columns + 8 * blocks[None, :] + x
        return levels[at].astype(jnp.int32) - 128

    # [row, frequency, block].
    rows: Any = sum(
        matrix[8 * eight + x][:, None] * pixels(x)[:, None, :] for x in range(8)
    )
    rows = (rows + 2**10) >> 11
    # [vertical frequency, row] times [row, frequency, block].
    down = matrix[8 * eight[:, None] + eight[None, :]][:, :, None, None] * rows[None]
    found = (jnp.sum(down, axis=1) + 2**14) >> 15
    at = (8 * row + eight[:, None, None]) * 8 + eight[None, :, None]
    at = at * columns + blocks[None, None, :]
    out[at] = found


def _inverse(
    coefficients: jax.Array,
    table: np.ndarray,
    quality: jax.Array | int,
    blocks: tuple[int, int, int],
    interpret: bool,
) -> jax.Array:
    """Quantises coefficients and returns levels 0-255, uint8 [P, H, W]."""
    count, rows, columns = blocks
    steps = quantisation_steps(table, quality)
    given = (
        steps.reshape(-1),
        inverse_steps(steps).reshape(-1),
        coefficients.reshape(-1),
    )
    found = _transformed(_inverse_kernel, blocks, jnp.uint8, interpret, *given)
    return found.reshape(count, 8 * rows, 8 * columns)


def _inverse_kernel(
    matrix: Any, steps: Any, inverse: Any, coefficients: Any, out: Any, *, columns: int
) -> None:
    """Columns, then rows: libjpeg's order."""
    row, blocks = _where(columns)
    eight = jnp.arange(8, dtype=jnp.int32)

    def quantised(v: int) -> jax.Array:
        # [horizontal frequency, block]. Adding a half rounds as `jnp.round` does, since
        # the factors leave no ties.
        at = ((8 * row + v) * 8 + eight[:, None]) * columns + blocks[None, :]
        found = coefficients[at].astype(jnp.float32) * inverse[8 * v + eight][:, None]
        return jnp.floor(found + 0.5).astype(jnp.int32) * steps[8 * v + eight][:, None]

    # [row, horizontal frequency, block].
    down: Any = sum(
        matrix[8 * v + eight][:, None, None] * quantised(v) for v in range(8)
    )
    down = (down + 2**10) >> 11
    # [row, frequency, column, block].
    across = matrix[8 * eight[:, None] + eight[None, :]][None, :, :, None]
    found = (jnp.sum(down[:, :, None, :] * across, axis=1) + 2**17) >> 18
    y, x = 8 * row + eight[:, None, None], eight[None, :, None]
    at = (y * columns + blocks[None, None, :]) * 8 + x
    out[at] = jnp.clip(found + 128, 0, 255).astype(jnp.uint8)


def _transformed(
    kernel: Callable[..., None],
    blocks: tuple[int, int, int],
    dtype: jax.typing.DTypeLike,
    interpret: bool,
    *given: jax.Array,
) -> jax.Array:
    """Runs a kernel on all rows of blocks, a few blocks at a time; flat."""
    count, rows, columns = blocks
    return pl.pallas_call(
        functools.partial(kernel, columns=columns),
        out_shape=jax.ShapeDtypeStruct((count * rows * columns * 64,), dtype),
        grid=(count * rows, pl.cdiv(columns, _BLOCKS)),
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=4),
    )(jnp.asarray(DCT.reshape(-1)), *given)


def _where(columns: int) -> tuple[jax.Array, jax.Array]:
    """The row of blocks, and the blocks in it; the last one several times."""
    blocks = pl.program_id(1) * _BLOCKS + jnp.arange(_BLOCKS, dtype=jnp.int32)
    return pl.program_id(0), jnp.minimum(blocks, columns - 1)
