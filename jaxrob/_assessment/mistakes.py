"""Signs of mistakes in an assessment's curve."""

import math

import numpy as np

from jaxrob._arguments.warnings import warn
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.explore import Exploration
from jaxrob._curve import AnyCurve, select
from jaxrob._score_curve import ScoreCurve
from jaxrob.alterations import Alteration
from jaxrob.metrics._measures import in_words

# Fewer images may have the same answer by chance.
_FEWEST_IMAGES = 10
# The levels next to the identity can reveal a jump if the first is this near, as a
# share of the range, and the second at most this many times as far.
_NEAR = 1 / 32
_MOST_TIMES = 4.0
# A jump is more than this many times what the slope beside it explains (a square root's
# is 3 at most), plus this many standard deviations of the inputs that change.
_STEEPER = 8.0
_DEVIATIONS = 5.0


def look_at_curve(
    alteration: Alteration, exploration: Exploration, criterion: Criterion
) -> None:
    """Warns of a network that fails unaltered, and of a jump beside the identity."""
    # Without a level at the identity it does not warn.
    history = exploration.history
    (rows,) = np.nonzero(history.levels == alteration.identity)
    if not len(rows):
        return
    at = rows[:1]
    unaltered = select(exploration.curve, at, history.levels[at])
    value = float(history.values[at[0]])
    if not _answers_one_class(criterion.with_unknown(unaltered)):
        _look_at_unaltered(value, criterion)
    distances = (history.levels - alteration.identity) / (
        alteration.upper - alteration.lower
    )
    for side in (-1, 1):
        beyond = history.distinct[side * distances[history.distinct] > 0]
        near = beyond[np.argsort(side * distances[beyond])][:3]
        around = side * distances[near], history.values[near]
        if jumps(*around, value, history.typical_inputs):
            level, beside = history.levels[near[0]], history.values[near[0]]
            _warn_of_jump(alteration, float(level), float(beside), value)
            return


def jumps(
    distances: np.ndarray,
    values: np.ndarray,
    unaltered: float,
    num_inputs: int | None,
) -> bool:
    """Returns whether a curve is discontinuous at the identity, seen from one side."""
    if len(distances) < 2 or distances[0] > _NEAR or num_inputs is None:
        return False
    if distances[1] > _MOST_TIMES * distances[0]:
        return False
    jump = abs(values[0] - unaltered)
    slope = np.abs(np.diff(values) / np.diff(distances)).max()
    chance = math.sqrt(max(jump, 1 / num_inputs) / num_inputs)
    return bool(jump > _STEEPER * slope * distances[0] + _DEVIATIONS * chance)


def _answers_one_class(unaltered: AnyCurve) -> bool:
    """Returns whether images of several classes all get one answer; warns if so."""
    if isinstance(unaltered, ScoreCurve):
        return False
    counts = unaltered.counts.at(0)
    answers = np.flatnonzero(np.append(counts.given, counts.unknown.sum()))
    number, num_labels = counts.inputs.sum(), np.count_nonzero(counts.inputs)
    if len(answers) > 1 or num_labels < 2 or number < _FEWEST_IMAGES:
        return False
    is_unknown = answers[0] == counts.num_classes
    what = '"unknown"' if is_unknown else f"class {answers[0]}"
    cause = "the images are not scaled as it expects them"
    cause = "alpha is too high for it" if is_unknown else cause
    warn(
        f"unaltered, the classifier answers {what} for all {number} images of "
        f"{num_labels} classes. It has learnt nothing, or {cause}."
    )
    return True


def _look_at_unaltered(value: float, criterion: Criterion) -> None:
    if value < criterion.threshold:
        warn(
            f"unaltered, the {in_words(criterion.measure)} is {value:.4g}, already "
            f"below the threshold {criterion.threshold:g}: what is accepted then says "
            "little about the alteration. Look at the network, the images' scale and "
            "the labels, or ask for a lower threshold."
        )


def _warn_of_jump(
    alteration: Alteration, level: float, value: float, unaltered: float
) -> None:
    cause = alteration.about.jump or (
        "The alteration is not continuous there, or its range is far too wide."
    )
    warn(
        f"{alteration.name}: the measure jumps beside the identity, from "
        f"{unaltered:.4g} at level {alteration.identity:g} to {value:.4g} at "
        f"{level:g}, and hardly changes from there to the next level. {cause}"
    )
