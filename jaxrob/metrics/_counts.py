"""Counts of inputs by label and answer, scores of images, and checks of both."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    as_written,
    checked_array,
    checked_bounds,
    checked_number,
)
from jaxrob._codec import Array

# The confusion is kept up to this many classes. At 41 levels of 1,000 classes it takes
# 330 MB, the other counts 1.3.
MOST_CONFUSED = 64
# Inputs are counted by the rank of their class up to this one, for top-k accuracy.
MOST_RANKS = 10


class Groups(NamedTuple):
    """Which images belong together, and what was answered to each."""

    of_image: np.ndarray  # integers `[N]`, 0 ... G - 1
    labels: np.ndarray  # integers `[N]`
    answers: np.ndarray  # integers `[L, N]`, K for "unknown"
    rank: np.ndarray | None  # integers `[L, N]`, how many classes come first

    def at(self, rows: Any) -> "Groups":
        rank = None if self.rank is None else self.rank[rows]
        return self._replace(answers=self.answers[rows], rank=rank)


class Worth(NamedTuple):
    """What grouped inputs are worth to a measure at each level."""

    measure: str
    # The number of independent inputs whose share has the same variance
    inputs: Annotated[np.ndarray, Array("L", at_least=0)]
    # That variance's degrees of freedom; 0 where no variance is seen
    freedom: Annotated[np.ndarray, Array("L", at_least=0)]

    def at(self, rows: Any) -> "Worth":
        return self._replace(inputs=self.inputs[rows], freedom=self.freedom[rows])


class Counts(NamedTuple):
    """Numbers of inputs by their answers: integers of one shape, `[L, K]` by class.

    Attributes:
      correct: the inputs of the class that are given this class.
      decided: the inputs of the class that are given any class.
      given: the inputs of any class that are given this class.
      unknown: the inputs of the class whose answer is "unknown".
      confusion: `[L, K, K + 1]`, the inputs by label and answer, the last answer being
        "unknown", of which the others are sums; or None. Curves have it up to 64
        classes, for the bootstrap.
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
    groups: Groups | Worth | None = None

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
        correct, unknown = self.correct.sum(-1), self.unknown.sum(-1)
        return Counts(correct, decided, decided, unknown, None, ranks)

    def at(self, rows: np.ndarray | list[int] | int) -> "Counts":
        """Returns the counts at these levels."""
        parts = [None if part is None else part[rows] for part in self[:-1]]
        return Counts._make([*parts, self.groups and self.groups.at(rows)])


class ImageScores(NamedTuple):
    """The scores of images at each level, in place of `Counts`."""

    # float64 `[L, N]` in [0, 1]; NaN for an image that was not looked at
    values: np.ndarray
    groups: np.ndarray | None = None  # integers `[N]`, see `Groups`

    @property
    def inputs(self) -> np.ndarray:
        """int64 `[L, 1]`, the number of images looked at."""
        return np.count_nonzero(~np.isnan(self.values), axis=-1)[..., None]

    @property
    def num_classes(self) -> int:
        return 0

    def at(self, rows: Any) -> "ImageScores":
        return ImageScores(np.asarray(self.values[rows]), self.groups)


def count(
    answers: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    rank: np.ndarray | None = None,
    num_ranks: int = MOST_RANKS,
) -> Counts:
    if rank is not None:
        num_ranks = min(num_ranks, num_classes - 1)
        # Others are counted in a last column, which is dropped.
        others = (rank >= num_ranks) | (answers == num_classes)
        columns = np.where(others, num_ranks, rank)
        ranks = count_pairs(columns, labels, num_classes, num_ranks + 1)[..., :-1]
        return count(answers, labels, num_classes)._replace(ranks=ranks)
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
    correct, decided, given, unknown = np.moveaxis(parts, 1, 0)
    return Counts(correct, decided, given, unknown)


def count_pairs(
    answers: np.ndarray, labels: np.ndarray, num_classes: int, columns: int = 0
) -> np.ndarray:
    """Counts pairs of a label and an answer, int64 `[L, K, columns]`, K + 1 if 0."""
    columns = columns or num_classes + 1
    row, length = labels.astype(np.int64) * columns, num_classes * columns
    flat = [np.bincount(row + some, minlength=length) for some in answers]
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


def checked_curve(
    levels: Any, values: Any, min_length: int, name: str = "values"
) -> tuple[np.ndarray, np.ndarray]:
    levels = checked_levels(levels, min_length)
    axes = {"n": len(levels)}
    holding = "numbers or booleans"
    values = as_written(checked_array(name, values, "n", holding, axes=axes))
    order = np.argsort(levels)
    return levels[order], values[order]


def checked_levels(levels: Any, min_length: int = 2) -> np.ndarray:
    levels = as_written(checked_array("levels", levels, "n"))
    if len(levels) < min_length:
        raise ValueError(f"levels must be at least {min_length}; got {len(levels)}")
    ascending = np.sort(levels)
    repeated = np.flatnonzero(np.diff(ascending) == 0)
    if len(repeated):
        found = ascending[repeated[0]]
        raise ValueError(f"levels must be distinct; got {found:g} twice")
    return levels


def range_around(
    levels: np.ndarray, bounds: tuple[float, float] | None
) -> tuple[float, float]:
    if bounds is None:
        return levels[0], levels[-1]
    lower, upper = checked_bounds("bounds", bounds)
    if levels[0] < lower or levels[-1] > upper:
        raise ValueError(
            f"levels must lie in the bounds [{lower:g}, {upper:g}]; got levels from "
            f"{levels[0]:g} to {levels[-1]:g}"
        )
    return lower, upper


def checked_counts(counts: Any, min_inputs: int = 0) -> Counts:
    if isinstance(counts, Counts):
        parts = _with_ranks(_checked_parts(counts), counts.ranks)
        counts = parts._replace(groups=counts.groups)
    else:
        counts = counts_of(_integers("counts", counts, "L, K, K + 1"))
    if counts.num_classes < 2:
        raise ValueError(
            f"counts must be of at least 2 classes; got {counts.num_classes}"
        )
    inputs = counts.inputs.sum(-1)
    if min_inputs and (inputs < min_inputs).any():
        raise ValueError(
            "counts must hold at least one input at each level; got none at level "
            f"{np.argmin(inputs)} of {len(inputs)}"
        )
    return counts


def checked_confidence_level(confidence_level: Any) -> float:
    return checked_number("confidence_level", confidence_level, above=0, below=1)


def _checked_parts(counts: Counts) -> Counts:
    if counts.confusion is not None:
        sums = counts_of(_integers("counts.confusion", counts.confusion, "L, K, K + 1"))
        for name, part, again in zip(Counts._fields, counts[:4], sums[:4]):
            if not np.array_equal(part, again):
                raise ValueError(f"counts.{name} must be that of counts.confusion")
        return sums
    axes: dict[str, int] = {}
    parts = zip(Counts._fields, counts[:4])
    checked = [_integers(f"counts.{n}", part, "L, K", axes) for n, part in parts]
    checked = Counts._make([*checked, None, None, None])
    missed = checked.decided - checked.correct
    mistaken = checked.given - checked.correct
    wrong, gained = (part.sum(-1, keepdims=True) for part in (missed, mistaken))
    if (missed < 0).any() or (mistaken < 0).any():
        raise ValueError("counts.correct must not exceed counts.decided or .given")
    # A wrong answer is of one class and gives another.
    if ((wrong != gained) | (missed + mistaken > wrong)).any():
        raise ValueError(
            "counts.decided and counts.given must be of the same inputs; no answers "
            "have these counts"
        )
    return checked


def _with_ranks(counts: Counts, ranks: Any) -> Counts:
    if ranks is None:
        return counts
    axes = dict(zip("LK", counts.correct.shape))
    ranks = _integers("counts.ranks", ranks, "L, K, R", axes)
    if (ranks[..., 0] != counts.correct).any():
        raise ValueError("counts.ranks must count the correct inputs at rank 0")
    if (ranks.sum(-1) > counts.decided).any():
        raise ValueError("counts.ranks must not add up to more than counts.decided")
    if ranks.shape[-1] >= counts.num_classes:
        raise ValueError(
            f"counts.ranks must be of fewer ranks than {counts.num_classes} classes; "
            f"got {ranks.shape[-1]}"
        )
    return counts._replace(ranks=ranks)


def _integers(
    name: str, value: Any, shape: str, axes: dict[str, int] | None = None
) -> np.ndarray:
    """Returns counts as int64, of which products do not overflow."""
    array = checked_array(name, value, shape, "integers", at_least=0, axes=axes)
    return array.astype(np.int64, copy=False)


def checked_scores(scores: Any) -> ImageScores:
    if not isinstance(scores, ImageScores):
        raise TypeError(
            "a mean score takes the counts of a curve of scores; got "
            f"{type(scores).__name__}"
        )
    checked_array(
        "scores", scores.values, "L, N", at_least=0, at_most=1, may_be_nan=True
    )
    if (scores.inputs == 0).any():
        raise ValueError("scores must hold at least one image at each level")
    return scores


def typical_inputs(num_inputs: np.ndarray) -> int:
    """Returns the median number of inputs behind a curve's values, at least 1."""
    # The number differs between levels if there are unknown answers.
    return max(int(np.median(num_inputs)), 1)


def quotient(
    numerator: np.ndarray, denominator: np.ndarray, if_undefined: float
) -> np.ndarray:
    undefined = denominator == 0
    return np.where(
        undefined, if_undefined, numerator / np.where(undefined, 1, denominator)
    )


class Ratio(NamedTuple):
    numerator: np.ndarray
    denominator: np.ndarray  # the denominator; where it is 0 the measure is undefined
    # the number of inputs that the ratio is a share of, which sets its scatter
    inputs: np.ndarray
