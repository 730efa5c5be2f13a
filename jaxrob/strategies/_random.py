"""Randomly drawn levels."""

import dataclasses

import numpy as np

from jaxrob._arguments.checks import checked_integer
from jaxrob.strategies._checks import checked_asked
from jaxrob.strategies._strategy import Found, History, Request, Task, all_images


@dataclasses.dataclass(frozen=True)
class Random:
    """`n` levels drawn uniformly and independently from the range.

    2022 paper, RQ2.3.

    Attributes:
      n: number of levels, at least 1.
      seed: the seed of the draw, a non-negative integer. The same seed gives levels at
        the same relative positions in every range.
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
        number = checked_integer("n", self.n, at_least=1)
        object.__setattr__(self, "n", number)
        number = checked_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)
        object.__setattr__(self, "seed", number)

    def init(self, task: Task) -> History:
        """Returns nothing known; see `Strategy`."""
        return History()

    def ask(
        self, task: Task, state: History, history: History
    ) -> tuple[list[Request], History]:
        """Returns all levels at first, then none; see `Strategy`."""
        task = checked_asked(task, history)
        if len(history.levels):
            return [], history
        draw = np.random.default_rng(self.seed)
        levels = draw.uniform(task.lower, task.upper, self.n)
        return all_images(levels), history

    def result(self, task: Task, state: History) -> Found:
        """Returns no error bound: the error is random."""
        checked_asked(task, state)
        return Found()
