"""Probabilities from weighted draws, and how far the weights are to be trusted."""

from typing import NamedTuple

import numpy as np
from scipy import special

#: The largest relative standard error that is trusted. It is lower where draws are few,
#: since these may hold none of the large weights and so show too small an error.
LARGEST_ERROR = 0.15
_LARGEST_ERROR_OF_FEW = 0.12
_FEW = 2000
# No single weight may make up more than this share of the sum, and hits may not be
# rare or nearly certain.
_LARGEST_SHARE = 0.1
_HITS = (0.02, 0.98)
# Below this log-probability, an upper bound is answer enough.
_NEGLIGIBLE = -40.0


class WeightedDraws(NamedTuple):
    """What weighted draws say of P probabilities; arrays `[P]`.

    Attributes:
      log_probability: float64; an upper bound where `bounded`.
      standard_error: of the log-probability.
      share: what the largest weight makes up of the probability.
      hits: the share of the draws that are hits.
      bounded: whether the probability is so small that it is bounded only.
      number: how many draws.
    """

    log_probability: np.ndarray
    standard_error: np.ndarray
    share: np.ndarray
    hits: np.ndarray
    bounded: np.ndarray
    number: np.ndarray

    @property
    def trusted(self) -> np.ndarray:
        """Whether the weights are even enough for the probability to be near."""
        most = np.where(self.number < _FEW, _LARGEST_ERROR_OF_FEW, LARGEST_ERROR)
        return (
            (self.standard_error < most)
            & (self.share < _LARGEST_SHARE)
            & (self.hits >= _HITS[0])
            & (self.hits <= _HITS[1])
        )


def nothing_drawn(number: int) -> WeightedDraws:
    """What no draws say of so many probabilities."""
    return WeightedDraws(
        log_probability=np.full(number, -np.inf),
        standard_error=np.full(number, np.inf),
        share=np.ones(number),
        hits=np.zeros(number),
        bounded=np.zeros(number, bool),
        number=np.zeros(number, np.int64),
    )


def weigh(margins: np.ndarray, log_weights: np.ndarray) -> WeightedDraws:
    """Estimates of P(margin >= 0) from weighted draws.

    Args:
      margins: `[P, n]`.
      log_weights: float64 `[P, n]`, log of the density ratios.
    """
    log_p, error, share = _weighted(margins >= 0, log_weights)
    hits = (margins >= 0).mean(axis=1)
    number = np.full(len(margins), margins.shape[1])
    none = np.zeros(len(margins), bool)
    found = WeightedDraws(log_p, error, share, hits, none, number)
    # Where no tilt within its limit reaches the boundary, the probability of a lower
    # margin is an upper bound. Half of the draws reach the median.
    reached = np.median(margins.astype(np.float64), axis=1)
    higher, higher_error, share = _weighted(margins >= reached[:, None], log_weights)
    bounded = ~found.trusted & (reached < 0) & (higher < _NEGLIGIBLE)
    bounded &= (higher_error < LARGEST_ERROR) & (share < _LARGEST_SHARE)
    return found._replace(
        log_probability=np.where(bounded, higher, log_p),
        standard_error=np.where(bounded, higher_error, error),
        bounded=bounded,
    )


def pooled(first: WeightedDraws, second: WeightedDraws) -> WeightedDraws:
    """What both draws say together.

    The second alone where one of them is bounded, or nothing was drawn before.
    """
    both = [first, second]
    number = first.number + second.number
    parts = [each.number / number for each in both]
    # The weights' first two moments, in units of the larger estimate.
    unit = np.maximum(first.log_probability, second.log_probability)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [np.exp(each.log_probability - unit) for each in both]
        squares = [
            np.where(mean > 0, mean**2 * (each.number * each.standard_error**2 + 1), 0)
            for mean, each in zip(means, both)
        ]
        mean, square = (_mixed(parts, moments) for moments in (means, squares))
        shares = [
            np.where(each_mean > 0, each.share * part * each_mean / mean, 0)
            for each, part, each_mean in zip(both, parts, means)
        ]
        found = WeightedDraws(
            unit + np.log(mean),
            np.sqrt(np.maximum(square / mean**2 - 1, 0) / number),
            np.maximum(*shares),
            _mixed(parts, [each.hits for each in both]),
            np.zeros(len(number), bool),
            number,
        )
    usable = np.isfinite(unit) & ~first.bounded & ~second.bounded & (first.number > 0)
    return WeightedDraws(*(np.where(usable, a, b) for a, b in zip(found, second)))


def _mixed(parts: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    """The mean of two values, weighted by the parts that they make up."""
    return parts[0] * values[0] + parts[1] * values[1]


def _weighted(
    hits: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weighted mean of hits `[P, n]`: its log, that log's error, the largest share.

    Without a hit they are -inf, infinite and 1.
    """
    number = hits.shape[1]
    masked = np.where(hits, log_weights, -np.inf)
    none = ~hits.any(axis=1)
    masked[none, 0] = 0.0
    total = np.asarray(special.logsumexp(masked, axis=1))
    squares = np.asarray(special.logsumexp(2 * masked, axis=1))
    error = np.sqrt(np.maximum(np.exp(squares - 2 * total) - 1 / number, 0))
    share = np.exp(masked.max(axis=1) - total)
    log_p = np.where(none, -np.inf, total - np.log(number))
    return log_p, np.where(none, np.inf, error), np.where(none, 1.0, share)
