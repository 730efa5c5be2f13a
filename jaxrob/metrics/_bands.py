"""Confidence bands of measures, since the test set is finite."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array
from jaxrob.metrics._counts import (
    Counts,
    ImageScores,
    checked_confidence_level,
    checked_counts,
    checked_scores,
    counts_of,
    quotient,
)
from jaxrob.metrics._groups import grouped_bands, score_interval
from jaxrob.metrics._measures import MeanScore, Measure, any_measure


class ConfidenceInterval(NamedTuple):
    """An interval that holds the true value with a stated confidence.

    Attributes:
      low: its lower end.
      high: its upper end.
    """

    low: float
    high: float


def wilson(
    successes: np.ndarray, totals: np.ndarray, confidence_level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval for a proportion.

    It holds the proportions p with `|s/n - p| <= z sqrt(p (1 - p) / n)`, for s
    successes of n and the normal quantile z (Wilson, 1927), and is sound for small n
    and near 0 and 1.

    Args:
      successes: numbers in 0 ... totals, of any shape.
      totals: of the same shape; 0 gives the interval [0, 1].
      confidence_level: the coverage aimed at, in (0, 1).

    Returns:
      The lower and the upper ends, float64 in [0, 1], of the same shape: exactly 0
      without a success, exactly 1 without a failure.

    Raises:
      ValueError: if the shapes differ, or a number lies outside its range.
    """
    confidence_level = checked_confidence_level(confidence_level)
    s = checked_array("successes", successes, "...", at_least=0).astype(np.float64)
    n = checked_array("totals", totals, "...", at_least=0).astype(np.float64)
    if s.shape != n.shape:
        raise ValueError(
            "successes and totals must have one shape; got the shapes "
            f"{s.shape} and {n.shape}"
        )
    if (s > n).any():
        bad = s > n
        raise ValueError(
            f"successes must lie in 0 ... totals; got {s[bad][0]:g} of {n[bad][0]:g}"
        )
    z = scipy.special.ndtri((1 + confidence_level) / 2)
    return score_interval(s, n, z)


def bands(
    counts: Counts | ImageScores | np.ndarray,
    measure: str,
    confidence_level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise confidence bands of a quality measure, for a finite test set.

    Proportions have Wilson's interval: accuracy, the decided ratio, and the recall of
    two classes. Means of scores have `bounded_mean`'s. The rest have the percentile
    bootstrap over inputs (Efron, 1979), widened where necessary to hold the measured
    value; where all answers are right, it has no width. Counts without a confusion
    (above 64 classes) leave open which class was taken for which: the F1 score's bands
    are then those of the table with these sums that scatters most, 0.97 to 1.06 times
    as wide as the confusion's in simulations.

    Args:
      counts: the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]` by
        label and answer; at least one input at each level.
      measure: a name in `jaxrob.metrics.measures`, or the `measure` of a `ScoreCurve`,
        whose `counts` go with it.
      confidence_level: the coverage aimed at, at each level alone, in (0, 1).

    Returns:
      The lower and the upper ends, float64 `[L]` in [0, 1]; 0 and 1 where the measure
      is undefined. Equal counts always have equal bands.

    Raises:
      ValueError: if the measure is unknown, the confidence level lies outside (0, 1)
        (above 0.9999 of a bootstrap), or the counts have a wrong shape, are negative
        or all 0 at a level.
    """
    confidence_level = checked_confidence_level(confidence_level)
    found: Any = any_measure(measure)
    if isinstance(counts, Counts | ImageScores) and counts.groups is not None:
        return grouped_bands(found.checked(counts), found, confidence_level)
    if isinstance(found, MeanScore):
        return bounded_mean(checked_scores(counts).values, confidence_level)
    counts = checked_counts(counts, min_inputs=1)
    ratio = found.single_ratio(counts)
    if found.is_proportion and ratio is not None:
        return wilson(ratio.numerator, ratio.denominator, confidence_level)
    number = num_resamples(confidence_level)
    resampled = counts if found.of_classes else _without_classes(counts)
    ends = [
        percentiles(
            bootstrap(resampled.at(level), found, number), confidence_level, (0.0, 1.0)
        )
        for level in range(len(counts.correct))
    ]
    low, high = np.reshape(ends, (-1, 2)).T
    values = found(counts)
    # fmin and fmax ignore the NaN of an undefined value.
    return np.fmin(low, values), np.fmax(high, values)


def _without_classes(counts: Counts) -> Counts:
    """Returns two-class counts with the same correct, wrong and unknown totals."""
    total = counts.summed()
    wrong, none = total.decided - total.correct, np.zeros_like(total.correct)
    rows = [total.correct, wrong, total.unknown], [none, none, none]
    return counts_of(np.moveaxis(np.array(rows), -1, 0))


# The saddlepoint's formula loses digits where the tail is nearly a half. There the
# lower end is left at this many standard deviations, which is too low.
_FEWEST_DEVIATIONS = 0.05


def bounded_mean(
    scores: np.ndarray, confidence_level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Gaffke's interval for the mean of scores in [0, 1], from n of them.

    The lower end is a quantile of the scores' mean with random weights, uniform on all
    weights that add up to 1, where one more score is 0; the upper end likewise with one
    more score of 1 (Gaffke, "Three test statistics for a nonparametric one-sided
    hypothesis on the mean of a nonnegative variable", 2005; Learned-Miller and Thomas,
    "A new confidence interval for the mean of a bounded random variable", 2019). For
    zeros and ones it is Clopper and Pearson's interval, and only for these its coverage
    is proven; no distribution is known where it is below the stated one. Scores that
    scatter less have a narrower interval.

    The quantile is exact where all scores but zeros (for the upper end, but ones) are
    equal. Otherwise it is by Lugannani and Rice's saddlepoint with the terms of second
    order (Daniels, "Tail probability approximations", 1987), whose tail was off by at
    most a 25th of itself for 2 to 5 scores, and by a 60th for 12 and more.

    Args:
      scores: `[L, N]` in [0, 1], independent, of N images at L levels; NaN where an
        image was not looked at.
      confidence_level: the coverage aimed at, at each level alone, in (0, 1).

    Returns:
      The lower and the upper ends, float64 `[L]` in [0, 1]: 0 and 1 where no image was
      looked at.

    Raises:
      TypeError: if the scores are not numbers.
      ValueError: if they have another shape, or a number lies outside its range.
    """
    tail = (1 - checked_confidence_level(confidence_level)) / 2
    scores = checked_array(
        "scores", scores, "L, N", at_least=0, at_most=1, may_be_nan=True
    ).astype(np.float64)
    low, high = np.zeros(len(scores)), np.ones(len(scores))
    for level, row in enumerate(scores):
        seen = row[~np.isnan(row)]
        if len(seen):
            low[level] = _lower_end(seen, tail)
            high[level] = 1 - _lower_end(1 - seen, tail)
    return low, high


def _lower_end(scores: np.ndarray, tail: float) -> float:
    """Returns the `tail` quantile of the scores' mean with one more 0, weighted."""
    total = len(scores)
    # Sorted, so that rounding does not depend on the order.
    values, counts = np.unique(scores[scores > 0], return_counts=True)
    if not len(values):
        return 0.0
    largest = values.max()
    if len(values) == 1:
        # The weights of equal scores add up to a beta variable.
        ones, zeros = counts[0], total - counts[0] + 1
        return float(largest * scipy.special.betaincinv(ones, zeros, tail))
    # Products of floating numbers are faster.
    weights = counts.astype(np.float64)
    return float(largest * _quantile(values / largest, weights, total, tail))


def _quantile(values: np.ndarray, counts: np.ndarray, total: int, tail: float) -> float:
    def at(log_slope: float) -> _Saddlepoint:
        return _saddlepoint(math.exp(log_slope), values, counts, total)

    def excess(log_slope: float) -> float:
        return at(log_slope).log_tail - math.log(tail)

    mean = values @ counts / (total + 1)
    # About one standard deviation of the sum off.
    flat = steep = -math.log(values**2 @ counts - (total + 1) * mean**2) / 2
    while excess(steep) > 0:
        flat, steep = steep, steep + 1
    while excess(flat) < 0:
        flat, steep = flat - 1, flat
        if at(flat).deviations < _FEWEST_DEVIATIONS:
            return at(flat).mean
    return at(scipy.optimize.brentq(excess, flat, steep, xtol=1e-10)).mean


class _Saddlepoint(NamedTuple):
    mean: float  # the place
    deviations: float  # how many standard deviations it is below the expectation
    log_tail: float  # the log probability of a lower mean


def _saddlepoint(
    slope: float, values: np.ndarray, counts: np.ndarray, total: int
) -> _Saddlepoint:
    """Approximates the probability that the weighted mean is lower than a place."""
    # Weights are exponential variables over their sum: the mean is below m where their
    # sum by (value - m) is below 0. Every slope of the saddlepoint's tilts has its m.
    zeros = total + 1 - counts.sum()
    tilts = 1 / (1 + slope * values)
    mean = float((values * tilts) @ counts / (tilts @ counts + zeros))
    # The terms of the sum, tilted, in units of the saddlepoint.
    terms = slope * (values - mean) * tilts
    of_zero = -slope * mean
    squares = terms * terms
    second = float(squares @ counts + of_zero**2 * zeros)
    third = float((squares * terms) @ counts + of_zero**3 * zeros)
    fourth = float((squares * squares) @ counts + of_zero**4 * zeros)
    exponent = float(np.log1p(slope * values) @ counts)
    exponent -= (total + 1) * math.log1p(slope * mean)
    w, u = math.sqrt(2 * max(exponent, 0.0)), math.sqrt(second)
    skewness, kurtosis = 2 * third / u**3, 6 * fourth / u**4
    correction = (
        (1 + kurtosis / 8 - 5 * skewness**2 / 24) / u
        - 1 / w
        + skewness / (2 * u**2)
        - 1 / u**3
        + 1 / w**3
    )
    # The normal tail over its density, which leaves no tail too small for float64.
    ratio = math.sqrt(math.pi / 2) * scipy.special.erfcx(w / math.sqrt(2)) + correction
    log_tail = math.log(max(ratio, 1e-300)) - w**2 / 2 - math.log(2 * math.pi) / 2
    return _Saddlepoint(mean, w, log_tail)


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
    rng: np.random.Generator, num_images: int, number: int, rows: int = 0
) -> Iterator[np.ndarray]:
    # `rows` is how many they become, if that is more.
    block = max(1, _BLOCK_SIZE // max(num_images, rows))
    for start in range(0, number, block):
        size = min(block, number - start)
        picked = rng.integers(num_images, size=(size, num_images))
        flat = (picked + num_images * np.arange(size)[:, None]).ravel()
        counts = np.bincount(flat, minlength=size * num_images)
        yield np.ascontiguousarray(counts.reshape(size, num_images).T, np.float64)


def percentiles(
    values: np.ndarray, confidence_level: float, otherwise: tuple[float, float]
) -> tuple[float, float]:
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
    # Without a confusion, wrong answers and labels are paired so that the measure
    # scatters most: those that lower it most with one another.
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
