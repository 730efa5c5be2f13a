"""Levels at random."""

import dataclasses

import numpy as np

from jaxrob._runtime.checks import check_type
from jaxrob.strategies._strategy import Question, Samples


@dataclasses.dataclass(frozen=True)
class Random:
    """`n` levels drawn uniformly and independently from the range.

    2022 paper, RQ2.3.

    Attributes:
      n: number of levels, at least 1.
      seed: of the draw, a non-negative integer. Levels of the same seed lie at the
        same places in every range.
      rule: "count", the share of the levels that are accepted.
      rules: "count" alone.

    Raises:
      TypeError: if `n` or `seed` is not an integer.
      ValueError: if there is no level, or the seed is negative.
    """

    n: int = 41
    seed: int = 0
    rule = "count"
    rules = ("count",)

    def __post_init__(self) -> None:
        for name, smallest in (("n", 1), ("seed", 0)):
            value = getattr(self, name)
            check_type(name, value, int | np.integer, "an integer")
            if value < smallest:
                raise ValueError(f"{name} must be at least {smallest}; got {value}")

    def propose(self, question: Question, samples: Samples) -> np.ndarray:
        """All levels at first, then none; see `Strategy`."""
        if len(samples.levels):
            return np.array([])
        draw = np.random.default_rng(self.seed)
        return draw.uniform(question.lower, question.upper, self.n)

    def error_bound(self, question: Question, samples: Samples) -> None:
        """None: the error is random."""
        return None
