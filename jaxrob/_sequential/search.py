"""The search of one alteration's robustness: rounds of requests and answers."""

import math

import numpy as np

from jaxrob._sequential import banded
from jaxrob._sequential.decide import side
from jaxrob._sequential.estimates import estimates
from jaxrob._sequential.gaps import known
from jaxrob._sequential.plan import finest, requests
from jaxrob._sequential.state import Accepted, State
from jaxrob._sequential.task import OPEN, Level, Request, Task, in_blocks
from jaxrob.strategies import ASAP

# What the first levels take of the error where levels are decided one by one.
_FIRST = 0.5


def begin(task: Task, first: np.ndarray) -> tuple[State, list[Request]]:
    """The state at first, and the first levels to look at."""
    steps = np.unique(first).tolist()
    price = math.log(len(steps) / (_FIRST * task.error))
    levels = {step: Level(np.array([]), OPEN, price) for step in steps}
    state = State(levels, Accepted(0, task.parts, task.parts / 2))
    return state, [Request(step, in_blocks(task, task.block)) for step in steps]


def look(
    task: Task, strategy: ASAP, state: State, answers: dict[int, np.ndarray]
) -> State:
    """The state once more images were seen.

    Args:
      task: the question.
      strategy: tells where a curve may cross between levels.
      state: the state before.
      answers: for each level looked at, the scores of all images seen there.
    """
    if task.by_bands:
        return banded.look(task, strategy, state, answers)
    levels = dict(state.levels)
    price = _price(task, state)
    for step, scores in answers.items():
        old = levels.get(step, Level(scores, OPEN, price))
        new = old._replace(scores=scores)
        levels[step] = new._replace(side=side(task, new))
    if levels[0].side == OPEN or levels[task.parts].side == OPEN:
        return state._replace(levels=levels)
    now = estimates(levels, task.least_variance, task.num_images)
    found = known(task, strategy, levels, now)
    open_steps = sum(gap.width for gap in found.gaps)
    low = max(found.accepted - found.doubted, 0.0)
    high = min(found.accepted + open_steps + found.hoped, task.parts)
    guess = min(max(found.accepted + open_steps / 2, low), high)
    accepted = Accepted(low, high, guess)
    half_width = task.precision * task.parts
    is_done = not found.gaps or accepted.half_width <= half_width
    if task.precision == 0:
        is_done = all(gap.width <= 1 for gap in found.gaps)
    return State(levels, accepted, known=found, is_done=is_done)


def following(task: Task, state: State) -> tuple[State, list[Request]]:
    """What to look at next; nothing if no more can be told on this grid."""
    if task.by_bands:
        return banded.following(task, state)
    levels = state.levels
    if state.known is None:
        ends = [step for step in (0, task.parts) if levels[step].side == OPEN]
        return state, [
            Request(step, in_blocks(task, 2 * levels[step].seen)) for step in ends
        ]
    gaps = state.known.gaps
    now = estimates(levels, task.least_variance, task.num_images)
    wanted = requests(task, levels, now, gaps, _price(task, state))
    wanted = [
        one
        for one in wanted
        if one.step not in levels or one.seen > levels[one.step].seen
    ]
    wanted = wanted or finest(task, levels, gaps)
    return state._replace(is_done=not wanted), wanted


def _price(task: Task, state: State) -> float:
    """The evidence that decides a new level."""
    crossings = 1
    if state.known is not None:
        crossings = max(1, sum(gap.crosses for gap in state.known.gaps))
    return math.log(2 * crossings / ((1 - _FIRST) * task.error))
