"""An approximate confidence interval of a mean whose distribution is skewed."""

import math

import numpy as np

Numbers = float | np.ndarray

# From simulations of 560 distributions of shares of hits (zeros and ones to nearly
# normal ones, means 1e-4 to 0.7, 10 to 100,000 inputs): where these hold, no interval
# misses more than 1.2 times as often as it says at 95 %, and few at 99.5 %.
FEWEST_VALUES = 20
LARGEST_SKEWNESS = 15**-0.5
#: A tail that falls off as a power below this has no variance.
LEAST_INDEX = 2.0
# The part of the values that are its tail, and how many it takes at least.
_TAIL = 0.1
_FEWEST_IN_TAIL = 10


def tail_index(values: np.ndarray) -> float:
    """The power as which the greatest values fall off (Hill 1975)."""
    logs = -np.sort(-np.log(values[values > 0]))
    number = max(_FEWEST_IN_TAIL, math.ceil(_TAIL * len(logs)))
    if len(logs) <= number:
        return math.inf
    excess = float(logs[:number].mean() - logs[number])
    return 1 / excess if excess > 0 else math.inf


def skewed_interval(
    mean: Numbers, error: Numbers, skewness: Numbers, quantile: Numbers
) -> np.ndarray:
    """Hall's interval, Student's with the skewness removed by a cubic transformation.

    P. Hall, "On the removal of skewness by transformation", 1992. It covers where
    Student's, at the same numbers of rare hits, lies too low.
    """

    def untransformed(y: Numbers) -> np.ndarray:
        """The t at which t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 is y."""
        # Without skewness t is y.
        a = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness)
        return 3 / a * (np.cbrt(1 + a * (y - a / 6)) - 1)

    ends = (
        mean - error * untransformed(quantile),
        mean - error * untransformed(-quantile),
    )
    return np.clip(np.stack(ends, axis=-1), 0, 1)
