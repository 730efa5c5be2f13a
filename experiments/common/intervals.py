"""95 % intervals: Student's t for a mean over seeds, the bootstrap over inputs."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from jaxrob import metrics

_RESAMPLES = 2000
# Resamples held at once, so that ten thousand inputs fit in memory.
_AT_ONCE = 100


def student_t(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Returns the interval of the mean of at least two values."""
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return float(np.mean(values) - half), float(np.mean(values) + half)


def in_points(shares: Sequence[float] | np.ndarray) -> str:
    """Formats the mean of shares in percentage points, with an interval if possible."""
    points = 100 * np.asarray(shares)
    text = f"{np.mean(points):+.2f}"
    if len(points) < 2:
        return text
    low, high = student_t(points)
    return f"{text} [{low:+.2f}, {high:+.2f}]"


def of_robustness(
    levels: np.ndarray,
    right: np.ndarray,
    num_inputs: int | np.ndarray,
    threshold: float,
    bounds: tuple[float, float] = (0.0, 1.0),
    confidence_level: float = 0.95,
) -> metrics.ConfidenceInterval:
    """A robustness's interval, from how many inputs are right at each level."""
    confusion = np.zeros((len(right), 2, 3), int)
    confusion[:, 0, 0], confusion[:, 0, 1] = right, num_inputs - right
    return metrics.confidence_interval(
        levels, confusion, "accuracy", threshold, confidence_level, bounds=bounds
    )


def over_inputs(
    statistic: Callable[..., np.ndarray],
    *values: np.ndarray,
    confidence_level: float = 0.95,
) -> tuple[float, float]:
    """A statistic's interval over inputs by the BCa bootstrap (Efron, 1987)."""
    # NaN if all resamples give the same value: such inputs determine no interval.
    if len(values[0]) < 2:
        return np.nan, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        # A resample may have a group without inputs.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.bootstrap(
            values,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=_RESAMPLES,
            confidence_level=confidence_level,
            batch=_AT_ONCE,
            random_state=np.random.default_rng(0),
        )
    low, high = found.confidence_interval
    return float(low), float(high)
