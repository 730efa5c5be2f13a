"""Elastic deformation."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob._identity.digest import hashable_partial
from jaxrob.alterations._alteration import (
    UNITS,
    About,
    Alteration,
    check_image,
    checked_range,
    from_0_to_part,
    in_pixels,
    unit_text,
)
from jaxrob.alterations._resample import separable, warped

# The Gaussian's half width in standard deviations.
_TRUNCATE = 3.0
# A smoother field displaces all pixels of any image alike.
_SMOOTHEST = 1000.0
# The variance of the uniform distribution on [-1, 1].
_VARIANCE = 1 / 3


class Displacement(NamedTuple):
    """The offset from each pixel to the point that it shows, along each axis."""

    rows: jax.Array  # in pixels, `[H, W]`
    columns: jax.Array  # in pixels, `[H, W]`


def elastic_deformation(
    lower: float = 0.0, upper: float = 2.0, smoothness: float = 4.0, unit: str = "px"
) -> Alteration:
    """Moves every pixel by a smooth random field, as tissue or cloth that is stretched.

    The level is the displacement, from 0 on: its root mean square along each axis, over
    images and pixels. The field is a map of numbers drawn evenly, convolved with a
    Gaussian; it is the same at all levels up to its scale. Beyond the edge the image is
    mirrored. Of the range and errors see `jaxrob.alterations`.

    Args:
      lower: smallest displacement, 0.
      upper: largest displacement.
      smoothness: the Gaussian's standard deviation, above 0 and at most 1,000.
        Displacements much larger than it fold the image.
      unit: "px", or "relative" for levels and smoothness in parts of the image's
        shorter side.

    Source: Simard, Steinkraus and Platt, Best practices for convolutional neural
    networks applied to visual document analysis, 2003.
    """
    check_choice("elastic_deformation: unit", unit, UNITS)
    smoothness = checked_number(
        "elastic_deformation: smoothness", smoothness, above=0, at_most=_SMOOTHEST
    )
    lower, upper = checked_range("elastic_deformation", lower, upper, 0.0, at_least=0)
    return Alteration(
        "elastic deformation",
        hashable_partial(_deform, unit=unit),
        lower,
        upper,
        identity=0.0,
        unit=unit_text(unit),
        stochastic=True,
        prepare=hashable_partial(_prepare, smoothness=smoothness, unit=unit),
        moves_pixels=True,
        about=About(
            "the root mean square of the displacement along each axis",
            {"smoothness": smoothness},
            {"smoothness": "the Gaussian's standard deviation, in the levels' unit"},
            default_range=from_0_to_part(50, unit),
            range_from="2 % of the shorter side",
            size_matters=unit == "px",
        ),
    )


def draw_uniform(image: jax.Array, key: jax.Array) -> Displacement:
    """Draws numbers uniformly from [-1, 1) for each pixel and axis."""
    shape = (2, *image.shape[:2])
    return Displacement(*jax.random.uniform(key, shape, jnp.float32, -1.0))


def smooth(uniform: Displacement, sigma: float) -> Displacement:
    """Convolves the numbers with a Gaussian, mirrored beyond the edges."""
    rows, columns = (
        jnp.asarray(_gaussian_matrix(size, sigma)) for size in uniform.rows.shape
    )
    both = separable(jnp.stack(uniform), rows, columns)
    return Displacement(both[..., 0], both[..., 1])


def displaced(by: Displacement) -> tuple[jax.Array, jax.Array]:
    """Returns the rows and columns that displaced pixels show, both `[H, W]`."""
    # Beyond the edge the image is mirrored, its edge pixels repeated.
    height, width = by.rows.shape
    rows = jnp.arange(height, dtype=jnp.float32)[:, None] + by.rows
    columns = jnp.arange(width, dtype=jnp.float32) + by.columns
    return _mirrored(rows, height), _mirrored(columns, width)


def _mirrored(positions: jax.Array, size: int) -> jax.Array:
    """Mirrors positions at the edges, into [-1/2, size - 1/2]."""
    turn = jnp.mod(positions + 0.5, 2 * size)
    return jnp.minimum(turn, 2 * size - turn) - 0.5


def _gaussian_matrix(size: int, sigma: float) -> np.ndarray:
    identity = np.eye(size)
    if sigma == 0:
        return identity.astype(np.float32)
    matrix = scipy.ndimage.gaussian_filter1d(
        identity, sigma, axis=0, mode="reflect", truncate=_TRUNCATE
    )
    return matrix.astype(np.float32)


def _prepare(
    image: jax.Array, key: jax.Array, *, smoothness: float, unit: str
) -> tuple[jax.Array, Displacement]:
    check_image("elastic_deformation", image)
    sigma = in_pixels(smoothness, unit, image)
    field = smooth(draw_uniform(image, key), sigma)
    # Of independent numbers: the sum of the squares of their weights, at each pixel.
    squares = [np.square(_gaussian_matrix(n, sigma)).sum(1) for n in image.shape[:2]]
    scale = 1 / np.sqrt(_VARIANCE * squares[0].mean() * squares[1].mean())
    return image, Displacement(*(scale * part for part in field))


def _deform(
    image_and_field: tuple[jax.Array, Displacement], level: jax.Array, *, unit: str
) -> jax.Array:
    image, field = image_and_field
    scale = in_pixels(level, unit, image)
    by = Displacement(*(scale * part for part in field))
    return warped(image, *displaced(by))
