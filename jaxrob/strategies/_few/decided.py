"""The search where each level is decided, and levels are chosen by those decided."""

import math

import numpy as np

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.decide import side
from jaxrob.strategies._few.estimates import estimates
from jaxrob.strategies._few.gaps import known
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Wanted, in_blocks
from jaxrob.strategies._few.plan import finest, requests
from jaxrob.strategies._few.state import Accepted, State

# What the first levels take of the error where levels are decided one by one.
FIRST = 0.5


def look(
    goal: Goal, strategy: ASAP, state: State, answers: dict[int, np.ndarray]
) -> State:
    """The state once images were seen; see `search.FewImages`."""
    levels = dict(state.levels)
    price = _price(goal, state)
    for step, scores in answers.items():
        old = levels.get(step, Level(scores, OPEN, price))
        new = old._replace(scores=scores)
        levels[step] = new._replace(side=side(goal, new))
    if levels[0].side == OPEN or levels[goal.parts].side == OPEN:
        return state._replace(levels=levels)
    now = estimates(levels, goal.least_variance, goal.num_images)
    found = known(goal, strategy, levels, now)
    open_steps = sum(gap.width for gap in found.gaps)
    low = max(found.accepted - found.doubted, 0.0)
    high = min(found.accepted + open_steps + found.hoped, goal.parts)
    guess = min(max(found.accepted + open_steps / 2, low), high)
    accepted = Accepted(low, high, guess)
    half_width = goal.precision * goal.parts
    is_done = not found.gaps or accepted.half_width <= half_width
    if goal.precision == 0:
        is_done = all(gap.width <= 1 for gap in found.gaps)
    return State(levels, accepted, known=found, is_done=is_done)


def following(goal: Goal, state: State) -> tuple[State, list[Wanted]]:
    """What to look at next; nothing if no more can be told on this grid."""
    levels = state.levels
    if state.known is None:
        ends = [step for step in (0, goal.parts) if levels[step].side == OPEN]
        return state, [
            Wanted(step, in_blocks(goal, 2 * levels[step].seen)) for step in ends
        ]
    gaps = state.known.gaps
    now = estimates(levels, goal.least_variance, goal.num_images)
    wanted = requests(goal, levels, now, gaps, _price(goal, state))
    wanted = [
        one
        for one in wanted
        if one.step not in levels or one.seen > levels[one.step].seen
    ]
    wanted = wanted or finest(goal, levels, gaps)
    return state._replace(is_done=not wanted), wanted


def _price(goal: Goal, state: State) -> float:
    """The evidence that decides a new level."""
    crossings = 1
    if state.known is not None:
        crossings = max(1, sum(gap.crosses for gap in state.known.gaps))
    return math.log(2 * crossings / ((1 - FIRST) * goal.error))
