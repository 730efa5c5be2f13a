"""The state of a search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.goal import Goal, Levels, Wanted
from jaxrob.strategies._few.sides import Partition


class Accepted(NamedTuple):
    """Bounds on the number of accepted steps, and an estimate.

    Attributes:
      low: the lower bound.
      high: the upper bound.
      guess: the estimate.
    """

    low: float
    high: float
    guess: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in steps."""
        return (self.high - self.low) / 2


class State(NamedTuple):
    """The state of a search.

    Attributes:
      levels: the levels and the scores seen there.
      accepted: the steps accepted; [0, all steps] at first.
      partition: the range cut at its decided levels, if levels are decided one by one;
        None until both ends of the range are decided.
      bands: the bands around the curve, for the search by bands.
      is_done: whether the goal is reached or no further request helps.
    """

    levels: Levels
    accepted: Accepted
    partition: Partition | None = None
    bands: Bands | None = None
    is_done: bool = False


class Method(NamedTuple):
    """How levels are chosen, and conclusions drawn from their scores."""

    # Takes scores by step, new ones only.
    look: Callable[[Goal, Any, State, dict[int, np.ndarray]], State]
    # Returns the next requests, empty if the grid yields nothing more.
    following: Callable[[Goal, State], tuple[State, list[Wanted]]]
