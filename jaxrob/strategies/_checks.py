"""Checks of strategies, and of the arguments of their methods."""

from typing import Any

from jaxrob._arguments.checks import (
    check_ascending,
    check_type,
    checked_array,
    checked_integer,
    checked_number,
    checked_share,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.strategies._strategy import History, Task


def check_strategy(strategy: Any) -> None:
    if isinstance(strategy, type):
        wanted = "an object such as ASAP(), not a class"
        raise wrong_type("strategy", wanted, strategy)
    parts = ("init", "ask", "result", "rule", "rules")
    missing = [part for part in parts if not hasattr(strategy, part)]
    if missing:
        raise TypeError(
            "strategy must be one of jaxrob.strategies, such as ASAP(), or have the "
            f"parts of jaxrob.strategies.Strategy; got {named(strategy)}, and "
            f"{type(strategy).__name__} lacks {', '.join(missing)}"
        )


def checked_task(task: Any) -> Task:
    check_type("task", task, Task, "a jaxrob.strategies.Task")
    lower = checked_number("task.lower", task.lower)
    upper = checked_number("task.upper", task.upper)
    check_ascending("task.lower", lower, "task.upper", upper)
    low, high = checked_array("task.bounds", task.bounds, "2")
    check_ascending("task.bounds[0]", low, "task.bounds[1]", high)
    block = checked_integer("task.block", task.block, at_least=1)
    number, identity = task.num_images, task.identity
    if number is not None:
        number = checked_integer("task.num_images", number, at_least=1)
    threshold = checked_share("task.threshold", task.threshold)
    if identity is not None:
        identity = checked_number(
            "task.identity", identity, at_least=lower, at_most=upper
        )
    bounds = float(low), float(high)
    level = checked_confidence_level(task.confidence_level)
    return Task(lower, upper, threshold, identity, number, bounds, block, level)


def checked_asked(task: Any, history: Any, min_levels: int = 0) -> Task:
    """Returns the task; rejects arguments that a strategy's methods do not accept."""
    task = checked_task(task)
    check_type("history", history, History, "jaxrob.strategies.History")
    levels = history.levels
    if len(levels) < min_levels:
        raise ValueError(
            f"history must hold at least {min_levels} levels, both ends of the range "
            f"among them; got {len(levels)}"
        )
    if len(levels) and not task.lower <= levels[0] <= levels[-1] <= task.upper:
        raise ValueError(
            f"history must have levels in the range [{task.lower:g}, "
            f"{task.upper:g}]; got levels from {levels[0]:g} to {levels[-1]:g}"
        )
    return task
