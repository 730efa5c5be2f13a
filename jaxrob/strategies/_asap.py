"""Adaptive sampling by parabolic estimation, on the grid that it refines to."""

import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_flag, checked_integer, checked_number
from jaxrob.metrics import wilson
from jaxrob.metrics._curvature import Bend, bend, between_counts, envelope, open_width
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._strategy import Found, History, Request, Task, all_images


class Grid(NamedTuple):
    parts: int  # the number of parts
    steps: np.ndarray  # integers `[n]` in 0 ... parts, the known levels, ascending

    @property
    def divisible(self) -> np.ndarray:
        return np.diff(self.steps) > 1

    @property
    def middles(self) -> np.ndarray:
        return (self.steps[:-1] + self.steps[1:]) // 2


# A crossing more uncertain than this share of the interval: it is halved.
_TOO_UNCERTAIN = 0.3
# The new level's distance past it, in its uncertainty. Neither number matters much.
_STEP = 0.5


def past_the_crossing(
    task: Task, history: History, grid: Grid, shape: Bend, i: int
) -> int:
    """Returns a level just past the crossing, seen from the interval's nearer end."""
    # Then the next interval is the short one; in the middle where too uncertain.
    start, end = int(grid.steps[i]), int(grid.steps[i + 1])
    first, last = history.values[i], history.values[i + 1]
    # Per squared step: the expected second divided difference, and its uncertainty.
    curvature = shape.slope_change[i] / grid.parts**2
    doubt = shape.doubt[i] / grid.parts**2
    num_inputs = history.typical_inputs
    width, rise = end - start, last - first
    level = between_counts(task.threshold, num_inputs)
    # Non-integer counts may fall between the level and the threshold.
    level = min(max(level, min(first, last)), max(first, last))
    chord_root = width * (level - first) / rise
    crossing = start + _root(first - level, rise / width, curvature, width)
    reach = doubt * chord_root * (width - chord_root)
    if num_inputs is not None:
        # Half the standard deviation of `flips` in the middle.
        reach += 0.25 * math.sqrt(abs(rise) / num_inputs)
    uncertainty = reach * width / abs(rise)
    if uncertainty > _TOO_UNCERTAIN * width or _is_stuck(grid.steps, i):
        return (start + end) // 2
    step = max(0.5, _STEP * uncertainty)
    if crossing - start < end - crossing:
        return min(math.ceil(crossing + step), end - 1)
    return max(math.floor(crossing - step), start + 1)


def _root(first: float, slope: float, curvature: float, width: int) -> float:
    """Solves `first + slope u + curvature u (u - width) = 0` for u in [0, width]."""
    root = -first / slope
    if abs(curvature) * width >= 0.9 * abs(slope):
        return root
    linear = slope - curvature * width
    discriminant = linear**2 - 4 * curvature * first
    if discriminant < 0:
        return root
    denominator = linear + math.copysign(math.sqrt(discriminant), linear)
    return min(max(-2 * first / denominator, 0), width) if denominator else root


def _is_stuck(steps: np.ndarray, i: int) -> bool:
    """Returns whether the last two levels were close to one end, as beside a jump."""
    near = (steps[i + 1] - steps[i]) / 2
    return (i >= 2 and steps[i] - steps[i - 2] < near) or (
        i + 3 < len(steps) and steps[i + 3] - steps[i + 1] < near
    )


# Bounds below this share of the interval's width: more levels would not narrow it.
_SMALL_SHARE = 0.25
# First intervals, for the concavity: narrower excursions may be missed.
_FIRST_INTERVALS = 8


@dataclasses.dataclass(frozen=True)
class ASAP:
    """Samples where the curve may cross the threshold (2022 paper, Algorithm 1).

    Computes the robustness from few levels: about 13 for an answer as good as that of a
    thousand evenly spaced ones. It is the default; the paper's is
    `ASAP(n=1024, concavity=128.0)`.

    Between two sampled levels the curve is assumed to lie between the two parabolas
    through its ends with concavity +a and -a. Where either may cross the threshold, the
    interval is split, until it is no wider than a part in `n` of the range. Each round
    has one new level for every interval that may cross.

    A number for the concavity gives the paper's algorithm: the ends first, then
    midpoints. "auto" begins with nine levels and the identity, and estimates the
    concavity of each interval from the levels around it. Where the ends lie on opposite
    sides of the threshold, the new level lies just past the expected crossing.

    Attributes:
      n: the number of parts that limits refinement, at least 2; rounded up to a power
        of 2.
      concavity: a, in units of the measure per squared level, on the range mapped to
        [0, 1], or "auto". A value `a` for raw levels is `a * (upper - lower)**2`
        here: the paper's 128 on a range of length 2 is 512.
      statistical_stopping: whether sampling ends as soon as the error bound is below a
        quarter of the width of the confidence interval that the number of inputs
        leaves, and continues where that interval's own ends are known less well. By
        default with "auto" only.
      narrowest: a share of the range in (0, 1], by default None. One of the first
        levels lies in every excursion across the threshold that is at least this wide,
        wherever it lies; narrower ones may be missed without a sign. By default "auto"
        finds those of an eighth of the range.
      rule: "right", the sum of the paper's section III.
      rules: "right" and "linear".

    Raises:
      TypeError: if `n` is not an integer.
      ValueError: if `n` is below 2, the concavity neither "auto" nor positive and
        finite, or `narrowest` outside (0, 1] or less than a part in `n`.
    """

    n: int = 1024
    concavity: float | Literal["auto"] = "auto"
    statistical_stopping: bool | None = None
    narrowest: float | None = None
    rule = "right"
    rules = ("right", "linear")

    def __post_init__(self) -> None:
        n = checked_integer("n", self.n, at_least=2, at_most=2**30)
        object.__setattr__(self, "n", n)
        if isinstance(self.concavity, str):
            if self.concavity != "auto":
                raise ValueError(
                    f'concavity must be "auto" or a number above 0; got '
                    f"{self.concavity!r}"
                )
        else:
            concavity = checked_number("concavity", self.concavity, above=0)
            object.__setattr__(self, "concavity", concavity)
        if self.statistical_stopping is not None:
            checked_flag("statistical_stopping", self.statistical_stopping)
        if self.narrowest is not None:
            narrowest = checked_number("narrowest", self.narrowest, above=0, at_most=1)
            object.__setattr__(self, "narrowest", narrowest)
            if narrowest * self.parts < 1:
                raise ValueError(
                    f"narrowest must be at least a part in n, 1 / {self.parts}; got "
                    f"{narrowest:g}"
                )

    def init(self, task: Task) -> History:
        """Returns nothing known; see `Strategy`."""
        return History()

    def ask(
        self, task: Task, state: History, history: History
    ) -> tuple[list[Request], History]:
        """Returns first levels, then one for each interval to split; see `Strategy`."""
        positions = self._steps(task, history) / self.parts
        return all_images(task.levels_at(positions)), history

    def _steps(self, task: Task, history: History) -> np.ndarray:
        # Published bounds are multiples of a part: an interval so wide is final.
        parts = self.parts
        if not len(history.levels):
            return self.first_steps(task)
        steps = task.positions_of(history.levels) * parts
        grid = Grid(parts, np.rint(steps).astype(int))
        shape = self._shape(task, history)
        split = self._may_cross(task, history, shape) & grid.divisible
        num_inputs = history.typical_inputs
        if self._stops and num_inputs is not None:
            width, bent = _statistical_width(task, history, num_inputs)
            bound = self._bound(task, history)
            if not split.any() or bound <= _SMALL_SHARE * width:
                # Known well enough: only the ends of its interval are refined.
                wide = math.fsum(bent) > _SMALL_SHARE * width
                split = (bent > 0) & grid.divisible & wide
                return grid.middles[split]
        return self._inner_steps(task, history, grid, shape)[split]

    def result(self, task: Task, state: History) -> Found:
        """Returns the largest error of the robustness (2022 paper, Theorem 1).

        The error bound is the share of the range in intervals where the curve may cross
        the threshold. It is valid if the concavity is large enough for the curve. With
        "auto", other intervals add the parts where the number of inputs leaves a
        crossing open. The state must hold both ends of the range.
        """
        return Found(error_bound=self._bound(task, state))

    def may_cross(self, task: Task, history: History) -> np.ndarray:
        """Returns whether the curve may cross between neighbours, bool `[n - 1]`."""
        return self._may_cross(task, history, self._shape(task, history))

    def _bound(self, task: Task, history: History) -> float:
        levels, values = history.levels, history.values
        num_inputs = self._num_inputs(history)
        unseen = open_width(levels, values, task.threshold, num_inputs)
        crossing = self.may_cross(task, history)
        open_levels = math.fsum(np.where(crossing, np.diff(levels), unseen))
        return min(open_levels / task.width, 1.0)

    def _may_cross(self, task: Task, history: History, shape: Bend) -> np.ndarray:
        """Whether a parabola over an interval meets the threshold, bool `[n - 1]`."""
        values = history.values
        above = values >= task.threshold
        level = between_counts(task.threshold, self._num_inputs(history))
        width = np.diff(task.positions_of(history.levels))
        # A parabola through the ends has its vertex at half the width less rise / (2 a
        # width), a * vertex**2 beyond the first; it bends towards the threshold.
        towards = np.where(above[:-1], 1.0, -1.0) * np.diff(values)
        vertex = width / 2 - towards / (2 * shape.bounding * width)
        inside = (vertex >= 0) & (vertex <= width)
        depth = shape.bounding * np.square(vertex)
        distance = np.abs(values[:-1] - level)
        # On the threshold is above: from above it must go beyond, from below reach.
        meets = np.where(above[:-1], depth > distance, depth >= distance)
        return (above[:-1] != above[1:]) | (inside & meets)

    def first_steps(self, task: Task) -> np.ndarray:
        """Returns the first levels, in parts of the range."""
        parts = self.parts
        first = np.array([0, parts])
        if self._is_auto:
            first = np.arange(0, parts + 1, max(parts // _FIRST_INTERVALS, 1))
            if task.identity is not None:
                # There the curve may have a peak narrower than the first intervals.
                identity = task.positions_of(np.array(task.identity)) * parts
                first = np.union1d(first, np.rint(identity))
        if self.narrowest is None:
            return first
        # A power of two, so that intervals can be halved.
        step = 1 << (int(self.narrowest * parts).bit_length() - 1)
        return np.union1d(first, np.arange(0, parts + 1, step))

    @property
    def parts(self) -> int:
        """The parts that limit refinement: `n`, rounded up to a power of 2."""
        return 1 << (int(self.n) - 1).bit_length()

    @property
    def _is_auto(self) -> bool:
        return self.concavity == "auto"

    def _num_inputs(self, history: History) -> int | None:
        return history.typical_inputs if self._is_auto else None

    def _shape(self, task: Task, history: History) -> Bend:
        if self._is_auto:
            positions = task.positions_of(history.levels)
            return bend(positions, history.values, history.typical_inputs)
        concavity = np.full(len(history.levels) - 1, float(self.concavity))
        return Bend(concavity, concavity, np.zeros(len(concavity)), concavity)

    def _inner_steps(
        self, task: Task, history: History, grid: Grid, shape: Bend
    ) -> np.ndarray:
        inner, above = grid.middles, history.values >= task.threshold
        if self._is_auto:
            crosses = grid.divisible & (above[:-1] != above[1:])
            for i in np.flatnonzero(crosses).tolist():
                inner[i] = past_the_crossing(task, history, grid, shape, i)
        return inner

    @property
    def _stops(self) -> bool:
        """Whether the uncertainty from the finite test set ends the sampling."""
        stopping = self.statistical_stopping
        return self._is_auto if stopping is None else stopping


def _statistical_width(
    task: Task, history: History, num_inputs: int
) -> tuple[float, np.ndarray]:
    levels, values = history.levels, history.values
    totals = np.full(len(values), num_inputs)
    low, high = wilson(np.rint(values * num_inputs), totals)
    # Without unknown flips of single inputs, which no level shrinks.
    strays = envelope(levels, values, num_inputs)
    whole, straight = (
        np.subtract(*accepted_widths(levels, low, high, task.threshold, some)[::-1])
        for some in (strays, None)
    )
    bent = np.maximum(whole - straight, 0) / task.width
    return math.fsum(whole) / task.width, bent
