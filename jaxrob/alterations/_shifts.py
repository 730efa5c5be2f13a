"""Weighted sums of an image's shifts: convolution with few taps or with many."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import scipy

# With more taps than these a product of spectra is faster.
_MOST_TAPS = 100
# Taps of one turn of the loop: a turn for each would read and write the sum too often.
_UNROLL = 4


class Shifts(NamedTuple):
    """An image made ready for sums of its shifts.

    Attributes:
      padded: the image with what lies around it, `[H + 2 R, W + 2 R, C]`, or its
        spectrum, `[C, ., .]`.
      rows: `[T]`, how many pixels below a pixel each tap lies, at most R either way.
      columns: `[T]`, how many pixels right of it.
    """

    padded: jax.Array
    rows: jax.Array
    columns: jax.Array


def shifts(
    image: jax.Array, rows: jax.Array, columns: jax.Array, reach: int, beyond: str
) -> Shifts:
    """What does not depend on the taps' weights.

    Args:
      image: `[H, W, C]`.
      rows: integers `[T]`, as in `Shifts`.
      columns: integers `[T]`.
      reach: their largest size, R.
      beyond: what lies around the image, a mode of `numpy.pad`.
    """
    padded = jnp.pad(image, ((reach, reach), (reach, reach), (0, 0)), mode=beyond)
    if len(rows) > _MOST_TAPS:
        size = _spectrum_size(image, reach)
        padded = jnp.fft.rfft2(jnp.moveaxis(padded, -1, 0), size)
    return Shifts(padded, jnp.asarray(rows), jnp.asarray(columns))


def shifted_sum(
    image: jax.Array, parts: Shifts, weights: jax.Array, reach: int
) -> jax.Array:
    """The sum over all taps of weight times image shifted, `[H, W, C]`.

    Args:
      image: `[H, W, C]`.
      parts: from `shifts`.
      weights: `[T]`, not negative; their sum is 1, and if one of them is 1 it is that
        of the pixel itself.
      reach: as for `shifts`.
    """
    if len(weights) > _MOST_TAPS:
        # The identity is exact without a spectrum.
        return jax.lax.cond(
            weights.max() == 1,
            lambda: image,
            lambda: _by_spectrum(image, parts, weights, reach),
        )
    padded, rows, columns = parts

    def add(tap: jax.Array, found: jax.Array) -> jax.Array:
        start = (reach + rows[tap], reach + columns[tap], 0)
        return found + weights[tap] * jax.lax.dynamic_slice(padded, start, image.shape)

    return jax.lax.fori_loop(
        0, len(weights), add, jnp.zeros_like(image), unroll=_UNROLL
    )


def _by_spectrum(
    image: jax.Array, parts: Shifts, weights: jax.Array, reach: int
) -> jax.Array:
    spectrum, rows, columns = parts
    height, width, _ = image.shape
    size = _spectrum_size(image, reach)
    # Turned around the origin, as convolution turns it back; and shifted so that pixel
    # (0, 0) of the result is the image's.
    kernel = jnp.zeros(size, image.dtype)
    kernel = kernel.at[-(reach + rows), -(reach + columns)].add(weights)
    sums = jnp.fft.irfft2(spectrum * jnp.fft.rfft2(kernel), size)
    return jnp.moveaxis(sums[:, :height, :width], 0, -1)


def _spectrum_size(image: jax.Array, reach: int) -> tuple[int, int]:
    # The sums wrap around, over nothing but what lies around the image.
    height, width = (
        scipy.fft.next_fast_len(side + 2 * reach, real=True) or side + 2 * reach
        for side in image.shape[:2]
    )
    return height, width
