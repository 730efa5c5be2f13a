"""P-values of several tests at once."""

import numpy as np


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values adjusted so that all tests together err as seldom as one (Holm 1979).

    Args:
      p_values: `[n]` in [0, 1]. Those that are NaN stay so and do not count.

    Returns:
      `[n]` in [0, 1]. If those at most q are called significant, the probability that
      any is wrongly is at most q, whatever the tests have to do with each other.
    """
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return adjusted
