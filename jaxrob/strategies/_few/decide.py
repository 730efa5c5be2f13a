"""Which side of the threshold a level is on, by the images seen."""

import math

import numpy as np

from jaxrob.metrics._evidence import count_evidence, mean_evidence
from jaxrob.strategies._few.goal import ACCEPTED, OPEN, REJECTED, Goal, Level

# Rounding of sums of scores, as a share of the number of images.
_SLACK = 1e-9


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
