"""Rotation."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_choice
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._forms import by_platform
from jaxrob.alterations._moves import Move, fill_outside, namespace
from jaxrob.alterations._resample import FILLS, bilinear, framed
from jaxrob.alterations._tiles import by_tiles


def rotation(
    lower: float | None = None, upper: float | None = None, fill: str = "edge"
) -> Alteration:
    """Rotates about the image's centre, interpolated bilinearly.

    Arcaini et al. (2020), table I (Rot). The level is the angle in degrees, positive
    anticlockwise. The default range is up to 180 degrees either way, as in the paper:
    nothing is kept upright. A camera rarely rotates as far, so a warning asks for a
    range.

    Args:
      lower: lowest angle, at most 0; None for -180.
      upper: highest angle, at least 0; None for 180.
      fill: how the places that the image's corners leave are filled. "edge": edge
        pixels repeat. "constant": black. "crop", as in the paper (`presets`): no border
        appears. The largest rectangle of the image's proportions (the largest square of
        a square image) that the rotated image holds is cropped and rescaled to the
        image's size, so that a rotation magnifies too: a square by 1.22 at 15 degrees
        and by 1.41 at 45.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if the range does not hold 0, or `fill` is none of the above.
    """
    check_choice("rotation: fill", fill, FILLS)
    doubt = _left_out if lower is None or upper is None else _in_radians
    lower, upper = checked_range(
        "rotation",
        -180.0 if lower is None else lower,
        180.0 if upper is None else upper,
        0.0,
    )
    return Alteration(
        "rotation",
        hashable_partial(_rotate, fill=fill),
        lower,
        upper,
        identity=0.0,
        unit="degrees",
        geometry=hashable_partial(_moves, fill=fill),
        about=About(
            "positive is anticlockwise",
            {"fill": fill},
            {"fill": FILLS[fill]},
            range_from="upside down too, as in the paper of 2020",
            doubt=doubt,
        ),
    )


def _left_out(lower: float, upper: float, image_shape: tuple[int, ...]) -> str:
    missing = "a range" if -lower == upper else "both ends"
    return (
        f"without {missing} it is [{lower:g}, {upper:g}] degrees, as in the paper of "
        "2020, so that pictures stand upside down too. Say what may happen to yours, "
        "such as rotation(-15, 15)."
    )


def _in_radians(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    ends = [end for end in (lower, upper) if end]
    turns = [math.degrees(end) for end in ends]
    # Angles in radians are recognised by their many digits: pi / 12 is 0.2617...
    if max(map(abs, turns)) > 361 or any(
        abs(turn - round(turn)) > 1e-4 or round(end, 3) == end
        for turn, end in zip(turns, ends)
    ):
        return None
    return (
        f"a range of [{lower:g}, {upper:g}] is in degrees, and looks like whole "
        "degrees in radians: "
        f"[{math.degrees(lower):.4g}, {math.degrees(upper):.4g}]."
    )


def _rotate(image: jax.Array, level: jax.Array, *, fill: str) -> jax.Array:
    check_image("rotation", image)
    height, width, _ = image.shape
    rows, columns = _source_positions(level, height, width, fill)
    forms = {
        name: functools.partial(form, fill=fill) for name, form in ROTATION.items()
    }
    size = max(height, width)
    return by_platform("rotation", size, forms, image, rows, columns)


def _in_tiles(
    image: jax.Array, rows: jax.Array, columns: jax.Array, fill: str
) -> jax.Array:
    image, rows, columns = framed(image, rows, columns, fill)
    # The sum of a sine and a cosine, which cropping scales to 1 at most.
    slope = 1.0 if fill == "crop" else math.sqrt(2)
    return by_tiles(image, rows, columns, slope)


# The forms of a rotation: functions of the image, the positions that it shows at each
# pixel, and the fill.
ROTATION = {"pixels": bilinear, "tiles": _in_tiles}


def _source_positions(
    degrees: jax.Array, height: int, width: int, fill: str
) -> tuple[jax.Array, jax.Array]:
    """Returns the row and the column that each output pixel shows, both `[H, W]`."""
    cos, sin, scale = _turn(jnp, degrees, height, width, fill)
    y = (jnp.arange(height, dtype=jnp.float32) - (height - 1) / 2)[:, None] * scale
    x = (jnp.arange(width, dtype=jnp.float32) - (width - 1) / 2)[None, :] * scale
    rows = cos * y + sin * x + (height - 1) / 2
    columns = cos * x - sin * y + (width - 1) / 2
    return rows, columns


def _moves(level: Any, size: tuple[int, int], *, fill: str) -> tuple[Move, ...]:
    xp, (height, width) = namespace(level), size
    cos, sin, scale = _turn(xp, level, height, width, fill)
    cos, sin, x, y = scale * cos, scale * sin, width / 2, height / 2
    matrix = [
        [cos, -sin, x - (cos * x - sin * y)],
        [sin, cos, y - (sin * x + cos * y)],
    ]
    return (Move(xp.array(matrix), fill_outside(fill)),)


def _turn(
    xp: Any, degrees: Any, height: int, width: int, fill: str
) -> tuple[Any, Any, Any]:
    """Returns the angle's cosine and sine, and the scale of what is shown."""
    angle = xp.deg2rad(degrees)
    cos, sin = xp.cos(angle), xp.sin(angle)
    if fill != "crop":
        return cos, sin, 1.0
    across = width * xp.abs(cos) + height * xp.abs(sin)
    along = width * xp.abs(sin) + height * xp.abs(cos)
    return cos, sin, xp.minimum(width / across, height / along)
