"""What a search has found."""

from typing import NamedTuple

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.goal import Levels
from jaxrob.strategies._few.sides import Known


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


class State(NamedTuple):
    """What a search has found.

    Attributes:
      levels: what was seen.
      accepted: the steps that are accepted; all open where nothing is known.
      known: what is certain, where levels are decided one by one; None before the ends
        of the range are.
      bands: what is open, where bands around the curve tell that.
      is_done: whether nothing more is to be looked at.
    """

    levels: Levels
    accepted: Accepted
    known: Known | None = None
    bands: Bands | None = None
    is_done: bool = False
