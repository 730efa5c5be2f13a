"""Estimated probabilities: for pairs of an input and a class, and for inputs.

Rare probabilities are estimated by pair. These estimates are improved method by method
(`worth_more`, `improved`), summed over each input's classes (`summed`), and put among
the inputs' answers (`with_estimates`). All of these are pure functions.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from jaxrob.roma._blocks import put_at, taken

# A class whose upper bound is below this share of its input's sum, or whose error adds
# less than this to the sum's relative one, needs no better estimate.
_NEGLIGIBLE_SHARE = 0.01
_NEGLIGIBLE_ERROR = 0.05

# From the strongest to the weakest.
_STATUSES = ("importance", "splitting", "bounded", "incomplete", "untrusted")

# The half width of a 95 % interval, in standard errors.
_Z = special.ndtri(0.975)


class Estimate(NamedTuple):
    """Estimates of M probabilities; arrays `[M]`, an entry for each pair or input.

    Attributes:
      status: strings. "importance" or "splitting": the method that gave it. "bounded"
        or "incomplete": `log_probability` is an upper bound. "untrusted": it may be far
        off. "": nothing is known yet.
      log_probability: float64; -inf where nothing was hit, NaN where nothing is known.
      standard_error: float64, of `log_probability`; infinite where it is not known.
      evaluations: int64, forward passes spent, a gradient counted as three.
    """

    status: np.ndarray
    log_probability: np.ndarray
    standard_error: np.ndarray
    evaluations: np.ndarray


class Answers(NamedTuple):
    """What an estimator answers for N inputs; arrays `[N]`.

    The fields are those of `RomaResult`, which explains them. The last four are of
    Algorithm 1 alone.
    """

    status: np.ndarray
    log_adversarial_probability: np.ndarray
    log_low: np.ndarray
    log_high: np.ndarray
    hits: np.ndarray
    evaluations: np.ndarray
    statistic: np.ndarray | None = None
    boxcox_lambda: np.ndarray | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None


def unknown(number: int) -> Estimate:
    """Estimates of which nothing is known yet."""
    return Estimate(
        np.full(number, "", "U16"),
        np.full(number, np.nan),
        np.full(number, np.inf),
        np.zeros(number, np.int64),
    )


def improved(estimate: Estimate, at: np.ndarray, better: Estimate) -> Estimate:
    """The estimates with better ones at some positions.

    Args:
      estimate: M estimates.
      at: `[m]` positions among them.
      better: m estimates. Their evaluations are added to those spent before.
    """
    spent = estimate.evaluations[at] + better.evaluations
    return put_at(estimate, at, better._replace(evaluations=spent))


def worth_more(estimate: Estimate, owner: np.ndarray) -> np.ndarray:
    """The pairs that need a better estimate.

    These are the pairs without a trusted estimate that may matter to their input's sum.

    Args:
      estimate: estimates of P pairs.
      owner: int `[P]`, the number of each pair's input.

    Returns:
      The positions of these pairs, ascending.
    """
    is_open = np.isin(estimate.status, ["", "untrusted"])
    known = _or_nothing(estimate.log_probability)
    total = _log_sums(np.where(is_open, -np.inf, known), owner)[owner]
    # Without a hit it is -inf and inf, so NaN, which may matter.
    with np.errstate(invalid="ignore"):
        upper = estimate.log_probability + _Z * estimate.standard_error
        negligible = upper < total + np.log(_NEGLIGIBLE_SHARE)
        # A rough estimate of a class is good enough beside a far likelier one.
        adds = np.exp(upper - total) * estimate.standard_error
        negligible |= adds < _NEGLIGIBLE_ERROR
    return np.flatnonzero(is_open & ~negligible)


# Sums without a hit are -inf, with an infinite error.
@np.errstate(invalid="ignore")
def summed(estimate: Estimate, owner: np.ndarray, num_inputs: int) -> Estimate:
    """The inputs' probabilities: sums over classes, whose events exclude each other.

    The status is the weakest among the classes that matter to the sum.

    Args:
      estimate: estimates of P pairs.
      owner: int `[P]`, the number of each pair's input, from 0.
      num_inputs: N. An input without a pair is "untrusted".
    """
    is_open = np.zeros(len(owner), bool)
    is_open[worth_more(estimate, owner)] = True
    sizes = np.bincount(owner, minlength=num_inputs)
    by_input = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    found = unknown(len(sizes))
    for number, pairs in enumerate(by_input):
        status = estimate.status[pairs]
        log_p = _or_nothing(estimate.log_probability[pairs])
        total = special.logsumexp(log_p)
        share = np.exp(log_p - total) if np.isfinite(total) else np.ones(len(pairs))
        error = share * np.where(share > 0, estimate.standard_error[pairs], 0)
        rough = (status == "untrusted") & ~is_open[pairs]
        matters = ((share > _NEGLIGIBLE_SHARE) & ~rough) | is_open[pairs]
        found.status[number] = _weakest(status[matters])
        found.log_probability[number] = total
        found.standard_error[number] = np.sqrt(np.sum(error**2))
        found.evaluations[number] = estimate.evaluations[pairs].sum()
    return found


def with_estimates(answers: Answers, at: np.ndarray, estimate: Estimate) -> Answers:
    """The answers with estimates in place of some of them, as 95 % intervals.

    Where splitting got stuck there is no answer, only the interval's end. The given
    answers stay there if they bound the probability better, as on a plateau for
    instance. All evaluations add up.

    Args:
      answers: of N inputs.
      at: `[n]` positions of inputs.
      estimate: for these n inputs.
    """
    log_p, status = estimate.log_probability, estimate.status
    # A sum without a hit is -inf with an infinite error.
    with np.errstate(invalid="ignore"):
        low = log_p - _Z * estimate.standard_error
        high = np.minimum(log_p + _Z * estimate.standard_error, 0)
    low = np.where(np.isin(status, ["bounded", "incomplete"]), -np.inf, low)
    unanswered = status == "untrusted"
    before = taken(answers, at)
    better = before._replace(
        status=status,
        # A bound that may be near 1 would read as a number.
        log_adversarial_probability=np.where(
            unanswered | (status == "incomplete"), np.nan, np.minimum(log_p, 0)
        ),
        log_low=np.where(unanswered, np.nan, low),
        log_high=np.where(unanswered, np.nan, high),
    )
    stays = np.flatnonzero((status == "incomplete") & (high > before.log_high))
    better = put_at(better, stays, taken(before, stays))
    spent = before.evaluations + estimate.evaluations
    return put_at(answers, at, better._replace(evaluations=spent))


def _or_nothing(log_probability: np.ndarray) -> np.ndarray:
    """The log-probabilities, with -inf where nothing is known."""
    return np.where(np.isnan(log_probability), -np.inf, log_probability)


def _log_sums(log_probability: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The logarithm of the sum over each input's pairs."""
    total = np.full(owner.max() + 1, -np.inf)
    np.logaddexp.at(total, owner, log_probability)
    return total


def _weakest(statuses: np.ndarray) -> str:
    if not len(statuses):
        return "untrusted"
    return max(statuses, key=_STATUSES.index)
