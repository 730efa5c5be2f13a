"""Which levels are decided, and which intervals between them stay open."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import open_width
from jaxrob.metrics._evidence import count_evidence, mean_evidence
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.crossing import may_cross
from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import (
    ACCEPTED,
    OPEN,
    REJECTED,
    Goal,
    Level,
    Levels,
    images_needed,
)

# Rounding of sums of scores, per image.
_SLACK = 1e-9


def side(goal: Goal, level: Level) -> int:
    """Returns the side of a level."""
    # A decided level stays decided: evidence that sufficed once suffices.
    if level.side != OPEN or not level.seen:
        return level.side
    certain = certain_side(level.scores, goal.least, goal.num_images, goal.bounds)
    if certain != OPEN or goal.curtail:
        return certain
    if goal.bounds == (0.0, 1.0) and _are_counts(level.scores):
        right = np.array(round(level.scores.sum()))
        least = least_count(goal.least, goal.num_images)
        seen = np.array(level.seen)
        evidence = count_evidence(right, seen, goal.num_images, least)
    else:
        evidence = mean_evidence(level.scores, goal.num_images, goal.least, goal.bounds)
    if evidence.accepted >= level.needed_evidence:
        return ACCEPTED
    return REJECTED if evidence.rejected >= level.needed_evidence else OPEN


def least_count(least: float, num_images: int) -> int:
    """Returns the lowest count of right images with a share of at least `least`."""
    count = max(math.ceil(least * num_images) - 2, 0)
    while count / num_images < least:
        count += 1
    return count


def certain_side(
    scores: np.ndarray, least: float, num_images: int, bounds: tuple[float, float]
) -> int:
    """Returns the side if the unseen images cannot change it, or else `OPEN`."""
    (low, high), left = bounds, num_images - len(scores)
    if bounds == (0.0, 1.0) and _are_counts(scores):
        right, least_right = round(scores.sum()), least_count(least, num_images)
        if right >= least_right:
            return ACCEPTED
        return REJECTED if right + left < least_right else OPEN
    seen, needed, slack = scores.sum(), least * num_images, _SLACK * num_images
    if seen + left * low >= needed - (slack if not left else -slack):
        return ACCEPTED
    return REJECTED if seen + left * high < needed - slack or not left else OPEN


def _are_counts(scores: np.ndarray) -> bool:
    return bool(((scores == 0) | (scores == 1)).all())


class Gap(NamedTuple):
    """An interval between two decided levels where the curve may cross the threshold.

    Attributes:
      start: the decided level at its start.
      end: the decided level at its end.
      crosses: whether these two are on different sides.
      middle: an open level inside: the one with most images seen if the ends are on
        different sides, or else the one that is cheapest to decide; None if there is no
        open level.
    """

    start: int
    end: int
    crosses: bool
    middle: int | None

    @property
    def width(self) -> int:
        """The width in steps."""
        return self.end - self.start


class Partition(NamedTuple):
    """The range, divided at its decided levels.

    Attributes:
      gaps: the open intervals.
      accepted: the number of steps between accepted levels.
      doubted: how many of these the flips of a few images may put below the threshold.
      hoped: how many steps between rejected levels such flips may lift to the
        threshold.
    """

    gaps: list[Gap]
    accepted: int
    doubted: float
    hoped: float


def partition(goal: Goal, strategy: ASAP, levels: Levels, now: Estimates) -> Partition:
    """Divides the range, whose ends are decided, into decided and open intervals."""
    # What the images seen suggest decides no level: it is promised that none is wrong.
    sides = {step: one.side for step, one in levels.items() if one.side != OPEN}
    decided = np.array(sorted(sides))
    crossing = may_cross(goal, strategy, now.of(decided))
    inside = np.array(sorted(levels.keys() - sides.keys()), int)
    means = now.of(decided).means
    unseen = open_width(decided, means, goal.least, goal.num_images)
    found, accepted, doubted, hoped = [], 0, 0.0, 0.0
    for first, last, may, few in zip(
        decided[:-1].tolist(), decided[1:].tolist(), crossing.tolist(), unseen.tolist()
    ):
        crosses = sides[first] != sides[last]
        within = inside[(inside > first) & (inside < last)].tolist()
        if crosses or within or (may and last - first > 1):
            middle = _middle(goal, levels, within, crosses)
            found.append(Gap(first, last, crosses, middle))
        elif sides[first] == ACCEPTED:
            accepted += last - first
            doubted += few
        else:
            hoped += few
    return Partition(found, accepted, doubted, hoped)


def _middle(goal: Goal, levels: Levels, within: list[int], crosses: bool) -> int | None:
    if crosses:
        return max(within, key=lambda step: levels[step].seen, default=None)

    def cost(step: int) -> float:
        distance = levels[step].mean - goal.least
        whole = images_needed(goal, np.array(distance), levels[step].needed_evidence)
        return float(whole) - levels[step].seen

    return min(within, key=cost, default=None)
