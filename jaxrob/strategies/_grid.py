"""The finest grid that a strategy refines to, and the known levels on it."""

from typing import NamedTuple

import numpy as np

from jaxrob.strategies._strategy import History, Task


class Grid(NamedTuple):
    """A range divided into equal parts, and the known levels on its grid.

    Attributes:
      parts: the number of parts.
      steps: integers `[n]` in 0 ... parts, the known levels, ascending.
    """

    parts: int
    steps: np.ndarray

    @property
    def divisible(self) -> np.ndarray:
        """Bool `[n - 1]`: whether an interval holds a level of the grid inside."""
        return np.diff(self.steps) > 1

    @property
    def middles(self) -> np.ndarray:
        """The level in the middle of each interval, in steps, rounded down."""
        return (self.steps[:-1] + self.steps[1:]) // 2


def grid_of(task: Task, history: History, parts: int) -> Grid:
    """Returns the history's levels on a grid of this many parts."""
    steps = np.rint(task.positions_of(history.levels) * parts).astype(int)
    return Grid(parts, steps)
