"""Whether a classifier is right where it is confident or decides."""

from typing import NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array, checked_integer
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.uncertainty import unknown_threshold

# How far float32 rounding may put a probability above 1.
_SLACK = 1e-5


class RiskCoverage(NamedTuple):
    """The errors among the inputs answered, the most confident ones first.

    Attributes:
      coverage: float64 `[N]`, the share answered, 1/N ... 1.
      risk: float64 `[L, N]` in [0, 1], the share of wrong answers among them.
    """

    coverage: np.ndarray
    risk: np.ndarray


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """The risk-coverage curve at each level.

    El-Yaniv and Wiener (2010). Inputs of equal confidence count as if in random order,
    with their expected risk: the order of the inputs does not matter.

    Args:
      confidence: `[L, N]`, larger if surer. Only its order matters, so a negated
        uncertainty will do.
      correct: bool `[L, N]`, whether the most probable class is the right one.

    Returns:
      The `RiskCoverage`.

    Raises:
      ValueError: if confidence is missing or NaN, an array does not have the shape
        `[L, N]` with at least one input, or correct is neither 0 nor 1 somewhere.
    """
    confidence, correct = _checked(confidence, correct)
    risk = np.empty(confidence.shape)
    for row, *level in zip(risk, confidence, correct):
        row[:] = _risk(*level)
    num_inputs = confidence.shape[1]
    return RiskCoverage(np.arange(1, num_inputs + 1) / num_inputs, risk)


def aurc(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """The area under the risk-coverage curve at each level.

    The mean risk over the coverages 1/N ... 1 (Geifman, Uziel and El-Yaniv, 2019),
    float64 `[L]` in [0, 1]. Lower is better: 0 if no answer is wrong, and on average
    the error rate if the confidence is uninformative. Arguments and errors are as for
    `risk_coverage`.
    """
    confidence, correct = _checked(confidence, correct)
    # Level by level, since the whole curve may be large.
    return np.array([_risk(*level).mean() for level in zip(confidence, correct)])


def expected_calibration_error(
    confidence: np.ndarray, correct: np.ndarray, num_bins: int = 15
) -> np.ndarray:
    """The mean difference between confidence and accuracy, at each level.

    Inputs are put into bins of equal width by their confidence. The absolute difference
    between a bin's accuracy and its mean confidence is averaged over the bins, weighted
    by their numbers of inputs (Guo et al., 2017, equation 3).

    Args:
      confidence: `[L, N]` in [0, 1], the probability of the most probable class.
      correct: bool `[L, N]`, whether that class is the right one.
      num_bins: M, at least 1; bin m is ((m - 1) / M, m / M], and the first includes 0.

    Returns:
      float64 `[L]` in [0, 1].

    Raises:
      TypeError, ValueError: if num_bins is not an integer from 1 on, a confidence lies
        outside [0, 1], or as `risk_coverage`.
    """
    num_bins = checked_integer("num_bins", num_bins, at_least=1)
    confidence, correct = _checked(confidence, correct)
    outside = (confidence < 0) | (confidence > 1 + _SLACK)
    if outside.any():
        raise ValueError(f"confidence must lie in [0, 1]; got {confidence[outside][0]}")
    inner = np.linspace(0, 1, num_bins + 1)[1:-1]
    errors = []
    for sure, right in zip(np.minimum(confidence, 1), correct):
        bins = np.searchsorted(inner, sure)
        excess = np.bincount(bins, sure - right, minlength=num_bins)
        errors.append(np.abs(excess).sum() / len(sure))
    return np.array(errors)


def _risk(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Returns `[N]`, the expected share of errors among the first 1 ... N inputs."""
    order = np.argsort(-confidence)
    confidence, errors = confidence[order], np.cumsum(~correct[order])
    # Within a tie, each input counts with the tie's mean error.
    last = np.flatnonzero(np.append(confidence[1:] != confidence[:-1], True))
    answered = np.arange(1, len(order) + 1)
    counts, sums = np.append(0, answered[last]), np.append(0, errors[last])
    return np.interp(answered, counts, sums) / answered


def _checked(
    confidence: np.ndarray | None, correct: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the confidence as float64 and the correctness as bool, `[L, N]`."""
    if confidence is None:
        raise ValueError(
            'confidence is missing (None), as from a classifier of outputs="scores"'
        )
    axes: dict[str, int] = {}
    confidence = checked_array(
        "confidence", confidence, "L, N", may_be_infinite=True, axes=axes
    )
    correct = checked_array(
        "correct", correct, "L, N", "numbers or booleans", axes=axes
    )
    other = ~np.isin(correct, (0, 1))
    if other.any():
        raise ValueError(
            "correct must be true or false, 1 or 0, for each input; got "
            f"{correct[other][0]}"
        )
    return confidence.astype(np.float64), correct.astype(bool)


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
