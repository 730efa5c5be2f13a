"""What bands leave open, how much of it may stay, and how crossings err together."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.crossing import Rough, rough
from jaxrob.strategies._few.estimates import Estimates, correlation, variance_of_sum
from jaxrob.strategies._few.goal import Goal, Levels
from jaxrob.strategies._few.state import State

# A level so many standard deviations from the threshold counts as decided in a plan.
_LEAN = 2.0
# Less than so many steps is rounding.
_OPEN = 1e-9
# What is open without a crossing is cheap to close: it may stay open as one that
# crosses with such a slope, per range, may.
_CHEAP_SLOPE = 40.0
# Of sums of steps.
_ROUNDING = 1e-6


class Cluster(NamedTuple):
    """Neighbouring intervals between two levels that lean to a side.

    Attributes:
      first: the place of the level before them.
      last: the place of the level after.
      crosses: whether the estimates of these are on different sides.
      open: how many steps are open, and may be closed.
      straight: how many would be if the curve were straight between levels.
    """

    first: int
    last: int
    crosses: bool
    open: float
    straight: float


def clusters(goal: Goal, now: Bands) -> list[Cluster]:
    """What is open, in clusters."""
    _, means, deviations, *_ = now.estimates
    off = means - goal.least
    leans = np.abs(off) >= _LEAN * deviations
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


def crossings(goal: Goal, now: Bands, found: list[Cluster]) -> dict[Cluster, Rough]:
    """Where the clusters that cross do so."""
    return {
        one: rough(goal, now.estimates, one.first, one.last)
        for one in found
        if one.crosses
    }


def shares(
    goal: Goal, found: list[Cluster], places: dict[Cluster, Rough], width: float
) -> dict[Cluster, float]:
    """How many steps of each cluster may stay open, so that all cost the least.

    Args:
      goal: the goal.
      found: what is open.
      places: where it crosses.
      width: how many steps may stay open in all.
    """
    # One of w costs about 1 / (slope w)^2: least, for a fixed sum, at these shares.
    cheap = _CHEAP_SLOPE / goal.parts
    rest = {
        one: (places[one].slope if one in places else cheap) ** (-2 / 3)
        for one in found
    }
    given: dict[Cluster, float] = {}
    left = width
    # Those that are narrower than their share leave theirs to the others.
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


def share_together(
    goal: Goal,
    levels: Levels,
    now: Estimates,
    places: dict[Cluster, Rough],
) -> float:
    """The error of all crossings together, as a share of the sum of their errors.

    Where a mean is too high more is accepted, at every crossing. So the errors of
    several add up as those of the means do, which are those of the same images but not
    the same.
    """
    noise = np.array([one.straight for one in places])
    if len(places) < 2 or not noise.sum() > 0:
        return 1.0
    at = [_nearest(now, one, about.step) for one, about in places.items()]
    together = np.eye(len(at))
    for i in range(len(at)):
        for j in range(i):
            pair = at[i], at[j]
            found = correlation(levels, now, pair, goal.least_variance, goal.num_images)
            together[i, j] = together[j, i] = found
    total = np.sqrt(max(float(noise @ together @ noise), 0.0))
    return min(total / float(noise.sum()), 1.0)


def closer_apart(goal: Goal, first: State, other: State) -> float:
    """By how much nearer both ends of the interval of a difference are than of two.

    The same images in the same order answer for two networks, and two errors add up as
    they go together. So the difference of what two searches accept is known better than
    both are.

    Args:
      goal: what was asked of both, whose images are the same.
      first: one search.
      other: the other.

    Returns:
      In steps, at least 0.
    """
    parts, noise = [], []
    for sign, state in ((1, first), (-1, other)):
        now = state.bands
        places = crossings(goal, now, clusters(goal, now)) if now else {}
        if now is None or not places:
            return 0.0
        straight = sum(one.straight for one in places)
        width = float(now.open.sum()) - (1 - now.together) * straight
        if state.accepted.half_width < width / 2 - _ROUNDING:
            # An earlier look's interval was kept, whose errors these are not.
            return 0.0
        noise.append(now.together * straight / 2)
        off = sign * _places_off(now.estimates, places)
        parts.append((state.levels, now.estimates, off))
    usual = sum(np.abs(off).sum() for *_, off in parts) / 2
    parts = [(levels, now, off / usual) for levels, now, off in parts]
    limits = goal.least_variance, goal.num_images
    alone = [math.sqrt(variance_of_sum([part], *limits)) for part in parts]
    apart = math.sqrt(variance_of_sum(parts, *limits))
    if sum(alone) == 0:
        return 0.0
    return max(1 - apart / sum(alone), 0.0) * sum(noise)


def _places_off(now: Estimates, places: dict[Cluster, Rough]) -> np.ndarray:
    """By how many steps each mean puts off the crossings that it places, `[n]`."""
    found = np.zeros(len(now.steps))
    for one, about in places.items():
        found[now.steps == _nearest(now, one, about.step)] += 1 / about.slope
    return found


def _nearest(now: Estimates, one: Cluster, step: float) -> int:
    inside = now.steps[one.first : one.last + 1]
    return int(inside[np.abs(inside - step).argmin()])
