"""How far the robustness of a finite test set may be off that of all inputs."""

import math

import numpy as np

from jaxrob.metrics._bands import bands
from jaxrob.metrics._checks import (
    check_confidence,
    checked_confusion,
    checked_curve,
    range_around,
)
from jaxrob.metrics._curvature import bend
from jaxrob.metrics._measure import typical_inputs
from jaxrob.metrics._quality import measure_named
from jaxrob.metrics._robustness import Interval, accepted_share

# Straight pieces that stand for a parabola.
_PIECES = 32
# Where the curve rises or falls over an interval by more than this many times the width
# of its bands, it is not smooth there.
_STEEP = 6.0


def robustness_interval(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    bounds: tuple[float, float] | None = None,
    concavity: np.ndarray | None = None,
) -> Interval:
    """The robustness of a lower and of an upper band.

    Each band is joined by straight lines (`rule="linear"` of
    `jaxrob.metrics.heaviside_robustness`), or by parabolas that bend away from the
    other one; then a steep interval, over which the bands rise by more than six times
    their width, may be accepted or not wherever its ends differ. With pointwise bands
    of some confidence the interval covers the robustness about as often, or a little
    more: at a crossing the curve is within its band as often as that. With several
    crossings it is wider, because both bands err everywhere at once.

    Args:
      levels: `[L]` distinct levels, in any order.
      low: `[L]`, the lower band.
      high: `[L]`, the upper band, nowhere below `low`.
      threshold: the lowest value accepted.
      bounds: the range's lower and upper ends; by default the outermost levels. What
        lies beyond those may be accepted or not.
      concavity: `[L - 1]`, of the parabolas in each interval from the lowest to the
        highest, per squared level; by default 0.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: if `low` exceeds `high` somewhere, a level lies outside the bounds, or
        as `jaxrob.metrics.heaviside_robustness`.
    """
    fewest = 1 if bounds is not None else 2
    _, low = checked_curve(levels, low, threshold, fewest)
    levels, high = checked_curve(levels, high, threshold, fewest)
    if (low > high).any():
        bad = np.flatnonzero(low > high)[0]
        raise ValueError(
            f"low must not exceed high; got {low[bad]} and {high[bad]} at index {bad}"
        )
    lower, upper = range_around(levels, bounds)
    if concavity is not None:
        concavity = np.asarray(concavity, np.float64)
        if concavity.shape != (len(levels) - 1,) or not (concavity >= 0).all():
            raise ValueError(
                "concavity must hold a number from 0 for each of the "
                f"{len(levels) - 1} intervals; got {concavity}"
            )
    shortest, longest = accepted_widths(levels, low, high, threshold, concavity)
    unseen = (upper - lower) - (levels[-1] - levels[0])
    start = math.fsum(shortest) / (upper - lower)
    end = (math.fsum(longest) + unseen) / (upper - lower)
    # Rounding may part them where they meet.
    return Interval(min(start, 1.0), min(max(start, end), 1.0))


def confidence_interval(
    levels: np.ndarray,
    confusion: np.ndarray,
    measure: str,
    threshold: float,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """A confidence interval of the robustness, for a finite test set.

    The `robustness_interval` of the measure's `bands`, which bend between the levels
    twice as much as the levels around show. It says how far the robustness may lie from
    that on all inputs of the kind tested.

    Args:
      levels: `[L]` distinct levels, in any order.
      confusion: integers `[L, K, K + 1]`, counts by label and answer.
      measure: a name in `jaxrob.metrics.measures`.
      threshold: the lowest value accepted.
      confidence: the coverage aimed at, in (0, 1).
      bounds: the range's lower and upper ends; by default the outermost levels.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: as `bands` and `robustness_interval`.
    """
    check_confidence(confidence)
    found = measure_named(measure)
    confusion = checked_confusion(confusion)
    # All that can fail fails before the bootstrap.
    widest = np.zeros(len(confusion)), np.ones(len(confusion))
    robustness_interval(levels, *widest, threshold, bounds)
    low, high = bands(confusion, measure, confidence)
    values = found(confusion)
    num_inputs = typical_inputs(found.num_inputs(confusion))
    order = np.argsort(levels)
    concavity = shown_concavity(np.asarray(levels)[order], values[order], num_inputs)
    return robustness_interval(levels, low, high, threshold, bounds, concavity)


def accepted_widths(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    concavity: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The accepted part of each interval by the lower and by the upper band.

    Args:
      levels: `[L]`, ascending.
      low: `[L]`, the lower band.
      high: `[L]`, the upper band.
      threshold: the lowest value accepted.
      concavity: `[L - 1]`, see `robustness_interval`.

    Returns:
      Two arrays float64 `[L - 1]`, in units of the levels.
    """
    width = np.diff(levels)
    if concavity is None:
        lower, upper = (
            width * accepted_share(band[:-1], band[1:], threshold)
            for band in (low, high)
        )
        return lower, upper
    rise = np.abs(np.diff(low + high)) / 2
    steep = rise > _STEEP * ((high - low)[:-1] + (high - low)[1:]) / 2
    share = np.linspace(0, 1, _PIECES + 1)[:, None]
    sag = concavity * width**2 * share * (1 - share)
    widths = []
    for band, sign in ((low, -1), (high, 1)):
        chord = band[:-1] * (1 - share) + band[1:] * share
        # Bands are of shares: a parabola that leaves [0, 1] means its edge.
        values = np.where(sag == 0, chord, np.clip(chord + sign * sag, 0, 1))
        # A jump may be anywhere in its interval.
        farthest = np.minimum if sign < 0 else np.maximum
        values = np.where(steep, farthest(band[:-1], band[1:]), values)
        accepted = accepted_share(values[:-1], values[1:], threshold)
        widths.append(width * accepted.mean(axis=0))
    return widths[0], widths[1]


def shown_concavity(
    levels: np.ndarray, values: np.ndarray, num_inputs: int
) -> np.ndarray:
    """`[L - 1]`: twice what a curve bends in each interval, per squared level."""
    if len(levels) < 2:
        return np.zeros(0)
    span = levels[-1] - levels[0]
    shape = bend((levels - levels[0]) / span, values, num_inputs)
    return np.nan_to_num(shape.concavity) / span**2
