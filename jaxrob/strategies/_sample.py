"""Runs a strategy on any function of a level, without a classifier."""

from collections.abc import Callable, Sequence

import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._checks import check_strategy, checked_task
from jaxrob.strategies._drive import Seen, Span, Subject, at_once, concluded, drive
from jaxrob.strategies._few.search import FewImages
from jaxrob.strategies._few.stopping import checked_stopping
from jaxrob.strategies._strategy import (
    BLOCK,
    Found,
    History,
    Strategy,
    Task,
    needs_scores,
)
from jaxrob.strategies._uniform import Uniform


def sample(
    strategy: Strategy,
    task: Task,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
) -> History:
    """Evaluates a function at the levels that a strategy asks for.

    Use it to try a strategy out, or for curves computed elsewhere. Example::

        task = strategies.Task(lower=0.0, upper=1.0, threshold=0.8)
        found = strategies.sample(strategies.ASAP(), task, lambda x: 1 - x / 2)
        metrics.heaviside_robustness(found.levels, found.values, 0.8, "linear")  # 0.4

    Args:
      strategy: the strategy.
      task: the range and the threshold. For a strategy with `needs_scores` also
        `num_images`, N.
      function: maps levels `[m]` to values `[m]`; for a strategy with `needs_scores` to
        the scores `[m, N]` of the images, in the order in which they are looked at. It
        is called again for a level if more of its images are wanted.
      num_inputs: the number of inputs that each value is a share of; None for exact
        values, and for a strategy with `needs_scores`.

    Returns:
      All levels asked for, with their values.

    Raises:
      TypeError: if the strategy lacks a part.
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, or the function gives another number of values or one that
        is not finite.
    """
    check_strategy(strategy)
    task = checked_task(task)
    check_type(
        "function", function, Callable, "a function from levels [m] to values [m]"
    )
    if num_inputs is not None:
        num_inputs = checked_integer("num_inputs", num_inputs, at_least=1)
    if needs_scores(strategy) and num_inputs is not None:
        raise ValueError(
            "num_inputs must be None for a strategy with needs_scores, which looks "
            f"at task.num_images; got {num_inputs}"
        )
    return _driven(_subject(strategy, task), function, num_inputs)


def sample_few(
    strategy: ASAP | Uniform,
    task: Task,
    function: Callable[[np.ndarray], np.ndarray],
    *,
    half_width: float | None = None,
    budget: int | None = None,
    curtail: bool = False,
    required: float | None = None,
) -> tuple[History, Found]:
    """Looks at as few scores as `jaxrob.assess` would look at images.

    For finding out what a half width costs on a curve like yours, before any image is
    classified. Example::

        task = strategies.Task(0.0, 1.0, threshold=0.8, num_images=10_000)
        places = np.random.default_rng(0).permutation(10_000) / 10_000

        def scores(levels):
            return places < 1 - levels[:, None] / 2

        asap = strategies.ASAP()
        seen, found = strategies.sample_few(asap, task, scores, half_width=0.02)
        print(found.robustness, found.interval, sum(map(len, seen.scores)))

    Args:
      strategy: gives the levels.
      task: the range and the threshold, with `num_images`, N. The block is that of
        `jaxrob.assess`, 128.
      function: maps levels `[m]` to the scores `[m, N]` of the images, in a random
        order; it is asked again for a level of which more images are wanted.
      half_width: see `jaxrob.assess`, and likewise the others. One of them is given.
      budget: likewise.
      curtail: likewise.
      required: likewise.

    Returns:
      All levels asked for, with the scores seen, and what follows from them. Intervals
      are of `task.confidence_level`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: as `sample`; if an argument is outside its range, none says when to
        stop, or the scores are in no random order, so that they contradict each other.
    """
    wanted = "a jaxrob.strategies.ASAP or Uniform"
    check_type("strategy", strategy, ASAP | Uniform, wanted)
    task = checked_task(task)
    wanted = "a function from levels [m] to scores [m, N]"
    check_type("function", function, Callable, wanted)
    how = half_width, budget, curtail, required
    confidence_level = checked_confidence_level(task.confidence_level)
    stopping = checked_stopping(*how, confidence_level)
    if stopping is None:
        raise ValueError(
            "half_width, budget, curtail or required must say when to stop; got none "
            "of them: `sample` looks at all"
        )
    number = checked_integer("task.num_images", task.num_images, at_least=1)
    task = task._replace(block=min(BLOCK, number))
    subject = _subject(FewImages(strategy, stopping), task)
    history = _driven(subject, function, budget=stopping.budget)
    return history, concluded(subject, history)


def _driven(
    subject: Subject,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
    budget: int | None = None,
) -> History:
    shape, task = (), subject.task
    if needs_scores(subject.strategy):
        shape = (checked_integer("task.num_images", task.num_images, at_least=1),)

    def look(parts: Sequence[Span]) -> list[Seen]:
        levels = np.array([part.level for part in parts])
        values = _checked_values(function(levels), levels, shape)
        if not shape:
            return [Seen(value, num_inputs) for value in values.tolist()]
        scores = [some[: part.stop] for some, part in zip(values, parts)]
        return [Seen(float(some.mean()), len(some), some) for some in scores]

    (history,) = drive([subject], at_once(look), budget=budget)
    return history


def _subject(strategy: Strategy, task: Task) -> Subject:
    return Subject("sample", strategy, task, _same, _same)


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
