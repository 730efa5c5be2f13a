"""Adaptive sampling by parabolic estimation."""

import dataclasses
import math
from typing import ClassVar, Literal

import numpy as np

from jaxrob.metrics._counts import between_counts, open_width
from jaxrob.metrics._curvature import Bend, bend
from jaxrob.metrics._interval import accepted_widths, shown_concavity, wilson
from jaxrob.strategies._crossing import past_the_crossing
from jaxrob.strategies._strategy import Question

# Intervals that the automatic concavity begins with: an excursion narrower than one of
# them may be missed.
_FIRST_INTERVALS = 8
# The error, as a share of the width of the statistical interval, that more levels would
# not make noticeably smaller.
_SMALL_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class ASAP:
    """Samples where the curve may cross the threshold (2022 paper, Algorithm 1).

    Between two sampled levels the curve is taken to lie between the two parabolas
    through its ends with concavity +a and -a. Where either may cross the threshold,
    the interval is split, until it is no wider than a part in `n` of the range. The
    recursion goes breadth first: each proposal holds one new level for every interval
    that may cross.

    A number for the concavity gives the paper's algorithm: the ends first, then
    midpoints. "auto" begins with nine levels and the identity, and estimates the
    concavity of each interval from the levels around it. Where the ends lie on opposite
    sides of the threshold it steps just past the crossing expected, so that the next
    interval is short.

    Attributes:
      n: the number of parts that limits refinement, at least 2; rounded up to a power
        of 2.
      concavity: a, in units of the measure per squared level, on the range mapped to
        [0, 1], or "auto". A value `a` for raw levels is `a * (upper - lower)**2`
        here: the paper's 128 on a range of length 2 is 512.
      statistical_stopping: whether sampling ends as soon as the error bound is below a
        quarter of the confidence interval that the number of inputs leaves, and goes
        on where the interval's own ends are not known as well. By default with "auto"
        only.
      rule: "right", the sum of the paper's section III.

    Raises:
      TypeError: if `n` is no integer.
      ValueError: if `n` is below 2, or the concavity neither "auto" nor positive and
        finite.
    """

    n: int = 1024
    concavity: float | Literal["auto"] = "auto"
    statistical_stopping: bool | None = None
    rule: ClassVar[str] = "right"
    rules: ClassVar[tuple[str, ...]] = ("right", "linear")

    def __post_init__(self):
        if not isinstance(self.n, int | np.integer):
            raise TypeError(f"n must be an integer; got {self.n!r}")
        if self.n < 2:
            raise ValueError(f"n must be at least 2; got {self.n}")
        number = isinstance(self.concavity, int | float | np.number)
        if self.concavity != "auto" and not (
            number and self.concavity > 0 and math.isfinite(self.concavity)
        ):
            raise ValueError(
                'concavity must be "auto", or a number positive and finite; got '
                f"{self.concavity!r}"
            )

    def propose(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """The first levels, then one for each interval to split; see `Strategy`."""
        # Published bounds are multiples of a part in n: an interval of just that
        # width is final, where Algorithm 1 to the letter would halve it once more.
        parts = 1 << (int(self.n) - 1).bit_length()
        auto = self.concavity == "auto"
        if not len(levels):
            step = max(parts // _FIRST_INTERVALS, 1) if auto else parts
            first = np.arange(0, parts + 1, step)
            if auto and question.identity is not None:
                # There the curve may have a peak narrower than the first intervals.
                identity = _positions(question, question.identity) * parts
                first = np.union1d(first, np.rint(identity))
            return _levels(question, first / parts)
        positions = _positions(question, levels)
        grid = np.rint(positions * parts).astype(int)
        splittable = np.diff(grid) > 1
        new = (grid[:-1] + grid[1:]) // 2
        shape = self._shape(question, positions, values)
        split = self._may_cross(question, positions, values, shape) & splittable
        if self._stops and question.num_inputs is not None:
            width, bent = _statistical_width(question, levels, values)
            bound = self.error_bound(question, levels, values)
            if not split.any() or bound <= _SMALL_SHARE * width:
                # The robustness is known well enough. Are the ends of its interval?
                wide = math.fsum(bent) > _SMALL_SHARE * width
                split = (bent > 0) & splittable & wide
                return _levels(question, new[split] / parts)
        if auto:
            above = values >= question.threshold
            for i in np.flatnonzero(split & (above[:-1] != above[1:])):
                curvature = shape.slope_change[i] / parts**2, shape.doubt[i] / parts**2
                new[i] = past_the_crossing(question, grid, values, i, *curvature)
        return _levels(question, new[split] / parts)

    def error_bound(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> float:
        """The largest error of the robustness (2022 paper, Theorem 1).

        The share of the range in intervals where the curve may cross the threshold.
        It holds if the concavity is large enough for the curve. With "auto", the parts
        of other intervals count where the number of inputs leaves a crossing open.

        Args:
          question: the question.
          levels: float64 `[n]`, ascending, both ends of the range included.
          values: float64 `[n]`, the measure there.

        Returns:
          The bound, in [0, 1].
        """
        positions = _positions(question, levels)
        shape = self._shape(question, positions, values)
        crossing = self._may_cross(question, positions, values, shape)
        width = np.where(crossing, np.diff(levels), 0)
        if self.concavity == "auto":
            threshold, num_inputs = question.threshold, question.num_inputs
            unseen = open_width(levels, values, threshold, num_inputs)
            width = np.where(crossing, width, unseen)
        return math.fsum(width) / (question.upper - question.lower)

    def _shape(self, question, positions, values):
        if self.concavity == "auto":
            return bend(positions, values, question.num_inputs)
        intervals = len(positions) - 1
        concavity = np.full(intervals, float(self.concavity))
        return Bend(concavity, concavity, np.zeros(intervals), concavity)

    def _may_cross(self, question, positions, values, shape):
        """Whether a parabola over an interval meets the threshold, bool `[n - 1]`."""
        above = values >= question.threshold
        level = question.threshold
        if self.concavity == "auto":
            level = between_counts(level, question.num_inputs)
        width = np.diff(positions)
        # A parabola of concavity a through the ends, on [0, width], has its vertex at
        # half the width less rise / (2 a width), and lies a * vertex**2 beyond the
        # first end there. Either side of the threshold is as bad: take the distance
        # from the first end, and the parabola that bends towards the threshold.
        towards = np.where(above[:-1], 1.0, -1.0) * np.diff(values)
        vertex = width / 2 - towards / (2 * shape.bounding * width)
        inside = (vertex >= 0) & (vertex <= width)
        depth = shape.bounding * np.square(vertex)
        distance = np.abs(values[:-1] - level)
        # On the threshold is above: from above a parabola must go beyond it, from
        # below it is enough to reach it.
        meets = np.where(above[:-1], depth > distance, depth >= distance)
        return (above[:-1] != above[1:]) | (inside & meets)

    @property
    def _stops(self):
        """Whether what the finite test set leaves open ends the sampling."""
        stopping = self.statistical_stopping
        return self.concavity == "auto" if stopping is None else stopping


def _statistical_width(question, levels, values):
    """How wide the interval is that the finite test set leaves for the robustness.

    Returns:
      Its width, and for each interval of levels the part that is due to how the curve
      may bend there; both as shares of the range.
    """
    num_inputs = question.num_inputs
    totals = np.full(len(values), num_inputs)
    low, high = wilson(np.rint(values * num_inputs), totals)
    concavity = shown_concavity(levels, values, num_inputs)
    whole, straight = (
        np.subtract(*accepted_widths(levels, low, high, question.threshold, some)[::-1])
        for some in (concavity, None)
    )
    span = question.upper - question.lower
    return math.fsum(whole) / span, np.maximum(whole - straight, 0) / span


def _positions(question, levels):
    """The levels on the range mapped to [0, 1]."""
    return (levels - question.lower) / (question.upper - question.lower)


def _levels(question, positions):
    """The levels at positions in [0, 1], exact at the range's ends and its middle."""
    return question.lower * (1 - positions) + question.upper * positions
