"""Evidence on which side of a threshold the measure of all N inputs lies, from a few.

The inputs come in random order, without replacement. Each evidence is the logarithm of
a test martingale: if the measure lies on the other side, the probability that it ever
reaches log(1 / e) is at most e, however often it is looked at (Ville's inequality).
"""

from typing import NamedTuple

import numpy as np
import scipy

# The prior of counts holds this many numbers of right answers beyond the threshold, at
# distances spaced evenly on a logarithmic scale, from `_LEAST_GAP` sqrt(N).
_GAPS = 40
_LEAST_GAP = 0.25
# The stakes that the bets on scores mix, as shares of the largest possible stake.
_STAKES = np.geomspace(1 / 256, 0.9, 16)


class Evidence(NamedTuple):
    """Log evidence for each side: arrays of one shape."""

    accepted: np.ndarray  # evidence against all measures below the threshold
    rejected: np.ndarray  # evidence against all measures of at least the threshold


def count_evidence(
    right: np.ndarray, seen: np.ndarray, total: int, least: int
) -> Evidence:
    """Tests whether at least `least` of all N inputs are right, from those seen."""
    # It is the prior-posterior ratio (Waudby-Smith and Ramdas, "Confidence sequences
    # for sampling without replacement", NeurIPS 2020). The prior of each side is
    # uniform in the logarithm of the distance from the threshold.
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
    mean = scipy.special.logsumexp(each, axis=-1) - np.log(len(others))
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
