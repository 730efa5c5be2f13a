"""Evenly spaced levels."""

import dataclasses

import numpy as np

from jaxrob._runtime.checks import checked_integer
from jaxrob.strategies._strategy import Question, Samples, check_asked


@dataclasses.dataclass(frozen=True)
class Uniform:
    """`n` levels, evenly spaced, both ends of the range included.

    2020 paper, Definition 5, whose experiments take 41 levels.

    Attributes:
      n: number of levels, at least 2.
      rule: "count", as in Definition 5.
      rules: all but "quadrature".

    Raises:
      TypeError: if n is not an integer.
      ValueError: if there are fewer than 2 levels.
    """

    n: int = 41
    rule = "count"
    rules = ("count", "right", "linear")

    def __post_init__(self) -> None:
        checked_integer("n", self.n, at_least=2)

    def propose(self, question: Question, samples: Samples) -> np.ndarray:
        """All levels at first, then none; see `Strategy`."""
        check_asked(question, samples)
        if len(samples.levels):
            return np.array([])
        # Unlike linspace symmetric, so that the middle of [-4, 4] is 0 for every odd n.
        share = np.arange(self.n) / (self.n - 1)
        return question.lower * share[::-1] + question.upper * share

    def error_bound(self, question: Question, samples: Samples) -> None:
        """None: what happens between the levels is not known."""
        check_asked(question, samples)
        return None
