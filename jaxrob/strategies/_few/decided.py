"""The searches that decide each level: adaptively, or of levels given in advance."""

import math

import numpy as np

from jaxrob.metrics._curvature import least_count, open_width
from jaxrob.metrics._testing import count_evidence, mean_evidence
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.bands import (
    Method,
    RoughCrossing,
    State,
    may_cross,
    rough_crossing,
    seen_at,
    unseen,
)
from jaxrob.strategies._few.estimates import (
    ACCEPTED,
    OPEN,
    REJECTED,
    Accepted,
    Gap,
    Goal,
    Level,
    Levels,
    Wanted,
    estimates,
)
from jaxrob.strategies._levels import Uniform

# Rounding of sums of scores, per image.
_SLACK = 1e-9


def side(goal: Goal, level: Level) -> int:
    # A decided level stays decided: evidence that sufficed once suffices.
    if level.side != OPEN or not level.seen:
        return level.side
    if are_counts(level.scores, goal.bounds):
        needed = math.inf if goal.curtail else level.needed_evidence
        right, seen = np.array(round(level.scores.sum())), np.array(level.seen)
        return int(sides_of_counts(right, seen, goal.num_images, goal.least, needed))
    certain = _certain_side(goal, level.scores)
    if certain != OPEN or goal.curtail:
        return certain
    evidence = mean_evidence(level.scores, goal.num_images, goal.least, goal.bounds)
    if evidence.accepted >= level.needed_evidence:
        return ACCEPTED
    return REJECTED if evidence.rejected >= level.needed_evidence else OPEN


def sides_of_counts(
    right: np.ndarray, seen: np.ndarray, total: int, threshold: float, needed: float
) -> np.ndarray:
    """Returns the sides of levels at which so many of the images seen are right."""
    least = least_count(threshold, total)
    evidence = count_evidence(right, seen, total, least)
    accepted = (right >= least) | (evidence.accepted >= needed)
    rejected = (right + total - seen < least) | (evidence.rejected >= needed)
    return np.where(accepted, ACCEPTED, np.where(rejected, REJECTED, OPEN))


def _certain_side(goal: Goal, scores: np.ndarray) -> int:
    """Returns the side if the unseen images cannot change it, or else `OPEN`."""
    (low, high), num_images = goal.bounds, goal.num_images
    left = num_images - len(scores)
    seen, needed, slack = scores.sum(), goal.least * num_images, _SLACK * num_images
    if seen + left * low >= needed - (slack if not left else -slack):
        return ACCEPTED
    return REJECTED if seen + left * high < needed - slack or not left else OPEN


def are_counts(scores: np.ndarray, bounds: tuple[float, float]) -> bool:
    return bounds == (0.0, 1.0) and bool(((scores == 0) | (scores == 1)).all())


def _partition(
    goal: Goal, strategy: ASAP, levels: Levels
) -> tuple[list[Gap], Accepted]:
    """Returns the open intervals between decided levels, and the steps accepted."""
    # What the images seen suggest decides no level: it is promised that none is wrong.
    sides = {step: one.side for step, one in levels.items() if one.side != OPEN}
    decided = np.array(sorted(sides))
    now = estimates(levels, goal.spread)
    steps, means, errors = (
        part[np.searchsorted(now.steps, decided)] for part in now[:3]
    )
    crossing = may_cross(goal, strategy, steps, means, errors)
    inside = np.array(sorted(levels.keys() - sides.keys()), int)
    unknown = open_width(decided, means, goal.least, goal.num_images)
    gaps, accepted, doubted, hoped = [], 0, 0.0, 0.0
    for first, last, may, few in zip(
        decided[:-1].tolist(), decided[1:].tolist(), crossing.tolist(), unknown.tolist()
    ):
        crosses = sides[first] != sides[last]
        within = inside[(inside > first) & (inside < last)].tolist()
        if crosses or within or (may and last - first > 1):
            middle = _middle(goal, levels, within, crosses)
            gaps.append(Gap(first, last, crosses, middle))
        elif sides[first] == ACCEPTED:
            accepted += last - first
            # The flips of a few images may put these below the threshold.
            doubted += few
        else:
            hoped += few
    open_steps = sum(gap.width for gap in gaps)
    low = max(accepted - doubted, 0.0)
    high = min(accepted + open_steps + hoped, goal.parts)
    guess = min(max(accepted + open_steps / 2, low), high)
    return gaps, Accepted(low, high, guess)


def _middle(goal: Goal, levels: Levels, within: list[int], crosses: bool) -> int | None:
    if crosses:
        return max(within, key=lambda step: levels[step].seen, default=None)

    def cost(step: int) -> float:
        distance = levels[step].mean - goal.least
        whole = goal.to_decide(np.array(distance), levels[step].needed_evidence)
        return float(whole) - levels[step].seen

    return min(within, key=cost, default=None)


# The share of the error spent on the first levels.
FIRST = 0.5
# Bounds on the growth of a level's number of images from one look to the next.
_GROWTH, _LEAST_GROWTH = 0.5, 0.25
# Quantiles of a normal variable, for averaging costs.
_NORMAL = np.array([-1.4, -0.6, 0.0, 0.6, 1.4])
# New levels lie at least this many standard errors from a crossing.
_CLEARANCE = 1.5
_TRIED = 48
# Levels beside a crossing may take this share of images; one with this goes on by this.
_CHEAP, _BEGUN, _STRIDE = 0.25, 0.2, 0.25


def look(strategy: ASAP, state: State, answers: dict[int, np.ndarray]) -> State:
    goal, levels = state.goal, dict(state.levels)
    needed_evidence = _needed_evidence(state)
    for step, scores in answers.items():
        old = levels.get(step, Level(scores, OPEN, needed_evidence))
        new = old._replace(scores=scores)
        levels[step] = new._replace(side=side(goal, new))
    if levels[0].side == OPEN or levels[goal.parts].side == OPEN:
        return state._replace(levels=levels)
    gaps, accepted = _partition(goal, strategy, levels)
    half_width = goal.half_width * goal.parts
    is_done = not gaps or accepted.half_width <= half_width
    if goal.half_width == 0:
        is_done = all(gap.width <= 1 for gap in gaps)
    return state._replace(
        levels=levels, accepted=accepted, gaps=gaps, bands=None, is_done=is_done
    )


def following(state: State) -> State:
    goal, levels = state.goal, state.levels
    if state.gaps is None:
        ends = [step for step in (0, goal.parts) if levels[step].side == OPEN]
        wanted = [goal.request(step, 2 * levels[step].seen) for step in ends]
        return state._replace(wanted=wanted)
    wanted = unseen(levels, _requests(state, state.gaps))
    wanted = wanted or _finest(goal, levels, state.gaps)
    return state._replace(is_done=not wanted, wanted=wanted)


def _needed_evidence(state: State) -> float:
    crossings = max(1, sum(gap.crosses for gap in state.gaps or ()))
    return math.log(2 * crossings / ((1 - FIRST) * state.goal.error))


def _requests(state: State, gaps: list[Gap]) -> list[Wanted]:
    goal = state.goal
    now = estimates(state.levels, goal.spread)
    share = max(2 * goal.half_width * goal.parts / max(len(gaps), 1), 1.0)
    wanted: list[Wanted] = []
    for gap in gaps:
        if gap.width <= share and (goal.half_width > 0 or gap.middle is None):
            continue
        if not gap.crosses:
            wanted.append(_within(state, gap))
            continue
        first, last = np.searchsorted(now.steps, [gap.start, gap.end]).tolist()
        about = rough_crossing(goal, now, first, last)
        if goal.half_width > 0:
            wanted += _bracket(state, gap, about, share)
        else:
            wanted += _towards(state, gap, about)
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
            wanted.append(goal.request(step, 2 * levels[step].seen))
        elif gap.width > 1 and middle not in levels:
            wanted.append(Wanted(middle, goal.block))
    return wanted


def _towards(state: State, gap: Gap, about: RoughCrossing) -> list[Wanted]:
    """Requests levels around a crossing while cheap; then one at it, to the end."""
    goal, levels = state.goal, state.levels
    # All images there determine exactly how far away the crossing is.
    beside = about.slope * _CLEARANCE * about.uncertainty
    cost = float(goal.to_decide(np.array(beside), _needed_evidence(state)))
    if cost <= _CHEAP * goal.num_images and gap.width > 4:
        return _bracket(state, gap, about, 1.0)
    near = max(_CLEARANCE * about.uncertainty, 1.0)
    begun = [s for s in levels if gap.start < s < gap.end]
    begun = [s for s in begun if abs(s - about.step) <= near]
    # Just past the crossing as seen from the nearer end, so that the gap becomes short.
    past = 0.5 if about.step - gap.start < gap.end - about.step else -0.5
    here = min(max(round(about.step + past), gap.start + 1), gap.end - 1)
    step = max(begun, key=lambda s: levels[s].seen, default=here)
    if seen_at(levels, step) < _BEGUN * goal.num_images:
        step = here
    more = max(seen_at(levels, step) * (1 + _GROWTH), _STRIDE * goal.num_images)
    return [goal.request(step, more)]


def _bracket(
    state: State, gap: Gap, line: RoughCrossing, wanted: float
) -> list[Wanted]:
    """Requests the cheapest pair of levels around a crossing, within a distance."""
    goal, levels = state.goal, state.levels
    apart = max(wanted, 2 * _CLEARANCE * line.uncertainty, 1.0)
    apart = min(apart, max(gap.width * 0.75, 1.0))
    places = _places(levels, gap, line, apart)
    at = line.step + line.uncertainty * _NORMAL
    distance = line.slope * np.abs(places[:, None] - at)
    each = goal.to_decide(distance, _needed_evidence(state))
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
        _more(state, step, float(usual[places == step][0]))
        for step in chosen
        if step not in (gap.start, gap.end)
    ]


def _places(levels: Levels, gap: Gap, line: RoughCrossing, apart: float) -> np.ndarray:
    near = np.rint(line.step + np.linspace(-apart, apart, 2 * _TRIED + 1))
    beside = [math.floor(line.step), math.ceil(line.step)]
    inside = [step for step in levels if gap.start < step < gap.end]
    places = np.unique(np.concatenate([near, beside, inside]).astype(int))
    places = places[(places > gap.start) & (places < gap.end)]
    return np.concatenate([[gap.start], places, [gap.end]])


def _within(state: State, gap: Gap) -> Wanted:
    goal = state.goal
    if gap.middle is None:
        return Wanted((gap.start + gap.end) // 2, goal.block)
    middle = state.levels[gap.middle]
    left = max(1 / middle.seen - 1 / goal.num_images, 0)
    noise = goal.deviation * math.sqrt(left) * _NORMAL
    distance = middle.mean - goal.least + noise
    finish = float(goal.to_decide(distance, _needed_evidence(state)).mean())
    return _more(state, gap.middle, finish)


def _more(state: State, step: int, total: float) -> Wanted:
    """Requests as many more images as may decide the level, but not all at once."""
    goal, seen = state.goal, seen_at(state.levels, step)
    grown = seen * (1 + _GROWTH) if seen else _GROWTH * total
    wanted = max(min(grown, total), seen * (1 + _LEAST_GROWTH), seen + goal.block)
    return goal.request(step, wanted)


METHOD = Method(look, following)


def look_at_fixed(
    strategy: Uniform, state: State, answers: dict[int, np.ndarray]
) -> State:
    # Robustness is the share of levels accepted (2020 paper, Definition 5).
    goal, levels = state.goal, dict(state.levels)
    for step, scores in answers.items():
        new = levels[step]._replace(scores=scores)
        levels[step] = new._replace(side=side(goal, new))
    low = sum(one.side == ACCEPTED for one in levels.values())
    high = low + sum(one.side == OPEN for one in levels.values())
    guess = sum(
        one.side == ACCEPTED or (one.side == OPEN and one.mean >= goal.least)
        for one in levels.values()
    )
    accepted = Accepted(low, high, guess)
    is_done = accepted.half_width <= goal.half_width * goal.parts
    return state._replace(levels=levels, accepted=accepted, is_done=is_done)


def following_of_fixed(state: State) -> State:
    """Requests the open levels that are cheapest to decide, as many as necessary."""
    cost, goal = {}, state.goal
    for step, one in state.levels.items():
        if one.side == OPEN:
            off = np.array(one.mean - goal.least)
            noise = goal.deviation / math.sqrt(one.seen)
            off = np.maximum(np.abs(off), noise / 2)
            cost[step] = float(goal.to_decide(off, one.needed_evidence))
    may_stay = math.floor(2 * goal.half_width * goal.parts)
    cheapest = sorted(cost, key=lambda s: cost[s])[: max(len(cost) - may_stay, 0)]
    wanted = []
    for step in cheapest:
        seen = state.levels[step].seen
        more = max(min(seen * (1 + _GROWTH), cost[step]), seen + goal.block)
        wanted.append(goal.request(step, more))
    return state._replace(is_done=not wanted, wanted=wanted)


FIXED_LEVELS = Method(look_at_fixed, following_of_fixed)
