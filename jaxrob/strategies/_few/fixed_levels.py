"""The search over levels given in advance: each is decided, the cheapest first."""

import math

import numpy as np

from jaxrob.strategies._few.goal import (
    ACCEPTED,
    OPEN,
    Goal,
    Wanted,
    images_needed,
    rounded_to_blocks,
)
from jaxrob.strategies._few.sides import side
from jaxrob.strategies._few.state import Accepted, Method, State
from jaxrob.strategies._uniform import Uniform

# The growth of a level's number of images from one look to the next.
_GROWTH = 0.5


def look(
    goal: Goal, strategy: Uniform, state: State, answers: dict[int, np.ndarray]
) -> State:
    """Returns the state updated with newly seen images; see `decided.look`."""
    # The steps accepted are levels: the robustness is the share of levels accepted
    # (2020 paper, Definition 5).
    levels = dict(state.levels)
    for step, scores in answers.items():
        new = levels[step]._replace(scores=scores)
        levels[step] = new._replace(side=side(goal, new))
    low = sum(one.side == ACCEPTED for one in levels.values())
    high = low + sum(one.side == OPEN for one in levels.values())
    guess = sum(
        one.side == ACCEPTED or (one.side == OPEN and one.mean >= goal.least)
        for one in levels.values()
    )
    now = Accepted(low, high, guess)
    is_done = now.half_width <= goal.half_width * goal.parts
    return state._replace(levels=levels, accepted=now, is_done=is_done)


def following(goal: Goal, state: State) -> tuple[State, list[Wanted]]:
    """Requests the open levels that are cheapest to decide, as many as necessary."""
    cost = {}
    for step, one in state.levels.items():
        if one.side == OPEN:
            off = np.array(one.mean - goal.least)
            noise = goal.deviation / math.sqrt(one.seen)
            off = np.maximum(np.abs(off), noise / 2)
            cost[step] = float(images_needed(goal, off, one.needed_evidence))
    may_stay = math.floor(2 * goal.half_width * goal.parts)
    cheapest = sorted(cost, key=lambda s: cost[s])[: max(len(cost) - may_stay, 0)]
    wanted = []
    for step in cheapest:
        seen = state.levels[step].seen
        more = max(min(seen * (1 + _GROWTH), cost[step]), seen + goal.block)
        wanted.append(Wanted(step, rounded_to_blocks(goal, more)))
    return state._replace(is_done=not wanted), wanted


METHOD = Method(look, following)
