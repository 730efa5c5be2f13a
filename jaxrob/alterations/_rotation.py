"""Rotation."""

import jax
import jax.numpy as jnp

from jaxrob._runtime.bound import bind
from jaxrob.alterations._alteration import Alteration, check_image, checked_range
from jaxrob.alterations._resample import bilinear, check_fill


def rotation(
    lower: float = -180.0, upper: float = 180.0, fill: str = "edge"
) -> Alteration:
    """Rotates about the image's centre, interpolated bilinearly.

    Arcaini et al. (2020), table I (Rot). The level is the angle in degrees, positive
    anticlockwise. Without a range it is by up to 180 degrees either way, as in the
    paper: nothing is kept upright. What a camera may do is most often far less.

    Args:
      lower: lowest angle, at most 0.
      upper: highest angle, at least 0.
      fill: what stands where the image's corners leave the frame. "edge": edge pixels
        repeat. "constant": black. "crop", as in the paper (`presets`): no border
        appears. The largest rectangle of the image's proportions (the largest square
        of a square image) that the rotated image holds is cropped and rescaled to the
        image's size, so that a rotation magnifies too: a square by 1.22 at 15 degrees
        and by 1.41 at 45.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if the range does not hold 0, or `fill` is none of the above.
    """
    check_fill("rotation", fill)
    lower, upper = checked_range("rotation", lower, upper, 0.0)
    return Alteration(
        "rotation", bind(_rotate, fill=fill), lower, upper, identity=0.0, unit="degrees"
    )


def _rotate(image: jax.Array, level: jax.Array, *, fill: str) -> jax.Array:
    check_image("rotation", image)
    height, width, _ = image.shape
    rows, columns = _source_positions(level, height, width, fill)
    return bilinear(image, rows, columns, fill)


def _source_positions(
    degrees: jax.Array, height: int, width: int, fill: str
) -> tuple[jax.Array, jax.Array]:
    """The row and the column that each output pixel shows, both `[H, W]`."""
    angle = jnp.deg2rad(degrees)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    scale = 1.0
    if fill == "crop":
        across = width * jnp.abs(cos) + height * jnp.abs(sin)
        along = width * jnp.abs(sin) + height * jnp.abs(cos)
        scale = jnp.minimum(width / across, height / along)
    y = (jnp.arange(height) - (height - 1) / 2)[:, None] * scale
    x = (jnp.arange(width) - (width - 1) / 2)[None, :] * scale
    rows = cos * y + sin * x + (height - 1) / 2
    columns = cos * x - sin * y + (width - 1) / 2
    return rows, columns
