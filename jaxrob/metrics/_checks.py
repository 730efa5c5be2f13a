"""Argument checks of this package: curves, counts, confidence levels."""

from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_bounds, checked_number
from jaxrob.metrics._counts import Counts, counts_of


def checked_curve(
    levels: Any, values: Any, min_length: int, name: str = "values"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns levels and values as float64, sorted by level."""
    levels = checked_levels(levels, min_length)
    axes = {"n": len(levels)}
    holding = "numbers or booleans"
    values = checked_array(name, values, "n", holding, axes=axes).astype(np.float64)
    order = np.argsort(levels)
    return levels[order], values[order]


def checked_levels(levels: Any, min_length: int = 2) -> np.ndarray:
    """Returns levels as float64, unsorted."""
    levels = checked_array("levels", levels, "n").astype(np.float64)
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
    """Returns the ends of the range that holds the levels."""
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
    """Returns counts of at least two classes, from `Counts` or a confusion."""
    if isinstance(counts, Counts):
        counts = _with_ranks(_checked_parts(counts), counts.ranks)
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
    """Returns a coverage in (0, 1)."""
    return checked_number("confidence_level", confidence_level, above=0, below=1)


def _checked_parts(counts: Counts) -> Counts:
    """Returns `Counts` `[L, K]` whose parts go together."""
    if counts.confusion is not None:
        sums = counts_of(_integers("counts.confusion", counts.confusion, "L, K, K + 1"))
        for name, part, again in zip(Counts._fields, counts[:4], sums[:4]):
            if not np.array_equal(part, again):
                raise ValueError(f"counts.{name} must be that of counts.confusion")
        return sums
    axes: dict[str, int] = {}
    names = Counts._fields[:4]
    checked = Counts(
        *(_integers(f"counts.{n}", p, "L, K", axes) for n, p in zip(names, counts))
    )
    missed = checked.decided - checked.correct
    mistaken = checked.given - checked.correct
    wrong = missed.sum(-1, keepdims=True)
    if (missed < 0).any() or (mistaken < 0).any():
        raise ValueError("counts.correct must not exceed counts.decided or .given")
    # A wrong answer is of one class and gives another.
    if (wrong != mistaken.sum(-1, keepdims=True)).any() or (
        missed + mistaken > wrong
    ).any():
        raise ValueError(
            "counts.decided and counts.given must be of the same inputs; no answers "
            "have these counts"
        )
    return checked


def _with_ranks(counts: Counts, ranks: Any) -> Counts:
    """Returns counts with ranks `[L, K, R]` that go with them; None is no ranks."""
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
