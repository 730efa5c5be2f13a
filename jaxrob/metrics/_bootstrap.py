"""The percentile bootstrap: measures of inputs that are drawn anew."""

import math
from collections.abc import Iterator

import numpy as np
import scipy

from jaxrob.metrics._measure import Counts, Measure, quotient

# A 95 % interval's end then has a Monte-Carlo error (one standard deviation) of about
# 4 % of the interval's half width, and 1,000 is the least that Efron and Tibshirani
# advise for percentiles.
RESAMPLES = 1000
_MOST = 500_000  # What 99.99 % takes; minutes for 10,000 inputs.
_SEED = 0
_BLOCK = 2**22  # weights held at a time, 32 MB


def resamples(confidence_level: float) -> int:
    """How many replicates tell percentiles of a confidence.

    As many lie beyond an interval's ends as with `RESAMPLES` at 95 %.

    Raises:
      ValueError: if it would take more than `_MOST` resamples.
    """
    # Less what 1 - 0.9999 is off by rounding.
    number = math.ceil(RESAMPLES * 0.05 / (1 - confidence_level) * (1 - 1e-9))
    if number > _MOST:
        raise ValueError(
            f"confidence_level must be at most {1 - 0.05 * RESAMPLES / _MOST:g} where "
            f"the interval is of a bootstrap; got {confidence_level:g}"
        )
    return max(RESAMPLES, number)


def bootstrap(counts: np.ndarray, measure: Measure, number: int) -> np.ndarray:
    """The measure of resampled inputs.

    To draw inputs anew and to count them by label and answer is one multinomial draw of
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
    # The same numbers at each level: equal counts have equal bands.
    rng = np.random.default_rng(_SEED)
    drawn = rng.multinomial(cells.sum(), cells / cells.sum(), size=number)
    weights = np.ascontiguousarray(drawn.T, np.float64)
    return resampled_values(measure, labels, answers[None], len(counts), weights)[0]


def drawn(
    rng: np.random.Generator, num_images: int, number: int
) -> Iterator[np.ndarray]:
    """How often each replicate draws each image, some replicates at a time.

    Args:
      rng: draws them.
      num_images: N.
      number: of replicates.

    Yields:
      float64 `[N, B]`, of B replicates.
    """
    block = max(1, _BLOCK // num_images)
    for start in range(0, number, block):
        size = min(block, number - start)
        picked = rng.integers(num_images, size=(size, num_images))
        flat = (picked + num_images * np.arange(size)[:, None]).ravel()
        counts = np.bincount(flat, minlength=size * num_images)
        yield np.ascontiguousarray(counts.reshape(size, num_images).T, np.float64)


def percentiles(
    values: np.ndarray, confidence_level: float, otherwise: tuple[float, float]
) -> tuple[float, float]:
    """The middle part of the values, NaN left out; `otherwise` if all are NaN."""
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
    """A measure of resampled inputs, from how often each was drawn.

    The values of the counts, but vectorised and with means over classes taken in
    float64: they may miss an exact threshold, which does not matter here.

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
    # Most often all are, and a product as large as the other one is saved. Both are
    # sums of whole numbers, which float64 holds exactly.
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
    """`[B]`: the measure of class 1 of 2, or the mean over the classes of more."""
    # Inputs of one label and answer are alike; most often they are many.
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
    above, below, _ = measure.ratio(counts)
    ratios = quotient(above, below, np.nan)
    if num_classes == 2:
        return ratios[1]
    return quotient(np.nansum(ratios, axis=0), (below > 0).sum(0), np.nan)


def _sums(groups: np.ndarray, num_groups: int, weights: np.ndarray) -> np.ndarray:
    """`[num_groups, B]`: the sums of the rows `[M, B]` that fall in each group."""
    ones, rows = np.ones(len(groups)), np.arange(len(groups))
    shape = num_groups, len(groups)
    return scipy.sparse.csr_array((ones, (groups, rows)), shape=shape) @ weights
