"""The search to a stated half width, by bands around the curve of few images.

It ends as soon as the interval is as narrow as asked, which says nothing of where it
lies: so the interval covers as often as one of a number of images fixed before (Chow
and Robbins 1965, "On the asymptotic theory of fixed-width sequential confidence
intervals for the mean").
"""

import numpy as np

from jaxrob.metrics._interval import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.aim import MARGIN, may_stay_open, requests
from jaxrob.strategies._few.bands import Bands, Shape, bands, quantile, shape
from jaxrob.strategies._few.cheapest import images_for
from jaxrob.strategies._few.clusters import clusters, crossings, share_together, shares
from jaxrob.strategies._few.estimates import Estimates, estimates
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Wanted
from jaxrob.strategies._few.state import Accepted, State

# What levels away from the crossings take of the error.
_ERROR_FAR = 0.1
# Bands of this error leave at most so many times as much open as what is planned, or
# as the bands do. It is 0.001 over about ten looks.
_ERROR_GROSS, _GROSS = 1e-4, 3.0
# What finding a crossing and the levels beside it take, as a share of the images of the
# level that places it.
_BESIDE = 1.2

# Rounding of means of scores.
_SLACK = 1e-9


def look(
    goal: Goal, strategy: ASAP, state: State, answers: dict[int, np.ndarray]
) -> State:
    """Returns the state updated with newly seen images; see `decided.look`."""
    goal = _with_slack(goal)
    levels = dict(state.levels)
    for step, scores in answers.items():
        levels[step] = Level(scores, OPEN, 0.0)
    seen = {step: one for step, one in levels.items() if one.seen}
    found = estimates(seen, goal.least_variance, goal.num_images)
    now = _telling(goal, found, shape(goal, strategy, found))
    steps = found.steps.astype(float)
    guess = float(accepted_widths(steps, found.means, found.means, goal.least)[0].sum())
    places = crossings(goal, now, clusters(goal, now))
    now = now._replace(together=share_together(goal, seen, found, places))
    closer = (1 - now.together) * sum(one.straight for one in places) / 2
    low, high = float(now.low.sum()) + closer, float(now.high.sum()) - closer
    sides = now.sides(goal.least).tolist()
    for step, side in zip(found.steps.tolist(), sides):
        levels[step] = levels[step]._replace(side=side)
    if state.accepted.high - state.accepted.low < high - low:
        # A wider look, on the way to a finer aim, takes nothing back.
        low, high, _ = state.accepted
    accepted = Accepted(low, high, min(max(guess, low), high))
    is_done = accepted.half_width <= goal.half_width * goal.parts
    return State(levels, accepted, bands=now, is_done=is_done)


def following(goal: Goal, state: State) -> tuple[State, list[Wanted]]:
    """What to look at next; nothing if no more can be told on this grid."""
    assert state.bands is not None
    goal = _with_slack(goal)
    half_width = goal.half_width * goal.parts
    if state.bands.z > height(goal):
        half_width *= _GROSS
    levels = {step: one for step, one in state.levels.items() if one.seen}
    wanted = requests(goal, levels, state.bands, state.bands.z, half_width)
    return state._replace(is_done=not wanted), wanted


def expected_cost(goal: Goal, state: State, half_width: float) -> float:
    """About how many images more a half width takes; 0 where that is not known.

    Args:
      goal: the goal.
      state: what was seen.
      half_width: half the width that may stay open, as a share of the range.
    """
    if state.bands is None:
        return 0.0
    found = clusters(goal, state.bands)
    places = crossings(goal, state.bands, found)
    width = may_stay_open(state.bands, half_width * goal.parts)
    given = shares(goal, found, places, width)
    steps, total = state.bands.estimates.steps, 0.0
    for one, about in places.items():
        inside = steps[one.first : one.last + 1].tolist()
        seen = max(state.levels[step].seen for step in inside)
        deviation = MARGIN * given[one] / 2 * about.slope / height(goal)
        total += max((1 + _BESIDE) * images_for(goal, deviation) - seen, 0)
    return total


def height(goal: Goal) -> float:
    """Half the height of the bands at crossings, in standard deviations."""
    return quantile((1 - _ERROR_FAR) * goal.error)


def _with_slack(goal: Goal) -> Goal:
    """The goal, with sums of scores on the threshold accepted however rounded."""
    return goal._replace(least=goal.least - _SLACK)


def _telling(goal: Goal, found: Estimates, between: Shape) -> Bands:
    """The bands, or far higher ones where these leave far more open.

    Where a curve runs close to the threshold, few images more or less right move its
    crossing far, or are all that keeps its levels on one side. Then the width depends
    on where the levels happen to lie, and ends the search where they lie wrong. What
    counts is how far the means may err: how a curve may bend unseen is not a matter of
    chance, and the usual bands leave it open too.
    """
    now = _bands(goal, found, between)
    high = bands(goal, found, between, 0.0, max(quantile(_ERROR_GROSS), now.z))
    planned = max(float(now.open.sum()), 2 * goal.half_width * goal.parts)
    return high if float(high.straight.sum()) > _GROSS * planned else now


def _bands(goal: Goal, found: Estimates, between: Shape) -> Bands:
    """The bands, whose height away from crossings depends on where these are."""
    half_width, z = goal.half_width * goal.parts, height(goal)
    now = bands(goal, found, between, 2 * goal.half_width / z, z)
    for _ in range(2):
        wanted = _planned_deviation(goal, now, half_width)
        if wanted is None:
            return now
        now = bands(goal, found, between, wanted, z)
    return now


def _planned_deviation(goal: Goal, now: Bands, half_width: float) -> float | None:
    """The deviation of levels that place the crossings well enough; None without."""
    found = clusters(goal, now)
    places = crossings(goal, now, found)
    given = shares(goal, found, places, may_stay_open(now, half_width))
    wanted = [MARGIN * given[one] / 2 * places[one].slope for one in places]
    return min(wanted) / height(goal) if wanted else None
