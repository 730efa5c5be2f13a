"""Weighted sums of an image's shifts: convolution with few taps or with many."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob.alterations._forms import by_platform

# With more taps, a product of spectra is faster.
_MOST_TAPS = 100
# Taps per iteration: with one, the loop reads and writes the sum too often.
_UNROLL = 4
# With more taps, a TPU multiplies.
_FEW_TAPS = 25


Offsets = np.ndarray | jax.Array


def shifts(image: jax.Array, num_taps: int, reach: int, beyond: str) -> jax.Array:
    """Prepares the parts of `shifted_sum` that do not depend on taps and weights."""
    padded = jnp.pad(image, ((reach, reach), (reach, reach), (0, 0)), mode=beyond)
    if num_taps > _MOST_TAPS:
        size = _spectrum_size(image, reach)
        padded = jnp.fft.rfft2(jnp.moveaxis(padded, -1, 0), size)
    return padded


def shifted_sum(
    image: jax.Array,
    padded: jax.Array,
    rows: Offsets,
    columns: Offsets,
    weights: jax.Array,
    reach: int,
) -> jax.Array:
    """Sums weight times shifted image over all taps, `[H, W, C]`."""
    if len(weights) > _MOST_TAPS:
        # The identity is exact without a spectrum.
        return jax.lax.cond(
            weights.max() == 1,
            lambda: image,
            lambda: _by_spectrum(image, padded, rows, columns, weights, reach),
        )
    size = max(image.shape[:2])
    if isinstance(rows, np.ndarray):
        forms = {
            name: functools.partial(form, rows=rows, columns=columns, reach=reach)
            for name, form in SHIFTS.items()
        }
        return by_platform("shifts", size, forms, padded, weights)
    forms = {
        name: functools.partial(form, reach=reach) for name, form in OWN_SHIFTS.items()
    }
    return by_platform("own shifts", size, forms, padded, weights, rows, columns)


def in_a_loop(
    padded: jax.Array, weights: jax.Array, rows: Offsets, columns: Offsets, reach: int
) -> jax.Array:
    """Computes `shifted_sum` of few taps one by one, on any platform."""
    shape = _unpadded_shape(padded, reach)
    if isinstance(rows, np.ndarray):
        # XLA would turn constant places into slices, and pad again for each.
        padded, rows, columns = jax.lax.optimization_barrier(
            (padded, jnp.asarray(rows, jnp.int32), jnp.asarray(columns, jnp.int32))
        )

    def add(tap: jax.Array, found: jax.Array) -> jax.Array:
        start = (reach + rows[tap], reach + columns[tap], jnp.int32(0))
        return found + weights[tap] * jax.lax.dynamic_slice(padded, start, shape)

    zeros = jnp.zeros(shape, padded.dtype)
    return jax.lax.fori_loop(0, len(weights), add, zeros, unroll=_UNROLL)


def _by_slices(
    padded: jax.Array, weights: jax.Array, rows: Offsets, columns: Offsets, reach: int
) -> jax.Array:
    """Sums all taps in one kernel, because their places are known."""
    height, width, _ = shape = _unpadded_shape(padded, reach)
    found = jnp.zeros(shape, padded.dtype)
    for weight, row, column in zip(weights, rows + reach, columns + reach):
        found += weight * padded[row : row + height, column : column + width]
    return found


def _by_bands(
    padded: jax.Array, weights: jax.Array, rows: Offsets, columns: Offsets, reach: int
) -> jax.Array:
    """Multiplies whole lines by a matrix for each line of the kernel."""
    # Few taps take the slices: for 21 a v5e's compiler estimates 0.88, by products
    # 0.83.
    if len(rows) <= _FEW_TAPS:
        return _by_slices(padded, weights, rows, columns, reach)
    _, width, _ = _unpadded_shape(padded, reach)
    length = 2 * reach + 1
    kernel = jnp.zeros((length, length), padded.dtype)
    kernel = kernel.at[rows + reach, columns + reach].add(weights)
    # [line, input pixel, output pixel].
    place = np.arange(width + 2 * reach)[:, None] - np.arange(width)
    is_tap = (place >= 0) & (place < length)
    bands = jnp.where(is_tap, kernel[:, np.clip(place, 0, length - 1)], 0.0)
    sums = jax.lax.conv_general_dilated(
        jnp.moveaxis(padded, -1, 0),
        bands,
        window_strides=(1,),
        padding="VALID",
        dimension_numbers=("NWC", "WIO", "NWC"),
        precision=jax.lax.Precision.HIGHEST,  # no TF32 or bfloat16
    )
    return jnp.moveaxis(sums, 0, -1)


def _step_by_step(
    padded: jax.Array, weights: jax.Array, rows: Offsets, columns: Offsets, reach: int
) -> jax.Array:
    """Moves the image by at most a pixel from tap to tap, without gathers."""
    height, width, _ = _unpadded_shape(padded, reach)

    def moved(padded: jax.Array, step: jax.Array, axis: int) -> jax.Array:
        # Values that enter at the far edges never reach the image.
        sides, none = [(0, 0, 0)] * padded.ndim, jnp.zeros((), padded.dtype)
        after, before = (
            jax.lax.pad(padded, none, [*sides[:axis], (-by, by, 0), *sides[axis + 1 :]])
            for by in (1, -1)
        )
        stays = jnp.where(step == 0, padded, before)
        return jnp.where(step > 0, after, stays)

    def add(
        tap: jax.Array, state: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        found, padded = state
        padded = moved(padded, rows[tap] - rows[tap - 1], 0)
        padded = moved(padded, columns[tap] - columns[tap - 1], 1)
        inner = padded[reach : reach + height, reach : reach + width]
        return found + weights[tap] * inner, padded

    first = weights[0] * padded[reach : reach + height, reach : reach + width]
    return jax.lax.fori_loop(1, len(weights), add, (first, padded))[0]


# The forms of `shifted_sum` for taps shared by all images, and for taps of each image:
# functions of the padded image, weights, rows, columns and reach.
SHIFTS = {"loop": in_a_loop, "slices": _by_slices, "bands": _by_bands}
OWN_SHIFTS = {"loop": in_a_loop, "steps": _step_by_step}


def _unpadded_shape(padded: jax.Array, reach: int) -> tuple[int, int, int]:
    height, width, channels = padded.shape
    return height - 2 * reach, width - 2 * reach, channels


def _by_spectrum(
    image: jax.Array,
    spectrum: jax.Array,
    rows: Offsets,
    columns: Offsets,
    weights: jax.Array,
    reach: int,
) -> jax.Array:
    height, width, _ = image.shape
    size = _spectrum_size(image, reach)
    # Flipped around the origin, because convolution flips it back, and shifted so that
    # pixel (0, 0) of the result is the image's.
    kernel = jnp.zeros(size, image.dtype)
    kernel = kernel.at[-(reach + rows), -(reach + columns)].add(weights)
    sums = jnp.fft.irfft2(spectrum * jnp.fft.rfft2(kernel), size)
    return jnp.moveaxis(sums[:, :height, :width], 0, -1)


def _spectrum_size(image: jax.Array, reach: int) -> tuple[int, int]:
    # The sums wrap around, but only over the padding.
    height, width = (
        scipy.fft.next_fast_len(side + 2 * reach, real=True) or side + 2 * reach
        for side in image.shape[:2]
    )
    return height, width
