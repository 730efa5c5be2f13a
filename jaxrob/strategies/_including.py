"""Levels of one's own, beside those that a strategy chooses."""

import dataclasses

import numpy as np

from jaxrob._runtime.checks import checked_array
from jaxrob.strategies._strategy import (
    Question,
    Samples,
    Strategy,
    check_asked,
    check_strategy,
)

# What sums or counts levels by their number would count some parts of the range twice.
_RULES = ("right", "linear")


@dataclasses.dataclass(frozen=True)
class Including:
    """A strategy, with some levels that are evaluated in any case.

    They go with the strategy's first ones, and it knows them like its own. For instance
    the severities of a benchmark, whose mean is wanted beside the robustness::

        severities = jaxrob.alterations.presets.SEVERITIES
        strategy = jaxrob.strategies.Including(ASAP(), severities)

    Attributes:
      strategy: the strategy; one whose rules hold "right" or "linear", which do not
        rely on where levels are: `ASAP` and `Uniform`.
      levels: the levels, in the range of each alteration.

    Raises:
      TypeError: if the strategy is none, or the levels are no numbers.
      ValueError: if there is no level, one is not finite, or the strategy suits
        neither rule.
    """

    strategy: Strategy
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        check_strategy(self.strategy)
        found = checked_array("levels", self.levels, "n")
        object.__setattr__(self, "levels", tuple(map(float, found)))
        if not self.rules:
            raise ValueError(
                f"strategy must suit one of the rules {_RULES}, which take levels "
                f"anywhere; got {self.strategy!r}, which suits {self.strategy.rules}"
            )

    @property
    def rule(self) -> str:
        """The strategy's own where it may be, or the first that may."""
        own = self.strategy.rule
        return own if own in self.rules else self.rules[-1]

    @property
    def rules(self) -> tuple[str, ...]:
        """Of "right" and "linear" those that suit the strategy."""
        return tuple(rule for rule in _RULES if rule in self.strategy.rules)

    def propose(self, question: Question, samples: Samples) -> np.ndarray:
        """The strategy's levels, at first with these; see `Strategy`.

        Raises:
          ValueError: if a level lies outside the range.
        """
        check_asked(question, samples)
        found = self.strategy.propose(question, samples)
        if len(samples.levels):
            return found
        for level in self.levels:
            if not question.lower <= level <= question.upper:
                raise ValueError(
                    "levels must lie in the range of the alteration "
                    f"[{question.lower:g}, {question.upper:g}]; got {level:g}"
                )
        return np.union1d(found, self.levels)

    def error_bound(self, question: Question, samples: Samples) -> float | None:
        """The strategy's own."""
        return self.strategy.error_bound(question, samples)
