"""Estimated probabilities: for pairs of an input and a class, and for inputs."""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from jaxrob._devices.blocks import put_at, taken

# A class with less than this share of its input's sum does not matter to its status.
_NEGLIGIBLE_SHARE = 0.01

# Estimates contradict each other from this many standard errors of their difference.
_EXCLUDED = 3.5

#: The status of inputs that were not looked at.
UNSEEN = "unseen"
#: The status of inputs that a budget left without an answer.
UNDECIDED = "undecided"

#: With this many hits, counting is an answer where there is no better one.
SOME_HITS = 10

#: The most modes whose shares are reported.
MOST_MODES = 10

# From the strongest to the weakest.
_STATUSES = ("importance", "splitting", "bounded", "incomplete", "untrusted", "")


class Estimate(NamedTuple):
    """Estimates of M probabilities; arrays `[M]`, an entry for each pair or input."""

    # The method; "bounded", "incomplete": an upper bound; "untrusted"; "": none yet.
    status: np.ndarray
    # float64; -inf where nothing was hit, NaN where nothing is known.
    log_probability: np.ndarray
    # float64, of `log_probability`; infinite where it is not known.
    standard_error: np.ndarray
    evaluations: np.ndarray  # int64, forward passes spent, a gradient counted as three
    other_log_probability: np.ndarray  # an independent estimate; NaN for none
    other_error: np.ndarray  # its standard error
    modes: np.ndarray  # `[M, m]`, the shares of a mixture's modes, the greatest first
    effective: np.ndarray  # float64, the effective number of a mixture's hits


class Answers(NamedTuple):
    """What an estimator answers for N inputs; fields of `RomaResult`, `[N]`."""

    status: np.ndarray
    log_adversarial_probability: np.ndarray
    log_low: np.ndarray
    log_high: np.ndarray
    hits: np.ndarray
    evaluations: np.ndarray
    modes: np.ndarray | None = None
    effective_sample_size: np.ndarray | None = None
    needed: np.ndarray | None = None
    statistic: np.ndarray | None = None
    boxcox_lambda: np.ndarray | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None


# Of fields of `Answers`: the kind of their arrays, and what they hold of unseen inputs.
_KINDS = {
    "status": ("U", UNSEEN),
    "hits": ("i", -1),
    "evaluations": ("i", 0),
    "modes": ("f", 0.0),
    "effective_sample_size": ("f", 0.0),
    "needed": ("i", 0),
}


def kind_of(field: str) -> tuple[str, Any]:
    return _KINDS.get(field, ("f", np.nan))


def unknown(number: int) -> Estimate:
    return Estimate(
        np.full(number, "", "U16"),
        np.full(number, np.nan),
        np.full(number, np.inf),
        np.zeros(number, np.int64),
        np.full(number, np.nan),
        np.full(number, np.inf),
        np.zeros((number, MOST_MODES)),
        np.zeros(number),
    )


def improved(estimate: Estimate, at: np.ndarray, better: Estimate) -> Estimate:
    spent = estimate.evaluations[at] + better.evaluations
    return put_at(estimate, at, better._replace(evaluations=spent))


# Sums without a hit are -inf, with an infinite error.
@np.errstate(invalid="ignore")
def summed(estimate: Estimate, owner: np.ndarray, num_inputs: int) -> Estimate:
    """The inputs' probabilities: sums over classes, whose events exclude each other."""
    # The status is the weakest among the classes that matter to the sum.
    sizes = np.bincount(owner, minlength=num_inputs)
    by_input = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    found = unknown(num_inputs)
    for number, pairs in enumerate(by_input):
        log_p = estimate.log_probability[pairs]
        log_p = np.where(np.isnan(log_p), -np.inf, log_p)
        total = special.logsumexp(log_p)
        share = np.exp(log_p - total) if np.isfinite(total) else np.ones(len(pairs))
        error = share * np.where(share > 0, estimate.standard_error[pairs], 0)
        statuses = estimate.status[pairs][share > _NEGLIGIBLE_SHARE]
        weakest = max(statuses, key=_STATUSES.index, default="untrusted")
        found.status[number] = weakest
        found.log_probability[number] = total
        found.standard_error[number] = np.sqrt(np.sum(error**2))
        found.evaluations[number] = estimate.evaluations[pairs].sum()
    return found


# Runs without a hit give NaN.
@np.errstate(invalid="ignore")
def pooled(runs: list[Estimate]) -> Estimate:
    """The mean of runs that are alike, wherever all of them gave an answer."""
    # Standard error: of their own, or of what they differ by if that is more.
    log_p = np.stack([run.log_probability for run in runs])
    mean = special.logsumexp(log_p, axis=0) - np.log(len(runs))
    relative = np.exp(log_p - mean)
    own = np.stack([run.standard_error for run in runs]) * relative
    error = np.maximum(np.sqrt((own**2).mean(axis=0)), relative.std(axis=0, ddof=1))
    known = np.all([run.status == runs[0].status for run in runs], axis=0)
    known &= np.isfinite(error)
    first = runs[0]
    return first._replace(
        log_probability=np.where(known, mean, first.log_probability),
        standard_error=np.where(
            known, error / np.sqrt(len(runs)), first.standard_error
        ),
        evaluations=sum(run.evaluations for run in runs),
    )


def excluded(
    estimate: Estimate, log_probability: np.ndarray, error: np.ndarray
) -> np.ndarray:
    """`[M]` whether estimates and independent ones, if any, exclude each other."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(estimate.log_probability - log_probability)
        return apart > _EXCLUDED * np.hypot(estimate.standard_error, error)


def with_second_opinion(
    estimate: Estimate, other: Estimate, alike: bool, confidence_level: float
) -> Estimate:
    known = np.isfinite(other.other_log_probability)
    both = (estimate.status == "splitting") & known
    # A bound is contradicted from above alone.
    bounds = (estimate.status == "bounded") & known
    bounds &= estimate.log_probability < other.other_log_probability
    contradicted = (both | bounds) & excluded(
        estimate, other.other_log_probability, other.other_error
    )
    found = estimate
    if alike:
        as_precise = other.other_error < 2 * estimate.standard_error
        second = estimate._replace(
            status=np.where(both & as_precise, estimate.status, ""),
            log_probability=other.other_log_probability,
            standard_error=other.other_error,
            evaluations=np.zeros_like(estimate.evaluations),
        )
        found = pooled([estimate, second])
    middle, error = _holding_both(estimate, other, half_width(confidence_level))
    error = np.where(both, error, np.inf)
    return found._replace(
        status=np.where(contradicted, "untrusted", estimate.status),
        log_probability=np.where(contradicted & both, middle, found.log_probability),
        standard_error=np.where(contradicted, error, found.standard_error),
        other_log_probability=other.other_log_probability,
        other_error=other.other_error,
        modes=other.modes,
        effective=other.effective,
    )


# Unknown estimates stay unknown.
@np.errstate(invalid="ignore")
def _holding_both(
    estimate: Estimate, other: Estimate, z: float
) -> tuple[np.ndarray, np.ndarray]:
    p, q = estimate.log_probability, other.other_log_probability
    of_p, of_q = z * estimate.standard_error, z * other.other_error
    low = np.minimum(p - of_p, q - of_q)
    high = np.maximum(p + of_p, q + of_q)
    return (low + high) / 2, (high - low) / (2 * z)


def half_width(confidence_level: float) -> float:
    return float(-special.ndtri((1 - confidence_level) / 2))


def with_estimates(
    answers: Answers, at: np.ndarray, estimate: Estimate, confidence_level: float
) -> Answers:
    # Where splitting got stuck, given answers stay if they are tighter; with hardly a
    # hit they are an interval alone.
    z = half_width(confidence_level)
    log_p, status = estimate.log_probability, estimate.status
    # A sum without a hit is -inf with an infinite error.
    with np.errstate(invalid="ignore"):
        low = log_p - z * estimate.standard_error
        high = np.minimum(log_p + z * estimate.standard_error, 0)
    low = np.where(np.isin(status, ["bounded", "incomplete"]), -np.inf, low)
    unanswered = status == "untrusted"
    nothing = unanswered & ~np.isfinite(log_p - estimate.standard_error)
    before = taken(answers, at)
    better = before._replace(
        status=status,
        # A bound that may be near 1 would read as a number.
        log_adversarial_probability=np.where(
            unanswered | (status == "incomplete"), np.nan, np.minimum(log_p, 0)
        ),
        log_low=np.where(nothing, np.nan, low),
        log_high=np.where(nothing, np.nan, high),
    )
    if before.modes is not None:
        better = better._replace(
            modes=estimate.modes, effective_sample_size=estimate.effective
        )
    stays = np.flatnonzero((status == "incomplete") & (high > before.log_high))
    kept = taken(before, stays)
    few = kept.hits < SOME_HITS
    kept = kept._replace(
        status=np.where(few, "incomplete", kept.status),
        log_adversarial_probability=np.where(
            few, np.nan, kept.log_adversarial_probability
        ),
    )
    better = put_at(better, stays, kept)
    spent = before.evaluations + estimate.evaluations
    return put_at(answers, at, better._replace(evaluations=spent))
