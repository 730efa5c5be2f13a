"""The part of an alteration's range where a measure is high enough."""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob.metrics._bands import ConfidenceInterval, bands
from jaxrob.metrics._counts import (
    Counts,
    ImageScores,
    checked_confidence_level,
    checked_curve,
    checked_levels,
    range_around,
    typical_inputs,
)
from jaxrob.metrics._curvature import Envelope, envelope
from jaxrob.metrics._groups import worth_of
from jaxrob.metrics._measures import any_measure

RULES = ("right", "count", "linear")


def heaviside_robustness(
    levels: np.ndarray, values: np.ndarray, threshold: float, rule: str = "right"
) -> float:
    """The share of the range where a quality measure is at least the threshold.

    2020 paper, Definition 4, `int H(value - threshold) / (U - L)` with H(0) = 1, from
    the values at some levels. For "right" and "linear" the levels include both ends of
    the range.

    Example::

        levels = np.array([0.0, 0.5, 1.0])
        accuracy = np.array([0.95, 0.85, 0.6])
        metrics.heaviside_robustness(levels, accuracy, 0.8)  # 0.5
        metrics.heaviside_robustness(levels, accuracy, 0.8, "linear")  # 0.6

    Args:
      levels: `[n]` distinct levels, in any order.
      values: `[n]`, the measure at each level: accuracy, recall, or any other.
      threshold: the lowest value accepted; "on the threshold" counts as above.
      rule: how the integral is computed. "right": each interval between neighbours
        counts if its right end is accepted (2022 paper, section III). "count": the
        share of levels accepted (2020 paper, Definition 5), for evenly spaced levels.
        "linear": the values are joined by straight lines, which give the crossings with
        the threshold; the most accurate.

    Returns:
      The robustness, in [0, 1]: exactly 1 if all levels are accepted, exactly 0 if all
      are rejected.

    Raises:
      TypeError: if an argument holds no numbers, or the rule is not a string.
      ValueError: if the shapes differ, there are fewer than two levels (one for
        "count"), levels repeat, a number is not finite, or the rule is unknown.
    """
    check_choice("rule", rule, RULES)
    threshold = checked_number("threshold", threshold)
    min_length = 1 if rule == "count" else 2
    levels, values = checked_curve(levels, values, min_length)
    accepted = values >= threshold
    if rule == "count":
        return int(np.count_nonzero(accepted)) / len(accepted)
    span = float(levels[-1] - levels[0])
    if rule == "right":
        ends = levels[1:][accepted[1:]], -levels[:-1][accepted[1:]]
        # An exact sum: neighbouring intervals join without rounding.
        return math.fsum(np.concatenate(ends)) / span
    intervals = accepted_intervals(levels, values, threshold)
    return math.fsum(end - start for start, end in intervals) / span


class Interval(NamedTuple):
    """A closed interval of levels."""

    start: float
    end: float


def accepted_intervals(
    levels: np.ndarray, values: np.ndarray, threshold: float
) -> tuple[Interval, ...]:
    """The intervals where values joined by straight lines are at least the threshold.

    Arguments and errors are as for `heaviside_robustness`. They come from the lowest to
    the highest; one may be a single level.
    """
    threshold = checked_number("threshold", threshold)
    levels, values = checked_curve(levels, values, 1)
    accepted = values >= threshold
    intervals = []
    start = levels[0]  # of the current interval, if the last level is accepted
    for i in range(1, len(levels)):
        if accepted[i - 1] == accepted[i]:
            continue
        share = (threshold - values[i - 1]) / (values[i] - values[i - 1])
        # Exact at both ends, and clipped to them: an interval may be one level.
        crossing = (1 - share) * levels[i - 1] + share * levels[i]
        crossing = min(max(crossing, levels[i - 1]), levels[i])
        if accepted[i]:
            start = crossing
        else:
            intervals.append(Interval(float(start), float(crossing)))
    if accepted[-1]:
        intervals.append(Interval(float(start), float(levels[-1])))
    return tuple(intervals)


def accepted_share(left: np.ndarray, right: np.ndarray, threshold: float) -> np.ndarray:
    """Returns the share of lines from `left` to `right` at or above the threshold."""
    accepted = right >= threshold
    crosses = (left >= threshold) != accepted
    rise = np.where(crosses, np.abs(right - left), 1)
    return np.where(crosses, (np.maximum(left, right) - threshold) / rise, accepted)


# Standard deviations of single inputs' flips by which an `envelope` may be off: with 0,
# intervals that end at a kink cover up to 5 % less; 2 give no more than 1.5.
_FLIP_DEVIATIONS = 1.5


def robustness_interval(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    bounds: tuple[float, float] | None = None,
) -> ConfidenceInterval:
    """The robustness of a lower and of an upper band.

    Each band is joined by straight lines (`rule="linear"` of `heaviside_robustness`).
    The interval's coverage is about that of the pointwise bands, or slightly more. With
    several crossings it is wider, because it assumes that the band errs in the same
    direction at all of them.

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
        as `heaviside_robustness`.
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
    inputs of the kind tested. Levels, threshold and bounds are as for
    `robustness_interval`, the other arguments as for `bands`, and errors as for both.
    """
    confidence_level = checked_confidence_level(confidence_level)
    found: Any = any_measure(measure)
    counted = found.checked(counts)
    threshold = checked_number("threshold", threshold)
    # Checks the arguments before the slow bootstrap.
    none = np.zeros(len(counted.inputs))
    robustness_interval(levels, none, none + 1, threshold, bounds)
    low, high = bands(counts, measure, confidence_level)
    values = found(counted)
    grouped = counted.groups is not None
    inputs = worth_of(counted, found).inputs if grouped else found.num_inputs(counted)
    num_inputs = typical_inputs(inputs)
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
    lower, upper = bounds
    shortest, longest = accepted_widths(levels, low, high, threshold, deviations)
    unseen = (upper - lower) - (levels[-1] - levels[0])
    start = math.fsum(shortest) / (upper - lower)
    end = (math.fsum(longest) + unseen) / (upper - lower)
    # Rounding may put equal ends in the wrong order, or above 1.
    return ConfidenceInterval(min(start, 1.0), min(max(start, end), 1.0))


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

    Between levels the measure and its bands (`bands`) are joined by straight lines: an
    excursion between two levels is not seen.

    Args:
      levels: `[L]` distinct levels, in any order, the identity among them.
      counts: as for `bands`.
      measure: as for `bands`.
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
    counted = found.checked(counts)
    if len(counted.inputs) != len(levels):
        raise ValueError(
            f"counts must be of each of {len(levels)} levels; got them of "
            f"{len(counted.inputs)}"
        )
    if identity not in levels or levels.max() == identity:
        raise ValueError(
            f"levels must hold the identity {identity:g} and a level above; got "
            f"levels from {levels.min():g} to {levels.max():g}"
        )
    order = np.argsort(levels)
    order = order[levels[order] >= identity]
    values = found(counted)
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
