"""Tests of hypotheses: unknown against wrong answers, ranks, evidence from a few."""

from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array
from jaxrob.metrics._bands import num_resamples
from jaxrob.metrics._counts import checked_confidence_level
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
    predicted: np.ndarray, labels: np.ndarray, uncertainty: np.ndarray, alpha: float
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
    hypergeometric distribution, whose only parameter is the ratio, estimated by maximum
    likelihood. The interval is the exact one (Cornfield, 1956), whose coverage is at
    least the confidence level.

    Args:
      counts: integers `[..., 2, 2]`, see `unknown_counts`.
      confidence_level: the least coverage, in (0, 1).

    Returns:
      The `OddsRatio`, with arrays of the shape `[...]`. If a cell is 0, the ratio and
      one end are 0 or infinite. If a row or a column is 0, the ratio is NaN and the
      interval [0, infinity].

    Raises:
      ValueError: if the counts have another shape, are not integers or are negative, or
        the confidence level lies outside (0, 1).
    """
    confidence_level = checked_confidence_level(confidence_level)
    counts = checked_array("counts", counts, "..., 2, 2", "integers", at_least=0)
    rows = [_conditional(one, confidence_level) for one in counts.reshape(-1, 2, 2)]
    results = np.reshape(rows, (-1, 3))
    return OddsRatio(*results.T.reshape(3, *counts.shape[:-2]))


def _conditional(
    table: np.ndarray, confidence_level: float
) -> tuple[float, float, float]:
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


# Of a thousand replicates a standard deviation is off by 2 %, which inflates the
# largest of many studentized differences.
_TIMES_AS_MANY = 4


def num_rank_resamples(confidence_level: float) -> int:
    return _TIMES_AS_MANY * num_resamples(confidence_level)


def surely_better(
    values: np.ndarray, replicates: np.ndarray, confidence_level: float, freedom: float
) -> np.ndarray:
    """Returns which populations are significantly better than which, `[P, P]`."""
    # All ordered pairs by the largest studentized difference, again without those found
    # (Romano and Wolf 2005): Mogstad et al. 2024, "Inference for Ranks", section 3.
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
    """Returns the lowest and highest rank, `[P]`; 1 is best, ties in any order."""
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusts p-values of several tests, for the family-wise error (Holm 1979)."""
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return adjusted


def clopper_pearson(
    hits: np.ndarray, numbers: int | np.ndarray, confidence_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The exact confidence interval of a probability (Clopper and Pearson 1934)."""
    hits, misses = np.broadcast_arrays(hits, np.subtract(numbers, hits))
    tail = (1 - confidence_level) / 2
    with np.errstate(invalid="ignore"):
        low = scipy.special.betaincinv(hits, misses + 1, tail)
        high = scipy.special.betainccinv(hits + 1, misses, tail)
    return np.where(hits == 0, 0.0, low), np.where(misses == 0, 1.0, high)


# Evidence that the measure of all N inputs lies on a side: the logarithm of a test
# martingale, which reaches log(1 / e) with probability e at most else (Ville).

# The prior of counts holds this many numbers of right answers beyond the threshold, at
# distances spaced evenly on a logarithmic scale, from `_LEAST_GAP` sqrt(N).
_GAPS = 40
_LEAST_GAP = 0.25
# The stakes that the bets on scores mix, as shares of the largest possible stake.
_STAKES = np.geomspace(1 / 256, 0.9, 16)


class Evidence(NamedTuple):
    accepted: np.ndarray  # evidence against all measures below the threshold
    rejected: np.ndarray  # evidence against all measures of at least the threshold


def count_evidence(
    right: np.ndarray, seen: np.ndarray, total: int, least: int
) -> Evidence:
    """Tests whether at least `least` of all N inputs are right, from those seen."""
    # The prior-posterior ratio (Waudby-Smith and Ramdas, NeurIPS 2020), of a prior that
    # is uniform in the logarithm of the distance from the threshold on each side.
    right, seen = np.broadcast_arrays(np.asarray(right), np.asarray(seen))
    return Evidence(
        _log_ratio(right, seen, total, least - 1, _prior_counts(total, least - 1, 1)),
        _log_ratio(right, seen, total, least, _prior_counts(total, least, -1)),
    )


def mean_evidence(
    scores: np.ndarray, total: int, least: float, bounds: tuple[float, float]
) -> Evidence:
    """Tests whether the mean of all N scores is at least `least`, from those seen."""
    # It bets without replacement as in the same paper, with a mixture of 16 stakes.
    low, high = bounds
    return Evidence(
        _log_capital(scores - low, total, least - low),
        _log_capital(high - scores, total, high - least),
    )


def mean_interval(
    scores: np.ndarray, total: int, error: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Returns an interval for the mean of all N scores, from a confidence sequence."""
    (low, high), bound = bounds, np.log(2 / error)
    certain = scores.sum() / total
    unseen = 1 - len(scores) / total
    fewest, most = certain + unseen * low, certain + unseen * high

    centre = float(np.clip(scores.mean() if len(scores) else low, fewest, most))

    def bisected(outer: float, sign: int) -> float:
        some, end, inner = sign * scores, min(sign * low, sign * high), centre
        for _ in range(24):
            middle = (outer + inner) / 2
            if _log_capital(some - end, total, sign * middle - end) >= bound:
                outer = middle
            else:
                inner = middle
        return outer

    return bisected(fewest, 1), bisected(most, -1)


def _prior_counts(total: int, boundary: int, direction: int) -> np.ndarray:
    """Returns the prior's numbers of right answers on one side of the boundary."""
    room = total - boundary if direction > 0 else boundary
    if room < 1:
        return np.array([], int)
    least = min(max(1.0, _LEAST_GAP * np.sqrt(total)), room)
    gaps = np.rint(np.geomspace(least, room, _GAPS)).astype(int)
    return boundary + direction * gaps


def _log_ratio(
    right: np.ndarray, seen: np.ndarray, total: int, null: int, others: np.ndarray
) -> np.ndarray:
    """Returns the log ratio of the prior's mean likelihood to the boundary's."""
    if not 0 <= null <= total:
        return np.full(right.shape, np.inf)  # The null hypothesis is impossible.
    if not len(others):
        return np.full(right.shape, -np.inf)
    each = _log_likelihood(right[..., None], seen[..., None], total, others)
    mean = np.logaddexp.reduce(each, axis=-1) - np.log(len(others))
    against = _log_likelihood(right, seen, total, np.array(null))
    impossible = np.isneginf(against) & ~np.isneginf(mean)
    with np.errstate(invalid="ignore"):
        ratio = mean - against
    # NaN: both are impossible, as the true number lies elsewhere on either side.
    ratio = np.where(np.isnan(ratio), -np.inf, ratio)
    return np.where(impossible, np.inf, ratio)


def _log_likelihood(
    right: np.ndarray, seen: np.ndarray, total: int, number: np.ndarray
) -> np.ndarray:
    """Returns the log probability of the sequence seen if `number` of all are right."""
    wrong, others = seen - right, total - number
    possible = (right <= number) & (wrong <= others)
    lgamma = scipy.special.gammaln
    right, wrong = np.minimum(right, number), np.minimum(wrong, others)
    value = (
        lgamma(number + 1.0)
        - lgamma(number - right + 1.0)
        + lgamma(others + 1.0)
        - lgamma(others - wrong + 1.0)
        - lgamma(total + 1.0)
        + lgamma(total - seen + 1.0)
    )
    return np.where(possible, value, -np.inf)


def _log_capital(scores: np.ndarray, total: int, mean: float) -> np.ndarray:
    """Returns the log capital of bets that scores, at least 0, exceed the mean."""
    if mean < 0:
        return np.array(np.inf)
    before = np.concatenate([[0.0], np.cumsum(scores)[:-1]]) if len(scores) else scores
    left = total - np.arange(len(scores))
    # The mean that the unseen scores have if `mean` is the mean of all. It is known
    # before each score.
    rest = (total * mean - before) / left
    slack = 1e-12 * max(1.0, total * mean)
    if len(scores) and total * mean - scores.sum() < -slack:
        return np.array(np.inf)
    rest = np.maximum(rest, 1e-12)
    gains = scores / rest - 1
    capital = np.log1p(_STAKES[:, None] * gains).sum(axis=1)
    return np.logaddexp.reduce(capital) - np.log(len(_STAKES))
