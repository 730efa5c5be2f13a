"""Adjusts several comparisons' p-values for one another."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._assessment.compare import Comparison
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._bootstrap import holm


class Adjusted(NamedTuple):
    """A comparison with p-values adjusted by Holm's method.

    Attributes:
      found: the comparison.
      p_value: the adjusted p-value of the difference in robustness, or NaN.
      mean_p_value: the adjusted p-value of the mean difference, or NaN.
    """

    found: Comparison
    p_value: float
    mean_p_value: float

    @property
    def side(self) -> int:
        """1 if the first is significantly more robust, -1 if less, 0 if neither."""
        one = self.found
        return _side(one.confidence_interval, self.p_value, one.confidence_level)

    @property
    def mean_side(self) -> int:
        """The same for the mean over the range."""
        return _side(
            self.found.mean_interval, self.mean_p_value, self.found.confidence_level
        )

    @property
    def is_worse(self) -> bool:
        """Whether the first is significantly worse, in robustness or in the mean."""
        return min(self.side, self.mean_side) < 0


def adjusted(comparisons: Sequence[Comparison]) -> list[Adjusted]:
    """Adjusts the comparisons' p-values, two each, for one another."""
    # Between equally robust networks, the chance of any significant difference is then
    # at most one less the comparisons' confidence level, by default 5 %.
    pairs = np.array([(one.p_value, one.mean_p_value) for one in comparisons])
    values = holm(pairs.ravel()).reshape(-1, 2).tolist()
    return [
        Adjusted(one, p_value, mean_p_value)
        for one, (p_value, mean_p_value) in zip(comparisons, values)
    ]


def difference_text(one: Adjusted) -> str:
    """Returns the differences with their intervals and p-values as text."""
    found = one.found
    low, high = found.confidence_interval
    mean_low, mean_high = found.mean_interval
    level = f"{100 * found.confidence_level:g} %"
    return (
        f"difference {found.difference:+.4f}, {level} interval {low:+.4f} to "
        f"{high:+.4f}, p = {p_value_text(found.p_value, one.p_value)}; "
        f"mean over the range {found.mean_difference:+.4f}, {mean_low:+.4f} to "
        f"{mean_high:+.4f}, p = {p_value_text(found.mean_p_value, one.mean_p_value)}"
    )


def p_value_text(p_value: float, adjusted: float) -> str:
    """Returns a p-value and, in brackets, the adjusted one as text."""
    if math.isnan(p_value):
        return "-"
    return f"{p_value:.2g} (adjusted {adjusted:.2g})"


def _side(interval: ConfidenceInterval, p_value: float, confidence_level: float) -> int:
    # The tolerance admits p-values that equal the error up to rounding.
    if math.isnan(p_value) or p_value > 1 - confidence_level + 1e-12:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)
