"""What a search by few images is to find out, on a grid of levels.

Positions are steps of the grid, integers in 0 ... parts.
"""

import math
from typing import NamedTuple, TypeVar

import numpy as np

ACCEPTED, OPEN, REJECTED = 1, 0, -1

_Number = TypeVar("_Number", float, np.ndarray)

# What deciding a level takes beyond its price, because the prior of the evidence does
# not know how far the level is from the threshold.
_PRIOR = 2.0


class Goal(NamedTuple):
    """What is to be found out, in scores.

    Attributes:
      parts: of the grid of levels.
      least: the lowest mean score of all images that is accepted.
      bounds: the lowest and the highest score of an image.
      num_images: N, how many images there are.
      block: images are looked at in multiples of this many.
      error: the probability that the answer is wrong, in all.
      half_width: half the width that may stay open, as a share of the range; 0 if every
        level looked at is to be decided, and every crossing found on the grid.
      curtail: whether a level is decided only when the images left cannot change it.
    """

    parts: int
    least: float
    bounds: tuple[float, float]
    num_images: int
    block: int
    error: float
    half_width: float
    curtail: bool = False

    @property
    def by_bands(self) -> bool:
        """Whether bands around the curve tell what is open, and not decided levels."""
        return self.half_width > 0 and not self.curtail

    @property
    def least_variance(self) -> float:
        """Of an image's score at a level, as far as few images that agree tell."""
        low, high = self.bounds
        return max((high - self.least) * (self.least - low), 1e-3)

    @property
    def deviation(self) -> float:
        """The standard deviation of an image's score near the threshold, about."""
        low, high = self.bounds
        return math.sqrt(max((high - self.least) * (self.least - low), 0.05))


class Level(NamedTuple):
    """What is known at a level.

    Attributes:
      scores: float64 `[n]` of the images seen, in their order.
      side: `ACCEPTED`, `OPEN` or `REJECTED`, by all images.
      price: the evidence at which the level counts as decided.
    """

    scores: np.ndarray
    side: int
    price: float

    @property
    def seen(self) -> int:
        """How many images were seen."""
        return len(self.scores)

    @property
    def mean(self) -> float:
        """Of the scores seen."""
        return float(self.scores.mean())


Levels = dict[int, Level]


class Wanted(NamedTuple):
    """A step of the grid, and how many images must be seen there in all."""

    step: int
    seen: int


def in_blocks(goal: Goal, seen: float) -> int:
    """So many images or a few more: whole blocks, or all there are."""
    blocks = math.ceil(seen / goal.block)
    return min(blocks * goal.block, goal.num_images)


def images_needed(goal: Goal, distance: np.ndarray, price: float) -> np.ndarray:
    """About how many images decide a level whose mean is so far from the threshold.

    Args:
      goal: the goal.
      distance: of the mean score from the threshold, any shape.
      price: the evidence at which a level counts as decided.
    """
    if goal.curtail:
        low, high = goal.bounds
        margin = np.maximum(np.abs(distance), 0) / (high - low)
        return goal.num_images * np.clip(1 - margin, 0, 1)
    distance = np.maximum(np.abs(distance), 1e-9)
    plain = 2 * goal.deviation**2 * (price + _PRIOR) / np.square(distance)
    return finite_population_correction(goal, plain)


def finite_population_correction(goal: Goal, plain: _Number) -> _Number:
    """How many of the images tell as much as so many of endlessly many."""
    return plain / (1 + plain / goal.num_images)
