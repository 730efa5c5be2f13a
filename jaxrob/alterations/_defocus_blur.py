"""Defocus blur."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_choice
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

# A larger disk would exceed any image of which something would remain visible.
_LARGEST = 1_000.0


def defocus_blur(
    lower: float = 0.0, upper: float = 4.0, unit: str = "px"
) -> Alteration:
    """Blurs as a lens out of focus does: every point becomes an even disk.

    The level is the disk's radius. At a whole number of pixels the disk holds all
    pixels at most that far; between two such disks it is a mixture of theirs. Beyond
    the edge the image is mirrored, its edge pixels not repeated.

    Example::

        blur = jaxrob.alterations.defocus_blur(0.0, 3.0)
        blurred = blur(image, 2.5)

    Args:
      lower: smallest radius, 0: the range must hold the identity.
      upper: largest radius, at most 1,000 px.
      unit: "px", or "relative" for levels in parts of the image's shorter side.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if `lower` is not 0, the range empty or `unit` none of the above.

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
        prepare=hashable_partial(_prepare, largest=upper, unit=unit),
        about=About(
            "the radius of the disk that a point becomes",
            default_range=from_0_to_part(20, unit),
            range_from="5 % of the shorter side",
            size_matters=unit == "px",
        ),
    )


def ready(image: jax.Array, offsets: np.ndarray) -> jax.Array:
    """Prepares the image for `defocused`; `offsets` are the kernel's, `[T, 2]`."""
    reach = int(np.abs(offsets).max(initial=0))
    return shifts(image, len(offsets), reach, "reflect")


def defocused(
    image: jax.Array, padded: jax.Array, offsets: np.ndarray, weights: jax.Array
) -> jax.Array:
    """Convolves the image with a kernel, `[H, W, C]`."""
    reach = int(np.abs(offsets).max(initial=0))
    rows, columns = offsets.T
    found = shifted_sum(image, padded, rows, columns, weights, reach)
    return jnp.clip(found, 0.0, 1.0)


def _prepare(
    image: jax.Array, *, largest: float, unit: str
) -> tuple[jax.Array, jax.Array]:
    check_image("defocus_blur", image)
    image = in_float32(image)
    return image, ready(image, _offsets(in_pixels(largest, unit, image)))


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
