"""Estimates from importance weights, and whether the weights can be trusted."""

from typing import NamedTuple

import numpy as np
from scipy import special

#: The largest relative standard error that is trusted. It is lower where draws are few:
#: these may hold none of the large weights, and then underestimate the error.
LARGEST_ERROR = 0.15
_LARGEST_ERROR_OF_FEW = 0.12
_LARGEST_ERROR_OF_SOME = 0.09
_FEW, _SOME = 2000, 8000
# No single weight may make up more than this share of the sum, and hits may not be
# rare or nearly certain.
_LARGEST_SHARE = 0.1
_HITS = (0.02, 0.98)
# Below this log-probability, an upper bound is answer enough. It is the probability of
# reaching the first of these quantiles of the margins for which the weights are even:
# few of the draws may be of the mode that comes nearest.
_NEGLIGIBLE = -40.0
_REACHED = (0.5, 0.75, 0.9, 0.95, 0.98)


class WeightedDraws(NamedTuple):
    """Estimates of P probabilities from weighted draws; arrays `[P]`.

    Attributes:
      log_probability: float64; estimates an upper bound where `bounded`.
      standard_error: of the log-probability; without a hit, of one that may become a
        bound.
      share: the largest weight's share of the probability.
      hits: the share of the draws that are hits.
      bounded: whether the probability is so small that only a bound is given.
      number: how many draws.
      effective: the effective sample size of the hits, (sum w)^2 / sum w^2 (Kong
        1992).
    """

    log_probability: np.ndarray
    standard_error: np.ndarray
    share: np.ndarray
    hits: np.ndarray
    bounded: np.ndarray
    number: np.ndarray
    effective: np.ndarray

    @property
    def trusted(self) -> np.ndarray:
        """Whether the weights are even enough for the probability to be near."""
        most = np.select(
            [self.number < _FEW, self.number < _SOME],
            [_LARGEST_ERROR_OF_FEW, _LARGEST_ERROR_OF_SOME],
            LARGEST_ERROR,
        )
        return (
            (self.standard_error < most)
            & (self.share < _LARGEST_SHARE)
            & (self.hits >= _HITS[0])
            & (self.hits <= _HITS[1])
        )


def nothing_drawn(number: int) -> WeightedDraws:
    """The estimates of `number` probabilities before any draw."""
    return WeightedDraws(
        log_probability=np.full(number, -np.inf),
        standard_error=np.full(number, np.inf),
        share=np.ones(number),
        hits=np.zeros(number),
        bounded=np.zeros(number, bool),
        number=np.zeros(number, np.int64),
        effective=np.zeros(number),
    )


def weigh(margins: np.ndarray, log_weights: np.ndarray) -> WeightedDraws:
    """Estimates of P(margin >= 0) from weighted draws."""
    log_p, error, share, effective = _weighted(margins >= 0, log_weights)
    hits = (margins >= 0).mean(axis=1)
    number = np.full(len(margins), margins.shape[1])
    none = np.zeros(len(margins), bool)
    found = WeightedDraws(log_p, error, share, hits, none, number, effective)
    for quantile in _REACHED:
        found = _with_bound(found, margins, log_weights, quantile)
    return found


def _with_bound(
    found: WeightedDraws, margins: np.ndarray, log_weights: np.ndarray, quantile: float
) -> WeightedDraws:
    """The estimates, or the probability of reaching a quantile of the draws' margins.

    Where no tilt within its limit reaches the boundary, it estimates an upper bound.
    """
    reached = np.quantile(margins.astype(np.float64), quantile, axis=1)
    log_p, error, share, _ = _weighted(margins >= reached[:, None], log_weights)
    small = (reached < 0) & (log_p < _NEGLIGIBLE)
    even = (error < LARGEST_ERROR) & (share < _LARGEST_SHARE)
    new = ~found.trusted & ~found.bounded & small & even
    # Without a hit, the error says how near the draws come to a bound.
    nearer = np.isneginf(found.log_probability) & small
    nearest = np.minimum(error, np.where(nearer, found.standard_error, np.inf))
    return found._replace(
        log_probability=np.where(new, log_p, found.log_probability),
        standard_error=np.select([new, nearer], [error, nearest], found.standard_error),
        bounded=found.bounded | new,
    )


def _weighted(
    hits: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The weighted mean of hits `[P, n]`."""
    number = hits.shape[1]
    masked = np.where(hits, log_weights, -np.inf)
    none = ~hits.any(axis=1)
    masked[none, 0] = 0.0
    total = np.asarray(special.logsumexp(masked, axis=1))
    squares = np.asarray(special.logsumexp(2 * masked, axis=1))
    error = np.sqrt(np.maximum(np.exp(squares - 2 * total) - 1 / number, 0))
    share = np.exp(masked.max(axis=1) - total)
    log_p = np.where(none, -np.inf, total - np.log(number))
    effective = np.where(none, 0.0, np.exp(2 * total - squares))
    return log_p, np.where(none, np.inf, error), np.where(none, 1.0, share), effective
