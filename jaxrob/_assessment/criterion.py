"""The criterion of a classifier: measure, threshold, unknown answers, scoring."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_share
from jaxrob._assessment.scoring import Tolerance
from jaxrob._classifier import Classifier
from jaxrob._curve import AnyCurve, Curve
from jaxrob.metrics import measures
from jaxrob.metrics._counts import MOST_RANKS
from jaxrob.metrics._measures import (
    Measure,
    Ratio,
    any_measure,
    is_mean_score,
    measure_named,
    top_k,
)
from jaxrob.uncertainty import unknown_threshold


@dataclasses.dataclass(frozen=True)
class Criterion:
    """Decides whether a classifier is good enough at a level."""

    threshold: float  # the lowest value of the measure that is accepted, in [0, 1]
    measure: str  # the quality measure's name, see `jaxrob.assess`
    # The confidence level above which the classifier may answer "unknown"; None if it
    # always decides.
    alpha: float | None
    scoring: (
        Tolerance  # how values are rewarded above and penalized below the threshold
    )
    confidence_level: float = 0.95  # the confidence level of the intervals, in (0, 1)

    def __post_init__(self) -> None:
        for name in ("threshold", "alpha"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_share(name, number))

    def check(self, classifier: Classifier, reduced: bool) -> None:
        if self.is_of_scores:
            if self.alpha is not None:
                raise ValueError(
                    "alpha does not go with score, which has no unknown answers; got "
                    f"{self.alpha}"
                )
            if reduced:
                raise ValueError("score keeps each image's score; got reduced=True")
            return
        measure_named(self.measure)
        self._check_ranks(classifier, reduced)
        if self.alpha is None:
            return
        unknown_threshold(self.alpha)
        if reduced:
            raise ValueError("alpha needs single answers; it does not go with reduced")
        if classifier.outputs == "scores":
            raise ValueError(
                'alpha needs uncertainties, which outputs="scores" does not have'
            )

    @property
    def is_of_scores(self) -> bool:
        return is_mean_score(self.measure)

    def _check_ranks(self, classifier: Classifier, reduced: bool) -> None:
        k = top_k(self.measure)
        if k is None:
            return
        if classifier.outputs == "scores":
            raise ValueError(
                f'measure="{self.measure}" needs the order of the classes, and of '
                'outputs="scores" only the largest counts'
            )
        if reduced and k > MOST_RANKS:
            raise ValueError(
                f'measure="{self.measure}" needs single answers beyond k = '
                f"{MOST_RANKS}; it does not go with reduced"
            )

    def check_classes(self, num_classes: int) -> None:
        k = top_k(self.measure)
        if k is not None and k >= num_classes:
            raise ValueError(
                f"measure must be of fewer ranks than there are classes, "
                f'{num_classes}, or it is 1 whatever the answers; got "{self.measure}"'
            )

    def with_unknown(self, curve: AnyCurve) -> AnyCurve:
        if self.alpha is None or not isinstance(curve, Curve):
            return curve
        return curve.with_unknown(self.alpha)

    def values(self, curve: AnyCurve) -> tuple[np.ndarray, np.ndarray]:
        """Returns the measure at each level, and the number of inputs behind it."""
        counts: Any = self.with_unknown(curve).counts_for(self.measure)
        measure = any_measure(self.measure)
        return measure(counts), measure.num_inputs(counts)


class PerImage(NamedTuple):
    """A measure as a mean score, so that a few images may be enough.

    A ratio is at least a threshold where the mean of its numerator less the threshold
    times its denominator is at least 0: a mean of bounded scores of single images.
    """

    # Maps answers [n] and labels [n] to scores, float64 [n].
    score: Callable[[Any, np.ndarray], np.ndarray]
    least: float  # the lowest mean score that is accepted
    bounds: tuple[float, float]  # the lowest and the highest score
    counted: np.ndarray  # [M], the indices of the images that count


def per_image(criterion: Criterion, labels: np.ndarray, num_classes: int) -> PerImage:
    t, alpha, every = criterion.threshold, criterion.alpha, np.arange(len(labels))
    if criterion.is_of_scores:
        return PerImage(lambda answers, _: answers.score, t, (0.0, 1.0), every)
    measure, ratio = ratio_per_image(criterion.measure)
    k = top_k(criterion.measure)

    def kind(answers: Any, labels: np.ndarray) -> np.ndarray:
        right = answers.predicted == labels if k is None else answers.rank < k
        found = np.where(right, 0, 1)
        if alpha is None:
            return found
        return np.where(answers.uncertainty > unknown_threshold(alpha), 2, found)

    if measure.of_classes and num_classes > 2:
        return _mean_over_classes(criterion, ratio, kind, labels)
    if measure.of_classes:
        every = np.flatnonzero(labels == 1)
        if not len(every):
            raise ValueError(
                f"measure: the {measure.name} is of class 1, which no image has"
            )
    possible = slice(2 if alpha is None else 3)
    numerator, denominator = (part[possible].astype(float) for part in ratio[:2])
    # What all images have in their denominator is known.
    known = float(denominator.min())
    scores = numerator - t * (denominator - known)
    bounds = float(min(scores.min(), 0.0)), float(scores.max())

    def score(answers: Any, labels: np.ndarray) -> np.ndarray:
        return scores[kind(answers, labels)]

    return PerImage(score, t * known, bounds, every)


def ratio_per_image(name: str) -> tuple[Measure, Ratio]:
    """Returns a measure and the ratio of one image; rejects measures without one."""
    measure = measure_named(name)
    if measure.of_one_input is None:
        able = [one.name for one in measures.values() if one.of_one_input is not None]
        raise ValueError(
            f'measure="{name}" needs all images, because what it divides '
            f"by is not known before; few images go with {', '.join(able)} and "
            "top5_accuracy, with any number"
        )
    return measure, measure.of_one_input


def _mean_over_classes(
    criterion: Criterion,
    ratio: Ratio,
    kind: Callable[[Any, np.ndarray], np.ndarray],
    labels: np.ndarray,
) -> PerImage:
    """Returns the mean of the classes' values: images of rare classes weigh more."""
    right, wrong, _ = ratio.denominator.tolist()
    if criterion.alpha is not None or right != wrong or not right:
        raise ValueError(
            f'measure="{criterion.measure}" of more than 2 classes with alpha needs '
            "all images, because how many of a class are decided is not known before; "
            "leave out FewImages, or alpha"
        )
    sizes, scores = np.bincount(labels), ratio.numerator / right
    present = np.count_nonzero(sizes)
    weights = len(labels) / (present * np.maximum(sizes, 1))
    highest = float(weights[sizes > 0].max()) * float(scores[:2].max())
    return PerImage(
        lambda answers, labels: scores[kind(answers, labels)] * weights[labels],
        criterion.threshold,
        (0.0, highest),
        np.arange(len(labels)),
    )
