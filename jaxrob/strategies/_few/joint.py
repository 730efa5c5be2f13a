"""How far crossings are off together, which is less than each may be alone."""

import math

import numpy as np

from jaxrob.strategies._few.aim import crossings
from jaxrob.strategies._few.clusters import Cluster, clusters
from jaxrob.strategies._few.crossing import Rough
from jaxrob.strategies._few.estimates import Estimates, correlation, variance_of_sum
from jaxrob.strategies._few.goal import Goal, Levels
from jaxrob.strategies._few.state import State

# Of sums of steps.
_ROUNDING = 1e-6


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
