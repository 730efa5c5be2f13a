"""Counts of inputs by label and answer, from which every measure is computed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# The confusion is kept up to this many classes. At 41 levels of 1,000 classes it takes
# 330 MB, the other counts 1.3.
MOST_CONFUSED = 64


class Counts(NamedTuple):
    """Numbers of inputs by their answers: integers of one shape, `[L, K]` by class.

    Attributes:
      correct: the inputs of the class that are given this class.
      decided: the inputs of the class that are given any class.
      given: the inputs of any class that are given this class.
      unknown: the inputs of the class whose answer is "unknown".
      confusion: `[L, K, K + 1]`, the inputs by label and answer, the last answer being
        "unknown", of which the others are sums; or None. `Curve` and `ReducedCurve`
        have it up to 64 classes. The bootstrap alone needs it, to resample inputs
        exactly.
    """

    correct: np.ndarray
    decided: np.ndarray
    given: np.ndarray
    unknown: np.ndarray
    confusion: np.ndarray | None = None

    @property
    def num_classes(self) -> int:
        """K."""
        return self.correct.shape[-1]

    @property
    def inputs(self) -> np.ndarray:
        """The inputs of each class, `[L, K]`."""
        return self.decided + self.unknown

    @property
    def total(self) -> "Counts":
        """The counts of all classes together, `[L]`."""
        decided = self.decided.sum(-1)
        return Counts(self.correct.sum(-1), decided, decided, self.unknown.sum(-1))

    def at(self, rows: np.ndarray | list[int] | int) -> "Counts":
        """Returns the counts at these levels."""
        correct, decided, given, unknown = (part[rows] for part in self[:4])
        confusion = None if self.confusion is None else self.confusion[rows]
        return Counts(correct, decided, given, unknown, confusion)


def count(answers: np.ndarray, labels: np.ndarray, num_classes: int) -> Counts:
    """Counts answers by label.

    Args:
      answers: integers `[L, N]` in 0 ... K, K for "unknown".
      labels: integers `[N]` in 0 ... K - 1.
      num_classes: K.

    Returns:
      int64 counts `[L, K]`, with their confusion up to 64 classes.
    """
    if num_classes <= MOST_CONFUSED:
        return counts_of(count_pairs(answers, labels, num_classes))

    def by_class(classes: np.ndarray) -> np.ndarray:
        return np.bincount(classes, minlength=num_classes)[:num_classes]

    inputs, rows = by_class(labels), []
    for some in answers:
        unknown = by_class(labels[some == num_classes])
        correct = by_class(labels[some == labels])
        rows.append((correct, inputs - unknown, by_class(some), unknown))
    shape = 0, 4, num_classes
    parts = np.array(rows, np.int64) if rows else np.zeros(shape, np.int64)
    return Counts(*np.moveaxis(parts, 1, 0))


def stacked(some: Sequence[Counts]) -> Counts:
    """Joins the levels of counts of the same classes."""
    tables = [one.confusion for one in some if one.confusion is not None]
    if tables:
        return counts_of(np.concatenate(tables))
    return Counts(*map(np.concatenate, zip(*(one[:4] for one in some))))


def count_pairs(
    answers: np.ndarray, labels: np.ndarray, num_classes: int
) -> np.ndarray:
    """Counts pairs of a label and an answer, int64 `[L, K, K + 1]`; see `count`."""
    columns = num_classes + 1
    row = labels.astype(np.int64) * columns
    flat = [
        np.bincount(row + some, minlength=num_classes * columns) for some in answers
    ]
    return np.stack(flat).reshape(-1, num_classes, columns)


def counts_of(confusion: np.ndarray) -> Counts:
    """Sums a confusion `[L, K, K + 1]`, and keeps it, whatever K is."""
    classes = confusion[..., :-1]
    return Counts(
        correct=np.diagonal(confusion, axis1=-2, axis2=-1),
        decided=classes.sum(-1),
        given=classes.sum(-2),
        unknown=confusion[..., -1],
        confusion=confusion,
    )
