"""The search for a stated half width, by bands around the curve of few images.

The width, which ends it, says nothing about where the interval lies: its coverage is
that of a sample size fixed in advance (Chow and Robbins 1965).
"""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.bands import (
    BEND,
    Bands,
    Cluster,
    Costs,
    Method,
    RoughCrossing,
    Shape,
    State,
    allowed_widths,
    bands,
    cheapest,
    clusters,
    crossings,
    images_for,
    joint_error_ratio,
    quantile,
    seen_at,
    shape,
    unseen,
)
from jaxrob.strategies._few.estimates import (
    OPEN,
    Accepted,
    Estimates,
    Goal,
    Level,
    Levels,
    Wanted,
    estimates,
)

# The share of the error spent on levels away from the crossings.
_ERROR_FAR = 0.1
# Bands of this error (0.001 in ten looks) may leave so many times the width open.
_ERROR_GROSS, _GROSS = 1e-4, 3.0
# Finding a crossing and levels beside it, as a share of the locating level's images.
_COST_BESIDE = 1.2

# Rounding of mean scores.
_SLACK = 1e-9


def look(strategy: ASAP, state: State, answers: dict[int, np.ndarray]) -> State:
    goal, levels = _with_slack(state.goal), dict(state.levels)
    for step, scores in answers.items():
        levels[step] = Level(scores, OPEN, 0.0)
    seen = {step: one for step, one in levels.items() if one.seen}
    found = estimates(seen, goal.spread)
    now = _safe_bands(goal, found, shape(goal, strategy, found))
    steps = found.steps.astype(float)
    guess = float(accepted_widths(steps, found.means, found.means, goal.least)[0].sum())
    places = crossings(goal, now)
    now = now._replace(joint_error_ratio=joint_error_ratio(goal, seen, found, places))
    closer = (1 - now.joint_error_ratio) * sum(one.straight for one in places) / 2
    low, high = float(now.low.sum()) + closer, float(now.high.sum()) - closer
    sides = now.sides(goal.least).tolist()
    for step, side in zip(found.steps.tolist(), sides):
        levels[step] = levels[step]._replace(side=side)
    if state.accepted.high - state.accepted.low < high - low:
        # A wider interval on the way does not replace the narrower one.
        low, high, _ = state.accepted
    accepted = Accepted(low, high, min(max(guess, low), high))
    is_done = accepted.half_width <= goal.half_width * goal.parts
    return state._replace(
        levels=levels, accepted=accepted, gaps=None, bands=now, is_done=is_done
    )


def following(state: State) -> State:
    assert state.bands is not None
    goal = _with_slack(state.goal)
    half_width = goal.half_width * goal.parts
    if state.bands.z > critical_value(goal):
        half_width *= _GROSS
    levels = {step: one for step, one in state.levels.items() if one.seen}
    wanted = _requests(goal, levels, state.bands, half_width)
    return state._replace(is_done=not wanted, wanted=wanted)


def expected_cost(state: State, half_width: float) -> float:
    """Returns about how many more images a half width needs; 0 if unknown."""
    if state.bands is None:
        return 0.0
    goal, steps, total = state.goal, state.bands.estimates.steps, 0.0
    planned = _planned_deviations(goal, state.bands, half_width * goal.parts)
    for one, deviation in planned.items():
        inside = steps[one.first : one.last + 1].tolist()
        seen = max(state.levels[step].seen for step in inside)
        total += max((1 + _COST_BESIDE) * images_for(goal, deviation) - seen, 0)
    return total


def critical_value(goal: Goal) -> float:
    return quantile((1 - _ERROR_FAR) * goal.error)


def _with_slack(goal: Goal) -> Goal:
    return goal._replace(least=goal.least - _SLACK)


def _safe_bands(goal: Goal, found: Estimates, between: Shape) -> Bands:
    """Returns the usual bands, or far higher ones where these leave far more open."""
    # Near the threshold few flips move a crossing far: the width follows the levels'
    # errors and ends the search. Possible bends are not random; usual bands have them.
    now = _bands(goal, found, between)
    high = bands(goal, found, between, 0.0, max(quantile(_ERROR_GROSS), now.z))
    planned = max(float(now.open.sum()), 2 * goal.half_width * goal.parts)
    return high if float(high.straight.sum()) > _GROSS * planned else now


def _bands(goal: Goal, found: Estimates, between: Shape) -> Bands:
    half_width, z = goal.half_width * goal.parts, critical_value(goal)
    now = bands(goal, found, between, 2 * goal.half_width / z, z)
    for _ in range(2):
        wanted = _planned_deviations(goal, now, half_width)
        if not wanted:
            return now
        now = bands(goal, found, between, min(wanted.values()), z)
    return now


def _planned_deviations(
    goal: Goal, now: Bands, half_width: float
) -> dict[Cluster, float]:
    """Returns the standard errors that locate the crossings well enough."""
    places, z = clusters(goal, now), critical_value(goal)
    given = allowed_widths(goal, places, allowed_width(now, half_width))
    return {
        one: MARGIN * given[one] / 2 * one.crossing.slope / z
        for one in places
        if one.crossing
    }


METHOD = Method(look, following)


# Plans aim at this factor of the allowed width.
MARGIN = 0.9
# A less certain crossing is first located so many times better, up to this share.
_STEP, _ENOUGH = 3.0, 0.8
# A level locates a crossing within so many half widths, if the slope's error shifts
# it by less than this share of the wanted precision.
_OFF, _PUTS_OFF = 1.2, 0.7
# Levels beside a crossing, in half widths; existing ones may be nearer or farther.
_BESIDE, _NEARER, _FARTHER = 2.0, 0.5, 2.5
# Or the distance at which a curve deviates from a line by this share of that half.
_SAG = 0.3
# A slope with a larger relative error is measured before the crossing is known well.
_SLOPE = 0.3
# Too wide a plan is multiplied by this, down to so many steps.
_LESS, _OPEN = 0.93, 1e-6
# Levels more than this many half-widths from the crossing must be decided.
_FAR = 1.5
# If all is as planned and too wide, errors shrink by this, where they and not the
# shape between levels cause this share of it.
_BETTER, _MOST = 0.9, 0.8
# Bounds on the growth of the number of images of a level to decide.
_GROWTH, _LEAST_GROWTH = 2.0, 1.3


class _Plan(NamedTuple):
    costs: Costs
    now: Bands
    cluster: Cluster
    about: RoughCrossing
    half: float  # half the allowed width, in steps


def _requests(
    goal: Goal, levels: Levels, now: Bands, half_width: float
) -> list[Wanted]:
    places, width = clusters(goal, now), allowed_width(now, half_width)
    while places and width > _OPEN:
        given = allowed_widths(goal, places, width)
        left = {one: given[one] for one in places if one.open > given[one]}
        if not left:
            # The shape between levels leaves more open than planned.
            width *= _LESS
        elif wanted := _closing(goal, levels, now, left):
            return wanted
        else:
            # Clusters that no plan narrows stay open; others get the rest.
            places = [one for one in places if one not in left]
            width -= sum(one.open for one in left)
    return _finest(goal, levels, now)


def _closing(
    goal: Goal, levels: Levels, now: Bands, left: dict[Cluster, float]
) -> list[Wanted]:
    """Requests what narrows clusters to their widths, if anything does."""
    plans = []
    for one, width in left.items():
        if about := one.crossing:
            costs = Costs(goal, levels, now.estimates, about.step, about.slope)
            plans.append(_Plan(costs, now, one, about, width / 2))
    # Crossings are located before the levels beside them are looked at.
    vague = [plan for plan in plans if plan.about.uncertainty > plan.half]
    if wanted := unseen(levels, [ask for plan in vague for ask in _approach(plan)]):
        return wanted
    wanted = [ask for plan in plans for ask in _placing(plan)]
    for one in left:
        if one.crossing is None:
            wanted += _deciding(goal, levels, now, one, wanted)
    return unseen(levels, wanted)


def allowed_width(now: Bands, half_width: float) -> float:
    along = float((now.open - now.closable).sum())
    # Along the threshold it stays open; the rest is narrowed.
    return max(2 * half_width - along, half_width) / now.joint_error_ratio


def _approach(plan: _Plan) -> list[Wanted]:
    about = plan.about
    place = max(_ENOUGH * plan.half, about.uncertainty / _STEP)
    half = max(plan.half, plan.now.z * place / MARGIN)
    centre, wanted = _centre(plan, half, place)
    if about.slope_error > _SLOPE:
        wanted += _sides(plan, centre, half, wanted)
    return wanted


def _placing(plan: _Plan) -> list[Wanted]:
    # At the crossing, beside, around: each makes the next cheaper, or unnecessary.
    levels = plan.costs.levels
    centre, wanted = _centre(plan, plan.half, plan.half)
    for more in (_sides, _cleared):
        if new := unseen(levels, wanted):
            return new
        wanted += more(plan, centre, plan.half, wanted)
    if new := unseen(levels, wanted):
        return new
    # Every level is as planned, and the width is still too large.
    first, last = plan.cluster.first, plan.cluster.last
    exact = plan.now.estimates.standard_errors[first : last + 1].min() == 0
    if plan.cluster.straight > _MOST * plan.cluster.open and not exact:
        for step in {one.step for one in wanted} | {centre}:
            better = _BETTER * plan.now.estimates.at(step)[1]
            wanted += cheapest(plan.costs, {step: better}, helped=True)[1]
    return unseen(levels, wanted) or _bisected(plan)


def _centre(plan: _Plan, half: float, place: float) -> tuple[int, list[Wanted]]:
    """Returns the level that locates the crossing to a half width, and its requests."""
    about, steps = plan.about, plan.now.estimates.steps
    start, end = int(steps[plan.cluster.first]), int(steps[plan.cluster.last])
    here = min(max(round(about.step), start + 1), max(end - 1, start))
    reach = max(min(_OFF * half, _PUTS_OFF * place / about.slope_error), 1)
    near = [s for s in plan.costs.levels if abs(s - about.step) <= reach]
    deviation = MARGIN * half * about.slope / plan.now.z
    options = dict.fromkeys([*near, here], deviation)
    return cheapest(plan.costs, options, helped=True)


def _sides(plan: _Plan, centre: int, half: float, asked: list[Wanted]) -> list[Wanted]:
    """Requests a level on either side of a crossing, correlated with the centre."""
    goal, levels, now = plan.costs.goal, plan.costs.levels, plan.now
    at, slope = plan.about.step, plan.about.slope
    seen = [seen_at(levels, centre)]
    seen = max(seen + [one.seen for one in asked if one.step == centre])
    # The centre's error as planned.
    alone = goal.deviation * math.sqrt(1 / seen - 1 / goal.num_images)
    current = now.estimates.at(centre)[1] if centre in levels else math.inf
    centre_error = min(alone, MARGIN * half * slope / now.z, current)
    sag = math.sqrt(_SAG * half * slope * goal.parts**2 / BEND)
    usual = max(_BESIDE * half, sag, 1.0)
    found = []
    for sign in (-1, 1):
        new = min(max(round(at + sign * usual), 0), goal.parts)
        options = {}
        for step in {*levels, new} - {centre}:
            away = sign * (step - at)
            fits = _NEARER * usual <= away <= _FARTHER * usual or step == new
            if fits and away > 0:
                # The band's edge must be `half` away on the line, with the centre's
                # error and a share of the difference's.
                rest = max((slope * half / now.z) ** 2 - centre_error**2, 0)
                options[step] = math.hypot(centre_error, math.sqrt(rest) * away / half)
        if options:
            found += cheapest(plan.costs, options, asked)[1]
    return found


def _cleared(
    plan: _Plan, centre: int, half: float, asked: list[Wanted]
) -> list[Wanted]:
    steps, means, standard_errors, *_ = plan.now.estimates
    least = plan.costs.goal.least
    sides = plan.now.sides(least)
    wanted: list[Wanted] = []
    for i in range(plan.cluster.first, plan.cluster.last + 1):
        step, off = int(steps[i]), abs(float(means[i]) - least)
        far = abs(step - plan.about.step) > _FAR * half
        if sides[i] == 0 and far and step != centre and standard_errors[i] > 0:
            enough = 0.9 * off / float(plan.now.critical_values[i])
            wanted += cheapest(plan.costs, {step: enough}, asked)[1]
    return wanted


def _bisected(plan: _Plan) -> list[Wanted]:
    """Requests the middle of the widest open interval, or more images of all."""
    goal, levels = plan.costs.goal, plan.costs.levels
    steps, at = plan.now.estimates.steps, round(plan.about.step)
    i = _widest(plan.now, plan.cluster)
    if i is None:
        inside = steps[plan.cluster.first : plan.cluster.last + 1].tolist()
        return [goal.request(s, _GROWTH * levels[s].seen) for s in inside]
    start, end = int(steps[i]), int(steps[i + 1])
    middle = (start + end) // 2
    # The expected crossing, unless it is close to a level.
    if start < at < end:
        quarter = max((end - start) // 4, 1)
        middle = min(max(at, start + quarter), end - quarter)
    deviation = max(float(plan.now.estimates.standard_errors[i : i + 2].max()), 1e-9)
    return cheapest(plan.costs, {middle: deviation})[1]


def _deciding(
    goal: Goal, levels: Levels, now: Bands, one: Cluster, asked: list[Wanted]
) -> list[Wanted]:
    steps, means, standard_errors, *_ = now.estimates
    sides = now.sides(goal.least)
    wanted: list[Wanted] = []
    for i in range(one.first, one.last + 1):
        if sides[i] == 0 and standard_errors[i] > 0:
            step, deviation = int(steps[i]), float(standard_errors[i])
            enough = abs(float(means[i]) - goal.least) / float(now.critical_values[i])
            enough = max(enough, deviation / math.sqrt(_GROWTH))
            enough = min(enough, deviation / math.sqrt(_LEAST_GROWTH))
            costs = Costs(goal, levels, now.estimates, step, 0.0)
            wanted += cheapest(costs, {step: enough}, [*asked, *wanted], helped=True)[1]
    i = _widest(now, one)
    if wanted or i is None:
        return wanted
    return [goal.request(int(steps[i] + steps[i + 1]) // 2, goal.block)]


def _widest(now: Bands, one: Cluster) -> int | None:
    """Returns the interval with a level inside that leaves most open."""
    steps, within = now.estimates.steps, range(one.first, one.last)
    wide = [i for i in within if steps[i + 1] - steps[i] > 1]
    return max(wide, key=lambda i: now.closable[i], default=None)


def _finest(goal: Goal, levels: Levels, now: Bands) -> list[Wanted]:
    """Requests finer levels and more images if no plan helps; empty if all are seen."""
    steps = now.estimates.steps
    wanted = []
    for i in np.flatnonzero(now.closable > _OPEN).tolist():
        for step in steps[i : i + 2].tolist():
            if levels[step].seen < goal.num_images:
                wanted.append(goal.request(step, 2 * levels[step].seen))
        if steps[i + 1] - steps[i] > 1:
            middle = int(steps[i] + steps[i + 1]) // 2
            wanted.append(goal.request(middle, goal.block))
    return wanted
