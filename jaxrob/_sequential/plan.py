"""What to look at next, so that little stays open for few images."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob._sequential.crossing import Placed, Rough, beside, reach, rough
from jaxrob._sequential.gaps import Gap
from jaxrob._sequential.interval import curvature, deviation
from jaxrob._sequential.task import (
    ACCEPTED,
    Levels,
    Request,
    Task,
    decided_by,
    images_needed,
    in_blocks,
    widest_line,
)

# By how much the images of a level grow from one look to the next, at most and least.
_GROWTH, _LEAST_GROWTH = 0.5, 0.25
# Quantiles of a normal variable, at which costs are averaged.
_NORMAL = np.array([-1.4, -0.6, 0.0, 0.6, 1.4])
# Levels are not set closer to a crossing than so many of its standard deviations.
_UNSURE = 1.5
# Levels tried on either side of a crossing.
_TRIED = 48
# A crossing is bracketed by levels that take so many of the images of the level which
# then places it between them.
_BRACKET = 0.08
# What more images of the centre do not improve may take this share of the half width.
FIXED = 0.6
# A level brackets a crossing if it is between these multiples of the distance wanted.
_FARTHER, _NEARER = 1.8, 0.4
# The level that is to place a crossing takes this share of its images first, to tell
# whether it is well placed; from the second share on it is not given up for another.
_PILOT, _PILOT_ENDS = 0.15, 0.6
# A pilot is well placed within this share of what may stay open.
_OFF = 0.7
# Slopes are known well enough at this relative deviation.
_UNSURE_SLOPE = 0.2
# About so many images are to change between two levels that tell a slope.
_CHANGES = 16
# A level nearer to a crossing than the centre is looked at with so many of its images.
_FIRST_ANCHOR = 0.2
# Where a planned look did not suffice, a level at the crossing, at first with so many
# of the images needed.
_SECOND = 0.4
# Levels beside a crossing are cheap that take so many of all images. One at it that has
# so many is gone on with, by so many at once.
_CHEAP, _BEGUN, _STRIDE = 0.25, 0.2, 0.25
# From fewer steps off no other level is nearer.
_NO_NEARER = 1.5


class _Aim(NamedTuple):
    """What is wanted of one crossing.

    Attributes:
      share: how many steps may stay open there.
      needed: how many images place all crossings well enough.
      price: the evidence at which a new level counts as decided.
    """

    share: float
    needed: float
    price: float


def requests(
    task: Task,
    levels: Levels,
    gaps: list[Gap],
    placed_at: dict[Gap, Placed],
    needed: float,
    price: float,
    width: float,
) -> list[Request]:
    """The levels to look at next.

    Args:
      task: the question.
      levels: what was seen.
      gaps: what is open.
      placed_at: the crossings that one level places.
      needed: how many images place the crossings well enough.
      price: the evidence at which a new level counts as decided.
      width: how many steps may stay open in all.
    """
    roughly = {gap: rough(task, levels, gap) for gap in gaps if gap.crosses}
    shares = _shares(task, gaps, roughly, width)
    first: list[Request] = []  # What all else depends on.
    then: list[Request] = []
    for gap in gaps:
        share = shares[gap]
        if gap.width <= max(share, 1) and (task.precision > 0 or gap.middle is None):
            continue
        if not gap.crosses:
            first += _within(task, levels, gap, share, price)
        elif task.precision == 0:
            first += _towards(task, levels, gap, roughly[gap], price)
        else:
            aim = _Aim(share, needed, price)
            ends, last = _placing(task, levels, gap, roughly[gap], placed_at, aim)
            first += ends
            then += last
    if first or then:
        return first or then
    # All is done as planned, and does not suffice.
    for gap, about in roughly.items():
        if gap.width <= max(shares[gap], 1):
            continue
        here = _inside(gap, about.step)
        if gap in placed_at and _seen(levels, here) < 0.8 * needed:
            more = max(_SECOND * needed, _seen(levels, here) * (1 + _GROWTH))
            first.append(Request(here, in_blocks(task, min(more, needed))))
        else:
            first += _bracket(task, levels, gap, about, shares[gap], price)
    return first


def _placing(
    task: Task,
    levels: Levels,
    gap: Gap,
    about: Rough,
    placed_at: dict[Gap, Placed],
    aim: _Aim,
) -> tuple[list[Request], list[Request]]:
    """What one crossing needs at first, and what only once all are that far."""
    # As far as a few of the images that the level between needs can tell.
    cheap = max(_BRACKET * aim.needed, task.block)
    far = max(decided_by(task, cheap, aim.price) / about.slope, 2.0)
    far = max(far, _UNSURE * about.uncertainty)
    far = min(far, widest_line(task) / 2 / _FARTHER)
    ends = _ends(task, levels, gap, about, far, aim.price)
    if ends:
        return ends, []
    line = placed_at.get(gap)
    first = _pilot(task, levels, gap, about, line, aim)
    if line is None:
        return first, []
    anchor = _anchor(task, levels, gap, line, aim.share / 2)
    if anchor and line.scatter(task) <= aim.share / 2:
        return first + anchor, []
    if not anchor and levels[line.centre].seen < aim.needed:
        anchor = [Request(line.centre, in_blocks(task, aim.needed))]
    return first, anchor


def finest(task: Task, levels: Levels, gaps: list[Gap]) -> list[Request]:
    """What is left to look at if no plan helps; nothing if all that can be was seen."""
    wanted = []
    for gap in gaps:
        inside = [step for step in levels if gap.start < step < gap.end]
        begun = [step for step in inside if levels[step].seen < task.num_images]
        middle = (gap.start + gap.end) // 2
        if begun:
            step = max(begun, key=lambda step: levels[step].seen)
            wanted.append(Request(step, in_blocks(task, 2 * levels[step].seen)))
        elif gap.width > 1 and middle not in levels:
            wanted.append(Request(middle, task.block))
    return wanted


def _shares(
    task: Task, gaps: list[Gap], roughly: dict[Gap, Rough], width: float
) -> dict[Gap, float]:
    """How much of each gap may stay open, so that all together cost the least."""
    # A gap of w costs about 1 / (slope w)^2: least, for a fixed sum, at these shares.
    rest = {}
    for gap in gaps:
        slope = roughly[gap].slope if gap in roughly else 2 / task.parts
        rest[gap] = slope ** (-2 / 3)
    shares: dict[Gap, float] = {}
    left = float(width)
    # Gaps that are narrower than their share leave theirs to the others.
    while rest:
        total = sum(rest.values())
        narrow = [gap for gap in rest if gap.width <= left * rest[gap] / total]
        for gap in narrow:
            shares[gap] = float(gap.width)
            left -= gap.width
            del rest[gap]
        if not narrow:
            return shares | {gap: left * rest[gap] / total for gap in rest}
    return shares


def _ends(
    task: Task, levels: Levels, gap: Gap, about: Rough, far: float, price: float
) -> list[Request]:
    """Levels on either side of a crossing, about so far from it, where ends are not."""
    wanted = []
    for end, sign in ((gap.start, -1), (gap.end, 1)):
        if abs(end - about.step) <= _FARTHER * far:
            continue
        costs = {}
        for step in [*levels, _inside(gap, about.step + sign * far)]:
            away = sign * (step - about.step)
            if not (gap.start < step < gap.end and 0 < away <= _FARTHER * far):
                continue
            off = about.slope * max(away, _NEARER * far)
            if step in levels:
                off = min(off, abs(levels[step].mean - task.least))
            total = float(images_needed(task, np.array(off), price))
            left = max(total - _seen(levels, step), task.block)
            costs[step] = left, -away, total
        if costs:
            step = min(costs, key=lambda step: costs[step])
            wanted.append(_more(task, levels, step, costs[step][-1]))
    return wanted


def _pilot(
    task: Task,
    levels: Levels,
    gap: Gap,
    about: Rough,
    line: Placed | None,
    aim: _Aim,
) -> list[Request]:
    """A few images of the level that is to place a crossing, and of those around it."""
    pilot = max(task.block, _PILOT * aim.needed)
    centre = gap.middle if line is None else line.centre
    seen = 0 if centre is None else levels[centre].seen
    if centre is None or seen < _PILOT_ENDS * aim.needed:
        # Is there a better place? It costs little yet.
        here = _inside(gap, about.step)
        off = math.inf if centre is None else abs(centre - about.step)
        if off > max(_OFF * aim.share, about.uncertainty, 1):
            return [Request(here, in_blocks(task, max(pilot, 1.3 * seen)))]
    assert centre is not None
    if seen < pilot:
        return [Request(centre, in_blocks(task, pilot))]
    wanted: list[Request] = []
    if line is None or line.unsure > _UNSURE_SLOPE:
        wanted = [_slope(task, levels, centre, sign, about) for sign in (-1, 1)]
        wanted = [one for one in wanted if one.seen > _seen(levels, one.step)]
        wanted = [one for one in wanted if _seen(levels, one.step) < seen]
        if line is None and not wanted:
            wanted = _nearer(task, levels, centre)
        if line is None and not wanted:
            return _bracket(task, levels, gap, about, aim.share, aim.price)
    return wanted


def _nearer(task: Task, levels: Levels, centre: int) -> list[Request]:
    """Levels nearer to another where the curve bends too much between those around."""
    wanted = []
    for sign in (-1, 1):
        nearest = beside(task, levels, centre, sign)[:1]
        for step in nearest:
            here = centre + sign * round(abs(step - centre) / 2)
            if here not in levels and abs(here - centre) >= reach(task) / 2:
                seen = min(levels[step].seen, levels[centre].seen)
                wanted.append(Request(here, in_blocks(task, seen)))
    return wanted


def _anchor(
    task: Task, levels: Levels, gap: Gap, line: Placed, half: float
) -> list[Request]:
    """A level nearer to the crossing than the centre, where that is too far off."""
    if deviation([line]) + curvature([line]) <= FIXED * half:
        return []
    falls = 1 if levels[gap.start].side == ACCEPTED else -1
    off = float(line.offsets.mean()) + line.moved
    here = _inside(gap, line.anchor + falls * off)
    if line.off < _NO_NEARER or here in (line.centre, line.anchor):
        return []
    most = levels[line.centre].seen
    seen = _seen(levels, here)
    wanted = max(_FIRST_ANCHOR * most, seen * (1 + _GROWTH))
    return [Request(here, in_blocks(task, min(wanted, most)))]


def _slope(task: Task, levels: Levels, centre: int, sign: int, about: Rough) -> Request:
    """A level that tells the slope on one side of another."""
    there = beside(task, levels, centre, sign)
    step = max(there, key=lambda step: levels[step].seen, default=None)
    if step is None:
        away = max(round(2 * reach(task)), 1)
        step = min(max(centre + sign * away, 0), task.parts)
    # So many images of which single ones change between the two.
    change = max(about.slope * abs(step - centre), 1 / task.num_images)
    seen = _seen(levels, step)
    enough = _CHANGES / change / (1 + _CHANGES / change / task.num_images)
    return Request(step, in_blocks(task, max(enough, seen * (1 + _GROWTH))))


def _towards(
    task: Task, levels: Levels, gap: Gap, about: Rough, price: float
) -> list[Request]:
    """Levels that bracket a crossing while that is cheap; then one at it, to the end.

    Of that one all images tell exactly how far the crossing is.
    """
    beside = about.slope * _UNSURE * about.uncertainty
    cost = float(images_needed(task, np.array(beside), price))
    if cost <= _CHEAP * task.num_images and gap.width > 4:
        return _bracket(task, levels, gap, about, 1.0, price)
    near = max(_UNSURE * about.uncertainty, 1.0)
    begun = [s for s in levels if gap.start < s < gap.end]
    begun = [s for s in begun if abs(s - about.step) <= near]
    # Just past the crossing as seen from the nearer end: then the gap is a short one.
    past = 0.5 if about.step - gap.start < gap.end - about.step else -0.5
    here = _inside(gap, about.step + past)
    step = max(begun, key=lambda s: levels[s].seen, default=here)
    if _seen(levels, step) < _BEGUN * task.num_images:
        step = here
    more = max(_seen(levels, step) * (1 + _GROWTH), _STRIDE * task.num_images)
    return [Request(step, in_blocks(task, more))]


def _bracket(
    task: Task, levels: Levels, gap: Gap, line: Rough, wanted: float, price: float
) -> list[Request]:
    """The cheapest pair of levels around a crossing, no farther apart than wanted."""
    apart = max(wanted, 2 * _UNSURE * line.uncertainty, 1.0)
    apart = min(apart, max(gap.width * 0.75, 1.0))
    places = _places(levels, gap, line, apart)
    at = line.step + line.uncertainty * _NORMAL
    distance = line.slope * np.abs(places[:, None] - at)
    each = images_needed(task, distance, price)
    total, usual = each.mean(axis=1), np.median(each, axis=1)
    seen = np.array([_seen(levels, step) for step in places.tolist()])
    cost = np.maximum(total - seen, task.block)
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
        _more(task, levels, step, float(usual[places == step][0]))
        for step in chosen
        if step not in (gap.start, gap.end)
    ]


def _places(levels: Levels, gap: Gap, line: Rough, apart: float) -> np.ndarray:
    """Levels that may be looked at around a crossing, both ends of the gap included."""
    near = np.rint(line.step + np.linspace(-apart, apart, 2 * _TRIED + 1))
    beside = [math.floor(line.step), math.ceil(line.step)]
    inside = [step for step in levels if gap.start < step < gap.end]
    places = np.unique(np.concatenate([near, beside, inside]).astype(int))
    places = places[(places > gap.start) & (places < gap.end)]
    return np.concatenate([[gap.start], places, [gap.end]])


def _within(
    task: Task, levels: Levels, gap: Gap, share: float, price: float
) -> list[Request]:
    """Between two levels of one side: an open one decided, or others from closer by."""
    if gap.middle is None:
        return [Request((gap.start + gap.end) // 2, task.block)]
    middle = levels[gap.middle]
    left = max(1 / middle.seen - 1 / task.num_images, 0)
    noise = task.deviation * math.sqrt(left) * _NORMAL
    here = middle.mean - task.least
    finish = float(images_needed(task, here + noise, price).mean())
    beside, cost = [], 0.0
    for end in (gap.start, gap.end):
        away = max(1, math.floor(min(share / 2, abs(end - gap.middle))))
        step = gap.middle + int(math.copysign(away, end - gap.middle))
        if step == end:
            continue
        part = (step - gap.middle) / (end - gap.middle)
        there = here + part * (levels[end].mean - task.least - here)
        total = float(images_needed(task, there + noise, price).mean())
        beside.append((step, total))
        cost += max(total - _seen(levels, step), task.block)
    if share <= 2 or finish - middle.seen <= cost or not beside:
        return [_more(task, levels, gap.middle, finish)]
    return [_more(task, levels, step, total) for step, total in beside]


def _inside(gap: Gap, step: float) -> int:
    """The nearest step that is inside the gap."""
    return min(max(round(step), gap.start + 1), gap.end - 1)


def _seen(levels: Levels, step: int) -> int:
    return levels[step].seen if step in levels else 0


def _more(task: Task, levels: Levels, step: int, total: float) -> Request:
    """As many images more as may decide the level, but not all at once."""
    seen = _seen(levels, step)
    grown = seen * (1 + _GROWTH) if seen else _GROWTH * total
    wanted = max(min(grown, total), seen * (1 + _LEAST_GROWTH), seen + task.block)
    return Request(step, in_blocks(task, wanted))
