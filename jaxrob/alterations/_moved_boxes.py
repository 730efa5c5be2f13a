"""Boxes that follow the pixels of an altered picture."""

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
      identity, and for colours and noise, they are the given ones.

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
    kept = np.arange(len(boxes))
    # Levels of pictures are float32.
    if np.float32(level) == np.float32(alteration.identity):
        return MovedBoxes(boxes, kept)
    moves = moves_of(alteration, level, (height, width))
    for move in moves:
        corners = np.array([_moved(box, move, height, width) for box in boxes[:, :4]])
        corners = corners.reshape(-1, 4)
        some = (corners[:, 2:] - corners[:, :2] > _LEAST).all(axis=1)
        kept, rest = kept[some], boxes[some, 4:]
        boxes = np.concatenate([corners[some].astype(boxes.dtype), rest], axis=1)
    return MovedBoxes(boxes, kept)


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


def _moved(box: np.ndarray, move: Move, height: int, width: int) -> np.ndarray:
    """Returns x1, y1, x2, y2 around what is left of a box; all 0 if nothing is."""
    matrix = np.asarray(move.matrix, np.float64)
    frame = _corners(np.array((0.0, 0.0, width, height)))
    shown = frame @ matrix[:, :2].T + matrix[:, 2]
    x1, y1, x2, y2 = _visible(box.astype(np.float64), shown, move.fill, width, height)
    if x1 >= x2 or y1 >= y2:
        return np.zeros(4)
    before = _corners(np.array((x1, y1, x2, y2)))
    after = np.linalg.solve(matrix[:, :2], (before - matrix[:, 2]).T).T
    polygon = _clipped(after, width, height)
    if not len(polygon):
        return np.zeros(4)
    return np.concatenate([polygon.min(axis=0), polygon.max(axis=0)])


def _visible(
    box: np.ndarray, shown: np.ndarray, fill: str, width: int, height: int
) -> np.ndarray:
    """Returns the box in the picture, or as it goes on where the edge repeats.

    Args:
      box: x1, y1, x2, y2.
      shown: `[4, 2]`, the corners of what the moved picture shows.
      fill: as in `Move`.
      width: the picture's.
      height: the picture's.
    """
    low, high = np.zeros(2), np.array((width, height), float)
    starts, ends = np.maximum(box[:2], low), np.minimum(box[2:], high)
    if fill == "edge" and (starts < ends).all():
        # Whether the centres of the edge pixels lie in the box.
        starts = np.where(starts < 0.5, np.minimum(shown.min(axis=0), 0) - 1, starts)
        far = np.maximum(shown.max(axis=0), high) + 1
        ends = np.where(ends > high - 0.5, far, ends)
    return np.concatenate([starts, ends])


def _corners(box: np.ndarray) -> np.ndarray:
    """Returns the corners of x1, y1, x2, y2 in the order around it, `[4, 2]`."""
    return box[[[0, 1], [2, 1], [2, 3], [0, 3]]]


def _clipped(polygon: np.ndarray, width: int, height: int) -> np.ndarray:
    """Clips a convex polygon `[k, 2]` at the picture (Sutherland and Hodgman 1974)."""
    for axis, sign, limit in ((0, 1, 0), (0, -1, width), (1, 1, 0), (1, -1, height)):
        within = sign * (polygon[:, axis] - limit)
        after = np.roll(within, -1)
        crosses = within * after < 0
        share = within / np.where(crosses, within - after, 1)
        crossing = polygon + share[:, None] * (np.roll(polygon, -1, 0) - polygon)
        crossing[:, axis] = limit
        both = np.stack([polygon, crossing], axis=1).reshape(-1, 2)
        polygon = both[np.stack([within >= 0, crosses], axis=1).reshape(-1)]
    return polygon
