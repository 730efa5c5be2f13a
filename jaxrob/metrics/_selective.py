"""Selective prediction: whether a classifier is right where it is confident."""

from typing import NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_integer

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

    The mean risk over the coverages 1/N ... 1 (Geifman, Uziel and El-Yaniv, 2019).
    Lower is better: 0 if no answer is wrong, and on average the error rate if the
    confidence is uninformative.

    Args:
      confidence: `[L, N]`, see `risk_coverage`.
      correct: bool `[L, N]`.

    Returns:
      float64 `[L]` in [0, 1].

    Raises:
      ValueError: as `risk_coverage`.
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
      TypeError: if num_bins is not an integer.
      ValueError: if a confidence lies outside [0, 1], num_bins is below 1, or as
        `risk_coverage`.
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
