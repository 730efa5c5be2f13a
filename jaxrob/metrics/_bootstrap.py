"""The percentile bootstrap, and several tests together."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._counts import Counts
from jaxrob.metrics._measures import Measure, quotient

# The ends of a 95 % interval then have a Monte Carlo standard error of about 4 % of its
# half width. Efron and Tibshirani advise at least 1,000 for percentiles.
RESAMPLES = 1000
_MAX_RESAMPLES = 500_000  # Needed for 99.99 %; takes minutes for 10,000 inputs.
_SEED = 0
_BLOCK_SIZE = 2**22  # weights held at a time, 32 MB


def num_resamples(confidence_level: float) -> int:
    # As many lie beyond its ends as with `RESAMPLES` at 95 %.
    # The last factor absorbs the rounding of 1 - 0.9999.
    number = math.ceil(RESAMPLES * 0.05 / (1 - confidence_level) * (1 - 1e-9))
    if number > _MAX_RESAMPLES:
        raise ValueError(
            f"confidence_level must be at most "
            f"{1 - 0.05 * RESAMPLES / _MAX_RESAMPLES:g} where the interval is of a "
            f"bootstrap; got {confidence_level:g}"
        )
    return max(RESAMPLES, number)


def bootstrap(counts: Counts, measure: Measure, number: int) -> np.ndarray:
    # Resampling inputs and counting them by label and answer is one multinomial draw of
    # the counts.
    cells = _cells(counts, measure)
    total = cells.inputs.sum()
    # The same random numbers at each level, so that equal counts have equal bands.
    rng = np.random.default_rng(_SEED)
    drawn = rng.multinomial(total, cells.inputs / total, size=number)
    weights = np.ascontiguousarray(drawn.T, np.float64)
    if measure.of_classes:
        return _of_cells(measure, cells, counts.num_classes, weights)
    labels, answers = cells.labels, cells.answers[None]
    return resampled_values(measure, labels, answers, counts.num_classes, weights)[0]


def resample_counts(
    rng: np.random.Generator, num_images: int, number: int
) -> Iterator[np.ndarray]:
    """Yields how often each replicate draws each image, in blocks of replicates."""
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
    """Returns the percentile interval of the values, NaN left out."""
    # Returns `otherwise` if all values are NaN.
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
    """Computes a measure of resampled inputs, from how often each was drawn."""
    # Means over classes are taken in float64, not rounded once as by `Measure`: they
    # may miss an exact threshold, which does not matter here.
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


class _Cells(NamedTuple):
    """Groups of interchangeable inputs, `[C]` each."""

    labels: np.ndarray  # 0 ... K - 1
    answers: np.ndarray  # 0 ... K, K for "unknown"
    correct: np.ndarray  # whether the answers are correct
    inputs: np.ndarray  # the numbers of inputs


def _cells(counts: Counts, measure: Measure) -> _Cells:
    """Returns the inputs counted at one level, by label and answer."""
    # Without a confusion, wrong answers are paired with labels so that the measure
    # scatters most: those that lower it most with one another. Then neither order nor
    # partner change the bootstrap of a measure that looks at labels or answers alone.
    if counts.confusion is not None:
        labels, answers = np.nonzero(counts.confusion)
        inputs = counts.confusion[labels, answers]
        return _Cells(labels, answers, labels == answers, inputs)
    value = _value_by_class(measure, counts)
    one_missed = counts._replace(decided=counts.decided + 1)
    one_mistaken = counts._replace(given=counts.given + 1)
    by_loss = [
        np.argsort(_value_by_class(measure, one) - value, kind="stable")
        for one in (one_missed, one_mistaken)
    ]
    missed = np.cumsum((counts.decided - counts.correct)[by_loss[0]])
    mistaken = np.cumsum((counts.given - counts.correct)[by_loss[1]])
    # Inputs in these orders, cut wherever the label or the answer changes.
    ends = np.union1d(missed, mistaken)
    ends = ends[ends > 0]
    every = np.arange(counts.num_classes)
    unknown = np.full_like(every, counts.num_classes)
    labels = by_loss[0][np.searchsorted(missed, ends)]
    answers = by_loss[1][np.searchsorted(mistaken, ends)]
    cells = _Cells(
        labels=np.concatenate([every, labels, every]),
        answers=np.concatenate([every, answers, unknown]),
        correct=np.repeat([True, False, False], [len(every), len(ends), len(every)]),
        inputs=np.concatenate(
            [counts.correct, np.diff(ends, prepend=0), counts.unknown]
        ),
    )
    return _Cells(*(part[cells.inputs > 0] for part in cells))


def _value_by_class(measure: Measure, counts: Counts) -> np.ndarray:
    numerator, denominator, _ = measure.ratio(counts)
    return quotient(numerator, denominator, 0.0)


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
    cells = _Cells(labels, answers, labels == answers, np.zeros(len(cells)))
    return _of_cells(measure, cells, num_classes, weights)


def _of_cells(
    measure: Measure, cells: _Cells, num_classes: int, weights: np.ndarray
) -> np.ndarray:
    """Returns the same as `_of_classes`, from the cells' weights `[C, B]`."""
    decided, correct = cells.answers < num_classes, cells.correct
    labels, answers = cells.labels, cells.answers
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


# Of a thousand replicates a standard deviation is off by 2 %, which inflates the
# largest of many studentized differences.
_TIMES_AS_MANY = 4


def num_rank_resamples(confidence_level: float) -> int:
    return _TIMES_AS_MANY * num_resamples(confidence_level)


def surely_better(
    values: np.ndarray, replicates: np.ndarray, confidence_level: float, freedom: float
) -> np.ndarray:
    """Returns which populations are significantly better than which, `[P, P]`."""
    # All ordered pairs are tested at once, by the largest of their studentized
    # differences, and again without those found, until nothing is found (Romano and
    # Wolf 2005). The chance of a single false "better" is at most one less the
    # confidence level, whatever the dependence. This is the stepwise set of Mogstad,
    # Romano, Shaikh and Wilhelm (2024, "Inference for Ranks", section 3).
    number = len(values)
    first, second = np.nonzero(~np.eye(number, dtype=bool))
    differences = values[first] - values[second]
    drawn = replicates[first] - replicates[second]
    deviation = drawn.std(axis=1, ddof=1)
    # What never varies is as it is: its sign is known, and it needs no test.
    is_known = deviation <= 1e-12
    scale = np.where(is_known, 1.0, deviation)
    drawn = (drawn - drawn.mean(axis=1, keepdims=True)) / scale[:, None]
    is_found = is_known & (differences > 1e-12)
    is_left = ~is_known
    while is_left.any():
        largest = drawn[is_left].max(axis=0)
        # At least that of a single pair: few images give few different replicates.
        critical = max(
            np.quantile(largest, confidence_level),
            scipy.special.ndtri((1 + confidence_level) / 2),
        )
        if np.isfinite(freedom):
            tail = scipy.special.ndtr(-critical)
            critical = scipy.stats.t.isf(tail, freedom)
        is_new = is_left & (differences / scale > critical)
        if not is_new.any():
            break
        is_found |= is_new
        is_left &= ~is_new
    better = np.zeros((number, number), bool)
    better[first, second] = is_found
    return better


def rank_intervals(better: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest and highest rank, `[P]`; 1 is best, ties in any order."""
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusts p-values of several tests, for the family-wise error (Holm 1979)."""
    valid = np.flatnonzero(~np.isnan(p_values))
    order = valid[np.argsort(p_values[valid])]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return adjusted
