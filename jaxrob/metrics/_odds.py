"""The association of "unknown" and wrong answers."""

from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array
from jaxrob.metrics._checks import checked_confidence_level
from jaxrob.uncertainty import unknown_threshold


class OddsRatio(NamedTuple):
    """The association of "unknown" and "wrong"; arrays of one shape.

    Attributes:
      ratio: float64, above 1 where unknown answers would have been wrong more often
        than the decided ones are; possibly infinite, and NaN where all answers are in
        one row or one column.
      low: float64, the lower end of its confidence interval, at least 0.
      high: float64, the upper end, possibly infinite.
    """

    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray


def unknown_counts(
    predicted: np.ndarray,
    labels: np.ndarray,
    uncertainty: np.ndarray,
    alpha: float,
) -> np.ndarray:
    """Counts inputs by whether the answer is unknown and whether it is wrong.

    Args:
      predicted: integers `[L, N]`, the most probable class, decided or not.
      labels: integers `[N]`, the right classes.
      uncertainty: `[L, N]` in [0, 1], see `jaxrob.uncertainty.aleatoric`.
      alpha: the confidence level in [0, 1]: an answer is unknown where its uncertainty
        exceeds 1 - alpha.

    Returns:
      int64 `[L, 2, 2]`: rows are unknown and decided, columns wrong and right.

    Raises:
      ValueError: if alpha lies outside [0, 1] or is missing, the uncertainty is missing
        or NaN, or the shapes do not fit.
    """
    threshold = unknown_threshold(alpha)
    if uncertainty is None:
        raise ValueError(
            'uncertainty is missing (None), as from a classifier of outputs="scores"'
        )
    axes: dict[str, int] = {}
    predicted = checked_array("predicted", predicted, "L, N", "integers", axes=axes)
    labels = checked_array("labels", labels, "N", "integers", at_least=0, axes=axes)
    uncertainty = checked_array(
        "uncertainty", uncertainty, "L, N", at_least=0, at_most=1, axes=axes
    )
    unknown, wrong = uncertainty > threshold, predicted != labels
    cells = [
        np.count_nonzero(row & column, axis=1)
        for row in (unknown, ~unknown)
        for column in (wrong, ~wrong)
    ]
    return np.stack(cells, axis=-1).reshape(-1, 2, 2)


def odds_ratio(counts: np.ndarray, confidence_level: float = 0.95) -> OddsRatio:
    """The odds that an unknown answer is wrong, over the odds of a decided one.

    It answers the 2024 paper's open question (section 7), whether unknown and incorrect
    predictions are associated. Given its margins, a table follows Fisher's noncentral
    hypergeometric distribution, whose only parameter is the ratio. The ratio is
    estimated by maximum likelihood. The interval is the exact one (Cornfield, 1956),
    whose coverage is at least the confidence level, however few answers are wrong. If a
    cell is 0, the ratio is 0 or infinite, and so is that end of the interval.

    Args:
      counts: integers `[..., 2, 2]`, see `unknown_counts`.
      confidence_level: the least coverage, in (0, 1).

    Returns:
      The `OddsRatio`, with arrays of the shape `[...]`. If all or no answers are
      unknown, or all or no answers are wrong, the ratio is NaN and the interval
      [0, infinity].

    Raises:
      ValueError: if the counts have another shape, are not integers or are negative, or
        the confidence level lies outside (0, 1).
    """
    confidence_level = checked_confidence_level(confidence_level)
    counts = checked_array("counts", counts, "..., 2, 2", "integers", at_least=0)
    tables = counts.reshape(-1, 2, 2)
    results = np.reshape(
        [_conditional(table, confidence_level) for table in tables], (-1, 3)
    )
    return OddsRatio(*results.T.reshape(3, *counts.shape[:-2]))


def _conditional(
    table: np.ndarray, confidence_level: float
) -> tuple[float, float, float]:
    """Returns the ratio of one table, and the ends of its interval."""
    unknown, wrong = int(table[0].sum()), int(table[:, 0].sum())
    total, seen = int(table.sum()), int(table[0, 0])
    # The range of the wrong among the unknown answers that the margins allow.
    least, most = max(0, unknown + wrong - total), min(unknown, wrong)
    if least == most:
        return np.nan, 0.0, np.inf
    k = np.arange(least, most + 1)
    cells = k, unknown - k, wrong - k, total - unknown - wrong + k
    log_ways = -sum(scipy.special.gammaln(cell + 1) for cell in cells)
    tail = (1 - confidence_level) / 2
    # Between k and k + 1 the number of ways changes by at most a factor of total**2.
    reach = 2 * np.log(total) - np.log(tail) + 1

    def solve(function: np.ndarray, target: float) -> float:
        """Returns the ratio at which the mean of a function of k equals the target."""

        def excess(log_ratio: float) -> float:
            return scipy.special.softmax(log_ways + log_ratio * k) @ function - target

        return np.exp(scipy.optimize.brentq(excess, -reach, reach))

    inside = least < seen < most
    ratio = solve(k, seen) if inside else (0.0 if seen == least else np.inf)
    low = solve(k >= seen, tail) if seen > least else 0.0
    high = solve(k <= seen, tail) if seen < most else np.inf
    return ratio, low, high
