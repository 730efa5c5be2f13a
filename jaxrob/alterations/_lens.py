"""Weighted sums of an image's shifts, and defocus and motion blur, made of them."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob._identity.identity import hashable_partial
from jaxrob.alterations._alteration import (
    UNITS,
    About,
    Alteration,
    check_image,
    checked_range,
    from_0_to_part,
    in_float32,
    in_pixels,
    unit_text,
)
from jaxrob.alterations._forms import by_platform

# Larger disks and longer kernels would exceed any image that still shows something.
_LARGEST = 1_000.0


def defocus_blur(
    lower: float = 0.0, upper: float = 4.0, unit: str = "px"
) -> Alteration:
    """Blurs as a lens out of focus does: every point becomes an even disk.

    The level is the disk's radius. At a whole number of pixels the disk holds all
    pixels at most that far; between two such disks it is a mixture of theirs. Beyond
    the edge the image is mirrored, its edge pixels not repeated. Of the range and
    errors see `jaxrob.alterations`.

    Example::

        blur = jaxrob.alterations.defocus_blur(0.0, 3.0)
        blurred = blur(image, 2.5)

    Args:
      lower: smallest radius, 0.
      upper: largest radius, at most 1,000 px.
      unit: "px", or "relative" for levels in parts of the image's shorter side.

    Source: Hendrycks and Dietterich, Benchmarking neural network robustness to common
    corruptions and perturbations, 2019. `jaxrob.alterations.corruptions` has its
    severities.
    """
    check_choice("defocus_blur: unit", unit, UNITS)
    lower, upper = checked_range(
        "defocus_blur", lower, upper, 0.0, at_least=0, at_most=_LARGEST
    )
    return Alteration(
        "defocus blur",
        hashable_partial(_defocus, largest=upper, unit=unit),
        lower,
        upper,
        identity=0.0,
        unit=unit_text(unit),
        prepare=hashable_partial(_prepare_disk, largest=upper, unit=unit),
        about=About(
            "the radius of the disk that a point becomes",
            default_range=functools.partial(from_0_to_part, number=20, unit=unit),
            range_from="5 % of the shorter side",
            size_matters=unit == "px",
        ),
    )


def ready_for_disk(image: jax.Array, offsets: np.ndarray) -> jax.Array:
    """Prepares the image for `defocused`; `offsets` are the kernel's, `[T, 2]`."""
    reach = int(np.abs(offsets).max(initial=0))
    return shifts(image, len(offsets), reach, "reflect")


def defocused(
    image: jax.Array, padded: jax.Array, offsets: np.ndarray, weights: jax.Array
) -> jax.Array:
    reach = int(np.abs(offsets).max(initial=0))
    rows, columns = offsets.T
    return jnp.clip(shifted_sum(image, padded, rows, columns, weights, reach), 0.0, 1.0)


def _prepare_disk(
    image: jax.Array, *, largest: float, unit: str
) -> tuple[jax.Array, jax.Array]:
    check_image("defocus_blur", image)
    image = in_float32(image)
    return image, ready_for_disk(image, _offsets(in_pixels(largest, unit, image)))


def _defocus(
    image_and_padded: tuple[jax.Array, jax.Array],
    level: jax.Array,
    *,
    largest: float,
    unit: str,
) -> jax.Array:
    image, padded = image_and_padded
    offsets = _offsets(in_pixels(largest, unit, image))
    radius = in_pixels(level, unit, image)
    # The radius of the smallest disk that holds a pixel.
    first = np.float32(np.ceil(np.hypot(offsets[:, 0], offsets[:, 1])))
    weights = jnp.clip(radius + 1 - first, 0.0, 1.0)
    return defocused(image, padded, offsets, weights / weights.sum())


def _offsets(largest: float) -> np.ndarray:
    """Returns row and column of the pixels that some disk holds, `[T, 2]`."""
    reach = math.ceil(largest)
    square = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
    return square[(square**2).sum(1) <= reach**2]


# The kernel's length in standard deviations: 3e-3 of its weight lies beyond.
_TRUNCATE = 3.0
# Below this standard deviation (in pixels) float32's kernel is exactly one pixel.
_SMALLEST = 0.05


class Line(NamedTuple):
    """An image prepared for `moved`."""

    padded: jax.Array  # from `shifts`
    rows: jax.Array  # integers `[T]`, how many pixels below a pixel each tap lies
    columns: jax.Array  # integers `[T]`, how many pixels right of it


def motion_blur(
    lower: float = 0.0, upper: float = 4.0, angle: float = 45.0, unit: str = "px"
) -> Alteration:
    """Blurs like a camera that moves along a line and slows down.

    Every pixel becomes the mean of the pixels on a line that starts at it, weighted by
    one half of a Gaussian, whose standard deviation is the level. The line ends at 3
    standard deviations; its pixels are those nearest to it, and beyond the edge edge
    pixels repeat. The direction is drawn once for each image. Masks and boxes stay, at
    one end of the motion. Of the range and errors see `jaxrob.alterations`.

    Example::

        blur = jaxrob.alterations.motion_blur(0.0, 3.0)
        blurred = blur(image, 2.5, key)

    Args:
      lower: smallest standard deviation, 0.
      upper: largest standard deviation, at most 1,000 px.
      angle: directions are drawn uniformly from -angle to angle, in degrees from the
        rows, at most 180; at 0 the motion is along the rows for all images.
      unit: "px", or "relative" for levels in parts of the image's shorter side.

    Source: ImageMagick's MotionBlurImage, which the paper of `defocus_blur` uses.
    """
    check_choice("motion_blur: unit", unit, UNITS)
    angle = checked_number("motion_blur: angle", angle, at_least=0, at_most=180)
    lower, upper = checked_range(
        "motion_blur", lower, upper, 0.0, at_least=0, at_most=_LARGEST
    )
    return Alteration(
        "motion blur",
        hashable_partial(_move, unit=unit),
        lower,
        upper,
        identity=0.0,
        unit=unit_text(unit),
        stochastic=True,
        prepare=hashable_partial(_prepare_line, largest=upper, unit=unit, angle=angle),
        about=About(
            "the standard deviation of half a Gaussian along the motion",
            {"angle": angle},
            {"angle": "directions are drawn up to so many degrees from the rows"},
            default_range=functools.partial(from_0_to_part, number=20, unit=unit),
            range_from="5 % of the shorter side",
            size_matters=unit == "px",
        ),
    )


def ready_for_line(image: jax.Array, degrees: jax.Array, taps: int) -> Line:
    """Prepares the image for `moved`, in a direction in degrees from the rows."""
    step = jnp.arange(taps, dtype=jnp.float32)
    angle = jnp.deg2rad(degrees)

    def nearest(position: jax.Array) -> jax.Array:
        return jnp.ceil(position - 0.5).astype(jnp.int32)

    rows, columns = nearest(step * jnp.sin(angle)), nearest(step * jnp.cos(angle))
    return Line(shifts(image, taps, taps - 1, "edge"), rows, columns)


def moved(
    image: jax.Array,
    line: Line,
    sigma: jax.typing.ArrayLike,
    width: jax.typing.ArrayLike,
) -> jax.Array:
    """Blurs the image by a kernel of `width` taps; the last may be a fraction."""
    step = jnp.arange(len(line.rows), dtype=jnp.float32)
    weights = jnp.exp(-0.5 * jnp.square(step / jnp.maximum(sigma, _SMALLEST)))
    weights = weights * jnp.clip(width - step, 0.0, 1.0)
    weights = weights / weights.sum()
    return jnp.clip(shifted_sum(image, *line, weights, len(step) - 1), 0.0, 1.0)


def draw_angle(key: jax.Array, lowest: float, highest: float) -> jax.Array:
    return jax.random.uniform(key, (), jnp.float32, lowest, highest)


def _prepare_line(
    image: jax.Array, key: jax.Array, *, largest: float, unit: str, angle: float
) -> tuple[jax.Array, Line]:
    check_image("motion_blur", image)
    image = in_float32(image)
    taps = math.ceil(_TRUNCATE * in_pixels(largest, unit, image)) + 1
    return image, ready_for_line(image, draw_angle(key, -angle, angle), taps)


def _move(
    image_and_line: tuple[jax.Array, Line], level: jax.Array, *, unit: str
) -> jax.Array:
    image, line = image_and_line
    sigma = in_pixels(level, unit, image)
    return moved(image, line, sigma, _TRUNCATE * sigma + 1)


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
        return by_platform(
            "shifts",
            size,
            SHIFTS,
            padded,
            weights,
            rows=rows,
            columns=columns,
            reach=reach,
        )
    return by_platform(
        "own shifts", size, OWN_SHIFTS, padded, weights, rows, columns, reach=reach
    )


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
        return jnp.where(step > 0, after, jnp.where(step == 0, padded, before))

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
