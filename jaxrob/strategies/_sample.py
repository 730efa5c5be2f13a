"""A strategy on any function of a level, without a classifier."""

from collections.abc import Callable

import numpy as np

from jaxrob._runtime.checks import check_callable, checked_integer
from jaxrob.strategies._strategy import (
    NO_SAMPLES,
    Question,
    Samples,
    Strategy,
    check_question,
    check_strategy,
)


def sample(
    strategy: Strategy,
    question: Question,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
) -> Samples:
    """Evaluates a function wherever a strategy asks, each level once.

    For trying a strategy out, or for curves that come from elsewhere. Example::

        question = strategies.Question(lower=0.0, upper=1.0, threshold=0.8)
        found = strategies.sample(strategies.ASAP(), question, lambda x: 1 - x / 2)
        metrics.heaviside_robustness(found.levels, found.values, 0.8, "linear")  # 0.4

    Args:
      strategy: the strategy.
      question: the range and the threshold.
      function: maps levels `[m]` to values `[m]`.
      num_inputs: how many inputs each value is a share of; None for exact values.

    Returns:
      All levels asked for, with their values.

    Raises:
      TypeError: if the strategy lacks a part.
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, or the function gives another number of values or one that
        is not finite.
    """
    check_strategy(strategy)
    check_question(question)
    check_callable("function", function, "a function from levels [m] to values [m]")
    if num_inputs is not None:
        checked_integer("num_inputs", num_inputs, at_least=1)
    samples = NO_SAMPLES
    while True:
        asked = strategy.propose(question, samples)
        new = np.setdiff1d(asked, samples.levels)
        if not len(new):
            return samples
        levels = np.append(samples.levels, new)
        values = np.append(samples.values, _checked_values(function(new), new))
        order = np.argsort(levels)
        samples = Samples(
            levels[order],
            values[order],
            None if num_inputs is None else np.full(len(levels), num_inputs),
            rounds=samples.rounds + 1,
        )


def _checked_values(found: np.ndarray, levels: np.ndarray) -> np.ndarray:
    found = np.asarray(found, np.float64)
    if found.shape != levels.shape:
        raise ValueError(
            f"the function must give a value for each of {len(levels)} levels; got "
            f"the shape {found.shape}"
        )
    if not np.isfinite(found).all():
        bad = np.flatnonzero(~np.isfinite(found))[0]
        raise ValueError(
            f"the function must give finite values; got {found[bad]} at level "
            f"{levels[bad]:g}"
        )
    return found
