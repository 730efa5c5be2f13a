"""Where a curve crosses the threshold, and what it costs to know a level there."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.estimates import Estimates, Goal, Levels, Wanted
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
    step: float  # its position, a fractional step
    slope: float  # the absolute slope of the mean score per step, above 0
    uncertainty: float  # the standard error of the position, in steps
    slope_error: float  # the relative error of the slope


def rough_crossing(goal: Goal, now: Estimates, first: int, last: int) -> RoughCrossing:
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


def may_cross(
    goal: Goal, strategy: ASAP, steps: np.ndarray, means: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Whether the curve may cross between neighbours by the strategy, `[n - 1]`."""
    # The number of images at which levels would scatter as they typically do.
    variance = np.square(errors) + goal.deviation**2 / goal.num_images
    typical = max(int(np.median(goal.deviation**2 / variance)), 1)
    known = History(steps / goal.parts, means, np.full(len(steps), typical))
    return strategy.may_cross(Task(0.0, 1.0, goal.least), known)


def _slope(
    goal: Goal, now: Estimates, step: float, falls: float
) -> tuple[float, float] | None:
    # It is the slope between two levels: far enough apart to differ by more than noise,
    # near enough for the curve to be straight.
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


# From this share of the images on, all are requested.
_ALL = 0.85
# This many neighbours on either side may be control variates of a level. With more
# images they leave these shares of the variance to the difference.
_NEIGHBOURS = 4
_PARTS = (0.05, 0.12, 0.25, 0.5, 0.75)
# Over longer distances single images change and change back: the variance of the
# difference grows by this power of the distance.
_POWER = 0.8


class Costs(NamedTuple):
    goal: Goal  # the goal
    levels: Levels  # the levels and the scores seen there
    estimates: Estimates  # the estimates at the levels
    step: float  # about where the curve crosses
    slope: float  # the absolute slope of the mean score per step there, above 0


def cheapest(
    costs: Costs,
    wanted: dict[int, float],
    asked: Sequence[Wanted] = (),
    helped: bool = False,
) -> tuple[int, list[Wanted]]:
    ways = []
    for step, deviation in wanted.items():
        # Among levels that are known well enough, take the nearest to the crossing.
        off = abs(step - costs.step) / costs.goal.parts
        cost, requests = _cheapest_at(costs, step, deviation, asked, helped)
        ways.append((cost + off, step, requests))
    _, step, requests = min(ways, key=lambda way: way[0])
    return step, requests


def images_for(goal: Goal, deviation: float) -> int:
    plain = (goal.deviation / max(deviation, 1e-12)) ** 2
    needed = goal.of_finite(plain)
    return goal.blocks(goal.num_images if needed >= _ALL * goal.num_images else needed)


def seen_at(levels: Levels, step: int) -> int:
    return levels[step].seen if step in levels else 0


def unseen(levels: Levels, wanted: Sequence[Wanted]) -> list[Wanted]:
    return [one for one in wanted if one.seen > seen_at(levels, one.step)]


def _cheapest_at(
    costs: Costs,
    step: int,
    deviation: float,
    asked: Sequence[Wanted],
    helped: bool,
) -> tuple[float, list[Wanted]]:
    goal, levels = costs.goal, costs.levels
    total, seen = goal.num_images, seen_at(levels, step)
    will = {one.step: one.seen for one in asked}
    if seen and costs.estimates.at(step)[1] <= deviation:
        return 0.0, [Wanted(step, seen)]
    alone = max(images_for(goal, deviation), seen)
    best = float(alone - seen), [Wanted(step, alone)]
    steps = costs.estimates.steps
    place = int(np.searchsorted(steps, step))
    around = steps[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS].tolist()
    # With more images, a control variate leaves a part of the variance.
    parts = _PARTS if helped else ()
    more = [images_for(goal, deviation * math.sqrt(1 - part)) for part in parts]
    for other in {*around, *will} - {step}:
        theirs = max(seen_at(levels, other), will.get(other, 0))
        change = _change(costs, step, other)
        for images in sorted({theirs, *(one for one in more if one > theirs)}):
            rest = deviation**2 - goal.deviation**2 * (1 / images - 1 / total)
            if rest <= 0:
                continue
            own = goal.blocks(max(1 / (rest / change + 1 / images), goal.block))
            cost = float(max(own - seen, 0) + images - theirs)
            if own <= images and cost < best[0]:
                best = cost, [Wanted(other, images), Wanted(step, own)]
    return best


def _change(costs: Costs, step: int, other: int) -> float:
    """Returns the variance of a score's change between two levels, which may be new."""
    if step in costs.levels and other in costs.levels:
        return _seen_change(costs, step, other)
    steps = costs.estimates.steps
    place = int(np.searchsorted(steps, costs.step))
    around = steps[max(place - 3, 0) : place + 3].tolist()
    distance = max(abs(step - other), 1)
    # From the neighbours whose distance is most similar.
    pairs = zip(around, around[1:])
    first, second = min(pairs, key=lambda p: abs(math.log((p[1] - p[0]) / distance)))
    longer = (distance / (second - first)) ** _POWER
    expected = _seen_change(costs, first, second) * longer
    return max(expected, costs.slope * distance, 1 / costs.goal.num_images)


def _seen_change(costs: Costs, step: int, other: int) -> float:
    levels = costs.levels
    seen = min(levels[step].seen, levels[other].seen)
    change = levels[step].scores[:seen] - levels[other].scores[:seen]
    variance = float(change @ change) / seen - (float(change.sum()) / seen) ** 2
    return max(variance, 1 / seen)
