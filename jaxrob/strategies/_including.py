"""A strategy with additional levels of the user's choice."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxrob._arguments.checks import checked_array
from jaxrob.strategies._checks import check_strategy, checked_asked
from jaxrob.strategies._strategy import (
    Found,
    History,
    Request,
    Strategy,
    Task,
    all_images,
    needs_scores,
)

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
        found = checked_array("levels", self.levels, "n")
        object.__setattr__(self, "levels", tuple(map(float, found)))
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
        task = checked_asked(task, history)
        found, state = self.strategy.ask(task, state, history)
        if len(history.levels):
            return found, state
        for level in self.levels:
            if not task.lower <= level <= task.upper:
                raise ValueError(
                    "levels must lie in the range of the alteration "
                    f"[{task.lower:g}, {task.upper:g}]; got {level:g}"
                )
        return [*found, *all_images(self.levels)], state

    def result(self, task: Task, state: Any) -> Found:
        """Returns the strategy's conclusions."""
        return self.strategy.result(task, state)
