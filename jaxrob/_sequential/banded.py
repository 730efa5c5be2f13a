"""The search to a stated precision, by bands around the curve of few images.

It ends as soon as the interval is as narrow as asked, which says nothing of where it
lies: so the interval covers as often as one of a number of images fixed before (Chow
and Robbins 1965, "On the asymptotic theory of fixed-width sequential confidence
intervals for the mean").
"""

import numpy as np

from jaxrob._sequential.aim import MARGIN, crossings, may_stay_open, requests
from jaxrob._sequential.bands import Bands, Shape, bands, quantile, shape
from jaxrob._sequential.clusters import clusters, shares
from jaxrob._sequential.estimates import Estimates, estimates
from jaxrob._sequential.joint import share_together
from jaxrob._sequential.state import Accepted, State
from jaxrob._sequential.task import OPEN, Level, Request, Task
from jaxrob.metrics._interval import accepted_widths
from jaxrob.strategies import ASAP

# What levels away from the crossings take of the error.
_ERROR_FAR = 0.1
# Bands of this error leave at most so many times as much open as what is planned, or
# as the bands do. It is 0.001 over about ten looks.
_ERROR_GROSS, _GROSS = 1e-4, 3.0
# Rounding of means of scores.
_SLACK = 1e-9


def look(
    task: Task, strategy: ASAP, state: State, answers: dict[int, np.ndarray]
) -> State:
    """The state once more images were seen; see `search.look`."""
    task = _with_slack(task)
    levels = dict(state.levels)
    for step, scores in answers.items():
        levels[step] = Level(scores, OPEN, 0.0)
    seen = {step: one for step, one in levels.items() if one.seen}
    found = estimates(seen, task.least_variance, task.num_images)
    now = _telling(task, found, shape(task, strategy, found))
    steps = found.steps.astype(float)
    guess = float(accepted_widths(steps, found.means, found.means, task.least)[0].sum())
    places = crossings(task, now, clusters(task, now))
    now = now._replace(together=share_together(task, seen, found, places))
    closer = (1 - now.together) * sum(one.straight for one in places) / 2
    low, high = float(now.low.sum()) + closer, float(now.high.sum()) - closer
    sides = now.sides(task.least).tolist()
    for step, side in zip(found.steps.tolist(), sides):
        levels[step] = levels[step]._replace(side=side)
    if state.accepted.high - state.accepted.low < high - low:
        # A wider look, on the way to a finer aim, takes nothing back.
        low, high, _ = state.accepted
    accepted = Accepted(low, high, min(max(guess, low), high))
    is_done = accepted.half_width <= task.precision * task.parts
    return State(levels, accepted, bands=now, is_done=is_done)


def following(task: Task, state: State) -> tuple[State, list[Request]]:
    """What to look at next; nothing if no more can be told on this grid."""
    assert state.bands is not None
    task = _with_slack(task)
    half_width = task.precision * task.parts
    if state.bands.z > height(task):
        half_width *= _GROSS
    levels = {step: one for step, one in state.levels.items() if one.seen}
    wanted = requests(task, levels, state.bands, state.bands.z, half_width)
    return state._replace(is_done=not wanted), wanted


def height(task: Task) -> float:
    """Half the height of the bands at crossings, in standard deviations."""
    return quantile((1 - _ERROR_FAR) * task.error)


def _with_slack(task: Task) -> Task:
    """The question, with sums of scores on the threshold accepted however rounded."""
    return task._replace(least=task.least - _SLACK)


def _telling(task: Task, found: Estimates, between: Shape) -> Bands:
    """The bands, or far higher ones where these leave far more open.

    Where a curve runs close to the threshold, few images more or less right move its
    crossing far, or are all that keeps its levels on one side. Then the width depends
    on where the levels happen to lie, and ends the search where they lie wrong. What
    counts is how far the means may err: how a curve may bend unseen is not a matter of
    chance, and the usual bands leave it open too.
    """
    now = _bands(task, found, between)
    high = bands(task, found, between, 0.0, max(quantile(_ERROR_GROSS), now.z))
    planned = max(float(now.open.sum()), 2 * task.precision * task.parts)
    return high if float(high.straight.sum()) > _GROSS * planned else now


def _bands(task: Task, found: Estimates, between: Shape) -> Bands:
    """The bands, whose height away from crossings depends on where these are."""
    half_width, z = task.precision * task.parts, height(task)
    now = bands(task, found, between, 2 * task.precision / z, z)
    for _ in range(2):
        wanted = _planned_deviation(task, now, half_width)
        if wanted is None:
            return now
        now = bands(task, found, between, wanted, z)
    return now


def _planned_deviation(task: Task, now: Bands, half_width: float) -> float | None:
    """The deviation of levels that place the crossings well enough; None without."""
    found = clusters(task, now)
    places = crossings(task, now, found)
    given = shares(task, found, places, may_stay_open(now, half_width))
    wanted = [MARGIN * given[one] / 2 * places[one].slope for one in places]
    return min(wanted) / height(task) if wanted else None
