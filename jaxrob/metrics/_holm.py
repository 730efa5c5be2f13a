"""P-values of several tests together."""

import numpy as np


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusts p-values of several tests, for the family-wise error (Holm 1979)."""
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return adjusted
