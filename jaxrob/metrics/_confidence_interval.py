"""The confidence interval of a number."""

from typing import NamedTuple


class ConfidenceInterval(NamedTuple):
    """An interval that holds the true value with a stated confidence.

    Attributes:
      low: its lower end.
      high: its upper end.
    """

    low: float
    high: float
