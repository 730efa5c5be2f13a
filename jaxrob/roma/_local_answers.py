"""What is known of each input's probability, before inputs are put together."""

from typing import NamedTuple

import numpy as np

from jaxrob.roma._estimate import half_width


class LocalAnswers(NamedTuple):
    """Probabilities of a distinct misclassification near N inputs; arrays `[N]`.

    Attributes:
      probability: an estimate; NaN where nothing is known.
      low: what it is at least.
      high: what it is at most.
      answered: whether there is an answer.
      variance: of the estimate, by the draws; NaN where it is not known.
      draws: how many draws each is the share of hits of; None for other estimates.
    """

    probability: np.ndarray
    low: np.ndarray
    high: np.ndarray
    answered: np.ndarray
    variance: np.ndarray
    draws: int | None


def by_plain_draws(hits: np.ndarray, num_samples: int) -> LocalAnswers:
    """The shares of hits, which are right on average."""
    share = hits / num_samples
    # Without bias: the share's own variance makes share (1 - share) smaller.
    spread = (
        share * (1 - share) / (num_samples - 1) if num_samples > 1 else share * np.nan
    )
    return LocalAnswers(
        probability=share,
        low=share,
        high=share,
        answered=np.ones(len(share), bool),
        variance=spread,
        draws=num_samples,
    )


def plr_of_all(
    plr: np.ndarray, hits: np.ndarray | None, num_samples: int
) -> np.ndarray:
    """Each input's plr; without an answer, its share of draws that are no hit."""
    if hits is None:
        return plr
    counted = np.where(hits < 0, np.nan, 1 - hits / num_samples)
    return np.where(np.isnan(plr), counted, plr)


def by_estimator(
    log_probability: np.ndarray,
    log_low: np.ndarray,
    log_high: np.ndarray,
    hits: np.ndarray | None,
    num_samples: int,
    confidence_level: float,
) -> LocalAnswers:
    """An estimator's answers, each anything in its interval."""
    answered = ~np.isnan(log_probability)
    fallback = np.full(len(answered), np.nan) if hits is None else hits / num_samples
    probability = np.where(answered, np.exp(log_probability), fallback)
    low = np.where(np.isnan(log_low), 0.0, np.exp(log_low))
    high = np.where(np.isnan(log_high), 1.0, np.exp(log_high).clip(max=1.0))
    known = answered & ~np.isnan(log_low) & ~np.isnan(log_high)
    error = (high - low) / (2 * half_width(confidence_level))
    variance = np.where(known, error**2, np.nan)
    return LocalAnswers(probability, low, high, answered, variance, draws=None)
