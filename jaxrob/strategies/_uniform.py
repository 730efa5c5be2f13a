"""Evenly spaced levels."""

import dataclasses
from typing import ClassVar

import numpy as np

from jaxrob.strategies._strategy import Question


@dataclasses.dataclass(frozen=True)
class Uniform:
    """`n` levels, evenly spaced, both ends of the range included.

    2020 paper, Definition 5, whose experiments take 41 levels.

    Attributes:
      n: number of levels, at least 2.
      rule: "count", as in Definition 5.

    Raises:
      TypeError: if n is no integer.
      ValueError: if there are fewer than 2 levels.
    """

    n: int = 41
    rule: ClassVar[str] = "count"
    rules: ClassVar[tuple[str, ...]] = ("count", "right", "linear")

    def __post_init__(self):
        if not isinstance(self.n, int | np.integer):
            raise TypeError(f"n must be an integer; got {self.n!r}")
        if self.n < 2:
            raise ValueError(f"n must be at least 2 levels; got {self.n}")

    def propose(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """All levels at first, then none; see `Strategy`."""
        if len(levels):
            return np.array([])
        # Unlike linspace symmetric, so that the middle of [-4, 4] is 0 for every odd n.
        share = np.arange(self.n) / (self.n - 1)
        return question.lower * share[::-1] + question.upper * share
