"""Multiple tests with a bounded probability of any false alarm."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats


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
    """Returns the p-values `[cells]` for all cells together (Holm, 1979)."""
    p_values = np.asarray(p_values)
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    found = np.empty(len(order))
    found[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return found
