"""The cheapest way to know the mean at a level well enough."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import (
    Goal,
    Levels,
    Wanted,
    finite_population_correction,
    in_blocks,
)

# From such a share of the images on, all are looked at.
_ALL = 0.85
# So many levels on either side may help one. With more images they leave such parts of
# the variance to the difference from them.
_HELPERS = 4
_PARTS = (0.05, 0.12, 0.25, 0.5, 0.75)
# Changes of single images undo each other on longer ways: their variance grows by this
# power of the distance.
_POWER = 0.8


class Costs(NamedTuple):
    """What the cost of a level depends on.

    Attributes:
      goal: the goal.
      levels: what was seen.
      estimates: the levels' means.
      step: where the curve crosses, about.
      slope: of the mean score per step there, above 0.
    """

    goal: Goal
    levels: Levels
    estimates: Estimates
    step: float
    slope: float


def cheapest(
    known: Costs,
    wanted: dict[int, float],
    asked: Sequence[Wanted] = (),
    helped: bool = False,
) -> tuple[int, list[Wanted]]:
    """The cheapest way to know one of some levels well enough.

    Args:
      known: what was seen.
      wanted: for each level, which may be new, the standard deviation that its mean is
        to have.
      asked: what will be seen in any case.
      helped: whether more images of another level may be asked for too.

    Returns:
      The level chosen, and what is to be looked at, which may have been seen.
    """
    ways = []
    for step, deviation in wanted.items():
        # Of several that are known well enough, the nearest to the crossing.
        off = abs(step - known.step) / known.goal.parts
        cost, requests = _way(known, step, deviation, asked, helped)
        ways.append((cost + off, step, requests))
    _, step, requests = min(ways, key=lambda way: way[0])
    return step, requests


def images_for(goal: Goal, deviation: float) -> int:
    """How many images of its own a level takes for its mean to be known so well."""
    plain = (goal.deviation / max(deviation, 1e-12)) ** 2
    needed = finite_population_correction(goal, plain)
    return in_blocks(goal, goal.num_images if _is_most(goal, needed) else needed)


def seen_at(levels: Levels, step: int) -> int:
    """How many images were seen at a level; 0 if it is new."""
    return levels[step].seen if step in levels else 0


def _is_most(goal: Goal, images: float) -> bool:
    return images >= _ALL * goal.num_images


def _way(
    known: Costs,
    step: int,
    deviation: float,
    asked: Sequence[Wanted],
    helped: bool,
) -> tuple[float, list[Wanted]]:
    """What a level costs, and what is to be looked at for it."""
    goal, levels = known.goal, known.levels
    total, seen = goal.num_images, seen_at(levels, step)
    will = {one.step: one.seen for one in asked}
    if seen and known.estimates.at(step)[1] <= deviation:
        return 0.0, [Wanted(step, seen)]
    alone = max(images_for(goal, deviation), seen)
    best = float(alone - seen), [Wanted(step, alone)]
    steps = known.estimates.steps
    place = int(np.searchsorted(steps, step))
    around = steps[max(place - _HELPERS, 0) : place + _HELPERS].tolist()
    # With more images a helper leaves a part of the variance.
    parts = _PARTS if helped else ()
    more = [images_for(goal, deviation * math.sqrt(1 - part)) for part in parts]
    for other in {*around, *will} - {step}:
        theirs = max(seen_at(levels, other), will.get(other, 0))
        change = _change(known, step, other)
        for images in sorted({theirs, *(one for one in more if one > theirs)}):
            rest = deviation**2 - goal.deviation**2 * (1 / images - 1 / total)
            if rest <= 0:
                continue
            own = in_blocks(goal, max(1 / (rest / change + 1 / images), goal.block))
            cost = float(max(own - seen, 0) + images - theirs)
            if own <= images and cost < best[0]:
                best = cost, [Wanted(other, images), Wanted(step, own)]
    return best


def _change(known: Costs, step: int, other: int) -> float:
    """The variance of the change of a score between two levels, which may be new."""
    if step in known.levels and other in known.levels:
        return _seen_change(known, step, other)
    steps = known.estimates.steps
    place = int(np.searchsorted(steps, known.step))
    around = steps[max(place - 3, 0) : place + 3].tolist()
    distance = max(abs(step - other), 1)
    # From the pair most nearly so far apart.
    pairs = zip(around, around[1:])
    first, second = min(pairs, key=lambda p: abs(math.log((p[1] - p[0]) / distance)))
    longer = (distance / (second - first)) ** _POWER
    expected = _seen_change(known, first, second) * longer
    return max(expected, known.slope * distance, 1 / known.goal.num_images)


def _seen_change(known: Costs, step: int, other: int) -> float:
    levels = known.levels
    seen = min(levels[step].seen, levels[other].seen)
    change = levels[step].scores[:seen] - levels[other].scores[:seen]
    variance = float(change @ change) / seen - (float(change.sum()) / seen) ** 2
    return max(variance, 1 / seen)
