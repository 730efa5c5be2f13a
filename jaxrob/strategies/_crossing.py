"""The next level in an interval whose ends lie on opposite sides of the threshold."""

import math

import numpy as np

from jaxrob.metrics._counts import between_counts
from jaxrob.strategies._strategy import Question

# Above this uncertainty of the crossing, as a share of the interval, it is halved.
_TOO_UNCERTAIN = 0.3
# How far past the crossing the level lies, in units of its uncertainty. Neither number
# is delicate: BUILD_NOTES.md.
_STEP = 0.5


def past_the_crossing(
    question: Question,
    grid: np.ndarray,
    values: np.ndarray,
    i: int,
    curvature: float,
    doubt: float,
) -> int:
    """A level inside an interval, just past the crossing as seen from its nearer end.

    Most often the next interval then is a short one between that end and the level. It
    is the middle where the crossing is too uncertain.

    Args:
      question: the question.
      grid: integers `[n]`, the levels known, in steps of the finest grid.
      values: float64 `[n]`, the measure there.
      i: the interval, from `grid[i]` to `grid[i + 1]`, at least 2 steps wide; the
        values at its ends lie on opposite sides of the threshold.
      curvature: the second divided difference expected there, per squared step.
      doubt: how far off that may be.

    Returns:
      The level, in steps of the grid, strictly inside the interval.
    """
    start, end = int(grid[i]), int(grid[i + 1])
    first, last = values[i], values[i + 1]
    width, rise = end - start, last - first
    level = between_counts(question.threshold, question.num_inputs)
    # Values that are no counts may fall between the level and the threshold.
    level = min(max(level, min(first, last)), max(first, last))
    chord_root = width * (level - first) / rise
    crossing = start + _root(first - level, rise / width, curvature, width)
    reach = doubt * chord_root * (width - chord_root)
    if question.num_inputs is not None:
        # Half the standard deviation of `flips` in the middle.
        reach += 0.25 * math.sqrt(abs(rise) / question.num_inputs)
    uncertainty = reach * width / abs(rise)
    if uncertainty > _TOO_UNCERTAIN * width or _is_stuck(grid, i):
        return (start + end) // 2
    step = max(0.5, _STEP * uncertainty)
    if crossing - start < end - crossing:
        return min(math.ceil(crossing + step), end - 1)
    return max(math.floor(crossing - step), start + 1)


def _root(first, slope, curvature, width):
    """Where `first + slope u + curvature u (u - width)` is 0, for u in [0, width]."""
    root = -first / slope
    if abs(curvature) * width >= 0.9 * abs(slope):
        return root
    linear = slope - curvature * width
    discriminant = linear**2 - 4 * curvature * first
    if discriminant < 0:
        return root
    denominator = linear + math.copysign(math.sqrt(discriminant), linear)
    return min(max(-2 * first / denominator, 0), width) if denominator else root


def _is_stuck(grid, i):
    """Whether the last two levels were close to one end, as beside a jump."""
    near = (grid[i + 1] - grid[i]) / 2
    return (i >= 2 and grid[i] - grid[i - 2] < near) or (
        i + 3 < len(grid) and grid[i + 3] - grid[i + 1] < near
    )
