"""Where a curve crosses the threshold: roughly, and from one level beside the crossing.

A level beside the crossing says how far the curve is from the threshold there, and the
levels around it how steep it is. So one level with many images places the crossing,
where two levels, one on either side, would each need as many to be decided.
"""

import math
from typing import NamedTuple

import numpy as np

from jaxrob._sequential.gaps import Gap
from jaxrob._sequential.task import ACCEPTED, Levels, Task

# Concavity by which a curve may leave a line, per squared range.
_BEND = 8.0
# A line is none whose slopes on both sides of a level differ by more than twice this
# share of their mean, or are known no better than this.
_MOST_BENT = 0.6
_MOST_UNSURE = 0.35
# Levels with so many of the most images seen in a gap are as good.
_CLOSE = 0.8
# So many of the centre's images at least tell how another level differs from it.
_ANCHOR = 0.1
# No level places a crossing farther away than this share of the stretch beside it.
_FARTHEST = 0.7
# How far from a level its slopes are told, in units of the precision: a curve that is
# straight there is straight where it counts.
_NEAREST_SLOPE, _FARTHEST_SLOPE = 0.5, 2.6
# A mean that changes by less than this over the range may be flatter still near the
# threshold: its slopes are told from no farther away than this, and better.
_FLATTEST = 0.4  # Then it is not taken for a line at all.
_FLAT, _FAR_IF_FLAT, _BENT_IF_FLAT, _UNSURE_IF_FLAT = 0.8, 1.5, 0.5, 0.25
# So many levels on either side are tried.
_MOST_BESIDE = 4
# The least of these units, as a share of the range: closer by, levels differ by so few
# images that many are needed to tell a slope.
_LEAST_REACH = 0.012


class Rough(NamedTuple):
    """Where a crossing is about, from all levels around.

    Attributes:
      step: where, a fraction of a step.
      slope: of the mean score per step, above 0.
      uncertainty: of the place, one standard deviation, in steps.
    """

    step: float
    slope: float
    uncertainty: float


class Placed(NamedTuple):
    """A crossing placed by one level, the centre, with help of one nearer by.

    Attributes:
      centre: the level with many images.
      anchor: the level from which the line is followed: the centre, or one nearer to
        the crossing, whose difference from the centre fewer images tell.
      accepted: how many steps of the gap are accepted, were the crossing at the anchor.
      offsets: float64 `[n]`, for each image of the centre by how much more is accepted,
        in steps; with `moved`, their mean is by how much the crossing is off.
      moved: by how much the anchor's mean differs from the centre's, in steps.
      moved_deviation: the standard deviation of that, in steps.
      bent: half the difference of the slopes on either side, and one standard deviation
        of that, as a share of the slope.
      unsure: by how much because few images tell it, as a share.
      strays: by how much the crossing may be off the line because images are few even
        in all, a standard deviation in steps.
    """

    centre: int
    anchor: int
    accepted: int
    offsets: np.ndarray
    moved: float
    moved_deviation: float
    bent: float
    unsure: float
    strays: float

    @property
    def off(self) -> float:
        """How far the crossing is from the anchor, in steps."""
        return abs(float(self.offsets.mean()) + self.moved)

    @property
    def deviation(self) -> float:
        """Of what more images of the centre do not improve, in steps."""
        return math.hypot(self.unsure * self.off, self.strays, self.moved_deviation)

    def scatter(self, task: Task) -> float:
        """The standard deviation of the centre's mean, in steps."""
        left = max(1 / len(self.offsets) - 1 / task.num_images, 0)
        return float(self.offsets.std()) * math.sqrt(left)

    @property
    def inaccuracy(self) -> float:
        """About how far the crossing may be off because the line may, in steps."""
        scatter = float(self.offsets.std()) / len(self.offsets) ** 0.5
        return 2 * self.deviation + self.bent * (self.off + scatter)

    @property
    def curved(self) -> float:
        """By how much the slope may be off because the curve bends, at most."""
        return self.bent / max(1 - self.bent, 0.1)

    @property
    def is_line(self) -> bool:
        """Whether the curve is straight enough for the crossing to be placed so."""
        return self.bent <= _MOST_BENT and self.unsure <= _MOST_UNSURE


class _Side(NamedTuple):
    """What a level tells of the slope on one side of the centre.

    Attributes:
      distance: from the centre, in steps.
      slope: of the mean score per step, towards the threshold above 0.
      variance: of the slope, because images are few.
      flips: per step, the variance of an image's change.
    """

    distance: int
    slope: float
    variance: float
    flips: float


def rough(task: Task, levels: Levels, gap: Gap) -> Rough:
    """Where the crossing in a gap is about."""
    steps = np.array(sorted(levels))
    values = np.array([levels[step].mean for step in steps.tolist()]) - task.least
    seen = np.array([levels[step].seen for step in steps.tolist()])
    falls = 1.0 if levels[gap.start].side == ACCEPTED else -1.0
    first, last = (falls * values[steps == end][0] for end in (gap.start, gap.end))
    rise = max(first - last, 1 / task.num_images)
    secant = rise / gap.width
    step = gap.start + float(np.clip(first / rise, 0, 1)) * gap.width
    inside = (steps >= gap.start) & (steps <= gap.end)
    beyond = np.maximum(np.abs(steps - step) - gap.width / 2, 0)
    off = _BEND * np.square((beyond + gap.width / 2 * ~inside) / task.parts)
    noise = task.deviation**2 * (1 / seen - 1 / task.num_images)
    weights = 1 / (noise + np.square(off) + (0.25 / task.num_images) ** 2)
    weights /= weights.max()
    centre = (weights @ steps) / weights.sum()
    mean = (weights @ values) / weights.sum()
    spread = max(weights @ np.square(steps - centre), 1e-9)
    slope = -falls * (weights @ ((steps - centre) * (values - mean))) / spread
    if slope > 0.2 * secant:
        step = centre + falls * mean / slope
    else:
        slope = secant
    most = seen[inside | (np.abs(steps - step) <= gap.width)].max()
    deviation = task.deviation * math.sqrt(max(1 / most - 1 / task.num_images, 0))
    bent = _BEND * (gap.width / task.parts) ** 2 / 24
    uncertainty = (deviation + bent) / slope
    if not gap.start < step < gap.end:
        uncertainty += gap.width / 4
        step = (gap.start + gap.end) / 2
    return Rough(float(step), float(slope), min(uncertainty, gap.width / 4))


def placed(task: Task, levels: Levels, gap: Gap) -> Placed | None:
    """The crossing in a gap by one level; None without one, or without a slope.

    The level is that of the gap, its ends included, of which most images were seen; of
    several with nearly as many, the one nearest to the threshold.
    """
    inside = [step for step in levels if gap.start <= step <= gap.end]
    most = max(levels[step].seen for step in inside)
    close = [step for step in inside if levels[step].seen >= _CLOSE * most]
    centre = min(close, key=lambda step: abs(levels[step].mean - task.least))
    falls = 1 if levels[gap.start].side == ACCEPTED else -1
    before, after = (
        [_side(task, levels, centre, end, -sign * falls) for end in ends]
        for sign in (-1, 1)
        for ends in [beside(task, levels, centre, sign)]
    )
    pairs = [
        (left, right)
        for left in before
        for right in after
        if min(left.slope, right.slope) > 0
    ]
    anchors = [
        step
        for step in inside
        if abs(step - centre) <= _FARTHEST_SLOPE * reach(task)
        and levels[step].seen >= _ANCHOR * levels[centre].seen
    ]
    found = [
        _from(task, levels, gap, (centre, anchor), pair)
        for anchor in anchors
        for pair in pairs
    ]
    fit = [one for one in found if one is not None]
    return min(fit, key=lambda one: one.inaccuracy, default=None)


def _side(task: Task, levels: Levels, centre: int, end: int, sign: int) -> _Side:
    """The slope from the centre to a level, by paired differences."""
    distance = abs(end - centre)
    both = min(levels[end].seen, levels[centre].seen)
    change = sign * (levels[end].scores[:both] - levels[centre].scores[:both])
    left = max(1 / both - 1 / task.num_images, 0)
    variance = max(float(change.var()), 1 / both)
    slope = float(change.mean()) / distance
    return _Side(distance, slope, variance * left / distance**2, variance / distance)


def _from(
    task: Task,
    levels: Levels,
    gap: Gap,
    steps: tuple[int, int],
    around: tuple[_Side, _Side],
) -> Placed | None:
    """The crossing by a line from an anchor; None if it is far from there."""
    centre, anchor = steps
    before, after = around
    # The slope of the parabola through the three levels.
    share = after.distance / (before.distance + after.distance)
    slope = share * before.slope + (1 - share) * after.slope
    deviation = math.hypot(
        share * before.variance**0.5, (1 - share) * after.variance**0.5
    )
    bends = math.hypot(before.variance**0.5, after.variance**0.5)
    unsure = deviation / slope
    bent = (abs(before.slope - after.slope) + bends / 2) / 2 / slope
    far = max(before.distance, after.distance) > _FAR_IF_FLAT * reach(task)
    doubtful = far or bent > _BENT_IF_FLAT or unsure > _UNSURE_IF_FLAT
    change = slope * task.parts
    if change < _FLATTEST or (change < _FLAT and doubtful):
        return None
    moved = moved_deviation = 0.0
    if anchor != centre:
        change = _side(task, levels, centre, anchor, 1)
        moved = change.slope * change.distance / slope
        moved_deviation = change.variance**0.5 * change.distance / slope
    falls = 1 if levels[gap.start].side == ACCEPTED else -1
    offsets = (levels[centre].scores - task.least) / slope
    off = falls * (float(offsets.mean()) + moved)
    on = after if off > 0 else before
    part = abs(off) / on.distance
    if part > _FARTHEST:
        return None
    # Between two levels single images turn right or wrong at levels of their own.
    # So the mean wanders; over at least so many steps the slope prevails.
    wander = on.flips / task.num_images / slope**2
    strays = math.sqrt(wander * (abs(off) * max(1 - part, 0.25) + wander))
    return Placed(
        centre,
        anchor,
        anchor - gap.start if falls > 0 else gap.end - anchor,
        offsets,
        moved,
        moved_deviation,
        bent,
        unsure,
        strays,
    )


def reach(task: Task) -> float:
    """About how far from a level its slopes are told, in steps: half of the usual."""
    return max(task.precision, _LEAST_REACH) * task.parts


def beside(task: Task, levels: Levels, centre: int, sign: int) -> list[int]:
    """The levels that may tell the slope on one side of another, nearest first."""
    unit = reach(task)
    near, far = max(_NEAREST_SLOPE * unit, 1), max(_FARTHEST_SLOPE * unit, 2)
    fit = [step for step in levels if near <= sign * (step - centre) <= far]
    return sorted(fit, key=lambda step: abs(step - centre))[:_MOST_BESIDE]
