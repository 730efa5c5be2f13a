"""Clusters of open intervals, their allowed widths, and the crossings' joint error."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.crossing import RoughCrossing, rough_crossing
from jaxrob.strategies._few.estimates import Estimates, correlation, variance_of_sum
from jaxrob.strategies._few.goal import Goal, Levels
from jaxrob.strategies._few.state import State

# A level this many standard errors from the threshold counts as decided in a plan.
_LEAN = 2.0
# Fewer steps are rounding.
_OPEN = 1e-9
# A cluster without a crossing is cheap to close: its allowed width is that of a
# crossing with this slope, per range.
_CHEAP_SLOPE = 40.0
# Rounding of sums of steps.
_ROUNDING = 1e-6


class Cluster(NamedTuple):
    """Neighbouring intervals between two levels that clearly lie on a side.

    Attributes:
      first: the index of the level before them.
      last: the index of the level after them.
      crosses: whether these two levels' estimates are on different sides.
      open: the number of steps that are open and may be closed.
      straight: the number of open steps if the curve were straight between levels.
    """

    first: int
    last: int
    crosses: bool
    open: float
    straight: float


def clusters(goal: Goal, now: Bands) -> list[Cluster]:
    """Groups the open intervals into clusters."""
    _, means, standard_errors, *_ = now.estimates
    off = means - goal.least
    leans = np.abs(off) >= _LEAN * standard_errors
    leans[[0, -1]] = True
    edges = np.flatnonzero(leans).tolist()
    closable = now.closable
    found = []
    for first, last in zip(edges, edges[1:]):
        part = slice(first, last)
        width = float(closable[part].sum())
        straight = float(now.straight[part].sum())
        if width > _OPEN:
            crosses = bool((off[first] >= 0) != (off[last] >= 0))
            found.append(Cluster(first, last, crosses, width, straight))
    return found


def crossings(
    goal: Goal, now: Bands, found: list[Cluster]
) -> dict[Cluster, RoughCrossing]:
    """Locates the crossings of the clusters that cross."""
    return {
        one: rough_crossing(goal, now.estimates, one.first, one.last)
        for one in found
        if one.crosses
    }


def allowed_widths(
    goal: Goal, found: list[Cluster], places: dict[Cluster, RoughCrossing], width: float
) -> dict[Cluster, float]:
    """Splits a width, in steps, among the clusters so that the total cost is least."""
    # A cluster of width w costs about 1 / (slope w)^2: least, for a fixed sum, at these
    # shares.
    cheap = _CHEAP_SLOPE / goal.parts
    rest = {
        one: (places[one].slope if one in places else cheap) ** (-2 / 3)
        for one in found
    }
    given: dict[Cluster, float] = {}
    left = width
    # Clusters narrower than their share leave the difference to the others.
    while rest:
        total = sum(rest.values())
        narrow = [one for one in rest if one.open <= left * rest[one] / total]
        for one in narrow:
            given[one] = one.open
            left -= one.open
            del rest[one]
        if not narrow:
            return given | {one: left * rest[one] / total for one in rest}
    return given


def joint_error_ratio(
    goal: Goal,
    levels: Levels,
    now: Estimates,
    places: dict[Cluster, RoughCrossing],
) -> float:
    """Returns the joint error of all crossings, as a share of the sum of their errors.

    If a mean is too high, more is accepted, at every crossing. So the errors of the
    crossings add up as those of the means do, which are correlated, because the images
    are the same, but not perfectly.
    """
    noise = np.array([one.straight for one in places])
    if len(places) < 2 or not noise.sum() > 0:
        return 1.0
    at = [_nearest(now, one, about.step) for one, about in places.items()]
    correlations = np.eye(len(at))
    for i in range(len(at)):
        for j in range(i):
            pair = at[i], at[j]
            found = correlation(levels, now, pair, goal.least_variance, goal.num_images)
            correlations[i, j] = correlations[j, i] = found
    total = np.sqrt(max(float(noise @ correlations @ noise), 0.0))
    return min(total / float(noise.sum()), 1.0)


def narrowing_by_correlation(goal: Goal, first: State, other: State) -> float:
    """Returns how much a difference's interval shrinks at each end by correlation."""
    # Both searches have the same goal and images. Two networks answer for the same
    # images in the same order, so the errors of two searches are correlated, and the
    # difference has a smaller error than their sum.
    parts, noise = [], []
    for sign, state in ((1, first), (-1, other)):
        now = state.bands
        places = crossings(goal, now, clusters(goal, now)) if now else {}
        if now is None or not places:
            return 0.0
        straight = sum(one.straight for one in places)
        width = float(now.open.sum()) - (1 - now.joint_error_ratio) * straight
        if state.accepted.half_width < width / 2 - _ROUNDING:
            # The interval is that of an earlier look, with other errors.
            return 0.0
        noise.append(now.joint_error_ratio * straight / 2)
        off = sign * _crossing_shifts(now.estimates, places)
        parts.append((state.levels, now.estimates, off))
    usual = sum(np.abs(off).sum() for *_, off in parts) / 2
    parts = [(levels, now, off / usual) for levels, now, off in parts]
    limits = goal.least_variance, goal.num_images
    alone = [math.sqrt(variance_of_sum([part], *limits)) for part in parts]
    apart = math.sqrt(variance_of_sum(parts, *limits))
    if sum(alone) == 0:
        return 0.0
    return max(1 - apart / sum(alone), 0.0) * sum(noise)


def _crossing_shifts(
    now: Estimates, places: dict[Cluster, RoughCrossing]
) -> np.ndarray:
    """Returns by how many steps each mean shifts its crossings, per unit, `[n]`."""
    found = np.zeros(len(now.steps))
    for one, about in places.items():
        found[now.steps == _nearest(now, one, about.step)] += 1 / about.slope
    return found


def _nearest(now: Estimates, one: Cluster, step: float) -> int:
    inside = now.steps[one.first : one.last + 1]
    return int(inside[np.abs(inside - step).argmin()])
