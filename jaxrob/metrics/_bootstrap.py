"""The percentile bootstrap: measures of resampled inputs."""

import math
from collections.abc import Iterator

import numpy as np
import scipy

from jaxrob.metrics._measure import Counts, Measure, quotient

# The ends of a 95 % interval then have a Monte Carlo standard error of about 4 % of its
# half width. Efron and Tibshirani advise at least 1,000 for percentiles.
RESAMPLES = 1000
_MAX_RESAMPLES = 500_000  # Needed for 99.99 %; takes minutes for 10,000 inputs.
_SEED = 0
_BLOCK_SIZE = 2**22  # weights held at a time, 32 MB


def num_resamples(confidence_level: float) -> int:
    """Returns the number of replicates that an interval of this confidence needs.

    As many lie beyond its ends as with `RESAMPLES` at 95 %.

    Raises:
      ValueError: if that exceeds `_MAX_RESAMPLES`.
    """
    # The last factor absorbs the rounding of 1 - 0.9999.
    number = math.ceil(RESAMPLES * 0.05 / (1 - confidence_level) * (1 - 1e-9))
    if number > _MAX_RESAMPLES:
        raise ValueError(
            f"confidence_level must be at most "
            f"{1 - 0.05 * RESAMPLES / _MAX_RESAMPLES:g} where the interval is of a "
            f"bootstrap; got {confidence_level:g}"
        )
    return max(RESAMPLES, number)


def bootstrap(counts: np.ndarray, measure: Measure, number: int) -> np.ndarray:
    """Computes the measure of resampled inputs.

    Resampling inputs and counting them by label and answer is one multinomial draw of
    the counts.

    Args:
      counts: integers `[K, K + 1]`, by label and answer.
      measure: the measure.
      number: of replicates.

    Returns:
      float64 `[number]`; NaN where the measure is undefined.
    """
    labels, answers = np.nonzero(counts)
    cells = counts[labels, answers]
    # The same random numbers at each level, so that equal counts have equal bands.
    rng = np.random.default_rng(_SEED)
    drawn = rng.multinomial(cells.sum(), cells / cells.sum(), size=number)
    weights = np.ascontiguousarray(drawn.T, np.float64)
    return resampled_values(measure, labels, answers[None], len(counts), weights)[0]


def resample_counts(
    rng: np.random.Generator, num_images: int, number: int
) -> Iterator[np.ndarray]:
    """Yields how often each replicate draws each image, in blocks of replicates.

    Args:
      rng: the generator.
      num_images: N.
      number: the number of replicates.

    Yields:
      float64 `[N, B]`, for B replicates.
    """
    block = max(1, _BLOCK_SIZE // num_images)
    for start in range(0, number, block):
        size = min(block, number - start)
        picked = rng.integers(num_images, size=(size, num_images))
        flat = (picked + num_images * np.arange(size)[:, None]).ravel()
        counts = np.bincount(flat, minlength=size * num_images)
        yield np.ascontiguousarray(counts.reshape(size, num_images).T, np.float64)


def percentiles(
    values: np.ndarray, confidence_level: float, otherwise: tuple[float, float]
) -> tuple[float, float]:
    """Returns the percentile interval of the values, NaN left out.

    Returns `otherwise` if all values are NaN.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return otherwise
    low, high = np.quantile(
        values, ((1 - confidence_level) / 2, (1 + confidence_level) / 2)
    )
    return float(low), float(high)


def resampled_values(
    measure: Measure,
    labels: np.ndarray,
    answers: np.ndarray,
    num_classes: int,
    weights: np.ndarray,
) -> np.ndarray:
    """Computes a measure of resampled inputs, from how often each was drawn.

    Means over classes are taken in float64, not rounded once as by `Measure`: they may
    miss an exact threshold, which does not matter here.

    Args:
      measure: the measure.
      labels: integers `[M]` in 0 ... K - 1.
      answers: integers `[L, M]` in 0 ... K, K for "unknown".
      num_classes: K.
      weights: float64 `[M, B]`, how often each replicate drew each input.

    Returns:
      float64 `[L, B]`; NaN where the measure is undefined.
    """
    if measure.of_classes:
        by_level = [
            _of_classes(measure, labels, some, num_classes, weights) for some in answers
        ]
        return np.stack(by_level)
    correct = (answers == labels).astype(np.float64) @ weights
    every = np.broadcast_to(weights.sum(0), correct.shape)
    is_decided = answers < num_classes
    # Usually all are, which saves a second product of this size. Both are sums of whole
    # numbers, which float64 holds exactly.
    all_decided = is_decided.all()
    decided = every if all_decided else is_decided.astype(np.float64) @ weights
    unknown = every - decided
    return measure.value_of(measure.ratio(Counts(correct, decided, decided, unknown)))


def _of_classes(
    measure: Measure,
    labels: np.ndarray,
    answers: np.ndarray,
    num_classes: int,
    weights: np.ndarray,
) -> np.ndarray:
    """Returns `[B]`, the measure of class 1 of 2, or the mean over more classes."""
    # Inputs with equal labels and answers are interchangeable, so they are merged.
    cell_of = labels.astype(np.int64) * (num_classes + 1) + answers
    cells, cell_of = np.unique(cell_of, return_inverse=True)
    weights = _sums(cell_of, len(cells), weights)
    labels, answers = np.divmod(cells, num_classes + 1)

    decided = answers < num_classes
    correct = labels == answers
    counts = Counts(
        correct=_sums(labels[correct], num_classes, weights[correct]),
        decided=_sums(labels[decided], num_classes, weights[decided]),
        given=_sums(answers[decided], num_classes, weights[decided]),
        unknown=_sums(labels[~decided], num_classes, weights[~decided]),
    )
    numerator, denominator, _ = measure.ratio(counts)
    ratios = quotient(numerator, denominator, np.nan)
    if num_classes == 2:
        return ratios[1]
    return quotient(np.nansum(ratios, axis=0), (denominator > 0).sum(0), np.nan)


def _sums(groups: np.ndarray, num_groups: int, weights: np.ndarray) -> np.ndarray:
    """Sums the rows `[M, B]` of each group, giving `[num_groups, B]`."""
    ones, rows = np.ones(len(groups)), np.arange(len(groups))
    shape = num_groups, len(groups)
    return scipy.sparse.csr_array((ones, (groups, rows)), shape=shape) @ weights
