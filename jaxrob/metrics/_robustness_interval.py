"""Confidence intervals of the robustness, for a finite test set."""

import math
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_number
from jaxrob.metrics._bands import bands
from jaxrob.metrics._checks import (
    checked_confidence_level,
    checked_counts,
    checked_curve,
    range_around,
)
from jaxrob.metrics._confidence_interval import ConfidenceInterval
from jaxrob.metrics._counts import Counts
from jaxrob.metrics._envelope import Envelope, envelope
from jaxrob.metrics._mean_score import ImageScores, checked_scores, is_mean_score
from jaxrob.metrics._measure import typical_inputs
from jaxrob.metrics._quality import any_measure
from jaxrob.metrics._robustness import accepted_share

# How many standard deviations of single inputs' flips the lines of an `envelope` may be
# off. With 0, intervals that end at a kink have up to 5 % less coverage than stated; 2
# give no more than 1.5.
_FLIP_DEVIATIONS = 1.5


def robustness_interval(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    bounds: tuple[float, float] | None = None,
) -> ConfidenceInterval:
    """The robustness of a lower and of an upper band.

    Each band is joined by straight lines (`rule="linear"` of
    `jaxrob.metrics.heaviside_robustness`). The interval's coverage is about that of the
    pointwise bands, or slightly more, since at a crossing the curve is within its band
    that often. With several crossings the interval is wider, because it assumes that
    the band errs in the same direction at all of them.

    Args:
      levels: `[L]` distinct levels, in any order.
      low: `[L]`, the lower band.
      high: `[L]`, the upper band, nowhere below `low`.
      threshold: the lowest value accepted.
      bounds: the range's lower and upper ends; by default the outermost levels. The
        range beyond these levels may be accepted or not.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: if `low` exceeds `high` somewhere, a level lies outside the bounds, or
        as `jaxrob.metrics.heaviside_robustness`.
    """
    min_length = 1 if bounds is not None else 2
    threshold = checked_number("threshold", threshold)
    _, low = checked_curve(levels, low, min_length, "low")
    levels, high = checked_curve(levels, high, min_length, "high")
    if (low > high).any():
        bad = np.flatnonzero(low > high)[0]
        raise ValueError(
            f"low must not exceed high; got {low[bad]} and {high[bad]} at index {bad}"
        )
    lower, upper = range_around(levels, bounds)
    return _interval_between(levels, low, high, threshold, (lower, upper), None)


def confidence_interval(
    levels: np.ndarray,
    counts: Counts | ImageScores | np.ndarray,
    measure: str,
    threshold: float,
    confidence_level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> ConfidenceInterval:
    """A confidence interval of the robustness, for a finite test set.

    It is the `robustness_interval` of the measure's `bands`. Between levels the bands
    may deviate from straight lines as far as the neighbouring levels allow: a kink or a
    jump may lie anywhere in its interval. The interval covers the robustness on all
    inputs of the kind tested.

    Args:
      levels: `[L]` distinct levels, in any order.
      counts: the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]` by
        label and answer.
      measure: a name in `jaxrob.metrics.measures`.
      threshold: the lowest value accepted.
      confidence_level: the coverage aimed at, in (0, 1).
      bounds: the range's lower and upper ends; by default the outermost levels.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: as `bands` and `robustness_interval`.
    """
    confidence_level = checked_confidence_level(confidence_level)
    found: Any = any_measure(measure)
    if is_mean_score(measure):
        num_levels = len(checked_scores(counts).values)
    else:
        counts = checked_counts(counts, min_inputs=1)
        num_levels = len(counts.correct)
    threshold = checked_number("threshold", threshold)
    # Checks the arguments before the slow bootstrap.
    widest = np.zeros(num_levels), np.ones(num_levels)
    robustness_interval(levels, *widest, threshold, bounds)
    low, high = bands(counts, measure, confidence_level)
    values = found(counts)
    num_inputs = typical_inputs(found.num_inputs(counts))
    levels = np.asarray(levels, np.float64)
    order = np.argsort(levels)
    levels, values = levels[order], values[order]
    deviations = envelope(levels, values, num_inputs, _FLIP_DEVIATIONS)
    around = range_around(levels, bounds)
    return _interval_between(
        levels, low[order], high[order], threshold, around, deviations
    )


def accepted_widths(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    deviations: Envelope | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The accepted width of each interval by the lower and by the upper band."""
    widths = []
    for band, is_upper in ((low, False), (high, True)):
        if deviations is None:
            share = accepted_share(band[:-1], band[1:], threshold)
        else:
            chord = band[:-1] * (1 - deviations.share) + band[1:] * deviations.share
            off = deviations.above if is_upper else -deviations.below
            # Measures lie in [0, 1], so the bands are clipped.
            values = np.where(off == 0, chord, np.clip(chord + off, 0, 1))
            share = accepted_share(values[:-1], values[1:], threshold).mean(axis=0)
        widths.append(np.diff(levels) * share)
    return widths[0], widths[1]


def _interval_between(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    bounds: tuple[float, float],
    deviations: Envelope | None,
) -> ConfidenceInterval:
    """Returns the robustness interval of two bands with these deviations."""
    lower, upper = bounds
    shortest, longest = accepted_widths(levels, low, high, threshold, deviations)
    unseen = (upper - lower) - (levels[-1] - levels[0])
    start = math.fsum(shortest) / (upper - lower)
    end = (math.fsum(longest) + unseen) / (upper - lower)
    # Rounding may put equal ends in the wrong order, or above 1.
    return ConfidenceInterval(min(start, 1.0), min(max(start, end), 1.0))
