"""Quality measures of a classifier, from counts by label and answer.

Each takes the `Counts` of a curve, or a confusion, integers `[L, K, K + 1]`: at every
level, the number of inputs by label (row) and answer (column), the last column for
"unknown". Unknown answers count neither for nor against a class.
"""

import functools
import re
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_choice, checked_integer
from jaxrob.metrics._checks import checked_counts
from jaxrob.metrics._counts import MOST_RANKS, Counts
from jaxrob.metrics._mean_score import MeanScore, is_mean_score, mean_score
from jaxrob.metrics._measure import Measure, Ratio, typical_inputs


def accuracy(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of decided answers that are correct; 1 if no answer is decided.

    2020 paper, Definition 2; with unknown answers, 2024 paper, Definition 5 and its
    discussion.

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    return measures["accuracy"](counts)


def recall(counts: Counts | np.ndarray, positive: int | None = None) -> np.ndarray:
    """The share of a class's decided inputs that are given this class.

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.
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

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; 0 for a class that has decided inputs but is never given;
      NaN for a class that is never given and has no decided inputs, which is left out
      of the mean.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _of_class(measures["precision"], counts, positive)


def f1(counts: Counts | np.ndarray, positive: int | None = None) -> np.ndarray:
    """The harmonic mean of precision and recall.

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; NaN as for `precision`.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _of_class(measures["f1"], counts, positive)


def indecision(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of answers that are unknown (2024 paper, Definition 4).

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    total = checked_counts(counts, min_inputs=1).summed()
    return total.unknown / (total.decided + total.unknown)


def decided_ratio(counts: Counts | np.ndarray) -> np.ndarray:
    """The share of answers that are decided, 1 - indecision (2024 paper, Definition 9).

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1], one ratio of integers rounded once.
    """
    return measures["decided_ratio"](counts)


def effectiveness(counts: Counts | np.ndarray) -> np.ndarray:
    """The correct answers, divided by all answers plus the unknown ones.

    2024 paper, Definition 10: accuracy times (1 - indecision) / (1 + indecision),
    which equals this ratio.

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    return measures["effectiveness"](counts)


def effective_inputs(counts: Counts | np.ndarray, measure: str) -> int:
    """The number of inputs that a measure's values are shares of.

    It determines their scatter. For a mean over K classes with n_k inputs, it is the
    number of inputs whose share has the same scatter, `K**2 / sum(1 / n_k)`. It is the
    median over the levels, since unknown answers make the number differ between levels.

    Args:
      counts: `Counts`, or a confusion `[L, K, K + 1]`.
      measure: a name in `measures`.

    Returns:
      At least 1.

    Raises:
      ValueError: if the measure is unknown.
    """
    return typical_inputs(measure_named(measure).num_inputs(counts))


def top_k_accuracy(counts: Counts, k: int) -> np.ndarray:
    """The share of decided inputs whose class is among the k most probable ones.

    Of equally probable classes the first comes first. 1 if no answer is decided.

    Args:
      counts: the `Counts` of a curve, which have the ranks; a confusion does not tell.
      k: at least 1, below the number of classes.

    Returns:
      float64 `[L]` in [0, 1].

    Raises:
      ValueError: if the counts do not have the first k ranks (see `Counts`).
    """
    k = checked_integer("k", k, at_least=1)
    return _top_k(k)(counts)


def measure_named(name: str) -> Measure:
    """Returns the measure of this name: of `measures`, or "top{k}_accuracy"."""
    if (k := top_k(name)) is not None:
        return _top_k(k)
    if isinstance(name, str) and name not in measures:
        raise ValueError(
            f'measure must be one of {tuple(measures)} or "top5_accuracy", with any '
            f"number from 2; got {name!r}"
        )
    check_choice("measure", name, measures)
    return measures[name]


def any_measure(name: str) -> Measure | MeanScore:
    """Returns the measure of this name, which may be that of a `ScoreCurve`."""
    return mean_score(name) if is_mean_score(name) else measure_named(name)


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
