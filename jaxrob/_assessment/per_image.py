"""Quality measures as means of a score of each image, so that a few may be enough.

A ratio is at least a threshold where the mean of its numerator less the threshold times
its denominator is at least 0: a mean of bounded scores of single images.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob._assessment.criterion import Criterion
from jaxrob._engine.answers import HostAnswers
from jaxrob.metrics._measures import top_k
from jaxrob.uncertainty import unknown_threshold


class PerImage(NamedTuple):
    """A measure as a mean score: accepted where the mean is at least a bound.

    Attributes:
      score: maps answers `[n]` and labels `[n]` to scores, float64 `[n]`.
      least: the lowest mean score that is accepted.
      bounds: the lowest and the highest score.
      counted: integers `[M]`, the indices of the images that count.
    """

    score: Callable[[Any, np.ndarray], np.ndarray]
    least: float
    bounds: tuple[float, float]
    counted: np.ndarray


def per_image(criterion: Criterion, labels: np.ndarray, num_classes: int) -> PerImage:
    """Returns the scores of a criterion."""
    check_per_image(criterion)
    if criterion.is_of_scores:
        every = np.arange(len(labels))
        return PerImage(_score, criterion.threshold, (0.0, 1.0), every)
    t, alpha, k = criterion.threshold, criterion.alpha, top_k(criterion.measure)
    counted = np.arange(len(labels))
    if criterion.measure == "recall" and num_classes == 2:
        counted = np.flatnonzero(labels == 1)
        if not len(counted):
            raise ValueError("measure: the recall is of class 1, which no image has")
    if criterion.measure == "recall" and num_classes > 2:
        if alpha is not None:
            raise ValueError(
                'measure="recall" of more than 2 classes with alpha needs all images, '
                "because how many of a class are decided is not known before; leave "
                "out half_width, budget, curtail and required, or alpha"
            )
        return _mean_recall(t, labels, counted)

    def unknown(answers: HostAnswers) -> np.ndarray:
        if alpha is None:
            return np.zeros(len(answers.predicted), bool)
        return answers.uncertainty > unknown_threshold(alpha)

    def decided(answers: HostAnswers, labels: np.ndarray) -> np.ndarray:
        return 1.0 - unknown(answers)

    def right(answers: HostAnswers, labels: np.ndarray) -> np.ndarray:
        right = answers.predicted == labels if k is None else answers.rank < k
        return (right & ~unknown(answers)).astype(np.float64)

    if criterion.measure == "decided_ratio":
        return PerImage(decided, t, (0.0, 1.0), counted)
    if alpha is None:
        return PerImage(right, t, (0.0, 1.0), counted)
    if criterion.measure == "effectiveness":
        # right / (all + unknown) >= t
        return PerImage(
            lambda *one: right(*one) - t * unknown(one[0]), t, (-t, 1.0), counted
        )
    # right / decided >= t
    return PerImage(
        lambda *one: right(*one) - t * decided(*one), 0.0, (-t, 1.0 - t), counted
    )


def check_per_image(criterion: Criterion) -> None:
    """Rejects measures that are not means over images."""
    if criterion.measure in ("precision", "f1"):
        raise ValueError(
            f'measure="{criterion.measure}" needs all images, because what it divides '
            "by is not known before; half_width, budget, curtail and required go with "
            '"accuracy", "top{k}_accuracy", "recall", "effectiveness" and '
            '"decided_ratio"'
        )


def _score(answers: Any, labels: np.ndarray) -> np.ndarray:
    del labels  # The score has used them.
    return answers.score


def _mean_recall(t: float, labels: np.ndarray, counted: np.ndarray) -> PerImage:
    """Returns the mean of the classes' recalls: images of rare classes weigh more."""
    sizes = np.bincount(labels)
    present = np.count_nonzero(sizes)
    weights = len(labels) / (present * np.maximum(sizes, 1))

    def score(answers: HostAnswers, labels: np.ndarray) -> np.ndarray:
        return (answers.predicted == labels) * weights[labels]

    highest = float(weights[sizes > 0].max())
    return PerImage(score, t, (0.0, highest), counted)
