"""The search for a stated half width, by bands around the curve of few images.

It ends as soon as the interval is narrow enough. The width says nothing about where the
interval lies, so its coverage is that of a sample size fixed in advance (Chow and
Robbins 1965, "On the asymptotic theory of fixed-width sequential confidence intervals
for the mean").
"""

import numpy as np

from jaxrob.metrics._robustness_interval import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.aim import MARGIN, allowed_width, requests
from jaxrob.strategies._few.bands import Bands, Shape, bands, quantile, shape
from jaxrob.strategies._few.cheapest import images_for
from jaxrob.strategies._few.clusters import (
    allowed_widths,
    clusters,
    crossings,
    joint_error_ratio,
)
from jaxrob.strategies._few.estimates import Estimates, estimates
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Wanted
from jaxrob.strategies._few.state import Accepted, Method, State

# The share of the error spent on levels away from the crossings.
_ERROR_FAR = 0.1
# Bands of this error may leave this many times the planned or the usual width open. The
# error amounts to 0.001 over about ten looks.
_ERROR_GROSS, _GROSS = 1e-4, 3.0
# The cost of finding a crossing and of the levels beside it, as a share of the images
# of the level that locates it.
_BESIDE = 1.2

# Rounding of mean scores.
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
    now = _safe_bands(goal, found, shape(goal, strategy, found))
    steps = found.steps.astype(float)
    guess = float(accepted_widths(steps, found.means, found.means, goal.least)[0].sum())
    places = crossings(goal, now, clusters(goal, now))
    now = now._replace(joint_error_ratio=joint_error_ratio(goal, seen, found, places))
    closer = (1 - now.joint_error_ratio) * sum(one.straight for one in places) / 2
    low, high = float(now.low.sum()) + closer, float(now.high.sum()) - closer
    sides = now.sides(goal.least).tolist()
    for step, side in zip(found.steps.tolist(), sides):
        levels[step] = levels[step]._replace(side=side)
    if state.accepted.high - state.accepted.low < high - low:
        # A wider interval, on the way to a finer aim, does not replace the narrower
        # one.
        low, high, _ = state.accepted
    accepted = Accepted(low, high, min(max(guess, low), high))
    is_done = accepted.half_width <= goal.half_width * goal.parts
    return State(levels, accepted, bands=now, is_done=is_done)


def following(goal: Goal, state: State) -> tuple[State, list[Wanted]]:
    """Returns the next requests; empty if this grid yields nothing more."""
    assert state.bands is not None
    goal = _with_slack(goal)
    half_width = goal.half_width * goal.parts
    if state.bands.z > critical_value(goal):
        half_width *= _GROSS
    levels = {step: one for step, one in state.levels.items() if one.seen}
    wanted = requests(goal, levels, state.bands, state.bands.z, half_width)
    return state._replace(is_done=not wanted), wanted


def expected_cost(goal: Goal, state: State, half_width: float) -> float:
    """Returns about how many more images a half width needs; 0 if unknown."""
    if state.bands is None:
        return 0.0
    found = clusters(goal, state.bands)
    places = crossings(goal, state.bands, found)
    width = allowed_width(state.bands, half_width * goal.parts)
    given = allowed_widths(goal, found, places, width)
    steps, total = state.bands.estimates.steps, 0.0
    for one, about in places.items():
        inside = steps[one.first : one.last + 1].tolist()
        seen = max(state.levels[step].seen for step in inside)
        deviation = MARGIN * given[one] / 2 * about.slope / critical_value(goal)
        total += max((1 + _BESIDE) * images_for(goal, deviation) - seen, 0)
    return total


def critical_value(goal: Goal) -> float:
    """Returns the critical value of the bands at crossings."""
    return quantile((1 - _ERROR_FAR) * goal.error)


def _with_slack(goal: Goal) -> Goal:
    """Lowers the threshold by the rounding of mean scores."""
    return goal._replace(least=goal.least - _SLACK)


def _safe_bands(goal: Goal, found: Estimates, between: Shape) -> Bands:
    """Returns the usual bands, or far higher ones where these leave far more open."""
    # Where a curve runs close to the threshold, a few flipped images move its crossing
    # far, or alone keep its levels on one side. The width then depends on the errors of
    # the levels, and ends the search where these are large. Only the errors of the
    # means count here: the possible bends between levels are not random, and the usual
    # bands include them.
    now = _bands(goal, found, between)
    high = bands(goal, found, between, 0.0, max(quantile(_ERROR_GROSS), now.z))
    planned = max(float(now.open.sum()), 2 * goal.half_width * goal.parts)
    return high if float(high.straight.sum()) > _GROSS * planned else now


def _bands(goal: Goal, found: Estimates, between: Shape) -> Bands:
    """Returns the bands, with larger critical values away from the crossings."""
    half_width, z = goal.half_width * goal.parts, critical_value(goal)
    now = bands(goal, found, between, 2 * goal.half_width / z, z)
    for _ in range(2):
        wanted = _planned_deviation(goal, now, half_width)
        if wanted is None:
            return now
        now = bands(goal, found, between, wanted, z)
    return now


def _planned_deviation(goal: Goal, now: Bands, half_width: float) -> float | None:
    """Returns the standard error that locates all crossings; None without crossings."""
    found = clusters(goal, now)
    places = crossings(goal, now, found)
    given = allowed_widths(goal, found, places, allowed_width(now, half_width))
    wanted = [MARGIN * given[one] / 2 * places[one].slope for one in places]
    return min(wanted) / critical_value(goal) if wanted else None


METHOD = Method(look, following)
