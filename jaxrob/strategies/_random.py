"""Levels at random."""

import dataclasses

import numpy as np

from jaxrob._runtime.checks import checked_integer
from jaxrob.strategies._strategy import Question, Samples, check_asked


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
        checked_integer("n", self.n, at_least=1)
        checked_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)

    def propose(self, question: Question, samples: Samples) -> np.ndarray:
        """All levels at first, then none; see `Strategy`."""
        check_asked(question, samples)
        if len(samples.levels):
            return np.array([])
        draw = np.random.default_rng(self.seed)
        return draw.uniform(question.lower, question.upper, self.n)

    def error_bound(self, question: Question, samples: Samples) -> None:
        """None: the error is random."""
        check_asked(question, samples)
        return None
