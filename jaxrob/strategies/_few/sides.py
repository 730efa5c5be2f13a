"""Which side of the threshold levels are on, and what is open between decided ones."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._evidence import count_evidence, mean_evidence
from jaxrob.metrics._finite_inputs import open_width
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

# Rounding of sums of scores, as a share of the number of images.
_SLACK = 1e-9
# By how many standard deviations an open level must be on its neighbours' side to count
# as they do.
_LEAN = 2.0
# A stretch of this share of the range, or of what may stay open, hides little.
_NARROW = 0.04


def side(goal: Goal, level: Level) -> int:
    """The side of a level.

    One that was decided stays so: evidence that sufficed once suffices.
    """
    if level.side != OPEN or not level.seen:
        return level.side
    certain = _certain_side(goal, level.scores)
    if certain != OPEN or goal.curtail:
        return certain
    if goal.bounds == (0.0, 1.0) and _are_counts(level.scores):
        right = np.array(round(level.scores.sum()))
        least = least_count(goal.least, goal.num_images)
        seen = np.array(level.seen)
        evidence = count_evidence(right, seen, goal.num_images, least)
    else:
        evidence = mean_evidence(level.scores, goal.num_images, goal.least, goal.bounds)
    if evidence.accepted >= level.price:
        return ACCEPTED
    return REJECTED if evidence.rejected >= level.price else OPEN


def least_count(least: float, num_images: int) -> int:
    """The fewest right images whose share is at least a number, exactly."""
    count = max(math.ceil(least * num_images) - 2, 0)
    while count / num_images < least:
        count += 1
    return count


def _certain_side(goal: Goal, scores: np.ndarray) -> int:
    """The side if the images left cannot change it."""
    (low, high), total = goal.bounds, goal.num_images
    left = total - len(scores)
    if goal.bounds == (0.0, 1.0) and _are_counts(scores):
        right, least = round(scores.sum()), least_count(goal.least, total)
        if right >= least:
            return ACCEPTED
        return REJECTED if right + left < least else OPEN
    known, needed, slack = scores.sum(), goal.least * total, _SLACK * total
    if known + left * low >= needed - (slack if not left else -slack):
        return ACCEPTED
    return REJECTED if known + left * high < needed - slack or not left else OPEN


def _are_counts(scores: np.ndarray) -> bool:
    return bool(((scores == 0) | (scores == 1)).all())


class Gap(NamedTuple):
    """A stretch between two decided levels where the curve may be on either side.

    Attributes:
      start: the decided level before it.
      end: the one after it.
      crosses: whether these are on different sides.
      middle: the open level within of which most images were seen, or, where the ends
        are on one side, that whose mean is farthest off; None without one.
    """

    start: int
    end: int
    crosses: bool
    middle: int | None

    @property
    def width(self) -> int:
        """In steps."""
        return self.end - self.start


class Known(NamedTuple):
    """The range, cut at its decided levels.

    Attributes:
      gaps: what is open.
      accepted: how many steps lie between accepted levels.
      doubted: of these, how many a few images' flips may leave below the threshold.
      hoped: how many steps between other levels they may raise to it.
    """

    gaps: list[Gap]
    accepted: int
    doubted: float
    hoped: float


def known(goal: Goal, strategy: ASAP, levels: Levels, now: Estimates) -> Known:
    """What is certain and what is open.

    Args:
      goal: the goal.
      strategy: tells where a curve may cross between levels of one side.
      levels: the levels seen, both ends of the range decided.
      now: what is known of their means.
    """
    sides = _sides(goal, levels)
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
    return Known(found, accepted, doubted, hoped)


def _sides(goal: Goal, levels: Levels) -> dict[int, int]:
    """The sides of levels that are decided, or as good as decided.

    An open level between decided ones of one side counts as they do unless its images
    say that it may lie on the other: if its mean is clearly on their side, by two
    standard deviations, or, where these are near, no lower (higher) than the line
    between them.
    """
    sides = {step: one.side for step, one in levels.items() if one.side != OPEN}
    decided = np.array(sorted(sides))
    means = np.array([levels[step].mean for step in decided.tolist()])
    found = dict(sides)
    narrow = max(2 * goal.half_width, _NARROW) * goal.parts
    for step, one in levels.items():
        place = int(np.searchsorted(decided, step))
        if one.side != OPEN or not 0 < place < len(decided):
            continue
        before, after = (sides[int(decided[place + i])] for i in (-1, 0))
        left = max(1 / one.seen - 1 / goal.num_images, 0)
        deviation = goal.deviation * left**0.5
        chord = float(np.interp(step, decided, means))
        clearly = before * (one.mean - goal.least) >= _LEAN * deviation
        as_expected = before * (one.mean - chord) >= -_LEAN * deviation
        as_expected &= decided[place] - decided[place - 1] <= narrow
        if before == after and (clearly or as_expected):
            found[step] = before
    return found


def _middle(goal: Goal, levels: Levels, within: list[int], crosses: bool) -> int | None:
    if crosses:
        return max(within, key=lambda step: levels[step].seen, default=None)

    def price(step: int) -> float:
        distance = levels[step].mean - goal.least
        whole = images_needed(goal, np.array(distance), levels[step].price)
        return float(whole) - levels[step].seen

    return min(within, key=price, default=None)
