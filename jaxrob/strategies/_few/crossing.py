"""Where a curve crosses the threshold, roughly, and where it may."""

from typing import NamedTuple

import numpy as np

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import Goal
from jaxrob.strategies._strategy import History, Task

# Concavity by which a curve may leave a line, per squared range.
BEND = 8.0
# By how much bends put off the rise between two levels, per squared range. It is large
# enough for levels close by to tell the slope where they are known well enough.
_SAG = 4.0
# So many levels on either side of a crossing may tell its slope, which is never known
# better than by this share.
_PAIRS, _LEAST_UNSURE = 5, 0.15


class Rough(NamedTuple):
    """Where a crossing is about.

    Attributes:
      step: where, a fraction of a step.
      slope: of the mean score per step, above 0.
      uncertainty: of the place, one standard deviation, in steps.
      unsure: by what share the slope may be off.
    """

    step: float
    slope: float
    uncertainty: float
    unsure: float


def rough(goal: Goal, now: Estimates, first: int, last: int) -> Rough:
    """Where the crossing between two levels is about.

    It is placed from the level that does so best: one that is well known and near.

    Args:
      goal: the goal.
      now: what is known of the levels.
      first: the place of a level before it, on one side of the threshold.
      last: the place of one after it, on the other side.
    """
    steps, off = now.steps, now.means - goal.least
    start, end = int(steps[first]), int(steps[last])
    falls = 1.0 if off[first] >= 0 else -1.0
    rise = max(falls * float(off[first] - off[last]), 1 / goal.num_images)
    step = start + float(np.clip(falls * off[first] / rise, 0, 1)) * (end - start)
    slope, unsure, uncertainty = rise / (end - start), 1.0, (end - start) / 4
    inside = slice(first, last + 1)
    for _ in range(2):
        slope, unsure = _slope(goal, now, step, falls) or (slope, unsure)
        far = np.abs(off[inside]) * unsure
        errors = (now.deviations[inside] + far) / slope
        best = int(errors.argmin())
        step = float(steps[inside][best]) + falls * float(off[inside][best]) / slope
        step = min(max(step, start), end)
        uncertainty = float(errors[best])
    return Rough(step, slope, min(uncertainty, (end - start) / 4), unsure)


def may_cross(goal: Goal, strategy: ASAP, found: Estimates) -> np.ndarray:
    """Whether the curve may cross between neighbours on one side, bool `[n - 1]`.

    By the strategy's rule.
    """
    positions = found.steps / goal.parts
    # With how many images levels would scatter as they typically do.
    variance = np.square(found.deviations) + goal.deviation**2 / goal.num_images
    typical = max(int(np.median(goal.deviation**2 / variance)), 1)
    known = History(positions, found.means, np.full(len(positions), typical))
    return strategy.may_cross(Task(0.0, 1.0, goal.least), known)


def _slope(
    goal: Goal, now: Estimates, step: float, falls: float
) -> tuple[float, float] | None:
    """The slope at a crossing, above 0, and by what share it may be off.

    It is that between two levels: far enough apart to differ by more than few images
    make them, near enough for the curve to be straight.
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
    return float(rise[best] / width[best]), max(float(error[best]), _LEAST_UNSURE)
