"""Bands around the curve of few images, and what they leave open."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._curvature import Envelope, envelope
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.crossing import RoughCrossing, may_cross, rough_crossing
from jaxrob.strategies._few.estimates import (
    Accepted,
    Estimates,
    Gap,
    Goal,
    Levels,
    Wanted,
    correlation,
    variance_of_sum,
)

# The critical value is larger, up to the second number, at levels whose standard error
# exceeds the first number times that which crossings need.
_AS_PLANNED, _FAR = 2.0, 3.3
# Crossings are interpolated in intervals no wider than this many half widths, or than
# this share of the range: in a wider interval a curve may bend both ways unseen.
_HALF_WIDTHS_WIDE, _SHARE_WIDE = 0.75, 0.02
# A curve runs along the threshold where all images leave more than this share of an
# interval open.
_ALONG = 0.5


class Bands(NamedTuple):
    """Bands around the estimates, and what they leave open: n levels, m intervals."""

    estimates: Estimates  # the estimates at the levels
    # Float64 `[n]`: half the bands' heights in standard errors.
    critical_values: np.ndarray
    low: np.ndarray  # float64 `[m]`, the fewest accepted steps of each interval
    high: np.ndarray  # float64 `[m]`, the most
    # Float64 `[m]`, the difference of these if the curve were straight between the
    # levels.
    straight: np.ndarray
    # Bool `[m]`, whether the interval is open even with all images, because the curve
    # runs along the threshold there.
    along: np.ndarray
    z: float  # the critical value of levels that are known as well as planned
    joint_error_ratio: float = 1.0  # see the function

    @property
    def open(self) -> np.ndarray:
        """The number of open steps in each interval, `[m]`."""
        return self.high - self.low

    @property
    def closable(self) -> np.ndarray:
        """The number of these that more images or levels may close, `[m]`."""
        return np.where(self.along, 0.0, self.open)

    def sides(self, least: float) -> np.ndarray:
        off = self.estimates.means - least
        reach = self.critical_values * self.estimates.standard_errors
        return np.where(off >= reach, 1, np.where(off < -reach, -1, 0))


def quantile(error: float) -> float:
    return float(-scipy.special.ndtri(error / 2))


class Shape(NamedTuple):
    deviations: Envelope  # the largest deviations from lines, on the scale from 0 to 1
    may_cross: np.ndarray  # bool `[m]`, whether it may cross the threshold


def shape(goal: Goal, strategy: ASAP, found: Estimates) -> Shape:
    low, high = goal.bounds
    steps, values = found.steps.astype(float), (found.means - low) / (high - low)
    doubts = found.doubts / (high - low)
    deviations = envelope(steps, values, goal.num_images, standard_errors=doubts)
    return Shape(deviations, may_cross(goal, strategy, *found[:3]))


def bands(
    goal: Goal, found: Estimates, between: Shape, wanted: float, z: float
) -> Bands:
    steps, means, standard_errors, changes, *_ = found
    most = max(_AS_PLANNED * wanted, 1e-12)
    critical_values = np.clip(z * standard_errors / most, z, max(_FAR, z))
    (lowest, highest), reach = goal.bounds, critical_values * standard_errors
    scale = highest - lowest
    values, least = (means - lowest) / scale, (goal.least - lowest) / scale
    # Exact means stay exact: they may lie on the threshold.
    below = np.where(reach > 0, np.clip(values - reach / scale, 0, 1), values)
    above = np.where(reach > 0, np.clip(values + reach / scale, 0, 1), values)
    places, width = steps.astype(float), np.diff(steps)
    deviations = between.deviations
    more = _excess_height(goal, found, critical_values, deviations.share, z)
    straight = deviations._replace(above=more, below=more)
    deviations = deviations._replace(
        above=deviations.above + more, below=deviations.below + more
    )
    low, high = accepted_widths(places, below, above, least, deviations)
    shortest, longest = accepted_widths(places, below, above, least, straight)
    widest = max(_HALF_WIDTHS_WIDE * goal.half_width, _SHARE_WIDE) * goal.parts
    crosses = np.diff(means >= goal.least)
    unseen = (width > widest) & (crosses | (longest > shortest))
    unseen |= ~crosses & between.may_cross
    low, high = np.where(unseen, 0.0, low), np.where(unseen, width, high)
    exact = (standard_errors[:-1] == 0) & (standard_errors[1:] == 0)
    # If no image changes between two levels, it is assumed that none changes and
    # changes back.
    still = exact & (changes == 0)
    low, high = np.where(still, shortest, low), np.where(still, longest, high)
    along = exact & (width <= widest) & (high - low > _ALONG * width)
    return Bands(found, critical_values, low, high, longest - shortest, along, z)


def _excess_height(
    goal: Goal,
    found: Estimates,
    critical_values: np.ndarray,
    share: np.ndarray,
    z: float,
) -> np.ndarray:
    """Returns the bands' excess height between levels over a line, `[s, m]`."""
    # The error of the line between two means is below the line between their errors
    # unless these are perfectly correlated. But single images change between two
    # levels: the curve wanders about its line, independently of the errors at the ends.

    def between(values: np.ndarray) -> np.ndarray:
        return values[:-1] * (1 - share) + values[1:] * share

    standard_errors, scale = found.standard_errors, goal.bounds[1] - goal.bounds[0]
    apart = standard_errors[:-1] * standard_errors[1:] - found.covariances
    variance = np.square(between(standard_errors)) - 2 * share * (1 - share) * apart
    own = between(critical_values) * np.sqrt(np.maximum(variance, 0))
    wander = z * np.sqrt(found.changes * share * (1 - share) / goal.num_images)
    return (np.hypot(own, wander) - between(critical_values * standard_errors)) / scale


class State(NamedTuple):
    goal: Goal  # with the half width currently aimed at
    levels: Levels  # the levels and the scores seen there
    accepted: Accepted  # the steps accepted; [0, all steps] at first
    # The open intervals between decided levels, if levels are decided one by one; None
    # until both ends of the range are decided.
    gaps: list[Gap] | None = None
    bands: Bands | None = None  # the bands around the curve, for the search by bands
    is_done: bool = False  # whether the goal is reached or no further request helps
    wanted: Sequence[Wanted] = ()  # the next requests; empty at the end
    # Whether the requirement is certainly met or missed, which ends the search.
    is_certain: bool = False
    aim: float | None = None  # the half width that a budget's round is planned for

    @property
    def half_width(self) -> float:
        """Half the interval's width, as a share of the range."""
        return self.accepted.half_width / self.goal.parts


class Method(NamedTuple):
    """How levels are chosen, and conclusions drawn from their scores."""

    # Takes scores by step, new ones only.
    look: Callable[[Any, State, dict[int, np.ndarray]], State]
    # Adds the next requests, none if the grid yields nothing more.
    following: Callable[[State], State]


# A level this many standard errors from the threshold counts as decided in a plan.
_LEAN = 2.0
# Fewer steps are rounding.
_OPEN = 1e-9
# A cluster without a crossing is cheap to close: its allowed width is that of a
# crossing with this slope, per range.
_CHEAP_SLOPE = 40.0
# Rounding of sums of steps.
_ROUNDING = 1e-6


class Cluster(NamedTuple):
    """Neighbouring intervals between two levels that clearly lie on a side."""

    first: int  # the index of the level before them
    last: int  # the index of the level after them
    open: float  # the number of steps that are open and may be closed
    # The number of open steps if the curve were straight between levels.
    straight: float
    crossing: RoughCrossing | None  # if the two levels are on different sides


def clusters(goal: Goal, now: Bands) -> list[Cluster]:
    _, means, standard_errors, *_ = now.estimates
    off = means - goal.least
    leans = np.abs(off) >= _LEAN * standard_errors
    leans[[0, -1]] = True
    edges = np.flatnonzero(leans).tolist()
    closable = now.closable
    found = []
    for first, last in zip(edges, edges[1:]):
        width = float(closable[first:last].sum())
        if width > _OPEN:
            crossing = None
            if (off[first] >= 0) != (off[last] >= 0):
                crossing = rough_crossing(goal, now.estimates, first, last)
            straight = float(now.straight[first:last].sum())
            found.append(Cluster(first, last, width, straight, crossing))
    return found


def crossings(goal: Goal, now: Bands) -> list[Cluster]:
    return [one for one in clusters(goal, now) if one.crossing]


def allowed_widths(
    goal: Goal, places: Sequence[Cluster], width: float
) -> dict[Cluster, float]:
    """Splits a width, in steps, among the clusters so that the total cost is least."""
    # A cluster of width w costs about 1 / (slope w)^2: least, for a fixed sum, at these
    # shares.
    rest = {
        one: (one.crossing.slope if one.crossing else _CHEAP_SLOPE / goal.parts)
        ** (-2 / 3)
        for one in places
    }
    given: dict[Cluster, float] = {}
    left = width
    # Clusters narrower than their share leave the difference to the others.
    while rest:
        total = sum(rest.values())
        narrow = [one for one in rest if one.open <= left * rest[one] / total]
        for one in narrow:
            given[one] = one.open
            left -= one.open
            del rest[one]
        if not narrow:
            return given | {one: left * rest[one] / total for one in rest}
    return given


def joint_error_ratio(
    goal: Goal, levels: Levels, now: Estimates, places: Sequence[Cluster]
) -> float:
    """Returns all crossings' joint error, as a share of the sum of their errors."""
    # If a mean is too high, more is accepted, at every crossing: the errors add up as
    # those of the means do, which are correlated, because the images are the same.
    noise = np.array([one.straight for one in places])
    if len(places) < 2 or not noise.sum() > 0:
        return 1.0
    at = [_nearest(now, one) for one in places]
    correlations = np.eye(len(at))
    for i in range(len(at)):
        for j in range(i):
            together = correlation(levels, now, (at[i], at[j]), goal.spread)
            correlations[i, j] = correlations[j, i] = together
    total = np.sqrt(max(float(noise @ correlations @ noise), 0.0))
    return min(total / float(noise.sum()), 1.0)


def narrowing_by_correlation(first: State, other: State) -> float:
    """Returns how much a difference's interval shrinks at each end by correlation."""
    # Both searches have the same goal and images. Two networks answer for the same
    # images in the same order, so the errors of two searches are correlated, and the
    # difference has a smaller error than their sum.
    parts, noise, goal = [], [], first.goal
    for sign, state in ((1, first), (-1, other)):
        now = state.bands
        places = crossings(goal, now) if now else []
        if now is None or not places:
            return 0.0
        straight = sum(one.straight for one in places)
        width = float(now.open.sum()) - (1 - now.joint_error_ratio) * straight
        if state.accepted.half_width < width / 2 - _ROUNDING:
            # The interval is that of an earlier look, with other errors.
            return 0.0
        noise.append(now.joint_error_ratio * straight / 2)
        off = sign * _crossing_shifts(now.estimates, places)
        parts.append((state.levels, now.estimates, off))
    usual = sum(np.abs(off).sum() for *_, off in parts) / 2
    parts = [(levels, now, off / usual) for levels, now, off in parts]
    alone = [math.sqrt(variance_of_sum([part], goal.spread)) for part in parts]
    apart = math.sqrt(variance_of_sum(parts, goal.spread))
    if sum(alone) == 0:
        return 0.0
    return max(1 - apart / sum(alone), 0.0) * sum(noise)


def _crossing_shifts(now: Estimates, places: Sequence[Cluster]) -> np.ndarray:
    shifts = np.zeros(len(now.steps))
    for one in places:
        assert one.crossing
        shifts[now.steps == _nearest(now, one)] += 1 / one.crossing.slope
    return shifts


def _nearest(now: Estimates, one: Cluster) -> int:
    assert one.crossing
    inside = now.steps[one.first : one.last + 1]
    return int(inside[np.abs(inside - one.crossing.step).argmin()])
