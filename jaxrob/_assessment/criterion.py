"""The criterion of a classifier: measure, threshold, unknown answers, tolerance."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import checked_share
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._codec import Array
from jaxrob._curve import AnyCurve, Curve
from jaxrob._identity.identity import text
from jaxrob.metrics import measures
from jaxrob.metrics._counts import MOST_RANKS, Ratio, checked_confidence_level
from jaxrob.metrics._measures import (
    Measure,
    any_measure,
    is_mean_score,
    mean_named,
    measure_named,
    top_k,
)
from jaxrob.metrics._tolerance import (
    check_scoring,
    level_scores,
    level_weights,
    scored_robustness,
)
from jaxrob.uncertainty import unknown_threshold

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

_Scores = Array("L", at_least=-1, at_most=1)


class Scores(NamedTuple):
    """A curve scored by tolerance and penalization, see `level_scores`."""

    # The tolerance, the penalization, the nominal value and the distribution of the
    # levels, as text
    settings: str
    # Float64 `[L]` in [-1, 1], the score of the measure at each level
    values: Annotated[np.ndarray, _Scores]
    # Float64 `[L]`, the lowest score within the measure's band
    low: Annotated[np.ndarray, _Scores]
    high: Annotated[np.ndarray, _Scores]  # float64 `[L]`, the highest
    # Float64 `[L]`, the weight of each level
    weights: Annotated[np.ndarray, Array("L", at_least=0, at_most=1)]

    @property
    def robustness(self) -> float:
        return scored_robustness(self.values, self.weights)

    @property
    def population_interval(self) -> metrics.ConfidenceInterval:
        ends = (scored_robustness(some, self.weights) for some in (self.low, self.high))
        return metrics.ConfidenceInterval(*ends)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How levels are rewarded, penalized and weighted, in place of accepted or not.

    2024 paper, Definitions 3, 6 to 9 and 11; see `jaxrob.metrics.tolerance_robustness`.
    The robustness is then an integral over all levels: evenly spaced ones suit it,
    `strategies.Uniform(21)` as in the paper.

    Example::

        tolerance = jaxrob.Tolerance("linear", penalization="linear")
        result = jaxrob.assess(classifier, dataset, blur, tolerance=tolerance)

    Attributes:
      reward: that of accepted values: "linear" (up to the measure's value at the
        identity), "step" or a function of a value and the threshold; by default "step".
      penalization: the penalty of the other values, with the same choices.
      level_distribution: the probability of the levels, a NumPyro distribution; by
        default uniform.
    """

    reward: str | Callable[[float, float], float] | None = None
    penalization: str | Callable[[float, float], float] | None = None
    level_distribution: "Distribution | None" = None

    @property
    def is_plain(self) -> bool:
        """Whether levels are just accepted or not, with equal weights."""
        return (
            self.reward is None
            and self.penalization is None
            and self.level_distribution is None
        )

    @property
    def needs_nominal(self) -> bool:
        """Whether the reward is relative to the value at the identity."""
        return self.reward in ("linear", metrics.linear_tolerance)

    def check(self, threshold: float, bounds: tuple[float, float]) -> None:
        """Rejects a scoring that does not suit the levels of a range."""
        if not self.is_plain:
            check_scoring(
                threshold,
                self.reward,
                self.penalization,
                self.level_distribution,
                bounds,
            )

    def scores(
        self,
        curve: AnyCurve,
        measure: str,
        threshold: float,
        bounds: tuple[float, float],
        nominal: float | None,
        confidence_level: float,
    ) -> Scores:
        counts: Any = curve.counts_for(measure)
        values = any_measure(measure)(counts)
        bands = metrics.bands(counts, measure, confidence_level)
        middle, *ends = (
            level_scores(
                some, threshold, self.reward, self.penalization, nominal=nominal
            )
            for some in (values, *bands)
        )
        # A function of the user's need not be monotone.
        low = np.minimum(middle, np.min(ends, 0))
        high = np.maximum(middle, np.max(ends, 0))
        weights = level_weights(curve.levels, self.level_distribution, bounds)
        return Scores(self._settings(nominal), middle, low, high, weights)

    def _settings(self, nominal: float | None) -> str:
        settings = {
            "tolerance": self.reward,
            "penalization": self.penalization,
            "nominal": nominal,
            "level_distribution": self.level_distribution,
        }
        return ", ".join(
            f"{name}={named_setting(value)}" for name, value in settings.items()
        )


def checked_measure(measure: Any, score: Score | None) -> str:
    if score is None:
        measure_named(measure)
        return measure
    if measure != "accuracy":
        raise ValueError(
            f"measure does not go with score, whose mean is the measure; got "
            f"{measure!r}"
        )
    return mean_named(score.name)


def named_setting(value: Any) -> str:
    if hasattr(value, "gather_pytree_data_fields"):
        fields = sorted(type(value).gather_pytree_data_fields())
        known = {name: vars(value).get(name) for name in fields if name[0] != "_"}
        parts = (f"{n}={named_setting(x)}" for n, x in known.items() if x is not None)
        return f"{type(value).__name__}({', '.join(parts)})"
    return getattr(value, "__name__", None) or text(value)


@dataclasses.dataclass(frozen=True)
class Criterion:
    """Decides whether a classifier is good enough at a level."""

    threshold: float  # the lowest value of the measure that is accepted, in [0, 1]
    measure: str  # the quality measure's name, see `jaxrob.assess`
    # The confidence level above which the classifier may answer "unknown"; None if it
    # always decides.
    alpha: float | None
    # How values are rewarded above and penalized below the threshold.
    scoring: Tolerance
    confidence_level: float = 0.95  # the confidence level of the intervals, in (0, 1)

    def __post_init__(self) -> None:
        for name in ("threshold", "alpha"):
            number = getattr(self, name)
            if name == "threshold" or number is not None:
                object.__setattr__(self, name, checked_share(name, number))
        level = checked_confidence_level(self.confidence_level)
        object.__setattr__(self, "confidence_level", level)

    def check(self, classifier: Classifier, reduced: bool) -> None:
        if self.is_of_scores:
            if self.alpha is not None:
                raise ValueError(
                    "alpha does not go with score, which has no unknown answers; got "
                    f"{self.alpha}"
                )
            return
        k, has_order = top_k(self.measure), classifier.outputs != "scores"
        if k is not None and not has_order:
            raise ValueError(
                f'measure="{self.measure}" needs the order of the classes, and of '
                'outputs="scores" only the largest counts'
            )
        if k is not None and reduced and k > MOST_RANKS:
            raise ValueError(
                f'measure="{self.measure}" needs single answers beyond k = '
                f"{MOST_RANKS}; it does not go with reduced"
            )
        if self.alpha is not None and reduced:
            raise ValueError("alpha needs single answers; it does not go with reduced")
        if self.alpha is not None and not has_order:
            raise ValueError(
                'alpha needs uncertainties, which outputs="scores" does not have'
            )

    @property
    def is_of_scores(self) -> bool:
        return is_mean_score(self.measure)

    def check_classes(self, num_classes: int) -> None:
        k = top_k(self.measure)
        if k is not None and k >= num_classes:
            raise ValueError(
                f"measure must be of fewer ranks than there are classes, "
                f'{num_classes}, or it is 1 whatever the answers; got "{self.measure}"'
            )

    def with_unknown(self, curve: AnyCurve) -> AnyCurve:
        if curve.alpha == self.alpha:
            return curve
        return cast(Curve, curve).with_unknown(self.alpha)

    def values(self, curve: AnyCurve) -> tuple[np.ndarray, np.ndarray]:
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
