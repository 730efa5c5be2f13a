"""The grid that a strategy refines to, and the next level where a curve crosses."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import Bend, between_counts
from jaxrob.strategies._strategy import History, Task


class Grid(NamedTuple):
    """A range divided into equal parts, and the known levels on its grid."""

    parts: int  # the number of parts
    steps: np.ndarray  # integers `[n]` in 0 ... parts, the known levels, ascending

    @property
    def divisible(self) -> np.ndarray:
        """Bool `[n - 1]`: whether an interval holds a level of the grid inside."""
        return np.diff(self.steps) > 1

    @property
    def middles(self) -> np.ndarray:
        """The level in the middle of each interval, in steps, rounded down."""
        return (self.steps[:-1] + self.steps[1:]) // 2


def grid_of(task: Task, history: History, parts: int) -> Grid:
    steps = np.rint(task.positions_of(history.levels) * parts).astype(int)
    return Grid(parts, steps)


# If the crossing's uncertainty exceeds this share of the interval, the interval is
# halved.
_TOO_UNCERTAIN = 0.3
# The distance of the new level past the crossing, in units of its uncertainty. The
# search is insensitive to both numbers.
_STEP = 0.5


def past_the_crossing(
    task: Task, history: History, grid: Grid, shape: Bend, i: int
) -> int:
    """Returns a level just past the crossing, seen from the interval's nearer end."""
    # The next interval then usually is the short one between that end and the level.
    # The level is the middle where the crossing is too uncertain.
    start, end = int(grid.steps[i]), int(grid.steps[i + 1])
    first, last = history.values[i], history.values[i + 1]
    # Per squared step: the expected second divided difference, and its uncertainty.
    curvature = shape.slope_change[i] / grid.parts**2
    doubt = shape.doubt[i] / grid.parts**2
    num_inputs = history.typical_inputs
    width, rise = end - start, last - first
    level = between_counts(task.threshold, num_inputs)
    # Non-integer counts may fall between the level and the threshold.
    level = min(max(level, min(first, last)), max(first, last))
    chord_root = width * (level - first) / rise
    crossing = start + _root(first - level, rise / width, curvature, width)
    reach = doubt * chord_root * (width - chord_root)
    if num_inputs is not None:
        # Half the standard deviation of `flips` in the middle.
        reach += 0.25 * math.sqrt(abs(rise) / num_inputs)
    uncertainty = reach * width / abs(rise)
    if uncertainty > _TOO_UNCERTAIN * width or _is_stuck(grid.steps, i):
        return (start + end) // 2
    step = max(0.5, _STEP * uncertainty)
    if crossing - start < end - crossing:
        return min(math.ceil(crossing + step), end - 1)
    return max(math.floor(crossing - step), start + 1)


def _root(first: float, slope: float, curvature: float, width: int) -> float:
    """Solves `first + slope u + curvature u (u - width) = 0` for u in [0, width]."""
    root = -first / slope
    if abs(curvature) * width >= 0.9 * abs(slope):
        return root
    linear = slope - curvature * width
    discriminant = linear**2 - 4 * curvature * first
    if discriminant < 0:
        return root
    denominator = linear + math.copysign(math.sqrt(discriminant), linear)
    return min(max(-2 * first / denominator, 0), width) if denominator else root


def _is_stuck(steps: np.ndarray, i: int) -> bool:
    """Returns whether the last two levels were close to one end, as beside a jump."""
    near = (steps[i + 1] - steps[i]) / 2
    return (i >= 2 and steps[i] - steps[i - 2] < near) or (
        i + 3 < len(steps) and steps[i + 3] - steps[i + 1] < near
    )
