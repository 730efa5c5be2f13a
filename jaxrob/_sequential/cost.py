"""How many images an answer of some precision is about to cost."""

import math

from jaxrob._sequential.crossing import rough
from jaxrob._sequential.interval import images_for
from jaxrob._sequential.search import State
from jaxrob._sequential.task import Task

# The error of the look that is planned for, about.
_ERROR = 0.024
# What brackets and slopes of a crossing take, as a share of what its centre does.
_BESIDE = 0.6
# So many images of which single ones change tell a slope.
_CHANGES = 16


def expected_cost(task: Task, state: State, precision: float) -> float:
    """About how many images more a precision takes.

    Args:
      task: the question.
      state: what was seen.
      precision: half the width that may stay open, as a share of the range.
    """
    if state.known is None:
        return math.inf
    crossing = [gap for gap in state.known.gaps if gap.crosses]
    if not crossing:
        return 0.0
    slopes = [rough(task, state.levels, gap).slope for gap in crossing]
    scatter = math.sqrt(sum((task.deviation / slope) ** 2 for slope in slopes))
    needed = images_for(task, scatter, _ERROR, 0.9 * precision * task.parts)
    total = 0.0
    for gap, slope in zip(crossing, slopes):
        inside = [s for s in state.levels if gap.start <= s <= gap.end]
        seen = max(state.levels[step].seen for step in inside)
        change = max(slope * 2 * precision * task.parts, 1 / task.num_images)
        beside = min(2 * _CHANGES / change, 2 * task.num_images)
        total += max((1 + _BESIDE) * needed + beside - seen, 0.0)
    return total
