"""Evidence from few of N inputs on which side of a threshold the measure of all is.

The inputs come in random order, without replacement. Each evidence is the logarithm of
a test martingale: were the measure on the other side, it would ever reach log(1 / e)
with a probability of e at most, however often one looks (Ville's inequality).
"""

from typing import NamedTuple

import numpy as np
import scipy

# Numbers of right answers beyond the threshold that the prior of counts holds: evenly
# spaced on a logarithmic scale, from a fraction of the standard deviation of all.
_GAPS = 40
_LEAST_GAP = 0.25
# Shares of the largest stake that the bets on scores mix.
_STAKES = np.geomspace(1 / 256, 0.9, 16)


class Evidence(NamedTuple):
    """How much speaks for each side: arrays of one shape, logarithms.

    Attributes:
      accepted: against all measures below the threshold.
      rejected: against all measures of at least the threshold.
    """

    accepted: np.ndarray
    rejected: np.ndarray


def count_evidence(
    right: np.ndarray, seen: np.ndarray, total: int, least: int
) -> Evidence:
    """Whether at least so many of all inputs are right, from those seen.

    The prior-posterior ratio (Waudby-Smith and Ramdas, "Confidence sequences for
    sampling without replacement", NeurIPS 2020), with a prior for each side whose
    logarithms of the distance from the threshold are uniform.

    Args:
      right: integers `[...]`, the right ones among those seen.
      seen: integers `[...]`, how many were seen.
      total: N, all inputs.
      least: the fewest right ones of all that are accepted.
    """
    right, seen = np.broadcast_arrays(np.asarray(right), np.asarray(seen))
    return Evidence(
        _ratio(right, seen, total, least - 1, _beyond(total, least - 1, 1)),
        _ratio(right, seen, total, least, _beyond(total, least, -1)),
    )


def mean_evidence(
    scores: np.ndarray, total: int, least: float, bounds: tuple[float, float]
) -> Evidence:
    """Whether the mean of all N scores is at least a number, from those seen.

    Bets without replacement of the same paper, a mixture of 16 stakes.

    Args:
      scores: float64 `[n]`, in the order seen.
      total: N.
      least: the lowest mean that is accepted.
      bounds: the lowest and the highest score that there may be.
    """
    low, high = bounds
    return Evidence(
        _capital(scores - low, total, least - low),
        _capital(high - scores, total, high - least),
    )


def mean_interval(
    scores: np.ndarray, total: int, error: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Where the mean of all N scores may lie: a confidence sequence.

    Args:
      scores: float64 `[n]`, in the order seen.
      total: N.
      error: the probability that the interval ever misses, in (0, 1).
      bounds: the lowest and the highest score that there may be.
    """
    (low, high), bound = bounds, np.log(2 / error)
    certain = scores.sum() / total
    unseen = 1 - len(scores) / total
    fewest, most = certain + unseen * low, certain + unseen * high

    centre = float(np.clip(scores.mean() if len(scores) else low, fewest, most))
    start, end = fewest, centre
    for _ in range(24):
        middle = (start + end) / 2
        if _capital(scores - low, total, middle - low) >= bound:
            start = middle
        else:
            end = middle
    lowest, start, end = start, centre, most
    for _ in range(24):
        middle = (start + end) / 2
        if _capital(high - scores, total, high - middle) >= bound:
            end = middle
        else:
            start = middle
    return lowest, end


def _beyond(total: int, boundary: int, direction: int) -> np.ndarray:
    """Numbers of right inputs on one side of the boundary, the prior's."""
    room = total - boundary if direction > 0 else boundary
    if room < 1:
        return np.array([], int)
    least = min(max(1.0, _LEAST_GAP * np.sqrt(total)), room)
    gaps = np.rint(np.geomspace(least, room, _GAPS)).astype(int)
    return boundary + direction * gaps


def _ratio(
    right: np.ndarray, seen: np.ndarray, total: int, null: int, others: np.ndarray
) -> np.ndarray:
    """The log ratio of the prior's mean likelihood to that of the boundary."""
    if not 0 <= null <= total:
        return np.full(right.shape, np.inf)  # What is to be refuted cannot be.
    if not len(others):
        return np.full(right.shape, -np.inf)
    each = _likelihood(right[..., None], seen[..., None], total, others)
    mean = scipy.special.logsumexp(each, axis=-1) - np.log(len(others))
    against = _likelihood(right, seen, total, np.array(null))
    impossible = np.isneginf(against) & ~np.isneginf(mean)
    with np.errstate(invalid="ignore"):
        ratio = mean - against
    # Neither can be: the truth lies farther on that side or on the other.
    ratio = np.where(np.isnan(ratio), -np.inf, ratio)
    return np.where(impossible, np.inf, ratio)


def _likelihood(
    right: np.ndarray, seen: np.ndarray, total: int, number: np.ndarray
) -> np.ndarray:
    """The log probability of these answers in their order, were `number` right."""
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


def _capital(scores: np.ndarray, total: int, mean: float) -> np.ndarray:
    """The log of a gambler's capital who bets that scores from 0 exceed the mean."""
    if mean < 0:
        return np.array(np.inf)
    before = np.concatenate([[0.0], np.cumsum(scores)[:-1]]) if len(scores) else scores
    left = total - np.arange(len(scores))
    # What the rest must have on average, were the mean the boundary. It is known
    # before the score is.
    rest = (total * mean - before) / left
    slack = 1e-12 * max(1.0, total * mean)
    if len(scores) and total * mean - scores.sum() < -slack:
        return np.array(np.inf)
    rest = np.maximum(rest, 1e-12)
    gains = scores / rest - 1
    capital = np.log1p(_STAKES[:, None] * gains).sum(axis=1)
    return np.logaddexp.reduce(capital) - np.log(len(_STAKES))
