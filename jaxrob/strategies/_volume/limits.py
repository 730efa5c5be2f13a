"""Limits of the accepted volume, from fresh levels in strata of known volumes."""

import math
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._testing import clopper_pearson
from jaxrob.strategies._volume.model import Cells

# Strata by the model's probability of acceptance, and the least volume of one.
_UNLIKELY, _LIKELY = 0.03, 0.97
_LEAST_VOLUME = 0.01


class Strata(NamedTuple):
    cells: Cells
    of_cell: np.ndarray  # int `[cells]`, 0 ... strata - 1

    @property
    def volumes(self) -> np.ndarray:
        """The strata's exact shares of the cube, `[k]`."""
        return np.bincount(self.of_cell) / len(self.of_cell)

    def drawn(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns so many points of each stratum, uniform in it, `[sum, d]`."""
        inside = [np.flatnonzero(self.of_cell == k) for k in range(len(numbers))]
        chosen = [rng.choice(one, int(n)) for one, n in zip(inside, numbers)]
        return self.cells.drawn(np.concatenate(chosen), rng)


def strata(cut: Cells, probability: np.ndarray) -> Strata:
    """Returns strata by the model's probability of acceptance in each cell."""
    # 0 where the model rejects, 1 where it is unsure, 2 where it accepts.
    found = (probability > _UNLIKELY) * 1 + (probability > _LIKELY)
    for side in (0, 2):
        # Levels in a stratum this small would cost more than they tell.
        if (found == side).mean() < _LEAST_VOLUME:
            found[found == side] = 1
    if (found == 1).mean() < _LEAST_VOLUME:
        found[found == 1] = np.bincount(found, minlength=3)[[0, 2]].argmax() * 2
    return Strata(cut, np.unique(found, return_inverse=True)[1])


class Tally(NamedTuple):
    """Fresh levels by stratum; what is neither accepted nor rejected is open."""

    volumes: np.ndarray  # float64 `[k]`, of the strata
    numbers: np.ndarray  # `[k]`, levels drawn
    accepted: np.ndarray  # `[k]`, or about how many will be
    rejected: np.ndarray  # `[k]`

    @property
    def each(self) -> np.ndarray:
        """Returns the volume for which a level of a stratum stands, `[k]`."""
        return self.volumes / np.maximum(self.numbers, 1)

    def of(self, numbers: np.ndarray) -> "Tally":
        """Returns the same shares of other numbers."""
        times = numbers / np.maximum(self.numbers, 1)
        return Tally(
            self.volumes, numbers, self.accepted * times, self.rejected * times
        )


class Rule(NamedTuple):
    error: float  # the probability that the limits of the counts miss
    is_proven: bool
    slack: float  # the volume on which levels may be wrong together
    wrong: float = 0.0  # the probability that a level is wrong by itself


def limits(tally: Tally, rule: Rule) -> tuple[float, float]:
    volumes, numbers, accepted, rejected = tally
    if rule.is_proven:
        level = 1 - rule.error / len(volumes)
        low = clopper_pearson(accepted, numbers, level)[0]
        high = clopper_pearson(numbers - rejected, numbers, level)[1]
        start, end = volumes @ low, volumes @ high
    else:
        # Jeffreys' limits, and MOVER (Zou and Donner 2008): strata do not all err at
        # once.
        least = accepted / np.maximum(numbers, 1)
        most = np.where(numbers > 0, 1 - rejected / np.maximum(numbers, 1), 1.0)
        low = _jeffreys(accepted, numbers, rule.error / 2)
        high = 1 - _jeffreys(rejected, numbers, rule.error / 2)
        start = volumes @ least - math.hypot(*(volumes * (least - low)))
        end = volumes @ most + math.hypot(*(volumes * (high - most)))
    # Of the levels on one side, so many seem to be on the other.
    start, end = (start - rule.wrong) / (1 - rule.wrong), end / (1 - rule.wrong)
    return max(float(start) - rule.slack, 0.0), min(float(end) + rule.slack, 1.0)


def _jeffreys(hits: np.ndarray, numbers: np.ndarray, tail: float) -> np.ndarray:
    low = scipy.special.betaincinv(hits + 0.5, numbers - hits + 0.5, tail)
    return np.where(hits == 0, 0.0, low)


# Doublings of the allocation, and steps of the bisection.
_DOUBLINGS, _STEPS = 16, 14


def plan(tally: Tally, costs: np.ndarray, width: float, rule: Rule) -> np.ndarray:
    """Returns the cheapest numbers of levels for a width, at costs `[k]` of a level."""
    least = np.maximum(tally.numbers, 1.0)
    share = (tally.accepted + 0.5) / (tally.accepted + tally.rejected + 1)
    spread = tally.volumes * np.sqrt(share * (1 - share))
    # Neyman's allocation, of widths that add up as squares or plainly.
    ideal = spread / np.sqrt(costs)
    if rule.is_proven:
        ideal = (spread / costs) ** (2 / 3)
    ideal = ideal / (ideal / least).max()

    def numbers(power: float) -> np.ndarray:
        return np.maximum(least, ideal * 2.0**power)

    low, high = 0.0, float(_DOUBLINGS)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        start, end = limits(tally.of(numbers(middle)), rule)
        low, high = (middle, high) if end - start > width else (low, middle)
    return np.ceil(numbers(high))
