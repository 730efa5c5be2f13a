"""Rotation, zoom, translation and elastic deformation."""

import functools
import math
from typing import Any, NamedTuple

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
    in_pixels,
    rounded,
    unit_text,
)
from jaxrob.alterations._forms import by_platform
from jaxrob.alterations._moves import Move, fill_outside, namespace, window
from jaxrob.alterations._resample import (
    FILLS,
    bilinear,
    by_tiles,
    framed,
    grid,
    separable,
    warped,
    window_positions,
)


def rotation(
    lower: float | None = None, upper: float | None = None, fill: str = "edge"
) -> Alteration:
    """Rotates about the image's centre, interpolated bilinearly.

    Arcaini et al. (2020), table I (Rot). The level is the angle in degrees, positive
    anticlockwise; the identity is 0. The default range is up to 180 degrees either way,
    as in the paper: nothing is kept upright. A camera rarely rotates as far, so a
    warning asks for a range. Of errors see `jaxrob.alterations`.

    Args:
      lower: lowest angle, at most 0; None for -180.
      upper: highest angle, at least 0; None for 180.
      fill: how the places that the image's corners leave are filled. "edge": edge
        pixels repeat. "constant": black. "crop", as in the paper (`presets`): no border
        appears. The largest rectangle of the image's proportions (the largest square of
        a square image) that the rotated image holds is cropped and rescaled to the
        image's size, so that a rotation magnifies too: a square by 1.22 at 15 degrees
        and by 1.41 at 45.
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
        geometry=hashable_partial(_rotation_moves, fill=fill),
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
    size = max(height, width)
    return by_platform("rotation", size, ROTATION, image, rows, columns, fill=fill)


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


def _rotation_moves(
    level: Any, size: tuple[int, int], *, fill: str
) -> tuple[Move, ...]:
    xp, (height, width) = namespace(level), size
    cos, sin, scale = _turn(xp, level, height, width, fill)
    cos, sin, x, y = scale * cos, scale * sin, width / 2, height / 2
    matrix = [[cos, -sin, x - (cos * x - sin * y)], [sin, cos, y - (sin * x + cos * y)]]
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


def zoom(lower: float = 1.0, upper: float = 2.0) -> Alteration:
    """Magnifies about the centre: a central crop, rescaled bilinearly.

    Arcaini et al. (2020), table I (Z). The level is the factor of magnification, from
    1, the identity, on: below, it would show what lies outside the image. Of the range
    and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("zoom", lower, upper, 1.0, at_least=1)
    return Alteration(
        "zoom",
        _magnify,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        geometry=_zoom_moves,
        about=About("above 1 the image is magnified", range_from="as in the papers"),
    )


def _magnify(image: jax.Array, level: jax.Array) -> jax.Array:
    check_image("zoom", image)
    height, width, _ = image.shape
    scale = 1 / level

    def positions(size: int) -> jax.Array:
        return window_positions(0.5 * size * (1 - scale), scale, size)

    return grid(image, positions(height), positions(width), "edge")


def _zoom_moves(level: Any, size: tuple[int, int]) -> tuple[Move, ...]:
    height, width = size
    scale = 1 / level
    start = 0.5 * height * (1 - scale), 0.5 * width * (1 - scale)
    return window(level, start, scale, "crop")


_JUMP = (
    "The translation crops: any level but the identity magnifies the image. Unless a "
    'paper\'s numbers are wanted, pass fill="edge".'
)


def horizontal_translation(
    lower: float = -4.0, upper: float = 4.0, fill: str = "edge", unit: str = "px"
) -> Alteration:
    """Moves the content along the rows; a positive level moves it to the right.

    Arcaini et al. (2020), table I (HT). Fractional levels interpolate linearly; the
    identity is 0. Of the range and errors see `jaxrob.alterations`.

    Args:
      lower: lowest level, at most 0.
      upper: highest level, at least 0.
      fill: how the places that the content leaves are filled. "edge": edge pixels
        repeat. "constant": black. "crop", as in the papers (`presets`): no border
        appears. Both axes are cropped to the window that the range's extremes leave
        inside the image, the window moves over the image, and its content is rescaled
        to the image's size. The identity stays uncropped, so that the image jumps
        there: any other level magnifies it, by 28 / 20 for 4 px either way of 28. A
        range that would leave nothing is a ValueError when applied.
      unit: "px", or "relative" for levels in parts of the image's width.
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
    how = _Translation(name, axis, (lower, upper), fill, relative)
    return Alteration(
        name,
        hashable_partial(_translate, how=how),
        lower,
        upper,
        identity=0.0,
        unit=f"of the {side}" if relative else unit,
        geometry=hashable_partial(_translation_moves, how=how),
        about=About(
            f"positive is {'to the right' if axis else 'down'}",
            {"fill": fill},
            {"fill": FILLS[fill]},
            default_range=functools.partial(_tenth, how=how),
            range_from=f"10 % of the {side}, as in the papers of 2022 and 2024",
            doubt=functools.partial(_out_of_sight, how=how),
            size_matters=not relative,
            jump=_JUMP if fill == "crop" else "",
        ),
    )


class _Translation(NamedTuple):
    name: str
    axis: int
    extremes: tuple[float, float]
    fill: str
    relative: bool


def _tenth(*sides: int, how: _Translation) -> tuple[float, float]:
    end = 0.1 if how.relative else rounded(sides[how.axis] / 10)
    return -end, end


def _out_of_sight(
    lower: float, upper: float, image_shape: tuple[int, ...], *, how: _Translation
) -> str | None:
    size, farthest = image_shape[how.axis], max(-lower, upper)
    if farthest < (1 if how.relative else size):
        return None
    return (
        f"a level of {farthest:g} moves all of an image of {size} px out of sight. "
        'Levels are in pixels, or with unit="relative" in parts of the size: 0.1 '
        "is a tenth."
    )


def _translate(image: jax.Array, level: jax.Array, *, how: _Translation) -> jax.Array:
    check_image(how.name, image)
    size = image.shape[:2]
    starts, scale = _window(jnp, level, size, how)
    rows, columns = (
        window_positions(start, scale, length) for start, length in zip(starts, size)
    )
    return grid(image, rows, columns, how.fill)


def _translation_moves(
    level: Any, size: tuple[int, int], *, how: _Translation
) -> tuple[Move, ...]:
    start, scale = _window(namespace(level), level, size, how)
    return window(level, start, scale, how.fill)


def _window(
    xp: Any, level: Any, size: tuple[int, ...], how: _Translation
) -> tuple[tuple[Any, Any], Any]:
    """Returns top and left of the window that is shown, and its length over all."""
    name, axis, extremes, fill, relative = how
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
            default_range=functools.partial(from_0_to_part, number=50, unit=unit),
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
