"""Evenly spaced levels."""

import dataclasses

import numpy as np

from jaxrob._arguments.checks import checked_integer
from jaxrob.strategies._checks import checked_asked
from jaxrob.strategies._strategy import Found, History, Request, Task, all_images


@dataclasses.dataclass(frozen=True)
class Uniform:
    """`n` levels, evenly spaced, both ends of the range included.

    2020 paper, Definition 5, whose experiments take 41 levels.

    Attributes:
      n: number of levels, at least 2.
      rule: "count", as in Definition 5.
      rules: all.

    Raises:
      TypeError: if n is not an integer.
      ValueError: if there are fewer than 2 levels.
    """

    n: int = 41
    rule = "count"
    rules = ("count", "right", "linear")

    def __post_init__(self) -> None:
        number = checked_integer("n", self.n, at_least=2)
        object.__setattr__(self, "n", number)

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
        # Symmetric, unlike linspace, so that the middle of [-4, 4] is 0 for every odd
        # n.
        share = np.arange(self.n) / (self.n - 1)
        levels = task.lower * share[::-1] + task.upper * share
        return all_images(levels), history

    def result(self, task: Task, state: History) -> Found:
        """Returns no error bound: the curve between the levels is unknown."""
        checked_asked(task, state)
        return Found()
