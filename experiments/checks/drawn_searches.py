"""Searches with few images, driven by drawn answers instead of a network."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import jaxrob
from jaxrob import metrics, strategies
from jaxrob._assessment import few
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.per_image import per_image
from jaxrob._assessment.scoring import Scoring
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.parts import Part

# Which of N images are right at a level in [0, 1], bool `[N]`, in the order in which
# they are looked at.
Right = Callable[[float], np.ndarray]

_RANGE = jaxrob.Alteration("drawn", lambda image, level: image * level, 0.0, 1.0)


class Found(NamedTuple):
    """What a search found.

    Attributes:
      low: the lower end of the data set's interval.
      high: the upper end.
      robustness: the answer.
      status: as of `jaxrob._assessment.sampling.Sampling`.
      evaluations: altered images looked at.
    """

    low: float
    high: float
    robustness: float
    status: str
    evaluations: int


def search(
    right: Right, num_images: int, threshold: float, parts: int = 1024, **asked: Any
) -> Found:
    """The robustness from few images, as `jaxrob.assess` finds it.

    Args:
      right: the images' answers.
      num_images: N.
      threshold: of the accuracy.
      parts: of the range.
      **asked: precision, budget, curtail, required.
    """
    usual = {"precision": None, "budget": None, "curtail": False, "required": None}
    fewest = few.checked_fewest(**usual | asked, confidence_level=0.95)
    assert fewest is not None
    criterion = Criterion(threshold, "accuracy", None, Scoring())
    labels = np.ones(num_images, int)
    measure = per_image(criterion, labels, 2)
    strategy = strategies.ASAP(n=parts)
    one = few.Pursuit(_RANGE, strategy, measure, fewest, labels)
    left = 2**62 if fewest.budget is None else fewest.budget
    while left > 0:
        if fewest.budget is not None:
            few._aim_at_what([one], left)
        spent = round_of([one], right, left)
        left -= spent
        if not spent:
            break
    sampling = one.result(criterion, 2).sampling
    assert sampling is not None
    return Found(
        *sampling.dataset_interval,
        sampling.robustness,
        sampling.status,
        sampling.evaluations,
    )


def round_of(pursuits: Sequence[few.Pursuit], right: Right, left: int = 2**62) -> int:
    """One round of searches; returns how many altered images were looked at."""

    def answered(_: object, __: object, parts: list[Part], *___: object) -> list:
        return [_answers(right(one.level)[one.start : one.stop]) for one in parts]

    with mock.patch.object(few, "answer_parts", answered):
        nothing: Any = None
        return few.pursue(nothing, nothing, nothing, pursuits, nothing, left)


def truth(right: Right, threshold: float, parts: int = 1024) -> float:
    """The robustness by all images, at all levels."""
    levels = np.linspace(0, 1, parts + 1)
    values = np.array([right(level).mean() for level in levels])
    return metrics.heaviside_robustness(levels, values, threshold, "linear")


def _answers(right: np.ndarray) -> HostAnswers:
    sure = np.ones(len(right), np.float32)
    return Answers(right.astype(np.int32), sure, 1 - sure)
