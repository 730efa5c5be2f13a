"""Ranks with simultaneous confidence, from estimates and their bootstrap."""

import numpy as np
import scipy

from jaxrob.metrics._bootstrap import num_resamples

# Of a thousand replicates a standard deviation is off by 2 %, which inflates the
# largest of many studentized differences.
_TIMES_AS_MANY = 4


def num_rank_resamples(confidence_level: float) -> int:
    """Returns the number of replicates that ranks of this confidence need."""
    return _TIMES_AS_MANY * num_resamples(confidence_level)


def surely_better(
    values: np.ndarray, replicates: np.ndarray, confidence_level: float, freedom: float
) -> np.ndarray:
    """Returns which populations are significantly better than which, `[P, P]`."""
    # All ordered pairs are tested at once, by the largest of their studentized
    # differences, and again without those found, until nothing is found (Romano and
    # Wolf 2005). The chance of a single false "better" is at most one less the
    # confidence level, whatever the dependence. This is the stepwise set of Mogstad,
    # Romano, Shaikh and Wilhelm (2024, "Inference for Ranks", section 3).
    number = len(values)
    first, second = np.nonzero(~np.eye(number, dtype=bool))
    differences = values[first] - values[second]
    drawn = replicates[first] - replicates[second]
    deviation = drawn.std(axis=1, ddof=1)
    # What never varies is as it is: its sign is known, and it needs no test.
    is_known = deviation <= 1e-12
    scale = np.where(is_known, 1.0, deviation)
    drawn = (drawn - drawn.mean(axis=1, keepdims=True)) / scale[:, None]
    is_found = is_known & (differences > 1e-12)
    is_left = ~is_known
    while is_left.any():
        largest = drawn[is_left].max(axis=0)
        # At least that of a single pair: few images give few different replicates.
        critical = max(
            np.quantile(largest, confidence_level),
            scipy.special.ndtri((1 + confidence_level) / 2),
        )
        if np.isfinite(freedom):
            tail = scipy.special.ndtr(-critical)
            critical = scipy.stats.t.isf(tail, freedom)
        is_new = is_left & (differences / scale > critical)
        if not is_new.any():
            break
        is_found |= is_new
        is_left &= ~is_new
    better = np.zeros((number, number), bool)
    better[first, second] = is_found
    return better


def rank_intervals(better: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest and highest rank, `[P]` each, from `surely_better`; 1 is best.

    The rank of a population is one more than the number of better ones. Tied
    populations could be in any order, so their ranks are sets, and the intervals cover
    these sets.
    """
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)
