"""The goal of a search by few images, on a grid of levels.

Positions are steps of the grid, integers in 0 ... parts.
"""

import math
from typing import NamedTuple, TypeVar

import numpy as np

ACCEPTED, OPEN, REJECTED = 1, 0, -1

_Number = TypeVar("_Number", float, np.ndarray)

# The evidence beyond the threshold that deciding a level takes on average, because the
# prior of the evidence does not know how far the mean is from the threshold.
_PRIOR = 2.0


class Goal(NamedTuple):
    """The goal of a search, in scores."""

    parts: int  # the number of parts of the grid
    least: float  # the lowest mean score of all images that is accepted
    bounds: tuple[float, float]  # the lowest and the highest score of an image
    num_images: int  # N, the size of the data set
    block: int  # images are looked at in multiples of this many
    error: float  # the probability of a wrong answer, in all
    # Half the width that may stay open, as a share of the range; 0 if every level
    # looked at must be decided, and every crossing found on the grid.
    half_width: float
    # Whether a level is decided only when the images left cannot change it.
    curtail: bool = False

    @property
    def by_bands(self) -> bool:
        """Whether bands around the curve, not decided levels, bound the answer."""
        return self.half_width > 0 and not self.curtail

    @property
    def spread(self) -> "Spread":
        low, high = self.bounds
        least_variance = max((high - self.least) * (self.least - low), 1e-3)
        return Spread(least_variance, self.num_images)

    @property
    def deviation(self) -> float:
        """The approximate standard deviation of an image's score near the threshold."""
        low, high = self.bounds
        return math.sqrt(max((high - self.least) * (self.least - low), 0.05))

    def blocks(self, images: float) -> int:
        """Rounds a number of images up to whole blocks, at most all images."""
        return min(math.ceil(images / self.block) * self.block, self.num_images)

    def request(self, step: int, images: float) -> "Wanted":
        return Wanted(step, self.blocks(images))

    def to_decide(self, distance: np.ndarray, needed_evidence: float) -> np.ndarray:
        """Returns about how many images decide levels this far from the threshold."""
        if self.curtail:
            low, high = self.bounds
            margin = np.maximum(np.abs(distance), 0) / (high - low)
            return self.num_images * np.clip(1 - margin, 0, 1)
        distance = np.maximum(np.abs(distance), 1e-9)
        plain = 2 * self.deviation**2 * (needed_evidence + _PRIOR) / np.square(distance)
        return self.of_finite(plain)

    def of_finite(self, plain: _Number) -> _Number:
        """Converts a sample size for an infinite population to one for the data set."""
        return plain / (1 + plain / self.num_images)


class Spread(NamedTuple):
    """How far means of the first images spread about the mean of all."""

    # The lower bound of the variance of an image's score at a level; None for none.
    least_variance: float | None = None
    num_images: int | None = None  # None for the population

    def variances(
        self, factors: np.ndarray, shared: np.ndarray, numbers: np.ndarray
    ) -> np.ndarray:
        """Returns the variances of linear combinations of means of first images."""
        # The error of the mean over n images is the sum of independent increments: the
        # changes of the mean from each number of images to the next, up to all images.
        left = 0.0 if self.num_images is None else 1 / self.num_images
        inverse = np.append(1 / numbers, left)
        each = ((factors @ shared) * factors).sum(axis=-1)
        is_change = np.abs(factors.sum(axis=-1)) < 0.5
        least = 1 / numbers[0]
        own = least if self.least_variance is None else self.least_variance
        each = np.maximum(each, np.where(is_change, least, own))
        return np.maximum(-np.diff(inverse), 0) @ each


class Level(NamedTuple):
    """A level and the scores seen there."""

    scores: np.ndarray  # float64 `[n]`, of the images seen, in their order
    side: int  # `ACCEPTED`, `OPEN` or `REJECTED`, by all images
    needed_evidence: float  # the evidence at which the level counts as decided

    @property
    def seen(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


Levels = dict[int, Level]


class Wanted(NamedTuple):
    """A step of the grid, and the total number of images that must be seen there."""

    step: int
    seen: int


class Gap(NamedTuple):
    """An interval between two decided levels where the curve may cross."""

    start: int  # the decided level at its start
    end: int  # the decided level at its end
    crosses: bool  # whether these two are on different sides
    # An open level inside: the one with most images seen if the ends are on different
    # sides, or else the one that is cheapest to decide; None if there is no open level.
    middle: int | None

    @property
    def width(self) -> int:
        return self.end - self.start


class Partition(NamedTuple):
    """The range, divided at its decided levels."""

    gaps: list[Gap]  # the open intervals
    accepted: int  # the number of steps between accepted levels
    # How many of these the flips of a few images may put below the threshold.
    doubted: float
    # How many steps between rejected levels such flips may lift to the threshold.
    hoped: float


class Accepted(NamedTuple):
    """Bounds on the number of accepted steps, and an estimate."""

    low: float  # the lower bound
    high: float  # the upper bound
    guess: float  # the estimate

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2
