"""Horizontal and vertical translation."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_choice
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._moves import Move, namespace, window
from jaxrob.alterations._resample import FILLS, grid, window_positions
from jaxrob.alterations._units import UNITS, rounded

_JUMP = (
    "The translation crops: any level but the identity magnifies the image. Unless a "
    'paper\'s numbers are wanted, pass fill="edge".'
)


def horizontal_translation(
    lower: float = -4.0, upper: float = 4.0, fill: str = "edge", unit: str = "px"
) -> Alteration:
    """Moves the content along the rows; a positive level moves it to the right.

    Arcaini et al. (2020), table I (HT). Fractional levels interpolate linearly.

    Args:
      lower: lowest level, at most 0.
      upper: highest level, at least 0.
      fill: how the places that the content leaves are filled. "edge": edge pixels
        repeat. "constant": black. "crop", as in the papers (`presets`): no border
        appears. Both axes are cropped to the window that the range's extremes leave
        inside the image, the window moves over the image, and its content is rescaled
        to the image's size. The identity stays uncropped, so that the image jumps
        there: any other level magnifies it, by 28 / 20 for 4 px either way of 28.
      unit: "px", or "relative" for levels in parts of the image's width.

    Returns:
      The alteration; identity 0.

    Raises:
      ValueError: if the range does not hold 0, or `fill` or `unit` is none of the
        above; when applied, if "crop" would leave nothing of the image.
    """
    return _translation("horizontal translation", 1, lower, upper, fill, unit)


def vertical_translation(
    lower: float = -4.0, upper: float = 4.0, fill: str = "edge", unit: str = "px"
) -> Alteration:
    """Moves the content along the columns; a positive level moves it down.

    Arcaini et al. (2020), table I (VT). Everything else is as in
    `horizontal_translation`, with the image's height in place of its width.
    """
    return _translation("vertical translation", 0, lower, upper, fill, unit)


def _translation(
    name: str, axis: int, lower: float, upper: float, fill: str, unit: str
) -> Alteration:
    check_choice(f"{name}: fill", fill, FILLS)
    check_choice(f"{name}: unit", unit, UNITS)
    lower, upper = checked_range(name, lower, upper, 0.0)
    relative = unit == "relative"
    side = "width" if axis else "height"

    def tenth(*sides: int) -> tuple[float, float]:
        end = 0.1 if relative else rounded(sides[axis] / 10)
        return -end, end

    def doubt(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
        size, farthest = image_shape[axis], max(-lower, upper)
        if farthest < (1 if relative else size):
            return None
        return (
            f"a level of {farthest:g} moves all of an image of {size} px out of sight. "
            'Levels are in pixels, or with unit="relative" in parts of the size: 0.1 '
            "is a tenth."
        )

    how: dict[str, Any] = {
        "name": name,
        "axis": axis,
        "extremes": (lower, upper),
        "fill": fill,
        "relative": relative,
    }
    return Alteration(
        name,
        hashable_partial(_translate, **how),
        lower,
        upper,
        identity=0.0,
        unit=f"of the {side}" if relative else unit,
        geometry=hashable_partial(_moves, **how),
        about=About(
            f"positive is {'to the right' if axis else 'down'}",
            {"fill": fill},
            {"fill": FILLS[fill]},
            default_range=tenth,
            range_from=f"10 % of the {side}, as in the papers of 2022 and 2024",
            doubt=doubt,
            size_matters=not relative,
            jump=_JUMP if fill == "crop" else "",
        ),
    )


def _translate(
    image: jax.Array, level: jax.Array, *, name: str, fill: str, **how: Any
) -> jax.Array:
    check_image(name, image)
    size = image.shape[:2]
    starts, scale = _window(jnp, level, size, name=name, fill=fill, **how)
    rows, columns = (
        window_positions(start, scale, length) for start, length in zip(starts, size)
    )
    return grid(image, rows, columns, fill)


def _moves(
    level: Any, size: tuple[int, int], *, fill: str, **how: Any
) -> tuple[Move, ...]:
    start, scale = _window(namespace(level), level, size, fill=fill, **how)
    return window(level, start, scale, fill)


def _window(
    xp: Any,
    level: Any,
    size: tuple[int, ...],
    *,
    name: str,
    axis: int,
    extremes: tuple[float, float],
    fill: str,
    relative: bool,
) -> tuple[tuple[Any, Any], Any]:
    """Returns top and left of the window that is shown, and its length over all."""
    length = size[axis]
    pixels = length if relative else 1
    start, scale = 0.0, 1.0
    if fill == "crop":
        first, last = (extreme * pixels for extreme in extremes)
        scale = 1 - (last - first) / length
        if scale <= 0:
            raise ValueError(
                f"{name}: the range [{first:g}, {last:g}] px leaves nothing of an "
                f'image of {length} px with fill="crop"'
            )
        # Only the identity shows the whole image.
        start = xp.where(level == 0, 0 * level, last)
        scale = xp.where(level == 0, 1 + 0 * level, scale)
    # The other axis is cropped by the same factor, about its centre.
    top, left = (0.5 * one * (1 - scale) for one in size)
    moved = start - level * pixels
    return ((top, moved) if axis else (moved, left)), scale
