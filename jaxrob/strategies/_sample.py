"""A strategy on any function of a level, without a classifier."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._strategy import Question, Strategy


class Samples(NamedTuple):
    """What a strategy looked at.

    Attributes:
      levels: float64 `[n]`, ascending.
      values: float64 `[n]`, the function there.
      rounds: the number of proposals that held a new level.
    """

    levels: np.ndarray
    values: np.ndarray
    rounds: int


def sample(
    strategy: Strategy,
    question: Question,
    function: Callable[[np.ndarray], np.ndarray],
) -> Samples:
    """Evaluates a function wherever a strategy asks, each level once.

    Args:
      strategy: the strategy.
      question: the range, the threshold and, if the values are shares of a number of
        inputs, this number.
      function: maps levels `[m]` to values `[m]`.

    Returns:
      All levels asked for.

    Raises:
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, or the function gives another number of values or one that
        is not finite.
    """
    lower, upper = question.lower, question.upper
    if not -math.inf < lower < upper < math.inf:
        raise ValueError(
            "the question's range must be finite with lower < upper; got "
            f"lower={lower}, upper={upper}"
        )
    if question.num_inputs is not None and question.num_inputs < 1:
        raise ValueError(
            f"num_inputs must be at least 1, or None; got {question.num_inputs}"
        )
    if not 0 <= question.threshold <= 1:
        raise ValueError(f"threshold must lie in [0, 1]; got {question.threshold}")
    levels, values, rounds = np.array([]), np.array([]), 0
    while len(new := np.setdiff1d(strategy.propose(question, levels, values), levels)):
        found = np.asarray(function(new), np.float64)
        if found.shape != new.shape:
            raise ValueError(
                f"the function must give a value for each of {len(new)} levels; got "
                f"the shape {found.shape}"
            )
        if not np.isfinite(found).all():
            bad = np.flatnonzero(~np.isfinite(found))[0]
            raise ValueError(
                f"the function must give finite values; got {found[bad]} at level "
                f"{new[bad]:g}"
            )
        levels, values = np.append(levels, new), np.append(values, found)
        order = np.argsort(levels)
        levels, values, rounds = levels[order], values[order], rounds + 1
    return Samples(levels, values, rounds)
