"""Answers for as few inputs as it takes to know the mean of each category."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrob._devices.rows import filled, first_of, joined, put_at, taken
from jaxrob.roma._estimate import UNSEEN, Answers
from jaxrob.roma._inputs_mean import means_by_category
from jaxrob.roma._local_answers import plr_of_all
from jaxrob.roma._work import Inputs, Settings

# Inputs that are asked for at once: few at first, then more. Two sizes, so that there
# are two programs at most; a device takes 64 inputs at a time anyway.
_FEW, _MANY = 64, 256
# The larger size is taken once this many were looked at.
_MANY_FROM = 512
# Between two looks at the means, the number of inputs seen grows by 1 / _GROWTH.
_GROWTH = 4
_UNSEEN = {
    "status": UNSEEN,
    "hits": -1,
    "evaluations": 0,
    "modes": 0.0,
    "effective_sample_size": 0.0,
    "needed": 0,
}


def answers_of_few(
    answer: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
    *,
    categories: np.ndarray,
    order: np.ndarray,
    half_width: float,
) -> tuple[Answers, np.ndarray]:
    """The answers for inputs in a given order, until each category's mean is known."""
    # No further input of a category is looked at as soon as its mean plr is known.
    place = np.full(len(order), -1, np.int32)
    seen, left, error = 0, order, 1 - settings.confidence_level
    answers: Answers | None = None
    while answers is None or len(left):
        size = _FEW if seen < _MANY_FROM else _MANY
        more = left[: max(size, seen // _GROWTH // size * size)]
        found = joined(
            [
                _in_one_size(answer, inputs, settings, more[first : first + size], size)
                for first in range(0, len(more), size)
            ]
        )
        before = _unseen(found, len(order)) if answers is None else answers
        answers = put_at(before, more, found)
        place[more] = seen + np.arange(len(more))
        seen += len(more)
        plr = -np.expm1(answers.log_adversarial_probability)
        plr = plr_of_all(plr, answers.hits, settings.num_samples)
        _, low, high = np.array(means_by_category(plr, place, categories, error)).T
        known = np.unique(categories)[high - low <= 2 * half_width]
        left = left[(place[left] < 0) & ~np.isin(categories[left], known)]
    return answers, place


def _in_one_size(
    answer: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
    chosen: np.ndarray,
    size: int,
) -> Answers:
    """The answers for some inputs; the last is repeated, so that there are `size`."""
    number = min(size, len(inputs.images))
    some = taken(inputs, filled(chosen, number))
    return first_of(answer(some, settings), len(chosen))


def _unseen(like: Answers, number: int) -> Answers:
    """Answers for inputs that were not looked at, of the types of others."""
    fields: dict[str, Any] = {}
    for name, array in like._asdict().items():
        if array is not None:
            kind = "U16" if name == "status" else array.dtype
            value = _UNSEEN.get(name, np.nan)
            fields[name] = np.full((number, *array.shape[1:]), value, kind)
    return Answers(**fields)
