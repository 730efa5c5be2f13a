"""P-values of several tests together."""

import numpy as np


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusts p-values for several tests, bounding the family-wise error (Holm 1979).

    Args:
      p_values: `[n]` in [0, 1]. NaN stays NaN and does not count as a test.

    Returns:
      `[n]` in [0, 1]. If tests with values of at most q are called significant, the
      probability of any false rejection is at most q, however the tests depend on each
      other.
    """
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return adjusted
