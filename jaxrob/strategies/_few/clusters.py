"""Where bands leave open what is accepted, and how much of it may stay open."""

from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.crossing import Rough
from jaxrob.strategies._few.goal import Goal

# A level so many standard deviations from the threshold counts as decided in a plan.
_LEAN = 2.0
# Less than so many steps is rounding.
_OPEN = 1e-9
# What is open without a crossing is cheap to close: it may stay open as one that
# crosses with such a slope, per range, may.
_CHEAP_SLOPE = 40.0


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
