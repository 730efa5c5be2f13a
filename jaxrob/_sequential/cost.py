"""How many images an answer of some precision is about to cost."""

from jaxrob._sequential.aim import MARGIN, crossings, may_stay_open
from jaxrob._sequential.banded import height
from jaxrob._sequential.cheapest import images_for
from jaxrob._sequential.clusters import clusters, shares
from jaxrob._sequential.state import State
from jaxrob._sequential.task import Task

# What finding a crossing and the levels beside it take, as a share of the images of the
# level that places it.
_BESIDE = 1.2


def expected_cost(task: Task, state: State, precision: float) -> float:
    """About how many images more a precision takes; 0 where that is not known.

    Args:
      task: the question.
      state: what was seen.
      precision: half the width that may stay open, as a share of the range.
    """
    if state.bands is None:
        return 0.0
    found = clusters(task, state.bands)
    places = crossings(task, state.bands, found)
    width = may_stay_open(state.bands, precision * task.parts)
    given = shares(task, found, places, width)
    steps, total = state.bands.estimates.steps, 0.0
    for one, about in places.items():
        inside = steps[one.first : one.last + 1].tolist()
        seen = max(state.levels[step].seen for step in inside)
        deviation = MARGIN * given[one] / 2 * about.slope / height(task)
        total += max((1 + _BESIDE) * images_for(task, deviation) - seen, 0)
    return total
