"""How much a curve may bend between two levels: ASAP's two ways to know."""

from typing import NamedTuple, Protocol

import numpy as np

from jaxrob.metrics._curvature import Bend, bend
from jaxrob.strategies._crossing import past_the_crossing
from jaxrob.strategies._grid import Grid
from jaxrob.strategies._strategy import Question, Samples

# Intervals that the estimate begins with: an excursion narrower than one of them may be
# missed.
_FIRST_INTERVALS = 8


class Concavity(Protocol):
    """How much a curve may bend, and which levels that asks for."""

    def first_steps(self, question: Question, parts: int) -> np.ndarray:
        """The levels to begin with, on a grid of so many parts."""
        ...

    def num_inputs(self, samples: Samples) -> int | None:
        """The inputs behind a value; None where values count as exact."""
        ...

    def shape(self, question: Question, samples: Samples) -> Bend:
        """How the curve bends in each interval, on the range mapped to [0, 1]."""
        ...

    def inner_steps(
        self, question: Question, samples: Samples, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """One level inside each interval `[n - 1]`, in steps of the grid.

        For intervals that are not `grid.divisible` it may be one of the ends.
        """
        ...


class GivenConcavity(NamedTuple):
    """One number for the whole range, as in the 2022 paper; values count as exact.

    Attributes:
      a: in units of the measure per squared level, on the range mapped to [0, 1].
    """

    a: float

    def first_steps(self, question: Question, parts: int) -> np.ndarray:
        """Both ends of the range."""
        return np.array([0, parts])

    def num_inputs(self, samples: Samples) -> None:
        """None."""
        return None

    def shape(self, question: Question, samples: Samples) -> Bend:
        """The number, in every interval."""
        intervals = len(samples.levels) - 1
        concavity = np.full(intervals, float(self.a))
        return Bend(concavity, concavity, np.zeros(intervals), concavity)

    def inner_steps(
        self, question: Question, samples: Samples, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """The middles."""
        return grid.middles


class EstimatedConcavity(NamedTuple):
    """For each interval, what the levels around it show; values scatter.

    See `jaxrob.metrics._curvature.bend`.
    """

    def first_steps(self, question: Question, parts: int) -> np.ndarray:
        """Nine levels, and the identity."""
        step = max(parts // _FIRST_INTERVALS, 1)
        first = np.arange(0, parts + 1, step)
        if question.identity is None:
            return first
        # There the curve may have a peak narrower than the first intervals.
        identity = question.positions_of(np.array(question.identity)) * parts
        return np.union1d(first, np.rint(identity))

    def num_inputs(self, samples: Samples) -> int | None:
        """The samples' typical number."""
        return samples.typical_inputs

    def shape(self, question: Question, samples: Samples) -> Bend:
        """The estimate."""
        positions = question.positions_of(samples.levels)
        return bend(positions, samples.values, samples.typical_inputs)

    def inner_steps(
        self, question: Question, samples: Samples, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """Just past the crossing that is expected, or else the middle."""
        inner = grid.middles
        above = samples.values >= question.threshold
        for i in np.flatnonzero(grid.divisible & (above[:-1] != above[1:])):
            inner[i] = past_the_crossing(question, samples, grid, shape, int(i))
        return inner
