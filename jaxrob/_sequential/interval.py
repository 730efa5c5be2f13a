"""How much of the range is accepted, by all images of the data set: an interval."""

import math
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._sequential.crossing import Placed, placed
from jaxrob._sequential.gaps import Gap, Known
from jaxrob._sequential.task import Levels, Task, widest_line

# By how many standard deviations slopes, and levels beside the centre, may be off.
_SLOPES = 2.0


class Accepted(NamedTuple):
    """How many steps are accepted.

    Attributes:
      low: the fewest.
      high: the most.
      guess: the best guess.
    """

    low: float
    high: float
    guess: float

    @property
    def half_width(self) -> float:
        """Half of what is open, in steps."""
        return (self.high - self.low) / 2


def lines(task: Task, levels: Levels, gaps: list[Gap]) -> dict[Gap, Placed]:
    """The crossings that one level places."""
    narrow = [gap for gap in gaps if gap.crosses and gap.width <= widest_line(task)]
    found = {gap: placed(task, levels, gap) for gap in narrow}
    return {gap: line for gap, line in found.items() if line and line.is_line}


def accepted(
    task: Task, known: Known, placed_at: dict[Gap, Placed], error: float
) -> Accepted:
    """The interval that holds for certain sides and, with an error, for crossings.

    Args:
      task: the question.
      known: what is certain, and what is open.
      placed_at: the crossings that one level places.
      error: the probability that these are farther off than the interval says.
    """
    low = high = guess = float(known.accepted)
    for gap in known.gaps:
        if gap in placed_at:
            continue
        high += gap.width
        guess += gap.width / 2
    widest = sum(gap.width for gap in placed_at)
    if placed_at:
        centre, half = shift(task, list(placed_at.values()), error)
        within = float(np.clip(centre, 0, widest))
        guess += within
        low += max(min(centre - half, within), 0)
        high += min(max(centre + half, within), widest)
    low, high = max(low - known.doubted, 0.0), min(high + known.hoped, task.parts)
    return Accepted(low, high, min(max(guess, low), high))


def narrowed(now: Accepted, before: Accepted) -> Accepted:
    """What both intervals hold: each look's is right, with an error of its own."""
    low, high = max(now.low, before.low), min(now.high, before.high)
    if low > high:
        return now
    return Accepted(low, high, min(max(now.guess, low), high))


def images_for(task: Task, scatter: float, error: float, half_width: float) -> float:
    """How many images place crossings to a half width, if offsets scatter so much."""
    z = float(-scipy.special.ndtri(error / 2))
    plain = (z * scatter / max(half_width, 1e-9)) ** 2
    return plain / (1 + plain / task.num_images)


def shift(task: Task, crossings: list[Placed], error: float) -> tuple[float, float]:
    """The steps accepted in the crossings' gaps together, and how far that may be off.

    Errors of one image at several crossings add up with their signs; so the sum is
    known far better than each.
    """
    seen = min(len(one.offsets) for one in crossings)
    offsets = np.sum([one.offsets[:seen] for one in crossings], axis=0)
    left = math.sqrt(max(1 / seen - 1 / task.num_images, 0))
    z = float(-scipy.special.ndtri(error / 2))
    scatter = z * float(offsets.std(ddof=1)) * left
    spread = 0.0
    for one in crossings:
        each = z * float(one.offsets[:seen].std(ddof=1)) * left
        spread += one.curved * each / math.sqrt(len(crossings))
    half = math.hypot(scatter, deviation(crossings)) + curvature(crossings) + spread
    centre = sum(one.accepted + one.moved for one in crossings) + float(offsets.mean())
    return centre, half


def deviation(crossings: list[Placed]) -> float:
    """By how much slopes and levels beside the centres put the sum off, in steps."""
    return _SLOPES * math.hypot(*(one.deviation for one in crossings))


def curvature(crossings: list[Placed]) -> float:
    """By how much bends put the sum off, in steps."""
    return sum(one.curved * one.off for one in crossings)
