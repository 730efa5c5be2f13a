"""Where a curve crosses the threshold, roughly."""

from typing import NamedTuple

import numpy as np

from jaxrob._sequential.estimates import Estimates
from jaxrob._sequential.task import Task

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


def rough(task: Task, now: Estimates, first: int, last: int) -> Rough:
    """Where the crossing between two levels is about.

    It is placed from the level that does so best: one that is well known and near.

    Args:
      task: the question.
      now: what is known of the levels.
      first: the place of a level before it, on one side of the threshold.
      last: the place of one after it, on the other side.
    """
    steps, off = now.steps, now.means - task.least
    start, end = int(steps[first]), int(steps[last])
    falls = 1.0 if off[first] >= 0 else -1.0
    rise = max(falls * float(off[first] - off[last]), 1 / task.num_images)
    step = start + float(np.clip(falls * off[first] / rise, 0, 1)) * (end - start)
    slope, unsure, uncertainty = rise / (end - start), 1.0, (end - start) / 4
    inside = slice(first, last + 1)
    for _ in range(2):
        slope, unsure = _slope(task, now, step, falls) or (slope, unsure)
        far = np.abs(off[inside]) * unsure
        errors = (now.deviations[inside] + far) / slope
        best = int(errors.argmin())
        step = float(steps[inside][best]) + falls * float(off[inside][best]) / slope
        step = min(max(step, start), end)
        uncertainty = float(errors[best])
    return Rough(step, slope, min(uncertainty, (end - start) / 4), unsure)


def _slope(
    task: Task, now: Estimates, step: float, falls: float
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
    noise = own[before] + own[after] + (1 / task.num_images) ** 2
    sag = _SAG * np.square(width / task.parts)
    error = np.sqrt(noise + np.square(sag)) / np.maximum(rise, 1e-9)
    if not error.size:
        return None
    best = np.unravel_index(error.argmin(), error.shape)
    if rise[best] <= 0:
        return None
    return float(rise[best] / width[best]), max(float(error[best]), _LEAST_UNSURE)
