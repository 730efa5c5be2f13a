"""Several comparisons, and which of them show a difference for all that."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._assessment.compare import Comparison
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._holm import holm


class Adjusted(NamedTuple):
    """A comparison among others.

    Attributes:
      found: the comparison.
      p_value: of the difference in robustness, by Holm's method; NaN if it is.
      mean_p_value: of the mean difference, likewise.
    """

    found: Comparison
    p_value: float
    mean_p_value: float

    @property
    def side(self) -> int:
        """1 if the first is more robust beyond what chance explains, -1 if less."""
        one = self.found
        return _side(one.confidence_interval, self.p_value, one.confidence_level)

    @property
    def mean_side(self) -> int:
        """The same of the mean over the range."""
        return _side(
            self.found.mean_interval, self.mean_p_value, self.found.confidence_level
        )

    @property
    def is_worse(self) -> bool:
        """Whether the first is less robust, or worse on average over the range."""
        return min(self.side, self.mean_side) < 0


def adjusted(comparisons: Sequence[Comparison]) -> list[Adjusted]:
    """Comparisons whose p-values, two each, are adjusted for one another.

    Of networks that are alike, any difference at all is then called one in at most 5 %
    of all cases, or what the comparisons' confidence leaves.
    """
    pairs = np.array([(one.p_value, one.mean_p_value) for one in comparisons])
    values = holm(pairs.ravel()).reshape(-1, 2).tolist()
    return [
        Adjusted(one, p_value, mean_p_value)
        for one, (p_value, mean_p_value) in zip(comparisons, values)
    ]


def said(one: Adjusted) -> str:
    """The differences with their intervals and p-values, in words."""
    found = one.found
    low, high = found.confidence_interval
    mean_low, mean_high = found.mean_interval
    level = f"{100 * found.confidence_level:g} %"
    return (
        f"difference {found.difference:+.4f}, {level} interval {low:+.4f} to "
        f"{high:+.4f}, p = {both(found.p_value, one.p_value)}; mean over the range "
        f"{found.mean_difference:+.4f}, {mean_low:+.4f} to {mean_high:+.4f}, p = "
        f"{both(found.mean_p_value, one.mean_p_value)}"
    )


def both(p_value: float, adjusted: float) -> str:
    """A p-value, and in brackets the adjusted one."""
    if math.isnan(p_value):
        return "-"
    return f"{p_value:.2g} (adjusted {adjusted:.2g})"


def _side(interval: ConfidenceInterval, p_value: float, confidence_level: float) -> int:
    # The least that rounds up to it is enough.
    if math.isnan(p_value) or p_value > 1 - confidence_level + 1e-12:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)
