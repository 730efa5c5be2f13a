"""Quality measures of a classifier, from counts by label and answer.

Each takes `confusion`, integers `[L, K, K + 1]`: for every level the number of inputs
by label (row) and answer (column), the last column for "unknown". Unknown answers
count neither for nor against a class. Every value is one ratio of integers, or the mean
of K such, rounded to float64 once, so that a threshold that the counts meet exactly is
met.
"""

from collections.abc import Callable

import numpy as np


def accuracy(confusion: np.ndarray) -> np.ndarray:
    """Correct answers over those decided; 1 where none is.

    2020 paper, Definition 2; with unknown answers, 2024 paper, Definition 5 and its
    discussion.

    Args:
      confusion: `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    return _ratio(_correct(confusion).sum(-1), _decided(confusion), 1.0)


def recall(confusion: np.ndarray, positive: int | None = None) -> np.ndarray:
    """Of the decided inputs of a class, the share that is given this class.

    Args:
      confusion: `[L, K, K + 1]`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; NaN for a class without decided inputs, and such a class
      is left out of the mean.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _one_class(*_recall_counts(confusion), positive)


def precision(confusion: np.ndarray, positive: int | None = None) -> np.ndarray:
    """Of the inputs that are given a class, the share that is of it.

    Args:
      confusion: `[L, K, K + 1]`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; 0 for a class that has decided inputs but is never
      given, NaN for one that also has none, which is left out of the mean.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _one_class(*_precision_counts(confusion), positive)


def f1(confusion: np.ndarray, positive: int | None = None) -> np.ndarray:
    """The harmonic mean of precision and recall.

    Args:
      confusion: `[L, K, K + 1]`.
      positive: the class; by default class 1 of 2, and the mean over classes of more.

    Returns:
      float64 `[L]` in [0, 1]; NaN as for `precision`.

    Raises:
      ValueError: if `positive` is not a class.
    """
    return _one_class(*_f1_counts(confusion), positive)


def indecision(confusion: np.ndarray) -> np.ndarray:
    """Unknown answers over all (2024 paper, Definition 4).

    Args:
      confusion: `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    return confusion[..., -1].sum(-1) / confusion.sum((-2, -1))


def decided_ratio(confusion: np.ndarray) -> np.ndarray:
    """Decided answers over all, 1 - indecision (2024 paper, Definition 9).

    Args:
      confusion: `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1], one ratio of integers rounded once.
    """
    return confusion[..., :-1].sum((-2, -1)) / confusion.sum((-2, -1))


def effectiveness(confusion: np.ndarray) -> np.ndarray:
    """Correct answers over the sum of all answers and the unknown ones.

    2024 paper, Definition 10: accuracy times (1 - indecision) / (1 + indecision),
    which is this one ratio.

    Args:
      confusion: `[L, K, K + 1]`.

    Returns:
      float64 `[L]` in [0, 1].
    """
    unknown = confusion[..., -1].sum(-1)
    return _correct(confusion).sum(-1) / (confusion.sum((-2, -1)) + unknown)


def effective_inputs(confusion: np.ndarray, measure: str) -> int:
    """How many inputs a measure's values are shares of, for judging their scatter.

    The denominator of its ratio; of a mean over K classes with n_k inputs, the number
    whose share would scatter as much, `K**2 / sum(1 / n_k)`. The median over levels,
    for unknown answers make it differ.

    Args:
      confusion: `[L, K, K + 1]`.
      measure: a name in `measures`.

    Returns:
      At least 1.
    """
    if measure == "accuracy":
        inputs = _decided(confusion)
    elif measure in ("effectiveness", "decided_ratio"):
        inputs = confusion.sum((-2, -1))
    else:
        _, below = _COUNTS[measure](confusion)
        # F1 divides by labelled and given inputs: each counts twice.
        below = below / (2 if measure == "f1" else 1)
        if below.shape[-1] == 2:
            inputs = below[..., 1]
        else:
            some = below > 0
            reciprocals = np.where(some, 1 / np.where(some, below, 1), 0).sum(-1)
            inputs = some.sum(-1) ** 2 / np.maximum(reciprocals, 1e-300)
    return max(int(np.median(inputs)), 1)


# For each class the numerators and the denominators, `[L, K]`; 0 below is undefined.


def _recall_counts(confusion):
    return _correct(confusion), confusion[..., :-1].sum(-1)


def _precision_counts(confusion):
    given, labelled = confusion[..., :-1].sum(-2), confusion[..., :-1].sum(-1)
    never_given = (given == 0) & (labelled > 0)
    return _correct(confusion), np.where(never_given, 1, given)


def _f1_counts(confusion):
    given, labelled = confusion[..., :-1].sum(-2), confusion[..., :-1].sum(-1)
    return 2 * _correct(confusion), given + labelled


def _effectiveness_counts(confusion):
    return _correct(confusion), confusion.sum(-1) + confusion[..., -1]


def _decided_counts(confusion):
    return confusion[..., :-1].sum(-1), confusion.sum(-1)


_COUNTS = {
    "precision": _precision_counts,
    "recall": _recall_counts,
    "f1": _f1_counts,
}


def _per_class(counts):
    return lambda confusion: _ratio(*counts(confusion), np.nan)


# The measures by name, over all inputs: `[L]` from `[L, K, K + 1]`.
measures: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "accuracy": accuracy,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "effectiveness": effectiveness,
    "decided_ratio": decided_ratio,
}

# The same for each class, `[L, K]`; NaN where a class has nothing to divide by. The
# accuracy on the inputs of one class is its recall.
per_class: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "accuracy": _per_class(_recall_counts),
    "precision": _per_class(_precision_counts),
    "recall": _per_class(_recall_counts),
    "f1": _per_class(_f1_counts),
    "effectiveness": _per_class(_effectiveness_counts),
    "decided_ratio": _per_class(_decided_counts),
}


def _one_class(
    numerators: np.ndarray, denominators: np.ndarray, positive: int | None
) -> np.ndarray:
    num_classes = numerators.shape[-1]
    if positive is None and num_classes > 2:
        return _mean(numerators, denominators)
    positive = 1 if positive is None else positive
    if not 0 <= positive < num_classes:
        raise ValueError(
            f"positive must be a class from 0 to {num_classes - 1}; got {positive}"
        )
    return _ratio(numerators[..., positive], denominators[..., positive], np.nan)


def _mean(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """The mean over classes of the ratios that are defined, rounded once.

    Integers in units of 2**-128: the mean of the float64 0.7, 0.8 and 0.9 is below 0.8.
    """
    means = []
    for row in zip(numerators.tolist(), denominators.tolist()):
        ratios = [(above << 128) // below for above, below in zip(*row) if below]
        means.append(sum(ratios) / (len(ratios) << 128) if ratios else np.nan)
    return np.array(means)


def _correct(confusion: np.ndarray) -> np.ndarray:
    return np.diagonal(confusion, axis1=-2, axis2=-1)


def _decided(confusion: np.ndarray) -> np.ndarray:
    return confusion[..., :-1].sum((-2, -1))


def _ratio(numerator: np.ndarray, denominator: np.ndarray, otherwise: float):
    """`numerator / denominator`, and `otherwise` where the denominator is 0."""
    none = denominator == 0
    return np.where(none, otherwise, numerator / np.where(none, 1, denominator))
