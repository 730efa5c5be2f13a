"""A strategy on any function of a level, without a classifier."""

from collections.abc import Callable, Sequence

import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob.strategies._checks import check_strategy, check_task
from jaxrob.strategies._drive import Seen, Span, Subject, drive
from jaxrob.strategies._strategy import History, Strategy, Task, needs_scores


def sample(
    strategy: Strategy,
    task: Task,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
) -> History:
    """Evaluates a function wherever a strategy asks.

    For trying a strategy out, or for curves that come from elsewhere. Example::

        task = strategies.Task(lower=0.0, upper=1.0, threshold=0.8)
        found = strategies.sample(strategies.ASAP(), task, lambda x: 1 - x / 2)
        metrics.heaviside_robustness(found.levels, found.values, 0.8, "linear")  # 0.4

    Args:
      strategy: the strategy.
      task: the range and the threshold. For a strategy with `needs_scores` also
        `num_images`, N.
      function: maps levels `[m]` to values `[m]`; for a strategy with `needs_scores` to
        the scores `[m, N]` of the images, in the order in which they are looked at. It
        is asked again for a level of which more images are wanted.
      num_inputs: how many inputs each value is a share of; None for exact values, and
        for a strategy with `needs_scores`.

    Returns:
      All levels asked for, with their values.

    Raises:
      TypeError: if the strategy lacks a part.
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, or the function gives another number of values or one that
        is not finite.
    """
    check_strategy(strategy)
    check_task(task)
    check_type(
        "function", function, Callable, "a function from levels [m] to values [m]"
    )
    if num_inputs is not None:
        checked_integer("num_inputs", num_inputs, at_least=1)
    shape = ()
    if needs_scores(strategy):
        if num_inputs is not None:
            raise ValueError(
                "num_inputs must be None for a strategy with needs_scores, which looks "
                f"at task.num_images; got {num_inputs}"
            )
        shape = (checked_integer("task.num_images", task.num_images, at_least=1),)

    def look(parts: Sequence[Span]) -> list[Seen]:
        levels = np.array([part.level for part in parts])
        values = _checked_values(function(levels), levels, shape)
        if not shape:
            return [Seen(value, num_inputs) for value in values.tolist()]
        scores = [some[: part.stop] for some, part in zip(values, parts)]
        return [Seen(float(some.mean()), len(some), some) for some in scores]

    (history,) = drive([Subject("sample", strategy, task, _same, _same)], look)
    return history


def _same(levels: np.ndarray) -> np.ndarray:
    return levels


def _checked_values(
    found: np.ndarray, levels: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    found = np.asarray(found, np.float64)
    if found.shape != (*levels.shape, *shape):
        each = "a value" if not shape else f"{shape[0]} scores"
        raise ValueError(
            f"the function must give {each} for each of {len(levels)} levels; got the "
            f"shape {found.shape}"
        )
    finite = np.isfinite(found).reshape(len(levels), -1).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ValueError(
            f"the function must give finite values; got {found[bad]} at level "
            f"{levels[bad]:g}"
        )
    return found
