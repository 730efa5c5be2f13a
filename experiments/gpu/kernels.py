"""A Pallas kernel for a GPU, as a further form of the blur.

It is no part of the library: a form moves there when a measurement on a GPU chooses it
(`gpu_day.py --parts=forms`). It takes what the forms take that it stands beside
(`jaxrob.alterations._blur.BLUR`), and `jax.vmap` adds a dimension to its grid for the
images and one for the levels.

A kernel for the rows and one for the columns are each a sum of shifts. Only the taps
within five standard deviations of the level are read, at least half of which the plain
forms multiply by zero at most levels. Arrays in a kernel have 2^k elements, as Triton
asks: the last pixels are computed more than once.
"""

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from jaxrob.alterations import _blur, _forms

# Pixels of a program.
_PIXELS = 1024
#: The form's name, among those of the blur.
NAME = "kernel"


@contextlib.contextmanager
def as_form(interpret: bool) -> Iterator[None]:
    """Adds the kernel to the library's forms; interpreted for a CPU, on one."""
    _blur.BLUR[NAME] = functools.partial(blur_by_shifts, interpret=interpret)
    try:
        yield
    finally:
        del _blur.BLUR[NAME]


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
