"""The search that decides each level, and chooses levels by those decided."""

import math

import numpy as np

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.cheapest import seen_at
from jaxrob.strategies._few.crossing import RoughCrossing, rough_crossing
from jaxrob.strategies._few.estimates import Estimates, estimates
from jaxrob.strategies._few.goal import (
    OPEN,
    Goal,
    Level,
    Levels,
    Wanted,
    images_needed,
    rounded_to_blocks,
)
from jaxrob.strategies._few.sides import Gap, partition, side
from jaxrob.strategies._few.state import Accepted, Method, State

# The share of the error spent on the first levels.
FIRST = 0.5
# Bounds on the growth of a level's number of images from one look to the next.
_GROWTH, _LEAST_GROWTH = 0.5, 0.25
# Quantiles of a normal variable, for averaging costs.
_NORMAL = np.array([-1.4, -0.6, 0.0, 0.6, 1.4])
# New levels lie at least this many standard errors from a crossing.
_CLEARANCE = 1.5
# Levels tried on either side of a crossing.
_TRIED = 48
# Levels beside a crossing are cheap if they take at most this share of all images. A
# level at a crossing with this share seen is continued, by this share at a time.
_CHEAP, _BEGUN, _STRIDE = 0.25, 0.2, 0.25


def look(
    goal: Goal, strategy: ASAP, state: State, answers: dict[int, np.ndarray]
) -> State:
    """Returns the state updated with newly seen images."""
    levels = dict(state.levels)
    needed_evidence = _needed_evidence(goal, state)
    for step, scores in answers.items():
        old = levels.get(step, Level(scores, OPEN, needed_evidence))
        new = old._replace(scores=scores)
        levels[step] = new._replace(side=side(goal, new))
    if levels[0].side == OPEN or levels[goal.parts].side == OPEN:
        return state._replace(levels=levels)
    now = estimates(levels, goal.least_variance, goal.num_images)
    found = partition(goal, strategy, levels, now)
    open_steps = sum(gap.width for gap in found.gaps)
    low = max(found.accepted - found.doubted, 0.0)
    high = min(found.accepted + open_steps + found.hoped, goal.parts)
    guess = min(max(found.accepted + open_steps / 2, low), high)
    accepted = Accepted(low, high, guess)
    half_width = goal.half_width * goal.parts
    is_done = not found.gaps or accepted.half_width <= half_width
    if goal.half_width == 0:
        is_done = all(gap.width <= 1 for gap in found.gaps)
    return State(levels, accepted, partition=found, is_done=is_done)


def following(goal: Goal, state: State) -> tuple[State, list[Wanted]]:
    """Returns the next requests; empty if this grid yields nothing more."""
    levels = state.levels
    if state.partition is None:
        ends = [step for step in (0, goal.parts) if levels[step].side == OPEN]
        return state, [
            Wanted(step, rounded_to_blocks(goal, 2 * levels[step].seen))
            for step in ends
        ]
    gaps = state.partition.gaps
    now = estimates(levels, goal.least_variance, goal.num_images)
    wanted = _requests(goal, levels, now, gaps, _needed_evidence(goal, state))
    wanted = [
        one
        for one in wanted
        if one.step not in levels or one.seen > levels[one.step].seen
    ]
    wanted = wanted or _finest(goal, levels, gaps)
    return state._replace(is_done=not wanted), wanted


def _needed_evidence(goal: Goal, state: State) -> float:
    """Returns the evidence that decides a new level."""
    crossings = 1
    if state.partition is not None:
        crossings = max(1, sum(gap.crosses for gap in state.partition.gaps))
    return math.log(2 * crossings / ((1 - FIRST) * goal.error))


def _requests(
    goal: Goal, levels: Levels, now: Estimates, gaps: list[Gap], needed_evidence: float
) -> list[Wanted]:
    """Returns the levels to look at next."""
    share = max(2 * goal.half_width * goal.parts / max(len(gaps), 1), 1.0)
    wanted: list[Wanted] = []
    for gap in gaps:
        if gap.width <= share and (goal.half_width > 0 or gap.middle is None):
            continue
        if not gap.crosses:
            wanted += _within(goal, levels, gap, needed_evidence)
            continue
        first, last = np.searchsorted(now.steps, [gap.start, gap.end]).tolist()
        about = rough_crossing(goal, now, first, last)
        if goal.half_width > 0:
            wanted += _bracket(goal, levels, gap, about, share, needed_evidence)
        else:
            wanted += _towards(goal, levels, gap, about, needed_evidence)
    return wanted


def _finest(goal: Goal, levels: Levels, gaps: list[Gap]) -> list[Wanted]:
    """Requests finer levels and more images if no plan helps; empty if all are seen."""
    wanted = []
    for gap in gaps:
        inside = [step for step in levels if gap.start < step < gap.end]
        begun = [step for step in inside if levels[step].seen < goal.num_images]
        middle = (gap.start + gap.end) // 2
        if begun:
            step = max(begun, key=lambda step: levels[step].seen)
            wanted.append(Wanted(step, rounded_to_blocks(goal, 2 * levels[step].seen)))
        elif gap.width > 1 and middle not in levels:
            wanted.append(Wanted(middle, goal.block))
    return wanted


def _towards(
    goal: Goal, levels: Levels, gap: Gap, about: RoughCrossing, needed_evidence: float
) -> list[Wanted]:
    """Requests levels around a crossing while cheap; then one at it, to the last image.

    All images there determine exactly how far away the crossing is.
    """
    beside = about.slope * _CLEARANCE * about.uncertainty
    cost = float(images_needed(goal, np.array(beside), needed_evidence))
    if cost <= _CHEAP * goal.num_images and gap.width > 4:
        return _bracket(goal, levels, gap, about, 1.0, needed_evidence)
    near = max(_CLEARANCE * about.uncertainty, 1.0)
    begun = [s for s in levels if gap.start < s < gap.end]
    begun = [s for s in begun if abs(s - about.step) <= near]
    # Just past the crossing as seen from the nearer end, so that the gap becomes short.
    past = 0.5 if about.step - gap.start < gap.end - about.step else -0.5
    here = _inside(gap, about.step + past)
    step = max(begun, key=lambda s: levels[s].seen, default=here)
    if seen_at(levels, step) < _BEGUN * goal.num_images:
        step = here
    more = max(seen_at(levels, step) * (1 + _GROWTH), _STRIDE * goal.num_images)
    return [Wanted(step, rounded_to_blocks(goal, more))]


def _bracket(
    goal: Goal,
    levels: Levels,
    gap: Gap,
    line: RoughCrossing,
    wanted: float,
    needed_evidence: float,
) -> list[Wanted]:
    """Requests the cheapest pair of levels around a crossing, within a distance."""
    apart = max(wanted, 2 * _CLEARANCE * line.uncertainty, 1.0)
    apart = min(apart, max(gap.width * 0.75, 1.0))
    places = _places(levels, gap, line, apart)
    at = line.step + line.uncertainty * _NORMAL
    distance = line.slope * np.abs(places[:, None] - at)
    each = images_needed(goal, distance, needed_evidence)
    total, usual = each.mean(axis=1), np.median(each, axis=1)
    seen = np.array([seen_at(levels, step) for step in places.tolist()])
    cost = np.maximum(total - seen, goal.block)
    cost[[0, -1]] = 0.0
    before, after = places <= line.step, places >= line.step
    pairs = cost[before, None] + cost[after]
    width = places[after] - places[before, None]
    fits = (width <= apart) & (width > 0)
    if not fits.any():
        fits = width == width[width > 0].min()
    pairs = np.where(fits, pairs, np.inf)
    left, right = np.unravel_index(pairs.argmin(), pairs.shape)
    chosen = int(places[before][left]), int(places[after][right])
    return [
        _more(goal, levels, step, float(usual[places == step][0]))
        for step in chosen
        if step not in (gap.start, gap.end)
    ]


def _places(levels: Levels, gap: Gap, line: RoughCrossing, apart: float) -> np.ndarray:
    """Returns candidate levels around a crossing, both ends of the gap included."""
    near = np.rint(line.step + np.linspace(-apart, apart, 2 * _TRIED + 1))
    beside = [math.floor(line.step), math.ceil(line.step)]
    inside = [step for step in levels if gap.start < step < gap.end]
    places = np.unique(np.concatenate([near, beside, inside]).astype(int))
    places = places[(places > gap.start) & (places < gap.end)]
    return np.concatenate([[gap.start], places, [gap.end]])


def _within(
    goal: Goal, levels: Levels, gap: Gap, needed_evidence: float
) -> list[Wanted]:
    """Requests an open level's decision, or a new level, between two of one side."""
    if gap.middle is None:
        return [Wanted((gap.start + gap.end) // 2, goal.block)]
    middle = levels[gap.middle]
    left = max(1 / middle.seen - 1 / goal.num_images, 0)
    noise = goal.deviation * math.sqrt(left) * _NORMAL
    distance = middle.mean - goal.least + noise
    finish = float(images_needed(goal, distance, needed_evidence).mean())
    return [_more(goal, levels, gap.middle, finish)]


def _inside(gap: Gap, step: float) -> int:
    """Returns the nearest step inside the gap."""
    return min(max(round(step), gap.start + 1), gap.end - 1)


def _more(goal: Goal, levels: Levels, step: int, total: float) -> Wanted:
    """Requests as many more images as may decide the level, but not all at once."""
    seen = seen_at(levels, step)
    grown = seen * (1 + _GROWTH) if seen else _GROWTH * total
    wanted = max(min(grown, total), seen * (1 + _LEAST_GROWTH), seen + goal.block)
    return Wanted(step, rounded_to_blocks(goal, wanted))


METHOD = Method(look, following)
