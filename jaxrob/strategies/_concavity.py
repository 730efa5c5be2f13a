"""The concavity of a curve between two levels: given, or estimated."""

from typing import NamedTuple, Protocol

import numpy as np

from jaxrob.metrics._curvature import Bend, bend
from jaxrob.strategies._crossing import past_the_crossing
from jaxrob.strategies._grid import Grid
from jaxrob.strategies._strategy import History, Task

# The number of first intervals of the estimate: an excursion narrower than one of them
# may be missed.
_FIRST_INTERVALS = 8


class Concavity(Protocol):
    """An assumption about a curve's concavity, and the levels that it requires."""

    def first_steps(self, task: Task, parts: int) -> np.ndarray:
        """Returns the first levels, on a grid of this many parts."""
        ...

    def num_inputs(self, history: History) -> int | None:
        """Returns the inputs behind a value; None if values count as exact."""
        ...

    def shape(self, task: Task, history: History) -> Bend:
        """Returns the bend in each interval, on the range mapped to [0, 1]."""
        ...

    def inner_steps(
        self, task: Task, history: History, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """Returns one level inside each interval `[n - 1]`, in steps of the grid."""
        # For intervals that are not `grid.divisible` it may be an end of the interval.
        ...


class GivenConcavity(NamedTuple):
    """One number for the whole range, as in the 2022 paper; values count as exact.

    Attributes:
      a: in units of the measure per squared level, on the range mapped to [0, 1].
    """

    a: float

    def first_steps(self, task: Task, parts: int) -> np.ndarray:
        """Returns both ends of the range."""
        return np.array([0, parts])

    def num_inputs(self, history: History) -> None:
        """Returns None: values count as exact."""
        return None

    def shape(self, task: Task, history: History) -> Bend:
        """Returns the given concavity for every interval."""
        intervals = len(history.levels) - 1
        concavity = np.full(intervals, float(self.a))
        return Bend(concavity, concavity, np.zeros(intervals), concavity)

    def inner_steps(
        self, task: Task, history: History, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """Returns the middles."""
        return grid.middles


class EstimatedConcavity(NamedTuple):
    """A concavity for each interval, estimated from nearby levels; values scatter.

    See `jaxrob.metrics._curvature.bend`.
    """

    def first_steps(self, task: Task, parts: int) -> np.ndarray:
        """Returns nine levels, and the identity."""
        step = max(parts // _FIRST_INTERVALS, 1)
        first = np.arange(0, parts + 1, step)
        if task.identity is None:
            return first
        # At the identity the curve may have a peak narrower than the first intervals.
        identity = task.positions_of(np.array(task.identity)) * parts
        return np.union1d(first, np.rint(identity))

    def num_inputs(self, history: History) -> int | None:
        """Returns the history's typical number."""
        return history.typical_inputs

    def shape(self, task: Task, history: History) -> Bend:
        """Returns the estimate."""
        positions = task.positions_of(history.levels)
        return bend(positions, history.values, history.typical_inputs)

    def inner_steps(
        self, task: Task, history: History, grid: Grid, shape: Bend
    ) -> np.ndarray:
        """Returns a level just past the expected crossing, or else the middle."""
        inner = grid.middles
        above = history.values >= task.threshold
        for i in np.flatnonzero(grid.divisible & (above[:-1] != above[1:])):
            inner[i] = past_the_crossing(task, history, grid, shape, int(i))
        return inner
