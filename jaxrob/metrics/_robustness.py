"""Robustness: the part of an alteration's range where a measure is high enough."""

import math
from typing import NamedTuple

import numpy as np

RULES = ("right", "count", "linear")


def heaviside_robustness(
    levels: np.ndarray,
    values: np.ndarray,
    threshold: float,
    rule: str = "right",
) -> float:
    """The share of the range where a quality measure is at least the threshold.

    2020 paper, Definition 4, `int H(value - threshold) / (U - L)` with H(0) = 1, from
    the values at some levels that include both ends of the range.

    Args:
      levels: `[n]` distinct levels, in any order.
      values: `[n]`, the measure at each level: accuracy, recall, or any other.
      threshold: the lowest value accepted; "on the threshold" counts as above.
      rule: how the integral is taken. "right": each interval between neighbours
        counts if its right end is accepted (2022 paper, section III). "count": the
        share of levels accepted (2020 paper, Definition 5), for evenly spaced levels.
        "linear": the values are joined by straight lines and the crossings with the
        threshold found on them; the most accurate.

    Returns:
      The robustness, in [0, 1]: exactly 1 if all levels are accepted, 0 if none is.

    Raises:
      ValueError: if the arrays' shapes differ, there are fewer than two levels (one
        for "count"), levels repeat, a number is not finite, or the rule is none of
        the above.
    """
    levels, values = _checked(levels, values, threshold, 1 if rule == "count" else 2)
    accepted = values >= threshold
    if rule == "count":
        return np.count_nonzero(accepted) / len(accepted)
    span = levels[-1] - levels[0]
    if rule == "right":
        ends = levels[1:][accepted[1:]], -levels[:-1][accepted[1:]]
        # An exact sum: neighbouring intervals join without rounding.
        return math.fsum(np.concatenate(ends)) / span
    if rule == "linear":
        intervals = accepted_intervals(levels, values, threshold)
        return math.fsum(end - start for start, end in intervals) / span
    raise ValueError(f"rule must be one of {RULES}; got {rule!r}")


class Interval(NamedTuple):
    """A closed interval of levels."""

    start: float
    end: float


def accepted_intervals(
    levels: np.ndarray, values: np.ndarray, threshold: float
) -> tuple[Interval, ...]:
    """Where the values, joined by straight lines, are at least the threshold.

    Args:
      levels: `[n]` distinct levels, in any order.
      values: `[n]`, the measure at each level.
      threshold: the lowest value accepted.

    Returns:
      The intervals, from the lowest to the highest; one may be a single level.

    Raises:
      ValueError: as `heaviside_robustness`.
    """
    levels, values = _checked(levels, values, threshold, 1)
    accepted = values >= threshold
    intervals = []
    start = levels[0] if accepted[0] else None
    for i in range(1, len(levels)):
        if accepted[i - 1] == accepted[i]:
            continue
        share = (threshold - values[i - 1]) / (values[i] - values[i - 1])
        # Exact at both ends, and never beyond them: an interval may be one level.
        crossing = (1 - share) * levels[i - 1] + share * levels[i]
        crossing = min(max(crossing, levels[i - 1]), levels[i])
        if accepted[i]:
            start = crossing
        else:
            intervals.append(Interval(float(start), float(crossing)))
    if accepted[-1]:
        intervals.append(Interval(float(start), float(levels[-1])))
    return tuple(intervals)


def _checked(levels, values, threshold, fewest):
    """Levels and values as float64, in ascending order of the levels."""
    levels, values = np.asarray(levels, np.float64), np.asarray(values, np.float64)
    if levels.ndim != 1 or levels.shape != values.shape or len(levels) < fewest:
        raise ValueError(
            f"levels and values must be vectors of one length, at least {fewest}; got "
            f"the shapes {levels.shape} and {values.shape}"
        )
    for name, array in (("levels", levels), ("values", values)):
        if not np.isfinite(array).all():
            bad = np.flatnonzero(~np.isfinite(array))[0]
            raise ValueError(f"{name} must be finite; got {array[bad]} at index {bad}")
    if not math.isfinite(threshold):
        raise ValueError(f"threshold must be finite; got {threshold}")
    order = np.argsort(levels)
    levels, values = levels[order], values[order]
    repeated = np.flatnonzero(np.diff(levels) == 0)
    if len(repeated):
        raise ValueError(f"levels must be distinct; got {levels[repeated[0]]:g} twice")
    return levels, values
