"""Levels that do not depend on the answers: uniform, random, and ones added by hand."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import as_written, checked_array, checked_integer
from jaxrob.strategies._strategy import (
    Found,
    History,
    Request,
    Strategy,
    Task,
    all_images,
    check_strategy,
    needs_scores,
)


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
        object.__setattr__(self, "n", checked_integer("n", self.n, at_least=2))

    def init(self, task: Task) -> History:
        """Returns nothing known; see `Strategy`."""
        return History()

    def ask(
        self, task: Task, state: History, history: History
    ) -> tuple[list[Request], History]:
        """Returns all levels at first, then none; see `Strategy`."""
        if len(history.levels):
            return [], history
        # Symmetric, unlike linspace, so that the middle of [-4, 4] is 0 for odd n.
        share = np.arange(self.n) / (self.n - 1)
        return all_images(task.lower * share[::-1] + task.upper * share), history

    def result(self, task: Task, state: History) -> Found:
        """Returns no error bound: the curve between the levels is unknown."""
        return Found()


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
    init = Uniform.init
    result = Uniform.result

    def __post_init__(self) -> None:
        seed = checked_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)
        object.__setattr__(self, "n", checked_integer("n", self.n, at_least=1))
        object.__setattr__(self, "seed", seed)

    def ask(
        self, task: Task, state: History, history: History
    ) -> tuple[list[Request], History]:
        """Returns all levels at first, then none; see `Strategy`."""
        if len(history.levels):
            return [], history
        draw = np.random.default_rng(self.seed)
        return all_images(draw.uniform(task.lower, task.upper, self.n)), history


# Rules that weight all levels equally would count some parts of the range twice.
_RULES = ("right", "linear")


@dataclasses.dataclass(frozen=True)
class Including:
    """A strategy, with some levels that are always evaluated.

    They join the strategy's first levels, and it knows them like its own. An example
    are the severities of a benchmark, whose mean is wanted beside the robustness::

        severities = jaxrob.alterations.presets.SEVERITIES
        strategy = jaxrob.strategies.Including(ASAP(), severities)

    Attributes:
      strategy: the strategy. Its rules must include "right" or "linear", which do not
        depend on where levels are: `ASAP` and `Uniform`.
      levels: the levels, in the range of each alteration.

    Raises:
      TypeError: if the strategy lacks a part, or the levels are not numbers.
      ValueError: if there is no level, one is not finite, or the strategy suits
        neither rule or looks at some of the images.
    """

    strategy: Strategy
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        check_strategy(self.strategy)
        if needs_scores(self.strategy):
            raise ValueError(
                "strategy must look at all images, as ASAP() and Uniform() do; got "
                f"{self.strategy!r}"
            )
        levels = as_written(checked_array("levels", self.levels, "n"))
        object.__setattr__(self, "levels", tuple(levels.tolist()))
        if not self.rules:
            raise ValueError(
                f"strategy must suit one of the rules {_RULES}, which take levels "
                f"anywhere; got {self.strategy!r}, which suits {self.strategy.rules}"
            )

    @property
    def rule(self) -> str:
        """The strategy's own rule if allowed, or else the last allowed one."""
        own = self.strategy.rule
        return own if own in self.rules else self.rules[-1]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules among "right" and "linear" that suit the strategy."""
        return tuple(rule for rule in _RULES if rule in self.strategy.rules)

    def init(self, task: Task) -> Any:
        """Returns the strategy's first state."""
        return self.strategy.init(task)

    def ask(
        self, task: Task, state: Any, history: History
    ) -> tuple[Sequence[Request], Any]:
        """Returns the strategy's requests, at first with these levels; see `Strategy`.

        Raises:
          ValueError: if a level lies outside the range.
        """
        requests, state = self.strategy.ask(task, state, history)
        if len(history.levels):
            return requests, state
        for level in self.levels:
            if not 0 <= task.positions_of(np.array(level)) <= 1:
                raise ValueError(
                    "levels must lie in the range of the alteration "
                    f"[{task.lower:g}, {task.upper:g}]; got {level:g}"
                )
        return [*requests, *all_images(self.levels)], state

    def result(self, task: Task, state: Any) -> Found:
        """Returns the strategy's conclusions."""
        return self.strategy.result(task, state)
