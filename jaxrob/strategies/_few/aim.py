"""What to look at next, so that bands leave little open for few images."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.bands import Bands
from jaxrob.strategies._few.cheapest import Costs, cheapest, seen_at
from jaxrob.strategies._few.clusters import Cluster, clusters, crossings, shares
from jaxrob.strategies._few.crossing import BEND, Rough
from jaxrob.strategies._few.goal import Goal, Levels, Wanted, in_blocks

# The plan is for so much less than what may stay open.
MARGIN = 0.9
# A crossing that is known worse than half of what may stay open is first placed so many
# times as well, but no better than this share of that.
_STEP, _ENOUGH = 3.0, 0.8
# A level places a crossing from so far away, in halves of what may stay open, but only
# from where the slope's error puts the crossing off by less than this share of the
# accuracy that is wanted of its place.
_OFF, _PUTS_OFF = 1.2, 0.7
# How far from a crossing levels stand beside it, in the same unit, and which others,
# nearer or farther by these factors, do as well.
_BESIDE, _NEARER, _FARTHER = 2.0, 0.5, 2.5
# Or as far as a curve leaves a line by this share of what is to stay open.
_SAG = 0.3
# A slope that may be off by more is asked for before the crossing is known well.
_SLOPE = 0.3
# So much of the width is planned for where what was planned does not suffice, down to
# so many steps.
_LESS, _OPEN = 0.93, 1e-6
# From so far on, levels beside a crossing are to be decided.
_FAR = 1.5
# Where all is as planned and does not suffice, the levels' deviations are to shrink by
# this factor, if these and not the shape between them leave so much of what is open.
_BETTER, _MOST = 0.9, 0.8
# By how much images grow, at most and at least, that are to decide a level.
_GROWTH, _LEAST_GROWTH = 2.0, 1.3


class _Plan(NamedTuple):
    """How one crossing is placed.

    Attributes:
      known: what its levels' costs depend on.
      now: the bands.
      cluster: what is open.
      about: where it crosses.
      half: half the steps that may stay open.
      z: half the height of the bands, in standard deviations.
    """

    known: Costs
    now: Bands
    cluster: Cluster
    about: Rough
    half: float
    z: float

    @property
    def is_near(self) -> bool:
        """Whether the crossing is known well enough to be planned to the end."""
        return self.about.uncertainty <= self.half


def requests(
    goal: Goal, levels: Levels, now: Bands, z: float, half_width: float
) -> list[Wanted]:
    """The levels to look at next; none if nothing more can be told on this grid.

    Args:
      goal: the goal.
      levels: what was seen.
      now: what is open.
      z: half the height of the bands, in standard deviations.
      half_width: half the steps that may stay open.
    """
    found = clusters(goal, now)
    places = crossings(goal, now, found)
    width = may_stay_open(now, half_width)
    while found and width > _OPEN:
        given = shares(goal, found, places, width)
        left = {one: given[one] for one in found if one.open > given[one]}
        if not left:
            # The shape between levels leaves more open than was planned for.
            width *= _LESS
        elif wanted := _closing(goal, levels, now, left, places, z):
            return wanted
        else:
            # What no plan helps stays open, and the others get the rest.
            found = [one for one in found if one not in left]
            width -= sum(one.open for one in left)
    return _finest(goal, levels, now)


def _closing(
    goal: Goal,
    levels: Levels,
    now: Bands,
    left: dict[Cluster, float],
    places: dict[Cluster, Rough],
    z: float,
) -> list[Wanted]:
    """What closes clusters but for so many steps; nothing if no plan does."""
    plans = []
    for one, width in left.items():
        if about := places.get(one):
            known = Costs(goal, levels, now.estimates, about.step, about.slope)
            plans.append(_Plan(known, now, one, about, width / 2, z))
    # Crossings are found before what is beside them is looked at.
    far = [ask for plan in plans if not plan.is_near for ask in _approach(plan)]
    if wanted := _new(levels, far):
        return wanted
    wanted = [ask for plan in plans for ask in _placing(plan)]
    for one in left:
        if one not in places:
            wanted += _deciding(goal, levels, now, one, wanted)
    return _new(levels, wanted)


def may_stay_open(now: Bands, half_width: float) -> float:
    """How many steps that may be closed may stay open, for a half width in all."""
    along = float((now.open - now.closable).sum())
    # Where it runs along the threshold it stays open: then the rest is still closed.
    return max(2 * half_width - along, half_width) / now.together


def _new(levels: Levels, wanted: list[Wanted]) -> list[Wanted]:
    return [one for one in wanted if one.seen > seen_at(levels, one.step)]


def _approach(plan: _Plan) -> list[Wanted]:
    """What tells the crossing's place a few times as well."""
    about = plan.about
    place = max(_ENOUGH * plan.half, about.uncertainty / _STEP)
    half = max(plan.half, plan.z * place / MARGIN)
    centre, wanted = _centre(plan, half, place)
    if about.unsure > _SLOPE:
        wanted += _sides(plan, centre, half, wanted)
    return wanted


def _placing(plan: _Plan) -> list[Wanted]:
    """The level at a crossing, then those on either side of it, then those around.

    What the first tells makes the next cheaper, or shows that they are not needed.
    """
    levels = plan.known.levels
    centre, wanted = _centre(plan, plan.half, plan.half)
    if new := _new(levels, wanted):
        return new
    wanted += _sides(plan, centre, plan.half, wanted)
    if new := _new(levels, wanted):
        return new
    wanted += _cleared(plan, centre, wanted)
    if new := _new(levels, wanted):
        return new
    # All is as planned, and does not suffice.
    first, last = plan.cluster.first, plan.cluster.last
    exact = plan.now.estimates.deviations[first : last + 1].min() == 0
    if plan.cluster.straight > _MOST * plan.cluster.open and not exact:
        for step in {one.step for one in wanted} | {centre}:
            better = _BETTER * plan.now.estimates.at(step)[1]
            wanted += cheapest(plan.known, {step: better}, helped=True)[1]
    return _new(levels, wanted) or _bisected(plan)


def _centre(plan: _Plan, half: float, place: float) -> tuple[int, list[Wanted]]:
    """The level that places the crossing to a half width, and what that takes.

    Args:
      plan: the plan.
      half: the half width.
      place: how far off the crossing may be placed, in steps.
    """
    about, steps = plan.about, plan.now.estimates.steps
    start, end = int(steps[plan.cluster.first]), int(steps[plan.cluster.last])
    here = min(max(round(about.step), start + 1), max(end - 1, start))
    reach = max(min(_OFF * half, _PUTS_OFF * place / about.unsure), 1)
    near = [s for s in plan.known.levels if abs(s - about.step) <= reach]
    deviation = MARGIN * half * about.slope / plan.z
    options = dict.fromkeys([*near, here], deviation)
    return cheapest(plan.known, options, helped=True)


def _sides(plan: _Plan, centre: int, half: float, wanted: list[Wanted]) -> list[Wanted]:
    """A level on either side of a crossing, which few images tell from the centre."""
    goal, at, slope = plan.known.goal, plan.about.step, plan.about.slope
    told = _told(plan, centre, wanted, MARGIN * half * slope / plan.z)
    sag = math.sqrt(_SAG * half * slope * goal.parts**2 / BEND)
    usual = max(_BESIDE * half, sag, 1.0)
    found = []
    for sign in (-1, 1):
        new = min(max(round(at + sign * usual), 0), goal.parts)
        options = {}
        for step in {*plan.known.levels, new} - {centre}:
            away = sign * (step - at)
            fits = _NEARER * usual <= away <= _FARTHER * usual or step == new
            if fits and away > 0:
                # The band's edge is to be half away on the line to the centre, which
                # errs as the centre does and by its share of their difference.
                rest = max((slope * half / plan.z) ** 2 - told**2, 0)
                options[step] = math.hypot(told, math.sqrt(rest) * away / half)
        if options:
            found += cheapest(plan.known, options, wanted)[1]
    return found


def _told(plan: _Plan, centre: int, wanted: list[Wanted], aim: float) -> float:
    """The deviation of the centre once what is wanted was seen."""
    goal, levels = plan.known.goal, plan.known.levels
    asked = [one.seen for one in wanted if one.step == centre]
    seen = max([seen_at(levels, centre), *asked])
    alone = goal.deviation * math.sqrt(1 / seen - 1 / goal.num_images)
    known = plan.now.estimates.at(centre)[1] if centre in levels else math.inf
    return min(alone, aim, known)


def _cleared(plan: _Plan, centre: int, asked: list[Wanted]) -> list[Wanted]:
    """Levels away from the crossing that are still open."""
    steps, means, deviations, *_ = plan.now.estimates
    least = plan.known.goal.least
    sides = plan.now.sides(least)
    wanted: list[Wanted] = []
    for i in range(plan.cluster.first, plan.cluster.last + 1):
        step, off = int(steps[i]), abs(float(means[i]) - least)
        far = abs(step - plan.about.step) > _FAR * plan.half
        if sides[i] == 0 and far and step != centre and deviations[i] > 0:
            enough = 0.9 * off / float(plan.now.multiples[i])
            wanted += cheapest(plan.known, {step: enough}, asked)[1]
    return wanted


def _bisected(plan: _Plan) -> list[Wanted]:
    """A level in the widest open interval; with none, more images of all around."""
    goal, levels = plan.known.goal, plan.known.levels
    steps = plan.now.estimates.steps
    places = range(plan.cluster.first, plan.cluster.last)
    wide = [i for i in places if steps[i + 1] - steps[i] > 1]
    if not wide:
        inside = steps[plan.cluster.first : plan.cluster.last + 1].tolist()
        return [Wanted(s, in_blocks(goal, _GROWTH * levels[s].seen)) for s in inside]
    i = max(wide, key=lambda i: plan.now.closable[i])
    start, end = int(steps[i]), int(steps[i + 1])
    middle = (start + end) // 2
    # Where the crossing is expected, unless a level is there.
    if start < round(plan.about.step) < end:
        quarter = max((end - start) // 4, 1)
        middle = min(max(round(plan.about.step), start + quarter), end - quarter)
    deviation = max(float(plan.now.estimates.deviations[i : i + 2].max()), 1e-9)
    return cheapest(plan.known, {middle: deviation})[1]


def _deciding(
    goal: Goal, levels: Levels, now: Bands, one: Cluster, asked: list[Wanted]
) -> list[Wanted]:
    """Levels of which it is open whether they are on the side of those around."""
    steps, means, deviations, *_ = now.estimates
    sides = now.sides(goal.least)
    wanted: list[Wanted] = []
    for i in range(one.first, one.last + 1):
        if sides[i] == 0 and deviations[i] > 0:
            step, deviation = int(steps[i]), float(deviations[i])
            enough = abs(float(means[i]) - goal.least) / float(now.multiples[i])
            enough = max(enough, deviation / math.sqrt(_GROWTH))
            enough = min(enough, deviation / math.sqrt(_LEAST_GROWTH))
            known = Costs(goal, levels, now.estimates, step, 0.0)
            wanted += cheapest(known, {step: enough}, [*asked, *wanted], helped=True)[1]
    if wanted:
        return wanted
    wide = [i for i in range(one.first, one.last) if steps[i + 1] - steps[i] > 1]
    if not wide:
        return []
    i = max(wide, key=lambda i: now.closable[i])
    return [Wanted(int(steps[i] + steps[i + 1]) // 2, in_blocks(goal, goal.block))]


def _finest(goal: Goal, levels: Levels, now: Bands) -> list[Wanted]:
    """What is left to look at if no plan helps; nothing if all that can be was seen."""
    steps = now.estimates.steps
    wanted = []
    for i in np.flatnonzero(now.closable > _OPEN).tolist():
        for step in steps[i : i + 2].tolist():
            if levels[step].seen < goal.num_images:
                wanted.append(Wanted(step, in_blocks(goal, 2 * levels[step].seen)))
        if steps[i + 1] - steps[i] > 1:
            middle = int(steps[i] + steps[i + 1]) // 2
            wanted.append(Wanted(middle, in_blocks(goal, goal.block)))
    return wanted
