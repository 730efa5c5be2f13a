"""Boxes that follow the pixels of an altered picture."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from jaxrob._arguments.checks import checked_array, checked_integers, checked_number
from jaxrob.alterations._alteration import Alteration, check_level
from jaxrob.alterations._moves import Move, check_moves, moves_of

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
        M may be 0.
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
    height, width = _checked_size(size)
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
    """Returns boxes as a new floating array."""
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


def _checked_size(size: Sequence[int]) -> tuple[int, int]:
    found = checked_integers("size", size, at_least=1, min_length=2)
    if len(found) != 2:
        raise ValueError(f"size must be a height and a width; got {size}")
    return found[0], found[1]


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
