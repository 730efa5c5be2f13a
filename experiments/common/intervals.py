"""95 % intervals of means and over inputs, and tests of how often intervals hold."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from jaxrob import metrics

_RESAMPLES = 2000
# Resamples held at once, so that ten thousand inputs fit in memory.
_AT_ONCE = 100


def student_t(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
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


def significantly_below(
    times_held: Sequence[int] | np.ndarray, draws: int | np.ndarray, confidence: float
) -> np.ndarray:
    """Cells `[cells]` of too low a coverage, at 5 % for all of them (Holm, 1979)."""
    p_values = stats.binom.cdf(np.asarray(times_held), draws, confidence)
    return adjusted(p_values) <= 0.05


def named(rows: Sequence[dict[str, Any]], held: str, draws: int, name: str) -> str:
    """Marks rows whose number `held` is too low; returns their names, by a format."""
    times_held = [row[held] for row in rows]
    for row, one in zip(rows, significantly_below(times_held, draws, 0.95)):
        row["significantly_below"] = bool(one)
    below = [name.format(**row) for row in rows if row["significantly_below"]]
    return "; ".join(below) or "none"


def adjusted(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    p_values = np.asarray(p_values)
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    found = np.empty(len(order))
    found[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return found
