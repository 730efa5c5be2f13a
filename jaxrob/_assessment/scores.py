"""What tolerance and penalization make of a curve."""

from typing import NamedTuple

import numpy as np


class Scores(NamedTuple):
    """What tolerance and penalization make of a curve, see `metrics.level_scores`.

    Attributes:
      settings: the tolerance, the penalization, the nominal value and the distribution
        of the levels, as text.
      values: float64 `[L]` in [-1, 1], the score of the measure at each level.
      low: float64 `[L]`, the lowest score within the measure's 95 % band.
      high: float64 `[L]`, the highest.
      weights: float64 `[L]`, how much each level counts.
    """

    settings: str
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weights: np.ndarray
