"""Counts of inputs by label and answer, from which every measure is computed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# The confusion is kept up to this many classes. At 41 levels of 1,000 classes it takes
# 330 MB, the other counts 1.3.
MOST_CONFUSED = 64
# Inputs are counted by the rank of their class up to this one, for top-k accuracy.
MOST_RANKS = 10


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
      ranks: `[L, K, R]`, the decided inputs of the class of which 0, 1, ... R - 1
        classes are more probable than the right one; or None. Curves have the first 10
        ranks (K - 1 with fewer classes), for top-k accuracy.
    """

    correct: np.ndarray
    decided: np.ndarray
    given: np.ndarray
    unknown: np.ndarray
    confusion: np.ndarray | None = None
    ranks: np.ndarray | None = None

    @property
    def num_classes(self) -> int:
        """K."""
        return self.correct.shape[-1]

    @property
    def inputs(self) -> np.ndarray:
        """The inputs of each class, `[L, K]`."""
        return self.decided + self.unknown

    def summed(self) -> "Counts":
        """Returns the counts of all classes together, `[L]`."""
        decided = self.decided.sum(-1)
        ranks = None if self.ranks is None else self.ranks.sum(-2)
        found = Counts(self.correct.sum(-1), decided, decided, self.unknown.sum(-1))
        return found._replace(ranks=ranks)

    def at(self, rows: np.ndarray | list[int] | int) -> "Counts":
        """Returns the counts at these levels."""
        correct, decided, given, unknown = (part[rows] for part in self[:4])
        confusion = None if self.confusion is None else self.confusion[rows]
        ranks = None if self.ranks is None else self.ranks[rows]
        return Counts(correct, decided, given, unknown, confusion, ranks)


def count(
    answers: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    rank: np.ndarray | None = None,
    num_ranks: int = MOST_RANKS,
) -> Counts:
    """Counts answers by label."""
    if rank is not None:
        found = count(answers, labels, num_classes)
        num_ranks = min(num_ranks, num_classes - 1)
        # Others are counted in a last column, which is dropped.
        others = (rank >= num_ranks) | (answers == num_classes)
        columns = np.where(others, num_ranks, rank)
        table = _count_pairs(columns, labels, num_classes, num_ranks + 1)
        return found._replace(ranks=table[..., :-1])
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
    """Joins the levels of counts of the same classes, which all have the same parts."""
    correct, decided, given, unknown, confusion, ranks = (
        None if any(part is None for part in parts) else np.concatenate(parts)
        for parts in zip(*some)
    )
    assert correct is not None and decided is not None
    assert given is not None and unknown is not None
    return Counts(correct, decided, given, unknown, confusion, ranks)


def count_pairs(
    answers: np.ndarray, labels: np.ndarray, num_classes: int
) -> np.ndarray:
    """Counts pairs of a label and an answer, int64 `[L, K, K + 1]`; see `count`."""
    return _count_pairs(answers, labels, num_classes, num_classes + 1)


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


def _count_pairs(
    found: np.ndarray, labels: np.ndarray, num_classes: int, columns: int
) -> np.ndarray:
    row = labels.astype(np.int64) * columns
    flat = [np.bincount(row + some, minlength=num_classes * columns) for some in found]
    return np.stack(flat).reshape(-1, num_classes, columns)
