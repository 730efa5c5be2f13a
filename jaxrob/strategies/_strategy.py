"""What a strategy is, what it is told, and what it must be able to say."""

import dataclasses
import functools
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrob._runtime.checks import (
    check_ascending,
    check_type,
    checked_array,
    checked_integer,
    checked_number,
)
from jaxrob._runtime.naming import named
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

    def __post_init__(self) -> None:
        """Checks the fields, and makes arrays of them."""
        axes: dict[str, int] = {}
        for name, holding in (
            ("levels", "numbers"),
            ("values", "numbers"),
            ("num_inputs", "numbers"),
            ("effects", "integers"),
        ):
            value = getattr(self, name)
            if value is None and name in ("num_inputs", "effects"):
                continue
            array = checked_array(
                name, value, "n", holding, may_be_empty=True, axes=axes
            )
            object.__setattr__(self, name, array)
        falls = np.flatnonzero(np.diff(self.levels) <= 0)
        if len(falls):
            raise ValueError(
                f"levels must ascend; got {self.levels[falls[0] + 1]:g} after "
                f"{self.levels[falls[0]]:g}"
            )
        checked_integer("rounds", self.rounds, at_least=0)

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


def check_question(question: Any) -> None:
    """Refuses what is no question about a range and a threshold.

    Raises:
      TypeError: if it is no `Question`, or a field is no number.
      ValueError: if the range is empty, the threshold lies outside [0, 1], or the
        identity outside the range.
    """
    wanted = "a jaxrob.strategies.Question"
    check_type("question", question, Question, wanted)
    lower = checked_number("question.lower", question.lower)
    upper = checked_number("question.upper", question.upper)
    check_ascending("question.lower", lower, "question.upper", upper)
    checked_number("question.threshold", question.threshold, at_least=0, at_most=1)
    if question.identity is not None:
        checked_number(
            "question.identity", question.identity, at_least=lower, at_most=upper
        )


def check_asked(question: Any, samples: Any, fewest: int = 0) -> None:
    """Refuses what a strategy's methods do not take.

    Args:
      question: the question.
      samples: what is known.
      fewest: how many levels must be known at least.

    Raises:
      TypeError: if one of them has another type.
      ValueError: as `check_question`; if levels lie outside the range or are too few.
    """
    check_question(question)
    check_type("samples", samples, Samples, "jaxrob.strategies.Samples")
    levels = samples.levels
    if len(levels) < fewest:
        raise ValueError(
            f"samples must hold at least {fewest} levels, both ends of the range "
            f"among them; got {len(levels)}"
        )
    if len(levels) and not question.lower <= levels[0] <= levels[-1] <= question.upper:
        raise ValueError(
            f"samples must have levels in the range [{question.lower:g}, "
            f"{question.upper:g}]; got levels from {levels[0]:g} to {levels[-1]:g}"
        )


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
            f"parts of jaxrob.strategies.Strategy; got {named(strategy)}, and "
            f"{type(strategy).__name__} lacks {', '.join(missing)}"
        )
