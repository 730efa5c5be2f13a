"""Runs a strategy on any function of a level, without a classifier."""

from collections.abc import Callable, Sequence

import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob.strategies._checks import check_strategy, checked_task
from jaxrob.strategies._drive import Seen, Span, Subject, at_once, concluded, drive
from jaxrob.strategies._strategy import Found, History, Strategy, Task, needs_scores


def sample(
    strategy: Strategy,
    task: Task,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
) -> tuple[History, Found]:
    """Evaluates a function at the levels that a strategy asks for.

    Use it to try a strategy out, or for curves computed elsewhere. Example::

        task = strategies.Task(lower=0.0, upper=1.0, threshold=0.8)
        seen, found = strategies.sample(strategies.ASAP(), task, lambda x: 1 - x / 2)
        metrics.heaviside_robustness(seen.levels, seen.values, 0.8, "linear")  # 0.4

    It also tells what a half width costs on a curve like yours, before any image is
    classified::

        task = strategies.Task(0.0, 1.0, threshold=0.8, num_images=10_000)
        places = np.random.default_rng(0).permutation(10_000) / 10_000

        def scores(levels):
            return places < 1 - levels[:, None] / 2

        few = strategies.FewImages(strategies.ASAP(), half_width=0.02)
        seen, found = strategies.sample(few, task, scores)
        print(found.robustness, found.interval, sum(map(len, seen.scores)))

    Args:
      strategy: the strategy.
      task: the range and the threshold. For a strategy with `needs_scores` also
        `num_images`, N.
      function: maps levels `[m]` to values `[m]`; for a strategy with `needs_scores` to
        the scores `[m, N]` of the images, in a random order. It is called again for a
        level if more of its images are wanted.
      num_inputs: the number of inputs that each value is a share of; None for exact
        values, and for a strategy with `needs_scores`.

    Returns:
      All levels asked for, with their values, and what follows from them.

    Raises:
      TypeError: if the strategy lacks a part.
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, the function gives another number of values or one that
        is not finite, or a budget is too small for the first levels.
    """
    check_strategy(strategy)
    task = checked_task(task)
    wanted = "a function from levels [m] to values [m], or to scores [m, N]"
    check_type("function", function, Callable, wanted)
    if num_inputs is not None:
        num_inputs = checked_integer("num_inputs", num_inputs, at_least=1)
    shape = ()
    if needs_scores(strategy):
        if num_inputs is not None:
            raise ValueError(
                "num_inputs must be None for a strategy with needs_scores, which looks "
                f"at task.num_images; got {num_inputs}"
            )
        number = checked_integer("task.num_images", task.num_images, at_least=1)
        task, shape = task._replace(block=min(task.block, number)), (number,)

    def look(parts: Sequence[Span]) -> list[Seen]:
        levels = np.array([part.level for part in parts])
        values = _checked_values(function(levels), levels, shape)
        if not shape:
            return [Seen(value, num_inputs) for value in values.tolist()]
        scores = [some[: part.stop] for some, part in zip(values, parts)]
        return [Seen(float(some.mean()), len(some), some) for some in scores]

    subject = Subject("sample", task, np.asarray, np.asarray)
    (explored,) = drive(strategy, [subject], at_once(look))
    return explored.history, concluded(strategy, subject, explored)


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
