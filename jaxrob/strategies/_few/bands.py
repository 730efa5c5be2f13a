"""Bands around the curve of few images, its crossings, and what levels there cost."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._curvature import Envelope, envelope
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._asap import ASAP
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
from jaxrob.strategies._strategy import History, Task

# The concavity by which a curve may leave a line, per squared range.
BEND = 8.0
# Error of a rise due to bends, per squared range; near, well-known levels decide.
_SAG = 4.0
# Levels on either side that may determine a slope, and its least relative error.
_PAIRS, _LEAST_SLOPE_ERROR = 5, 0.15


class RoughCrossing(NamedTuple):
    step: float  # its position, a fractional step
    slope: float  # the absolute slope of the mean score per step, above 0
    uncertainty: float  # the standard error of the position, in steps
    slope_error: float  # the relative error of the slope


def rough_crossing(goal: Goal, now: Estimates, first: int, last: int) -> RoughCrossing:
    # By the level with the smallest error, from its own and its distance.
    steps, off = now.steps, now.means - goal.least
    start, end = int(steps[first]), int(steps[last])
    falls = 1.0 if off[first] >= 0 else -1.0
    rise = max(falls * float(off[first] - off[last]), 1 / goal.num_images)
    step = start + float(np.clip(falls * off[first] / rise, 0, 1)) * (end - start)
    slope, slope_error, uncertainty = rise / (end - start), 1.0, (end - start) / 4
    inside = slice(first, last + 1)
    for _ in range(2):
        slope, slope_error = _slope(goal, now, step, falls) or (slope, slope_error)
        far = np.abs(off[inside]) * slope_error
        errors = (now.standard_errors[inside] + far) / slope
        best = int(errors.argmin())
        step = float(steps[inside][best]) + falls * float(off[inside][best]) / slope
        step = min(max(step, start), end)
        uncertainty = float(errors[best])
    return RoughCrossing(step, slope, min(uncertainty, (end - start) / 4), slope_error)


def may_cross(
    goal: Goal, strategy: ASAP, steps: np.ndarray, means: np.ndarray, errors: np.ndarray
) -> np.ndarray:
    """Whether the curve may cross between neighbours by the strategy, `[n - 1]`."""
    # The number of images at which levels would scatter as they typically do.
    variance = np.square(errors) + goal.deviation**2 / goal.num_images
    typical = max(int(np.median(goal.deviation**2 / variance)), 1)
    known = History(steps / goal.parts, means, np.full(len(steps), typical))
    return strategy.may_cross(Task(0.0, 1.0, goal.least), known)


def _slope(
    goal: Goal, now: Estimates, step: float, falls: float
) -> tuple[float, float] | None:
    # Between levels far enough apart for noise, near enough to be straight.
    before, after = np.flatnonzero(now.steps < step), np.flatnonzero(now.steps > step)
    before, after = before[-_PAIRS:, None], after[None, :_PAIRS]
    rise = falls * (now.means[before] - now.means[after])
    width = now.steps[after] - now.steps[before]
    own = np.square(now.doubts)
    noise = own[before] + own[after] + (1 / goal.num_images) ** 2
    sag = _SAG * np.square(width / goal.parts)
    error = np.sqrt(noise + np.square(sag)) / np.maximum(rise, 1e-9)
    if not error.size:
        return None
    best = np.unravel_index(error.argmin(), error.shape)
    if rise[best] <= 0:
        return None
    return float(rise[best] / width[best]), max(float(error[best]), _LEAST_SLOPE_ERROR)


# From this share of the images on, all are requested.
_ALL = 0.85
# Neighbours that may be control variates; with more images these shares remain.
_NEIGHBOURS = 4
_PARTS = (0.05, 0.12, 0.25, 0.5, 0.75)
# Farther off images change and change back: the variance grows by this power.
_POWER = 0.8


class Costs(NamedTuple):
    goal: Goal  # the goal
    levels: Levels  # the levels and the scores seen there
    estimates: Estimates  # the estimates at the levels
    step: float  # about where the curve crosses
    slope: float  # the absolute slope of the mean score per step there, above 0


def cheapest(
    costs: Costs,
    wanted: dict[int, float],
    asked: Sequence[Wanted] = (),
    helped: bool = False,
) -> tuple[int, list[Wanted]]:
    ways = []
    for step, deviation in wanted.items():
        # Among levels that are known well enough, take the nearest to the crossing.
        off = abs(step - costs.step) / costs.goal.parts
        cost, requests = _cheapest_at(costs, step, deviation, asked, helped)
        ways.append((cost + off, step, requests))
    _, step, requests = min(ways, key=lambda way: way[0])
    return step, requests


def images_for(goal: Goal, deviation: float) -> int:
    plain = (goal.deviation / max(deviation, 1e-12)) ** 2
    needed = goal.of_finite(plain)
    return goal.blocks(goal.num_images if needed >= _ALL * goal.num_images else needed)


def seen_at(levels: Levels, step: int) -> int:
    return levels[step].seen if step in levels else 0


def unseen(levels: Levels, wanted: Sequence[Wanted]) -> list[Wanted]:
    return [one for one in wanted if one.seen > seen_at(levels, one.step)]


def _cheapest_at(
    costs: Costs, step: int, deviation: float, asked: Sequence[Wanted], helped: bool
) -> tuple[float, list[Wanted]]:
    goal, levels = costs.goal, costs.levels
    total, seen = goal.num_images, seen_at(levels, step)
    will = {one.step: one.seen for one in asked}
    if seen and costs.estimates.at(step)[1] <= deviation:
        return 0.0, [Wanted(step, seen)]
    alone = max(images_for(goal, deviation), seen)
    best = float(alone - seen), [Wanted(step, alone)]
    steps = costs.estimates.steps
    place = int(np.searchsorted(steps, step))
    around = steps[max(place - _NEIGHBOURS, 0) : place + _NEIGHBOURS].tolist()
    # With more images, a control variate leaves a part of the variance.
    parts = _PARTS if helped else ()
    more = [images_for(goal, deviation * math.sqrt(1 - part)) for part in parts]
    for other in {*around, *will} - {step}:
        theirs = max(seen_at(levels, other), will.get(other, 0))
        change = _change(costs, step, other)
        for images in sorted({theirs, *(one for one in more if one > theirs)}):
            rest = deviation**2 - goal.deviation**2 * (1 / images - 1 / total)
            if rest <= 0:
                continue
            own = goal.blocks(max(1 / (rest / change + 1 / images), goal.block))
            cost = float(max(own - seen, 0) + images - theirs)
            if own <= images and cost < best[0]:
                best = cost, [Wanted(other, images), Wanted(step, own)]
    return best


def _change(costs: Costs, step: int, other: int) -> float:
    """Returns the variance of a score's change between two levels, which may be new."""
    if step in costs.levels and other in costs.levels:
        return _seen_change(costs, step, other)
    steps = costs.estimates.steps
    place = int(np.searchsorted(steps, costs.step))
    around = steps[max(place - 3, 0) : place + 3].tolist()
    distance = max(abs(step - other), 1)
    # From the neighbours whose distance is most similar.
    pairs = zip(around, around[1:])
    first, second = min(pairs, key=lambda p: abs(math.log((p[1] - p[0]) / distance)))
    longer = (distance / (second - first)) ** _POWER
    expected = _seen_change(costs, first, second) * longer
    return max(expected, costs.slope * distance, 1 / costs.goal.num_images)


def _seen_change(costs: Costs, step: int, other: int) -> float:
    levels = costs.levels
    seen = min(levels[step].seen, levels[other].seen)
    change = levels[step].scores[:seen] - levels[other].scores[:seen]
    variance = float(change @ change) / seen - (float(change.sum()) / seen) ** 2
    return max(variance, 1 / seen)


# Where errors exceed the first times the planned ones, critical values rise to this.
_AS_PLANNED, _FAR = 2.0, 3.3
# Widest interval interpolated, in half widths or of the range: wider ones hide bends.
_HALF_WIDTHS_WIDE, _SHARE_WIDE = 0.75, 0.02
# Along the threshold: all images leave this share of an interval open.
_ALONG = 0.5


class Bands(NamedTuple):
    """Bands around the estimates, and what they leave open: n levels, m intervals."""

    estimates: Estimates  # the estimates at the levels
    # Float64 `[n]`: half the bands' heights in standard errors.
    critical_values: np.ndarray
    low: np.ndarray  # float64 `[m]`, the fewest accepted steps of each interval
    high: np.ndarray  # float64 `[m]`, the most
    # Float64 `[m]`, their difference if the curve were straight between.
    straight: np.ndarray
    # Bool `[m]`, open even with all images, along the threshold.
    along: np.ndarray
    z: float  # the critical value of levels that are known as well as planned
    joint_error_ratio: float = 1.0  # see the function

    @property
    def open(self) -> np.ndarray:
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
    hidden = (width > widest) & (crosses | (longest > shortest))
    hidden |= ~crosses & between.may_cross
    low, high = np.where(hidden, 0.0, low), np.where(hidden, width, high)
    exact = (standard_errors[:-1] == 0) & (standard_errors[1:] == 0)
    # If no image changes between levels, none changes and changes back.
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
    # Errors between means lie below the line of their errors; but single images change,
    # so the curve wanders about it, independently of the ends.

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
    # Open intervals between levels decided one by one; None before the ends.
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
_OPEN = 1e-9
# Without a crossing: allowed as a crossing of this slope, per range.
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
    # Width w costs about 1 / (slope w)^2: least, for a fixed sum, at these shares.
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
    # Errors at crossings are those of means of the same images, and so correlated.
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
    # The same images in order: errors correlate, so the difference's is smaller.
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
        off = np.zeros(len(now.estimates.steps))
        for one in places:
            assert one.crossing
            at = now.estimates.steps == _nearest(now.estimates, one)
            off[at] += sign / one.crossing.slope
        parts.append((state.levels, now.estimates, off))
    usual = sum(np.abs(off).sum() for *_, off in parts) / 2
    parts = [(levels, now, off / usual) for levels, now, off in parts]
    alone = [math.sqrt(variance_of_sum([part], goal.spread)) for part in parts]
    apart = math.sqrt(variance_of_sum(parts, goal.spread))
    return 0.0 if sum(alone) == 0 else max(1 - apart / sum(alone), 0.0) * sum(noise)


def _nearest(now: Estimates, one: Cluster) -> int:
    assert one.crossing
    inside = now.steps[one.first : one.last + 1]
    return int(inside[np.abs(inside - one.crossing.step).argmin()])
