"""Quality measures of a classifier: of its answers, scores and confidence."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_type, checked_array, checked_integer
from jaxrob.metrics._counts import (
    MOST_RANKS,
    Counts,
    ImageScores,
    Ratio,
    checked_counts,
    checked_scores,
    counts_of,
    quotient,
    typical_inputs,
)


@dataclasses.dataclass(frozen=True)
class Measure:
    """A quality measure, for all inputs and by class.

    A call returns the values, float64 `[L]`. Each is one ratio of integers, or the mean
    of K ratios, rounded to float64 once, so that a threshold that the counts meet
    exactly is met.
    """

    name: str  # its name as `measure=`
    # the formula, from `Counts` to a `Ratio`, element by element
    ratio: Callable[[Counts], Ratio]
    # whether the measure is that of class 1 of 2 classes, or the mean over the classes
    # if there are more. Otherwise it is one ratio of all inputs together
    of_classes: bool = False
    # the value of one ratio of all inputs if its denominator is 0
    if_undefined: float = np.nan
    # whether the ratio is a proportion of inputs, each counted once. Then its
    # confidence band is Wilson's interval, otherwise the bootstrap's
    is_proportion: bool = False
    ranks: int = 0  # the number of ranks that the ratio needs in the counts

    def __call__(self, counts: Counts | np.ndarray) -> np.ndarray:
        counts = checked_counts(counts)
        ratio = self.single_ratio(counts)
        if ratio is not None:
            return self.value_of(ratio)
        ratio = self.ratio(counts)
        return _mean(ratio.numerator, ratio.denominator)

    def per_class(self, counts: Counts | np.ndarray) -> np.ndarray:
        counts = checked_counts(counts)
        ratio = self.ratio(counts)
        return quotient(ratio.numerator, ratio.denominator, np.nan)

    def num_inputs(self, counts: Counts | np.ndarray) -> np.ndarray:
        """Returns the number of inputs that the value at each level is a share of."""
        counts = checked_counts(counts)
        ratio = self.single_ratio(counts)
        if ratio is not None:
            return ratio.inputs
        inputs = self.ratio(counts).inputs
        some = inputs > 0
        reciprocals = np.where(some, 1 / np.where(some, inputs, 1), 0).sum(-1)
        return some.sum(-1) ** 2 / np.maximum(reciprocals, 1e-300)

    def checked(self, counts: Counts | np.ndarray) -> Counts:
        """Returns counts that have a band: of at least one input at each level."""
        return checked_counts(counts, min_inputs=1)

    def single_ratio(self, counts: Counts) -> Ratio | None:
        """Returns the measure as one ratio `[L]`; None if it is a mean over classes."""
        if not self.of_classes:
            return self.ratio(counts.summed())
        if counts.num_classes == 2:
            return Ratio(*(part[..., 1] for part in self.ratio(counts)))
        return None

    @functools.cached_property
    def of_one_input(self) -> Ratio | None:
        """The ratio of one input that is right, wrong or unknown, `[3]`.

        The measure of many is that of the sums. None if it is not, because what the
        ratio counts depends on other inputs.
        """
        # By label and answer, of two classes: the inputs of class 1, then of class 0.
        kinds = [(1, 1), (1, 0), (1, 2), (0, 0), (0, 1), (0, 2)]
        one = np.zeros((len(kinds), 2, 3), np.int64)
        for row, kind in zip(one, kinds):
            row[kind] = 1
        first, second = np.triu_indices(len(kinds))
        together = np.concatenate([one[first] + one[second], one.sum(0)[None]])
        single, found = self._of_two_classes(one), self._of_two_classes(together)
        for part, whole in zip(single, found):
            sums = np.append(part[first] + part[second], part.sum())
            others = 0 * part[:3] if self.of_classes else part[:3]
            if (sums != whole).any() or (part[3:] != others).any():
                return None
        return Ratio(*(part[:3] for part in single))

    @functools.cached_property
    def counts_unknown(self) -> bool:
        """Whether an "unknown" answer counts, as one that is not right."""
        unknown = np.array([[[0, 0, 0], [0, 0, 1]]])
        return bool(self._of_two_classes(unknown).denominator.any())

    def _of_two_classes(self, confusion: np.ndarray) -> Ratio:
        counts = counts_of(confusion)
        # An input that is wrong is of no rank that counts.
        ranks = counts.correct[..., None] * (np.arange(max(self.ranks, 1)) == 0)
        ratio = self.single_ratio(counts._replace(ranks=ranks))
        assert ratio is not None
        return ratio

    def value_of(self, ratio: Ratio) -> np.ndarray:
        return quotient(ratio.numerator, ratio.denominator, self.if_undefined)


def _mean(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Computes the mean over classes of the defined ratios, rounded once."""
    # It adds integers in units of 2**-128, because the float64 mean of 0.7, 0.8 and 0.9
    # is below 0.8.
    means = []
    for row in zip(numerator.tolist(), denominator.tolist()):
        ratios = [(part << 128) // whole for part, whole in zip(*row) if whole]
        means.append(sum(ratios) / (len(ratios) << 128) if ratios else np.nan)
    return np.array(means)


#: What the names of such measures begin with.
MEAN = "mean "


@dataclasses.dataclass(frozen=True)
class MeanScore:
    """The mean score of the images looked at, a `Measure` without classes."""

    name: str  # its name as a measure, see `mean_named`

    def __call__(self, scores: ImageScores) -> np.ndarray:
        rows = (row[~np.isnan(row)] for row in checked_scores(scores).values)
        means = np.array([math.fsum(row) / len(row) for row in rows])
        near = means.round(12)  # As written: that of 0.6, 0.8 and 1 is below 0.8.
        return np.where(np.abs(means - near) < 4e-16, near, means)

    def checked(self, scores: ImageScores) -> ImageScores:
        return checked_scores(scores)

    def per_class(self, scores: ImageScores) -> np.ndarray:
        return np.empty((len(checked_scores(scores).values), 0))

    def num_inputs(self, scores: ImageScores) -> np.ndarray:
        return checked_scores(scores).inputs[:, 0]


def mean_named(score: str) -> str:
    """Returns the measure's name of a score: "mean " before it, but not twice."""
    rest = score.removeprefix(MEAN)
    return score if rest != score and not rest[:1].isspace() else MEAN + score


def is_mean_score(measure: Any) -> bool:
    return isinstance(measure, str) and measure.startswith(MEAN)


def accuracy(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of decided answers that are correct; 1 if no answer is decided.

    2020 paper, Definition 2; with unknown answers, 2024 paper, Definition 5 and its
    discussion.

    Args:
      counts: the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]`: at
        every level, the number of inputs by label (row) and answer (column), the last
        column for "unknown". Unknown answers count neither for nor against a class.

    Returns:
      float64 `[L]` in [0, 1].
    """
    return measures["accuracy"](counts)


def recall(counts: Counts | np.ndarray, positive: int | None = None) -> np.ndarray:
    """The share of a class's decided inputs that are given this class.

    Args:
      counts: as for `accuracy`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; NaN for a class without decided inputs, which is left out
      of the mean.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _of_class(measures["recall"], counts, positive)


def precision(counts: Counts | np.ndarray, positive: int | None = None) -> np.ndarray:
    """The share of the inputs given a class that belong to this class.

    Arguments and errors are as for `recall`.

    Returns:
      float64 `[L]` in [0, 1]; 0 for a class that has decided inputs but is never given;
      NaN for a class that is never given and has no decided inputs, which is left out
      of the mean.
    """
    return _of_class(measures["precision"], counts, positive)


def f1(counts: Counts | np.ndarray, positive: int | None = None) -> np.ndarray:
    """The harmonic mean of precision and recall.

    Arguments and errors are as for `recall`, the result as for `precision`.
    """
    return _of_class(measures["f1"], counts, positive)


def indecision(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of answers that are unknown (2024 paper, Definition 4).

    Argument and result are as for `accuracy`.
    """
    total = checked_counts(counts, min_inputs=1).summed()
    return total.unknown / (total.decided + total.unknown)


def decided_ratio(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of answers that are decided, 1 - indecision (2024 paper, Definition 9).

    Argument and result are as for `accuracy`; one ratio of integers, rounded once.
    """
    return measures["decided_ratio"](counts)


def effectiveness(counts: Counts | np.ndarray) -> np.ndarray:
    """The correct answers, divided by all answers plus the unknown ones.

    2024 paper, Definition 10: accuracy times (1 - indecision) / (1 + indecision),
    which equals this ratio. Argument and result are as for `accuracy`.
    """
    return measures["effectiveness"](counts)


def effective_inputs(counts: Counts | np.ndarray, measure: str) -> int:
    """The number of inputs that a measure's values are shares of, at least 1.

    For a mean over K classes with n_k inputs, it is the number of inputs whose share
    has the same scatter, `K**2 / sum(1 / n_k)`; of the levels, the median.

    Args:
      counts: as for `accuracy`.
      measure: a name in `measures`; a ValueError if it is none.
    """
    return typical_inputs(measure_named(measure).num_inputs(counts))


def top_k_accuracy(counts: Counts, k: int) -> np.ndarray:
    """The share of decided inputs whose class is among the k most probable ones.

    Of equally probable classes the first comes first. 1 if no answer is decided.

    Args:
      counts: the `Counts` of a curve, which have the ranks; a confusion does not tell.
        A ValueError if they do not have the first k.
      k: at least 1, below the number of classes.

    Returns:
      float64 `[L]` in [0, 1].
    """
    k = checked_integer("k", k, at_least=1)
    return _top_k(k)(counts)


def measure_named(name: str) -> Measure:
    """Returns the measure of this name: of `measures`, or "top{k}_accuracy"."""
    if (k := top_k(name)) is not None:
        return _top_k(k)
    check_type("measure", name, str, "the name of a measure")
    if name not in measures:
        raise ValueError(
            f'measure must be one of {tuple(measures)} or "top5_accuracy", with any '
            f"number from 2; got {name!r}"
        )
    return measures[name]


def any_measure(name: str) -> Measure | MeanScore:
    return MeanScore(name) if is_mean_score(name) else measure_named(name)


def top_k(measure: Any) -> int | None:
    """Returns k of a measure "top{k}_accuracy", None of others."""
    found = isinstance(measure, str) and re.fullmatch(TOP_K, measure)
    return int(found[1]) if found else None


def in_words(measure: str) -> str:
    """Returns a measure's name for readers: "top-5 accuracy"."""
    k = top_k(measure)
    return measure if k is None else f"top-{k} accuracy"


@functools.cache
def _top_k(k: int) -> Measure:
    def within(counts: Counts) -> Ratio:
        number = 0 if counts.ranks is None else counts.ranks.shape[-1]
        if counts.ranks is None or number < k:
            raise ValueError(
                f"top{k}_accuracy needs counts by the first {k} ranks; these have "
                f"{number or 'none'}. Curves have the first {MOST_RANKS}, at most one "
                'less than there are classes, and none of outputs="scores"'
            )
        return Ratio(counts.ranks[..., :k].sum(-1), counts.decided, counts.decided)

    name = f"top{k}_accuracy"
    return Measure(name, within, if_undefined=1.0, is_proportion=True, ranks=k)


def _recall(counts: Counts) -> Ratio:
    return Ratio(counts.correct, counts.decided, counts.decided)


def _precision(counts: Counts) -> Ratio:
    never_given = (counts.given == 0) & (counts.decided > 0)
    denominator = np.where(never_given, 1, counts.given)
    return Ratio(counts.correct, denominator, denominator)


def _f1(counts: Counts) -> Ratio:
    # An input may count in both: as one of the class, and as one given the class.
    denominator = counts.given + counts.decided
    return Ratio(2 * counts.correct, denominator, denominator / 2)


def _effectiveness(counts: Counts) -> Ratio:
    inputs = counts.decided + counts.unknown
    return Ratio(counts.correct, inputs + counts.unknown, inputs)


def _decided_ratio(counts: Counts) -> Ratio:
    inputs = counts.decided + counts.unknown
    return Ratio(counts.decided, inputs, inputs)


# The names of top-k accuracies.
TOP_K = r"top([2-9]|[1-9]\d{1,8})_accuracy"

# The accuracy on the inputs of one class is its recall.
_MEASURES = (
    Measure("accuracy", _recall, if_undefined=1.0, is_proportion=True),
    Measure("precision", _precision, of_classes=True),
    Measure("recall", _recall, of_classes=True, is_proportion=True),
    Measure("f1", _f1, of_classes=True),
    Measure("effectiveness", _effectiveness),
    Measure("decided_ratio", _decided_ratio, is_proportion=True),
)

# The measures by name, over all inputs: `[L]` from `[L, K, K + 1]`.
measures = {measure.name: measure for measure in _MEASURES}

# The same for each class, `[L, K]`; NaN where a class's denominator is 0.
per_class = {measure.name: measure.per_class for measure in _MEASURES}


def _of_class(
    measure: Measure, counts: Counts | np.ndarray, positive: int | None
) -> np.ndarray:
    if positive is None:
        return measure(counts)
    by_class = measure.per_class(counts)
    last = by_class.shape[-1] - 1
    positive = checked_integer("positive", positive, at_least=0, at_most=last)
    return by_class[..., positive]


# How far float32 rounding may put a probability above 1.
_SLACK = 1e-5


class RiskCoverage(NamedTuple):
    """The errors among the inputs answered, the most confident ones first.

    Attributes:
      coverage: float64 `[N]`, the share answered, 1/N ... 1.
      risk: float64 `[L, N]` in [0, 1], the share of wrong answers among them.
    """

    coverage: np.ndarray
    risk: np.ndarray


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """The risk-coverage curve at each level.

    El-Yaniv and Wiener (2010). Inputs of equal confidence count as if in random order,
    with their expected risk: the order of the inputs does not matter.

    Args:
      confidence: `[L, N]`, larger if surer. Only its order matters, so a negated
        uncertainty will do.
      correct: bool `[L, N]`, whether the most probable class is the right one.

    Raises:
      ValueError: if confidence is missing or NaN, an array does not have the shape
        `[L, N]` with at least one input, or correct is neither 0 nor 1 somewhere.
    """
    confidence, correct = _checked_answers(confidence, correct)
    risk = np.array([_risk(*level) for level in zip(confidence, correct)])
    num_inputs = confidence.shape[1]
    return RiskCoverage(np.arange(1, num_inputs + 1) / num_inputs, risk)


def aurc(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """The area under the risk-coverage curve at each level.

    The mean risk over the coverages 1/N ... 1 (Geifman, Uziel and El-Yaniv, 2019),
    float64 `[L]` in [0, 1]. Lower is better: 0 if no answer is wrong, and on average
    the error rate if the confidence is uninformative. Arguments and errors are as for
    `risk_coverage`.
    """
    confidence, correct = _checked_answers(confidence, correct)
    # Level by level, since the whole curve may be large.
    return np.array([_risk(*level).mean() for level in zip(confidence, correct)])


def expected_calibration_error(
    confidence: np.ndarray, correct: np.ndarray, num_bins: int = 15
) -> np.ndarray:
    """The mean difference between confidence and accuracy, at each level.

    Inputs are put into bins of equal width by their confidence. The absolute difference
    between a bin's accuracy and its mean confidence is averaged over the bins, weighted
    by their numbers of inputs (Guo et al., 2017, equation 3).

    Args:
      confidence: `[L, N]` in [0, 1], the probability of the most probable class.
      correct: bool `[L, N]`, whether that class is the right one.
      num_bins: M, at least 1; bin m is ((m - 1) / M, m / M], and the first includes 0.

    Returns:
      float64 `[L]` in [0, 1].

    Raises:
      TypeError, ValueError: if num_bins is not an integer from 1 on, a confidence lies
        outside [0, 1], or as `risk_coverage`.
    """
    num_bins = checked_integer("num_bins", num_bins, at_least=1)
    given = getattr(confidence, "dtype", np.dtype(float))
    confidence, correct = _checked_answers(confidence, correct)
    outside = (confidence < 0) | (confidence > 1 + _SLACK)
    if outside.any():
        raise ValueError(f"confidence must lie in [0, 1]; got {confidence[outside][0]}")
    inner = np.linspace(0, 1, num_bins + 1)[1:-1]
    if given.kind not in "iub":  # A float32 of 0.6 is above 0.6.
        inner = inner.astype(given).astype(float)
    errors = []
    for sure, right in zip(np.minimum(confidence, 1), correct):
        bins = np.searchsorted(inner, sure)
        excess = np.bincount(bins, sure - right, minlength=num_bins)
        errors.append(np.abs(excess).sum() / len(sure))
    return np.array(errors)


def _risk(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Returns `[N]`, the expected share of errors among the first 1 ... N inputs."""
    order = np.argsort(-confidence)
    confidence, errors = confidence[order], np.cumsum(~correct[order])
    # Within a tie, each input counts with the tie's mean error.
    last = np.flatnonzero(np.append(confidence[1:] != confidence[:-1], True))
    answered = np.arange(1, len(order) + 1)
    counts, sums = np.append(0, answered[last]), np.append(0, errors[last])
    return np.interp(answered, counts, sums) / answered


def _checked_answers(
    confidence: np.ndarray | None, correct: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if confidence is None:
        raise ValueError(
            'confidence is missing (None), as from a classifier of outputs="scores"'
        )
    axes: dict[str, int] = {}
    confidence = checked_array(
        "confidence", confidence, "L, N", may_be_infinite=True, axes=axes
    )
    correct = checked_array(
        "correct", correct, "L, N", "numbers or booleans", axes=axes
    )
    other = ~np.isin(correct, (0, 1))
    if other.any():
        raise ValueError(
            "correct must be true or false, 1 or 0, for each input; got "
            f"{correct[other][0]}"
        )
    return confidence.astype(np.float64), correct.astype(bool)
