"""The search where the levels are given: each is to be decided, the cheapest first."""

import math

import numpy as np

from jaxrob._sequential.decide import side
from jaxrob._sequential.state import Accepted, State
from jaxrob._sequential.task import (
    ACCEPTED,
    OPEN,
    Level,
    Request,
    Task,
    images_needed,
    in_blocks,
)

# By how much the images of a level grow from one look to the next.
_GROWTH = 0.5


def begin(task: Task) -> tuple[State, list[Request]]:
    """The state at first, and the first look: at all levels, steps 0 ... parts - 1."""
    price = math.log(task.parts / task.error)
    levels = {step: Level(np.array([]), OPEN, price) for step in range(task.parts)}
    state = State(levels, Accepted(0, task.parts, task.parts / 2))
    return state, [Request(step, in_blocks(task, task.block)) for step in levels]


def look(task: Task, state: State, answers: dict[int, np.ndarray]) -> State:
    """The state once more images were seen; see `search.look`.

    The steps accepted are levels: the share of levels accepted is the robustness (2020
    paper, Definition 5).
    """
    levels = dict(state.levels)
    for step, scores in answers.items():
        new = levels[step]._replace(scores=scores)
        levels[step] = new._replace(side=side(task, new))
    low = sum(one.side == ACCEPTED for one in levels.values())
    high = low + sum(one.side == OPEN for one in levels.values())
    guess = sum(
        one.side == ACCEPTED or (one.side == OPEN and one.mean >= task.least)
        for one in levels.values()
    )
    now = Accepted(low, high, guess)
    is_done = now.half_width <= task.precision * task.parts
    return state._replace(levels=levels, accepted=now, is_done=is_done)


def following(task: Task, state: State) -> tuple[State, list[Request]]:
    """The open levels that are cheapest to decide, as many as have to be."""
    cost = {}
    for step, one in state.levels.items():
        if one.side == OPEN:
            off = np.array(one.mean - task.least)
            noise = task.deviation / math.sqrt(one.seen)
            off = np.maximum(np.abs(off), noise / 2)
            cost[step] = float(images_needed(task, off, one.price))
    may_stay = math.floor(2 * task.precision * task.parts)
    cheapest = sorted(cost, key=lambda s: cost[s])[: max(len(cost) - may_stay, 0)]
    wanted = []
    for step in cheapest:
        seen = state.levels[step].seen
        more = max(min(seen * (1 + _GROWTH), cost[step]), seen + task.block)
        wanted.append(Request(step, in_blocks(task, more)))
    return state._replace(is_done=not wanted), wanted
