"""Motion blur."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image, in_float32
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._shifts import shifted_sum, shifts
from jaxrob.alterations._units import (
    UNITS,
    from_0_to_part,
    in_pixels,
    unit_text,
)

# The kernel's length in standard deviations: 3e-3 of its weight lies beyond.
_TRUNCATE = 3.0
# A longer kernel would exceed any image of which something would remain visible.
_LARGEST = 1_000.0
# Below this standard deviation (in pixels) float32's kernel is exactly one pixel.
_SMALLEST = 0.05


class Motion(NamedTuple):
    """The random draw.

    Attributes:
      angle: the motion's direction in degrees, 0 along the rows, a scalar.
    """

    angle: jax.Array


class Line(NamedTuple):
    """An image prepared for `moved`.

    Attributes:
      padded: from `shifts`.
      rows: integers `[T]`, how many pixels below a pixel each tap lies.
      columns: integers `[T]`, how many pixels right of it.
    """

    padded: jax.Array
    rows: jax.Array
    columns: jax.Array


def motion_blur(
    lower: float = 0.0, upper: float = 4.0, angle: float = 45.0, unit: str = "px"
) -> Alteration:
    """Blurs like a camera that moves along a line and slows down.

    Every pixel becomes the mean of the pixels on a line that starts at it, weighted by
    one half of a Gaussian, whose standard deviation is the level. The line ends at 3
    standard deviations; its pixels are those nearest to it, and beyond the edge
    edge pixels repeat. The direction is drawn once for each image.

    Example::

        blur = jaxrob.alterations.motion_blur(0.0, 3.0)
        blurred = blur(image, 2.5, key)

    Args:
      lower: smallest standard deviation, 0: the range must hold the identity.
      upper: largest standard deviation, at most 1,000 px.
      angle: directions are drawn uniformly from -angle to angle, in degrees from the
        rows, at most 180; at 0 the motion is along the rows for all images.
      unit: "px", or "relative" for levels in parts of the image's shorter side.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0, the range empty, `angle` outside [0, 180] or
        `unit` none of the above.

    Source: ImageMagick's MotionBlurImage, which Hendrycks and Dietterich, Benchmarking
    neural network robustness to common corruptions and perturbations, 2019, use. Their
    severities are in `jaxrob.alterations.corruptions`.
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
        prepare=hashable_partial(_prepare, largest=upper, unit=unit, angle=angle),
        about=About(
            "the standard deviation of half a Gaussian along the motion",
            {"angle": angle},
            {"angle": "directions are drawn up to so many degrees from the rows"},
            default_range=from_0_to_part(20, unit),
            range_from="5 % of the shorter side",
            size_matters=unit == "px",
        ),
    )


def ready(image: jax.Array, motion: Motion, taps: int) -> Line:
    """Prepares the image for `moved` with as many taps."""
    step = jnp.arange(taps, dtype=jnp.float32)
    angle = jnp.deg2rad(motion.angle)

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
    found = shifted_sum(image, *line, weights, len(step) - 1)
    return jnp.clip(found, 0.0, 1.0)


def draw_motion(key: jax.Array, lowest: float, highest: float) -> Motion:
    """Draws a direction in degrees uniformly between the two."""
    return Motion(jax.random.uniform(key, (), jnp.float32, lowest, highest))


def _taps(largest: float) -> int:
    return math.ceil(_TRUNCATE * largest) + 1


def _prepare(
    image: jax.Array, key: jax.Array, *, largest: float, unit: str, angle: float
) -> tuple[jax.Array, Line]:
    check_image("motion_blur", image)
    image = in_float32(image)
    taps = _taps(in_pixels(largest, unit, image))
    return image, ready(image, draw_motion(key, -angle, angle), taps)


def _move(
    image_and_line: tuple[jax.Array, Line], level: jax.Array, *, unit: str
) -> jax.Array:
    image, line = image_and_line
    sigma = in_pixels(level, unit, image)
    return moved(image, line, sigma, _TRUNCATE * sigma + 1)
