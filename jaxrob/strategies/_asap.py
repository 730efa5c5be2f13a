"""Adaptive sampling by parabolic estimation."""

import dataclasses
import math

import numpy as np

from jaxrob.strategies._strategy import Question


@dataclasses.dataclass(frozen=True)
class ASAP:
    """Samples where the curve may cross the threshold (2022 paper, Algorithm 1).

    Between two sampled levels the curve is taken to lie between the two parabolas
    through its ends with concavity +a and -a. Where either may cross the threshold,
    the interval is halved, until it is no wider than a part in `n` of the range. The
    recursion goes breadth first: each proposal holds the midpoints of one depth.

    Attributes:
      n: the number of parts that limits refinement, at least 2.
      concavity: a, in units of the measure per squared level, on the range mapped to
        [0, 1]. A value `a` for raw levels is `a * (upper - lower)**2` here: the
        paper's 128 on a range of length 2 is 512.
      rule: "right", the sum of the paper's section III.

    Raises:
      TypeError: if `n` is no integer.
      ValueError: if `n` is below 2, or the concavity not positive and finite.
    """

    n: int = 1024
    concavity: float = 128.0
    rule: str = dataclasses.field(default="right", init=False)

    def __post_init__(self):
        if not isinstance(self.n, int | np.integer):
            raise TypeError(f"n must be an integer; got {self.n!r}")
        if self.n < 2:
            raise ValueError(f"n must be at least 2; got {self.n}")
        if not (self.concavity > 0 and math.isfinite(self.concavity)):
            raise ValueError(
                f"concavity must be positive and finite; got {self.concavity}"
            )

    def propose(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """The ends at first, then the midpoints of a depth; see `Strategy`."""
        if not len(levels):
            return np.array([question.lower, question.upper])
        # Published bounds are multiples of a part in n: an interval of just that
        # width is final, where Algorithm 1 to the letter would halve it once more.
        final = (question.upper - question.lower) / self.n
        if question.resolution is not None:
            final = max(final, question.resolution)
        wide = np.diff(levels) > final * (1 + 1e-9)
        split = self._may_cross(question, levels, values) & wide
        return (levels[:-1][split] + levels[1:][split]) / 2

    def error_bound(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> float:
        """The largest error of the robustness (2022 paper, Theorem 1).

        The share of the range in intervals where the curve may cross the threshold.
        It holds if the concavity is large enough for the curve.

        Args:
          question: the question.
          levels: float64 `[n]`, ascending, both ends of the range included.
          values: float64 `[n]`, the measure there.

        Returns:
          The bound, in [0, 1].
        """
        crossing = self._may_cross(question, levels, values)
        width = math.fsum(np.diff(levels)[crossing])
        return width / (question.upper - question.lower)

    def _may_cross(self, question, levels, values):
        """Whether a parabola over an interval meets the threshold, bool `[n - 1]`."""
        above = values >= question.threshold
        width = np.diff(levels) / (question.upper - question.lower)
        rise = np.diff(values)
        # A parabola of concavity a through the ends, on [0, width], has its vertex at
        # half the width less rise / (2 a width), and lies a * vertex**2 beyond the
        # first end there. Either side of the threshold is as bad: take |threshold -
        # first|, and the parabola that bends towards it.
        towards = np.where(above[:-1], 1.0, -1.0) * rise
        vertex = width / 2 - towards / (2 * self.concavity * width)
        inside = (vertex >= 0) & (vertex <= width)
        depth = self.concavity * np.square(vertex)
        distance = np.abs(values[:-1] - question.threshold)
        # On the threshold is above: from above a parabola must go beyond it, from
        # below it is enough to reach it.
        meets = np.where(above[:-1], depth > distance, depth >= distance)
        return (above[:-1] != above[1:]) | (inside & meets)
