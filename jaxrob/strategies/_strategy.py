"""What a strategy is, what it is told, and what it must be able to say."""

import dataclasses
import functools
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrob.metrics._measure import typical_inputs


class Question(NamedTuple):
    """Over which part of a range is a measure at least a threshold?

    Attributes:
      lower: the range's lower end.
      upper: its upper end.
      threshold: the lowest value accepted.
      identity: the level at which nothing is altered, None if it is not known.
    """

    lower: float
    upper: float
    threshold: float
    identity: float | None = None

    @property
    def width(self) -> float:
        """The length of the range."""
        return self.upper - self.lower

    def positions_of(self, levels: np.ndarray) -> np.ndarray:
        """The levels on the range mapped to [0, 1]."""
        return (levels - self.lower) / self.width

    def levels_at(self, positions: np.ndarray) -> np.ndarray:
        """The levels at positions in [0, 1], exact at both ends and in the middle."""
        return self.lower * (1 - positions) + self.upper * positions


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """What is known of a curve: its values at some levels.

    Attributes:
      levels: float64 `[n]`, ascending.
      values: float64 `[n]`, the measure there.
      num_inputs: `[n]`, how many inputs each value is a share of (unknown answers make
        it differ between levels); None for values that are exact.
      effects: integers `[n]`, the same for levels of the same effect, such as levels of
        one JPEG quality: they share one evaluation. None if no two do.
      rounds: how many proposals held a new level.
    """

    levels: np.ndarray
    values: np.ndarray
    num_inputs: np.ndarray | None = None
    effects: np.ndarray | None = None
    rounds: int = 0

    @functools.cached_property
    def distinct(self) -> np.ndarray:
        """Indices `[m]` of one level for each effect, ascending."""
        if self.effects is None:
            return np.arange(len(self.levels))
        _, first = np.unique(self.effects, return_index=True)
        return np.sort(first)

    @functools.cached_property
    def typical_inputs(self) -> int | None:
        """One number of inputs for the whole curve; None if its values are exact.

        The median, in which levels of the same effect count once.
        """
        if self.num_inputs is None or not len(self.levels):
            return None
        return typical_inputs(self.num_inputs[self.distinct])


# What is known at first.
NO_SAMPLES = Samples(np.array([]), np.array([]))


class Strategy(Protocol):
    """Decides which levels to look at, from what is known so far.

    A strategy is a pure function and knows nothing of classifiers: it can be tested
    on any function of a level, by `jaxrob.strategies.sample`.

    Any object with these four parts is one; there is nothing to inherit. Example::

        class Ends:
            rule = "linear"
            rules = ("linear",)

            def propose(self, question, samples):
                known = len(samples.levels) > 0
                return np.array([] if known else [question.lower, question.upper])

            def error_bound(self, question, samples):
                return None

        jaxrob.assess(classifier, dataset, alteration, strategy=Ends())
    """

    @property
    def rule(self) -> str:
        """How the integral over the levels is taken, unless another rule is asked for.

        A rule of `jaxrob.metrics.heaviside_robustness`, most often the one that the
        strategy's paper uses.
        """
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that suit the levels; `jaxrob.metrics.RULES` if all do."""
        ...

    def propose(self, question: Question, samples: Samples) -> np.ndarray:
        """The next levels to evaluate, all at once.

        Args:
          question: the question.
          samples: what is known so far; at first there are no levels.

        Returns:
          float64 `[m]` new levels; none when the strategy has seen enough. Levels
          already known, or of the same effect as a known one, cost nothing.
        """
        ...

    def error_bound(self, question: Question, samples: Samples) -> float | None:
        """The largest error of the robustness that the levels leave open.

        Args:
          question: the question.
          samples: all that the strategy asked for.

        Returns:
          The bound, in [0, 1], or None if the strategy knows none.
        """
        ...


def check_strategy(strategy: Any) -> None:
    """Refuses what lacks a part of a `Strategy`.

    Raises:
      TypeError: names the parts that are missing.
    """
    if isinstance(strategy, type):
        raise TypeError(
            "strategy must be an object such as ASAP(), not a class; got the class "
            f"{strategy.__name__}"
        )
    parts = ("propose", "error_bound", "rule", "rules")
    missing = [part for part in parts if not hasattr(strategy, part)]
    if missing:
        raise TypeError(
            "strategy must be one of jaxrob.strategies, such as ASAP(), or have the "
            f"parts of jaxrob.strategies.Strategy; {type(strategy).__name__} lacks "
            f"{', '.join(missing)}"
        )
