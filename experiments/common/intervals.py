"""95 % intervals of a mean over seeds, by Student's t."""

from collections.abc import Sequence

import numpy as np
from scipy import stats


def student_t(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The interval of the mean of at least two values."""
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return float(np.mean(values) - half), float(np.mean(values) + half)


def in_points(shares: Sequence[float] | np.ndarray) -> str:
    """The mean of shares in percentage points; of several, with its interval."""
    points = 100 * np.asarray(shares)
    text = f"{np.mean(points):+.2f}"
    if len(points) < 2:
        return text
    low, high = student_t(points)
    return f"{text} [{low:+.2f}, {high:+.2f}]"
