"""The criterion of a classifier: measure, threshold, unknown answers, scoring."""

import dataclasses
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_share
from jaxrob._assessment.scoring import Tolerance
from jaxrob._classifier import Classifier
from jaxrob._curve import AnyCurve, Curve
from jaxrob.metrics._counts import MOST_RANKS
from jaxrob.metrics._mean_score import is_mean_score
from jaxrob.metrics._quality import any_measure, measure_named, top_k
from jaxrob.uncertainty import unknown_threshold


@dataclasses.dataclass(frozen=True)
class Criterion:
    """Decides whether a classifier is good enough at a level.

    Attributes:
      threshold: the lowest value of the measure that is accepted, in [0, 1].
      measure: the quality measure's name, see `jaxrob.assess`.
      alpha: the confidence level above which the classifier may answer "unknown"; None
        if it always decides.
      scoring: how values are rewarded above and penalized below the threshold.
      confidence_level: the confidence level of the intervals, in (0, 1).
    """

    threshold: float
    measure: str
    alpha: float | None
    scoring: Tolerance
    confidence_level: float = 0.95

    def __post_init__(self) -> None:
        """Takes numbers as Python's, whatever numbers they were."""
        for name in ("threshold", "alpha"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_share(name, number))

    def check(self, classifier: Classifier, reduced: bool) -> None:
        """Rejects parts that are out of range, or need answers that are not kept."""
        if self.is_of_scores:
            self._check_score(reduced)
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
        """Whether the measure is the mean of a user's scores."""
        return is_mean_score(self.measure)

    def _check_score(self, reduced: bool) -> None:
        if self.alpha is not None:
            raise ValueError(
                f"alpha does not go with score, which has no unknown answers; got "
                f"{self.alpha}"
            )
        if reduced:
            raise ValueError("score keeps each image's score; got reduced=True")

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
        """Rejects top-k accuracies of as many ranks as there are classes."""
        k = top_k(self.measure)
        if k is not None and k >= num_classes:
            raise ValueError(
                f"measure must be of fewer ranks than there are classes, "
                f'{num_classes}, or it is 1 whatever the answers; got "{self.measure}"'
            )

    def with_unknown(self, curve: AnyCurve) -> AnyCurve:
        """Returns the curve, with too uncertain answers replaced by "unknown"."""
        if self.alpha is None or not isinstance(curve, Curve):
            return curve
        return curve.with_unknown(self.alpha)

    def values(self, curve: AnyCurve) -> tuple[np.ndarray, np.ndarray]:
        """Returns the measure at each level, and the number of inputs behind it."""
        counts: Any = self.with_unknown(curve).counts_for(self.measure)
        measure = any_measure(self.measure)
        return measure(counts), measure.num_inputs(counts)
