"""Robustness: the part of an alteration's range where a measure is high enough."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_choice, checked_number
from jaxrob.metrics._checks import checked_curve

RULES = ("right", "count", "linear")


def heaviside_robustness(
    levels: np.ndarray,
    values: np.ndarray,
    threshold: float,
    rule: str = "right",
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
      ValueError: if the arrays' shapes differ, there are fewer than two levels (one
        for "count"), levels repeat, a number is not finite, or the rule is none of the
        above.
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

    Args:
      levels: `[n]` distinct levels, in any order.
      values: `[n]`, the measure at each level.
      threshold: the lowest value accepted.

    Returns:
      The intervals, from the lowest to the highest; one may be a single level.

    Raises:
      ValueError: as `heaviside_robustness`.
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
