"""The level at which a classifier stops being good enough."""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_number
from jaxrob.metrics._bands import bands
from jaxrob.metrics._checks import checked_counts, checked_levels
from jaxrob.metrics._confidence_interval import ConfidenceInterval
from jaxrob.metrics._counts import Counts
from jaxrob.metrics._mean_score import ImageScores, checked_scores
from jaxrob.metrics._quality import any_measure
from jaxrob.metrics._robustness import accepted_intervals


class FailingLevel(NamedTuple):
    """The level at which a classifier stops being good enough.

    Attributes:
      level: infinite if the classifier does not fail up to the last level.
      confidence_interval: for all images of the kind tested.
    """

    level: float
    confidence_interval: ConfidenceInterval


def failing_level(
    levels: np.ndarray,
    counts: Counts | ImageScores | np.ndarray,
    measure: str,
    threshold: float,
    identity: float = 0.0,
    confidence_level: float = 0.95,
) -> FailingLevel:
    """The lowest level above the identity at which a measure falls below a threshold.

    For corruptions by severity it is the severity at which a classifier fails. Between
    levels the measure and its bands (`bands`) are joined by straight lines: an
    excursion between two levels is not seen.

    Example::

        found = metrics.failing_level(curve.levels, curve.counts, "accuracy", 0.8)

    Args:
      levels: `[L]` distinct levels, in any order, the identity among them.
      counts: the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]` by
        label and answer; or those of a `ScoreCurve`.
      measure: a name in `jaxrob.metrics.measures`, or a `ScoreCurve.measure`.
      threshold: the lowest value accepted.
      identity: the level at which nothing is altered. Lower levels are ignored.
      confidence_level: the coverage of the bands, in (0, 1).

    Returns:
      The `FailingLevel`; the identity itself where the unaltered images are not good
      enough.

    Raises:
      ValueError: if the identity is not among the levels, no level lies above, or as
        `bands`.
    """
    levels = checked_levels(levels)
    threshold = checked_number("threshold", threshold)
    identity = checked_number("identity", identity)
    found: Any = any_measure(measure)
    if isinstance(counts, ImageScores):
        counts = checked_scores(counts)
    else:
        counts = checked_counts(counts, min_inputs=1)
    if len(counts.inputs) != len(levels):
        raise ValueError(
            f"counts must be of each of {len(levels)} levels; got them of "
            f"{len(counts.inputs)}"
        )
    if identity not in levels or levels.max() == identity:
        raise ValueError(
            f"levels must hold the identity {identity:g} and a level above; got "
            f"levels from {levels.min():g} to {levels.max():g}"
        )
    order = np.argsort(levels)
    order = order[levels[order] >= identity]
    values = found(counts)
    low, high = bands(counts, measure, confidence_level)
    crossings = [
        _first_crossing(levels[order], one[order], threshold)
        for one in (values, low, high)
    ]
    return FailingLevel(crossings[0], ConfidenceInterval(*sorted(crossings)[::2]))


def _first_crossing(levels: np.ndarray, values: np.ndarray, threshold: float) -> float:
    if values[0] < threshold:
        return float(levels[0])
    if (values >= threshold).all():
        return math.inf
    return float(accepted_intervals(levels, values, threshold)[0].end)
