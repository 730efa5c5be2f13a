"""Confidence bands of measures, since the test set is finite."""

import numpy as np
import scipy

from jaxrob._arguments.checks import checked_array
from jaxrob.metrics._bootstrap import bootstrap, num_resamples, percentiles
from jaxrob.metrics._bounded_mean import bounded_mean
from jaxrob.metrics._checks import checked_confidence_level, checked_counts
from jaxrob.metrics._counts import Counts, counts_of
from jaxrob.metrics._mean_score import ImageScores, MeanScore, checked_scores
from jaxrob.metrics._quality import any_measure


def wilson(
    successes: np.ndarray, totals: np.ndarray, confidence_level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval for a proportion.

    It holds the proportions p with `|s/n - p| <= z sqrt(p (1 - p) / n)`, for s
    successes of n and the normal quantile z (Wilson, 1927). Unlike the usual interval,
    s/n plus or minus a multiple of its standard error, it is sound for small n and near
    0 and 1.

    Args:
      successes: numbers in 0 ... totals, of any shape.
      totals: of the same shape; 0 gives the interval [0, 1].
      confidence_level: the coverage aimed at, in (0, 1).

    Returns:
      The lower and the upper ends, float64 in [0, 1], of the same shape: exactly 0
      without a success, exactly 1 without a failure.

    Raises:
      ValueError: if the shapes differ, successes lie outside 0 ... totals, or the
        confidence level outside (0, 1).
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
    some = np.where(n == 0, 1, n)
    centre = s + z**2 / 2
    half = z * np.sqrt(s * (n - s) / some + z**2 / 4)
    low, high = (centre - half) / (some + z**2), (centre + half) / (some + z**2)
    low, high = np.where(s == 0, 0, low), np.where(s == n, 1, high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def bands(
    counts: Counts | ImageScores | np.ndarray,
    measure: str,
    confidence_level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise confidence bands of a quality measure, for a finite test set.

    Proportions have Wilson's interval: accuracy, the decided ratio, and the recall of
    two classes (see `jaxrob.metrics.recall`). The rest have the percentile bootstrap
    over inputs (Efron, 1979), widened where necessary to hold the measured value. The
    bootstrap cannot produce an error that it never saw: where all answers are right,
    its band has no width. It resamples the confusion. Counts without one (above 64
    classes) leave open which class was taken for which: the F1 score's bands are then
    those of the table with these sums that scatters most, 0.97 to 1.06 times as
    wide as the confusion's in simulations. Means of scores have `bounded_mean`'s.

    Args:
      counts: the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]` by
        label and answer; at least one input at each level.
      measure: a name in `jaxrob.metrics.measures`, or the `measure` of a `ScoreCurve`,
        whose `counts` go with it.
      confidence_level: the coverage aimed at, at each level alone, in (0, 1).

    Returns:
      The lower and the upper ends, float64 `[L]` in [0, 1]; 0 and 1 where the measure
      is undefined. Each depends only on the counts of its own level, and equal counts
      always have equal bands.

    Raises:
      ValueError: if the measure is unknown, the confidence level lies outside (0, 1)
        (above 0.9999 where the band is of a bootstrap), or the counts have a wrong
        shape, are negative or all 0 at a level.
    """
    confidence_level = checked_confidence_level(confidence_level)
    found = any_measure(measure)
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
