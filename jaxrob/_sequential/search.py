"""The search of one alteration's robustness: rounds of requests and answers."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob._sequential.crossing import Placed, rough
from jaxrob._sequential.decide import side
from jaxrob._sequential.gaps import Gap, Known, known
from jaxrob._sequential.interval import (
    Accepted,
    accepted,
    curvature,
    deviation,
    images_for,
    lines,
    narrowed,
)
from jaxrob._sequential.plan import FIXED, finest, requests
from jaxrob._sequential.task import OPEN, Level, Levels, Request, Task, in_blocks
from jaxrob.strategies import ASAP

# How the error is shared: the first levels, those that bracket crossings, and the
# crossings that are placed between. With precision 0 there are none of the last.
_FIRST, _BRACKETS = 0.05, 0.15
# Of what is left for placed crossings, a look at the images planned takes so much, and
# any other so much of the whole.
_PLANNED, _OTHER = 0.6, 0.01
# The plan is for so much less than what is asked; and less again each time it failed.
_MARGIN, _AGAIN = 0.92, 0.9
# No look is one that was planned while what more images of the centres do not improve
# takes more than this share of the half width.
_FIXED = 0.7
# From so many images on, all are looked at: nothing is left to chance then.
_ALL = 0.85


class State(NamedTuple):
    """What a search has found.

    Attributes:
      levels: what was seen.
      accepted: the steps that are accepted; all open where the ends are not decided.
      known: what is certain; None where the ends are not decided.
      left: the share of the error for placed crossings that no look has used.
      planned: how many looks had as many images as were planned.
      is_done: whether nothing more is to be looked at.
    """

    levels: Levels
    accepted: Accepted
    known: Known | None = None
    left: float = 1.0
    planned: int = 0
    is_done: bool = False


def begin(task: Task, first: np.ndarray) -> tuple[State, list[Request]]:
    """The state at first, and the first levels to look at."""
    steps = np.unique(first).tolist()
    share = _FIRST if task.precision > 0 else 0.5
    price = math.log(len(steps) / (share * task.error))
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
    levels = dict(state.levels)
    price = _price(task, state)
    for step, scores in answers.items():
        old = levels.get(step, Level(scores, OPEN, price))
        new = old._replace(scores=scores)
        levels[step] = new._replace(side=side(task, new))
    if levels[0].side == OPEN or levels[task.parts].side == OPEN:
        return state._replace(levels=levels)
    found = known(task, strategy, levels)
    placed_at, used, planned = {}, 0.0, state.planned
    if task.precision > 0:
        placed_at = lines(task, levels, found.gaps)
    if placed_at:
        needed = _needed(task, state, levels, found, placed_at)
        seen = min(len(one.offsets) for one in placed_at.values())
        crossings = list(placed_at.values())
        fixed = deviation(crossings) + curvature(crossings)
        is_planned = seen >= min(0.98 * needed, task.num_images)
        is_planned &= fixed <= _FIXED * task.precision * task.parts
        used = state.left * _PLANNED if is_planned else min(_OTHER, state.left / 4)
        if seen == task.num_images:
            used = 0.0  # Nothing is left to chance.
        planned += is_planned
    error = used * _placed_error(task) or 1.0
    now = narrowed(accepted(task, found, placed_at, error), state.accepted)
    is_done = not found.gaps or now.half_width <= task.precision * task.parts
    if task.precision == 0:
        is_done = all(gap.width <= 1 for gap in found.gaps)
    return State(levels, now, found, state.left - used, planned, is_done)


def following(task: Task, state: State) -> tuple[State, list[Request]]:
    """What to look at next; nothing if no more can be told on this grid."""
    levels = state.levels
    if state.known is None:
        ends = [step for step in (0, task.parts) if levels[step].side == OPEN]
        return state, [_doubled(task, levels, step) for step in ends]
    placed_at, needed = {}, 0.0
    if task.precision > 0:
        placed_at = lines(task, levels, state.known.gaps)
        needed = _needed(task, state, levels, state.known, placed_at)
    wanted = requests(
        task,
        levels,
        state.known.gaps,
        placed_at,
        needed,
        _price(task, state),
        2 * task.precision * task.parts,
    )
    wanted = [one for one in wanted if one.seen > _seen(levels, one.step)]
    wanted = wanted or finest(task, levels, state.known.gaps)
    return state._replace(is_done=not wanted), wanted


def _needed(
    task: Task,
    state: State,
    levels: Levels,
    found: Known,
    placed_at: dict[Gap, Placed],
) -> float:
    """How many images place all crossings as well as they have to be.

    It is told from slopes and scatter alone, not from where the crossings are.
    """
    whole = task.precision * task.parts * _MARGIN * _AGAIN**state.planned
    error = state.left * _PLANNED * _placed_error(task)
    half, scatter, curved = whole, 0.0, 0.0
    for gap in found.gaps:
        if gap in placed_at:
            one = placed_at[gap]
            scatter += float(one.offsets.var())
            curved = max(curved, one.curved)
        elif gap.crosses:
            scatter += (task.deviation / rough(task, levels, gap).slope) ** 2
        else:
            half -= gap.width / 2
    crossings = list(placed_at.values())
    half -= min(curvature(crossings), FIXED * whole)
    half = max(half, 0.2 * whole) / (1 + curved)
    half = math.sqrt(half**2 - min(deviation(crossings), FIXED * half) ** 2)
    needed = images_for(task, math.sqrt(scatter), error, half)
    return needed if needed < _ALL * task.num_images else float(task.num_images)


def _placed_error(task: Task) -> float:
    return (1 - _FIRST - _BRACKETS) * task.error


def _price(task: Task, state: State) -> float:
    """The evidence that decides a new level."""
    crossings = 1
    if state.known is not None:
        crossings = max(1, sum(gap.crosses for gap in state.known.gaps))
    share = _BRACKETS if task.precision > 0 else 0.5
    return math.log(2 * crossings / (share * task.error))


def _doubled(task: Task, levels: Levels, step: int) -> Request:
    return Request(step, in_blocks(task, 2 * levels[step].seen))


def _seen(levels: Levels, step: int) -> int:
    return levels[step].seen if step in levels else 0
