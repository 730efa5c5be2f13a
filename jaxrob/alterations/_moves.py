"""Where an alteration moves the pixels, and masks and boxes that follow."""

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from jaxrob._arguments.checks import (
    check_choice,
    check_integers,
    check_type,
    checked_array,
    checked_integers,
    checked_number,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._identity.identity import Fingerprinted, digest, is_identifiable, traced
from jaxrob._identity.program import fingerprint_of, fingerprinted_parts
from jaxrob.alterations._alteration import Alteration, as_given, check_level, in_float32
from jaxrob.alterations._resample import bilinear

_OUTSIDE = ("edge", "constant")


class Move(NamedTuple):
    """A movement of all pixels of a picture.

    Positions are (x, y) in pixels from the picture's top left corner, so that the first
    pixel's centre is at (0.5, 0.5).

    Attributes:
      matrix: `[2, 3]`, maps a position (x, y, 1) in the moved picture to the position
        that it shows in the one before.
      fill: what positions outside the picture before show. "edge": the nearest edge
        pixel. "constant": nothing.
    """

    matrix: jax.Array | np.ndarray
    fill: str = "edge"


def unmoved_reason(alteration: Alteration) -> str | None:
    """Says why masks and boxes cannot follow an alteration's pixels.

    Args:
      alteration: the alteration.

    Returns:
      A sentence, or None if they can: the alteration does not move pixels, or it has a
      `geometry`.

    Raises:
      TypeError: if it is not an alteration.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    if not alteration.moves_pixels or alteration.geometry is not None:
        return None
    own = (
        f"{alteration.name} moves pixels, or may, and does not say where to, so masks "
        "and boxes cannot follow: it has no `geometry` (see jaxrob.Alteration)."
    )
    return next(filter(None, map(unmoved_reason, alteration.about.members)), own)


def check_moves(alteration: Alteration) -> None:
    if (reason := unmoved_reason(alteration)) is not None:
        raise ValueError(f"alteration must be one that labels can follow; {reason}")


def moves_of(
    alteration: Alteration, level: Any, size: tuple[int, ...]
) -> tuple[Move, ...]:
    if alteration.geometry is None:
        return ()
    name = f"{alteration.name}: geometry"
    found = alteration.geometry(level, size)
    if not isinstance(found, tuple) or not all(isinstance(one, Move) for one in found):
        raise TypeError(
            f"{name} must return a tuple of jaxrob.alterations.Move; got {named(found)}"
        )
    for move in found:
        check_choice(f"{name}: fill", move.fill, _OUTSIDE)
        if np.shape(move.matrix) != (2, 3):
            raise ValueError(
                f"{name}: matrix must have the shape [2, 3]; got {named(move.matrix)}"
            )
        if isinstance(level, Tracer) or isinstance(move.matrix, Tracer):
            continue
        if level != alteration.identity and not np.isfinite(move.matrix).all():
            at = f"at level {float(level):g}"
            raise ValueError(f"{name}: matrix must be finite; {at} it is not")
    # A function may fill one array again for the next movement.
    own = (np.array(m) if isinstance(m, np.ndarray) else m for m, _ in found)
    return tuple(map(Move, own, (move.fill for move in found)))


def namespace(level: Any) -> Any:
    """Returns `jax.numpy` for a level in JAX; for a number NumPy, which is faster."""
    return jnp if isinstance(level, jax.Array) else np


def window(
    level: Any, start: tuple[Any, Any], scale: Any, fill: str
) -> tuple[Move, ...]:
    """Returns the movement that shows a window of the picture in its full size."""
    top, left = start
    matrix = namespace(level).array([[scale, 0.0, left], [0.0, scale, top]])
    return (Move(matrix, fill_outside(fill)),)


def fill_outside(fill: str) -> str:
    """Returns the fill of a `Move`. With "crop" nothing outside is to be seen."""
    return "constant" if fill == "constant" else "edge"


# A box with a side below this, in pixels, is rounding.
_LEAST = 1e-6


class MovedBoxes(NamedTuple):
    """The boxes of an altered picture.

    Attributes:
      boxes: float `[K, 4 + ...]`, those of which something is left.
      kept: integers `[K]`, which of the given boxes they are, ascending. Labels of the
        altered picture are `labels[kept]`.
    """

    boxes: np.ndarray
    kept: np.ndarray


def move_boxes(
    alteration: Alteration, boxes: np.ndarray, level: ArrayLike, size: Sequence[int]
) -> MovedBoxes:
    """Alters boxes as the alteration moves the pixels of their picture.

    A box becomes the smallest upright one around what is left of it in the altered
    picture. If the alteration rotates, the corners of the old box are in it, which the
    object may not fill: then the new box is larger than the object's own would be, for
    a disc at 45 degrees by 1.41. Where edge pixels repeat, a box at the edge goes on
    with them.

    Args:
      alteration: one that does not move pixels, or says where to (`unmoved_reason`).
      boxes: `[M, 4 + ...]`, x1, y1, x2, y2 in pixels from the picture's top left corner
        (a box of its first pixel is 0, 0, 1, 1), then anything, such as a confidence.
        M may be 0. A box without width or height is left out at every level.
      level: the level, in the alteration's range.
      size: the picture's height and width.

    Returns:
      The new boxes, of the same columns, and which of the old ones they are. At the
      identity, and for colours and noise, they are the given ones in the picture.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the boxes have fewer columns, are not finite or have x2 below x1 or
        y2 below y1; if the level lies outside the range; if the alteration moves pixels
        and does not say where to.
    """
    check_moves(alteration)
    level = checked_number(f"{alteration.name}: level", level)
    check_level(alteration, level)
    boxes = _checked_boxes(boxes)
    height, width, *more = checked_integers("size", size, at_least=1, min_length=2)
    if more:
        raise ValueError(f"size must be a height and a width; got {size}")
    # Levels of pictures are float32.
    is_moved = np.float32(level) != np.float32(alteration.identity)
    moves = moves_of(alteration, level, (height, width)) if is_moved else ()
    frame = np.array((width, height), float)
    boxes[:, :4] = np.clip(boxes[:, :4], 0, np.tile(frame, 2))
    kept = np.flatnonzero(_shortest(boxes) > _LEAST)
    if moves and len(kept):
        boxes[kept, :4] = [_moved(box, moves, frame) for box in boxes[kept, :4]]
        kept = kept[_shortest(boxes[kept]) > _LEAST]
    return MovedBoxes(boxes[kept], kept)


def _shortest(boxes: np.ndarray) -> np.ndarray:
    return np.minimum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1])


def _checked_boxes(boxes: np.ndarray) -> np.ndarray:
    found = checked_array("boxes", boxes, "M, C", may_be_empty=True)
    if found.shape[1] < 4:
        raise ValueError(
            f"boxes must have at least 4 columns, x1, y1, x2, y2; got {found.shape}"
        )
    found = found.astype(np.result_type(found.dtype, np.float32))
    wrong = (found[:, 2:4] < found[:, :2]).any(axis=1)
    if wrong.any():
        raise ValueError(
            "boxes must have x1 <= x2 and y1 <= y2, in the order x1, y1, x2, y2; got "
            f"{found[wrong][0, :4]}"
        )
    return found


def _moved(box: np.ndarray, moves: Sequence[Move], size: np.ndarray) -> np.ndarray:
    """Returns x1, y1, x2, y2 around what is left of a box; all 0 if nothing is."""
    # The hull is taken once, at the end: one after each movement would be larger.
    pieces = [_corners(box.astype(np.float64))]
    for move in moves:
        matrix = np.asarray(move.matrix, np.float64)
        shown = _corners(np.append(np.zeros(2), size)) @ matrix[:, :2].T + matrix[:, 2]
        if move.fill == "edge":
            pieces = _repeated(pieces, shown, size)
        after = (np.linalg.solve(matrix[:, :2], (p - matrix[:, 2]).T).T for p in pieces)
        pieces = [_clipped(piece, np.zeros(2), size) for piece in after]
        pieces = [p for p in pieces if len(p) and np.ptp(p, 0).min() > _LEAST]
    found = np.concatenate(pieces or [np.zeros((1, 2))])
    return np.append(found.min(axis=0), found.max(axis=0))


def _repeated(
    pieces: list[np.ndarray], shown: np.ndarray, size: np.ndarray
) -> list[np.ndarray]:
    """Adds the rectangles that repeated edge pixels, by their centres, are."""
    pieces = [*pieces]
    for axis, sign in itertools.product((0, 1), (-1, 1)):
        at = 0.5 if sign < 0 else size[axis] - 0.5
        outer = at + sign * (1 + np.abs(shown[:, axis] - at).max())
        limits = np.array([[-np.inf] * 2, [np.inf] * 2])
        limits[int(sign < 0), axis] = at
        for piece in [*pieces]:
            beyond = _clipped(piece, *limits)
            edge = beyond[beyond[:, axis] == at, 1 - axis]
            if len(edge) and np.ptp(beyond[:, axis]):
                ends = np.repeat((edge.min(), edge.max()), 2)
                one = np.stack([(outer, at, at, outer), ends], axis=1)
                pieces.append(one[:, ::-1] if axis else one)
    return pieces


def _corners(box: np.ndarray) -> np.ndarray:
    """Returns the corners of x1, y1, x2, y2 in the order around it, `[4, 2]`."""
    return box[[[0, 1], [2, 1], [2, 3], [0, 3]]]


def _clipped(polygon: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Clips a convex polygon `[k, 2]` at a box (Sutherland and Hodgman 1974)."""
    for axis, sign in itertools.product((0, 1), (1, -1)):
        limit = (low if sign > 0 else high)[axis]
        if not np.isfinite(limit):
            continue
        within = sign * (polygon[:, axis] - limit)
        after = np.roll(within, -1)
        crosses = within * after < 0
        share = within / np.where(crosses, within - after, 1)
        crossing = polygon + share[:, None] * (np.roll(polygon, -1, 0) - polygon)
        crossing[:, axis] = limit
        both = np.stack([polygon, crossing], axis=1).reshape(-1, 2)
        polygon = both[np.stack([within >= 0, crosses], axis=1).reshape(-1)]
    return polygon


def move_mask(
    alteration: Alteration, mask: jax.Array | np.ndarray, level: jax.typing.ArrayLike
) -> jax.Array:
    """Alters a mask as the alteration moves the pixels of its picture.

    It may be compiled, and vectorised over masks and levels. Colours and noise leave a
    mask as it is.

    Example::

        turned = rotation(-15, 15)(image, level)
        mask_of_turned = move_mask(rotation(-15, 15), mask, level)

    Args:
      alteration: one that does not move pixels, or says where to
        (`unmoved_reason`).
      mask: `[H, W]` or `[H, W, C]`, of the picture's size, since levels may be in
        pixels. Integers and booleans take the nearest pixel's value, floating numbers
        (depths, probabilities) are interpolated linearly: what has NaN near it is NaN.
      level: a scalar in the alteration's range; not checked if it is traced.

    Returns:
      The altered mask, of the same shape and type. Outside the picture it goes on as
      the picture does: its edge repeats, or where that is black, it is 0. At the
      identity it is the mask, bit for bit.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the mask has another shape or integers beyond JAX's, the level lies
        outside the range, or the alteration moves pixels and does not say where to.
    """
    check_moves(alteration)
    check_level(alteration, level)
    mask = _checked_mask(mask)
    level = jnp.asarray(level, jnp.float32)
    moves = moves_of(alteration, level, mask.shape[:2])
    if not moves:
        return mask
    is_soft = jnp.issubdtype(mask.dtype, jnp.floating)
    height, width = mask.shape[:2]
    moved = (in_float32(mask) if is_soft else mask).reshape(height, width, -1)
    x = jnp.arange(width, dtype=jnp.float32) + 0.5
    centres = x, jnp.arange(height, dtype=jnp.float32)[:, None] + 0.5
    if is_soft:  # As the picture, which each movement interpolates.
        for move in moves:
            columns, rows = _before(move, *centres)
            moved = bilinear(moved, rows - 0.5, columns - 0.5, move.fill)
    else:
        moved = _nearest(moved, moves, *centres)
    moved = as_given(moved.reshape(mask.shape), mask)
    # Not 0 times a neighbour, which may be NaN.
    return jnp.where(level == alteration.identity, mask, moved)


def _checked_mask(mask: jax.Array | np.ndarray) -> jax.Array:
    """Returns a mask as a JAX array that holds the same numbers."""
    kinds = jnp.bool_, jnp.integer, jnp.floating
    if not isinstance(mask, np.ndarray | jax.Array) or not any(
        jnp.issubdtype(mask.dtype, kind) for kind in kinds
    ):
        raise wrong_type("mask", "an array of integers, booleans or numbers", mask)
    if mask.ndim not in (2, 3) or 0 in mask.shape:
        raise ValueError(
            f"mask must have the shape [H, W] or [H, W, C]; got {mask.shape}"
        )
    check_integers("mask", mask)
    return jnp.asarray(mask)


def _before(move: Move, x: Any, y: Any) -> tuple[Any, Any]:
    across, down = (
        a * x + b * y + c for a, b, c in jnp.asarray(move.matrix, jnp.float32)
    )
    return across, down


def _nearest(mask: jax.Array, moves: Sequence[Move], x: Any, y: Any) -> jax.Array:
    """Returns the mask `[H, W, C]` after all movements, by the nearest pixel once."""
    height, width, _ = mask.shape
    inside = jnp.array(True)
    for move in reversed(moves):
        x, y = _before(move, x, y)
        if move.fill == "edge":
            # Where the picture is interpolated, edges repeat from pixels' centres on.
            x, y = jnp.clip(x, 0.5, width - 0.5), jnp.clip(y, 0.5, height - 0.5)
        else:
            inside &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
    down = jnp.floor(jnp.clip(y, 0, height - 1)).astype(jnp.int32)
    right = jnp.floor(jnp.clip(x, 0, width - 1)).astype(jnp.int32)
    return jnp.where(inside[..., None], mask[down, right], jnp.zeros((), mask.dtype))


# The numbers of levels at which functions are called, without and with a trace.
_LEVELS, _PLACES = 1025, 65


def fingerprinted_alteration(
    alteration: Alteration, image_shape: tuple[int, ...]
) -> Alteration:
    """Returns the alteration with its functions fingerprinted by their computation."""
    # The library's own are identified by their parameters. Users' functions are traced
    # anew: programs for other values than they capture now do not fit them.
    if is_identifiable(alteration):
        return alteration
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    program, again = (traced(alteration, image, level, key)[0] for _ in range(2))
    found = fingerprinted_parts(alteration, ("fn", "prepare"), program, again)
    return dataclasses.replace(
        found,
        representative=_fingerprinted_representative(alteration),
        geometry=_fingerprinted_geometry(alteration, image_shape),
    )


def _fingerprinted_representative(alteration: Alteration) -> Any:
    """Fingerprints `representative`, a host function, by its values at many levels."""
    function = alteration.representative
    if function is None or is_identifiable(function):
        return function
    levels = np.linspace(alteration.lower, alteration.upper, _LEVELS)
    return Fingerprinted(digest([np.asarray(function(levels), np.float64)]), function)


def _fingerprinted_geometry(alteration: Alteration, shape: tuple[int, ...]) -> Any:
    """Fingerprints `geometry`, a small function, by its matrices and its trace."""
    function = alteration.geometry
    if function is None or is_identifiable(function) or len(shape) < 2:
        return function
    parts, number, size = [], _LEVELS, shape[:2]
    with contextlib.suppress(Exception):  # Of NumPy alone it moves boxes, not masks.
        program, _ = traced(
            lambda at: [m for m, _ in moves_of(alteration, at, size)], np.float32()
        )
        parts, number = [fingerprint_of(program).digest], _PLACES
    for level in np.linspace(alteration.lower, alteration.upper, number).tolist():
        for move in moves_of(alteration, level, size):
            parts += [move.fill, np.asarray(move.matrix, np.float32)]
    return Fingerprinted(digest(parts), function)
