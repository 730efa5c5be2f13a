"""Levels at random."""

import dataclasses
from typing import ClassVar

import numpy as np

from jaxrob.strategies._strategy import Question


@dataclasses.dataclass(frozen=True)
class Random:
    """`n` levels drawn uniformly and independently from the range.

    2022 paper, RQ2.3.

    Attributes:
      n: number of levels, at least 1.
      seed: of the draw, a non-negative integer. Levels of the same seed lie at the
        same places in every range.
      rule: "count", the share of the levels that are accepted.

    Raises:
      TypeError: if `n` or `seed` is no integer.
      ValueError: if there is no level, or the seed is negative.
    """

    n: int = 41
    seed: int = 0
    rule: ClassVar[str] = "count"
    rules: ClassVar[tuple[str, ...]] = ("count",)

    def __post_init__(self):
        for name, smallest in (("n", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer):
                raise TypeError(f"{name} must be an integer; got {value!r}")
            if value < smallest:
                raise ValueError(f"{name} must be at least {smallest}; got {value}")

    def propose(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """All levels at first, then none; see `Strategy`."""
        if len(levels):
            return np.array([])
        draw = np.random.default_rng(self.seed)
        return draw.uniform(question.lower, question.upper, self.n)
