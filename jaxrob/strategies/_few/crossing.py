"""Where a curve crosses the threshold, and where it may."""

from typing import NamedTuple

import numpy as np

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import Goal
from jaxrob.strategies._strategy import History, Task

# The concavity by which a curve may leave a line, per squared range.
BEND = 8.0
# The error of the rise between two levels due to bends, per squared range. It is large
# enough for nearby levels to determine the slope once they are known well enough.
_SAG = 4.0
# This many levels on either side of a crossing may determine its slope. Its relative
# error is at least this.
_PAIRS, _LEAST_SLOPE_ERROR = 5, 0.15


class RoughCrossing(NamedTuple):
    """The rough position and slope of a crossing.

    Attributes:
      step: its position, a fractional step.
      slope: the absolute slope of the mean score per step, above 0.
      uncertainty: the standard error of the position, in steps.
      slope_error: the relative error of the slope.
    """

    step: float
    slope: float
    uncertainty: float
    slope_error: float


def rough_crossing(goal: Goal, now: Estimates, first: int, last: int) -> RoughCrossing:
    """Locates the crossing between two levels roughly."""
    # The position comes from the level that gives the smallest error, from its own
    # standard error and its distance.
    steps, off = now.steps, now.means - goal.least
    start, end = int(steps[first]), int(steps[last])
    falls = 1.0 if off[first] >= 0 else -1.0
    rise = max(falls * float(off[first] - off[last]), 1 / goal.num_images)
    step = start + float(np.clip(falls * off[first] / rise, 0, 1)) * (end - start)
    slope, slope_error, uncertainty = rise / (end - start), 1.0, (end - start) / 4
    inside = slice(first, last + 1)
    for _ in range(2):
        slope, slope_error = _slope(goal, now, step, falls) or (slope, slope_error)
        far = np.abs(off[inside]) * slope_error
        errors = (now.standard_errors[inside] + far) / slope
        best = int(errors.argmin())
        step = float(steps[inside][best]) + falls * float(off[inside][best]) / slope
        step = min(max(step, start), end)
        uncertainty = float(errors[best])
    return RoughCrossing(step, slope, min(uncertainty, (end - start) / 4), slope_error)


def may_cross(goal: Goal, strategy: ASAP, found: Estimates) -> np.ndarray:
    """Whether the curve may cross between neighbours on one side, bool `[n - 1]`."""
    # The strategy's rule decides.
    positions = found.steps / goal.parts
    # The number of images at which levels would scatter as they typically do.
    variance = np.square(found.standard_errors) + goal.deviation**2 / goal.num_images
    typical = max(int(np.median(goal.deviation**2 / variance)), 1)
    known = History(positions, found.means, np.full(len(positions), typical))
    return strategy.may_cross(Task(0.0, 1.0, goal.least), known)


def _slope(
    goal: Goal, now: Estimates, step: float, falls: float
) -> tuple[float, float] | None:
    """Returns the absolute slope at a crossing and its relative error, None if unknown.

    It is the slope between two levels: far enough apart to differ by more than noise,
    near enough for the curve to be straight.
    """
    before, after = np.flatnonzero(now.steps < step), np.flatnonzero(now.steps > step)
    before, after = before[-_PAIRS:, None], after[None, :_PAIRS]
    rise = falls * (now.means[before] - now.means[after])
    width = now.steps[after] - now.steps[before]
    own = np.square(now.doubts)
    noise = own[before] + own[after] + (1 / goal.num_images) ** 2
    sag = _SAG * np.square(width / goal.parts)
    error = np.sqrt(noise + np.square(sag)) / np.maximum(rise, 1e-9)
    if not error.size:
        return None
    best = np.unravel_index(error.argmin(), error.shape)
    if rise[best] <= 0:
        return None
    return float(rise[best] / width[best]), max(float(error[best]), _LEAST_SLOPE_ERROR)
