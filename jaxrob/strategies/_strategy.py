"""What a strategy is told of the question it samples for."""

from typing import NamedTuple, Protocol

import numpy as np


class Question(NamedTuple):
    """Over which part of a range is a measure at least a threshold?

    Attributes:
      lower: the range's lower end.
      upper: its upper end.
      threshold: the lowest value accepted.
      num_inputs: the number of inputs behind each value; None before the first value,
        or of values that are exact.
      identity: the level at which nothing is altered, None if it is not known.
    """

    lower: float
    upper: float
    threshold: float
    num_inputs: int | None
    identity: float | None = None


class Strategy(Protocol):
    """Decides which levels to look at, from what is known so far.

    A strategy is a pure function and knows nothing of classifiers: it can be tested
    on any function of a level.

    One that bounds the error of the robustness also has a method `error_bound` of the
    same arguments.

    One whose levels do not suit every rule has an attribute `rules`, those that they
    suit.

    Attributes:
      rule: the rule of `metrics.heaviside_robustness` that the strategy's paper uses.
    """

    rule: str

    def propose(
        self, question: Question, levels: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """The next levels to evaluate, all at once.

        Args:
          question: the question.
          levels: float64 `[n]`, the levels known so far, ascending; n may be 0.
          values: float64 `[n]`, the measure there.

        Returns:
          float64 `[m]` new levels; none when the strategy has seen enough. Levels
          already known, or of the same effect as a known one, cost nothing.
        """
        ...
