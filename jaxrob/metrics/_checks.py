"""Argument checks of this package: curves, counts, confidence levels."""

from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_bounds, checked_number


def checked_curve(
    levels: Any, values: Any, threshold: Any, min_length: int, name: str = "values"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns levels and values as float64, sorted by level.

    Args:
      levels: `[n]`, distinct and finite, in any order.
      values: `[n]`, finite.
      threshold: finite.
      min_length: the smallest n allowed.
      name: what the messages call the values.

    Raises:
      TypeError: if an argument holds no numbers.
      ValueError: if an argument is not as described.
    """
    levels = checked_levels(levels, min_length)
    axes = {"n": len(levels)}
    holding = "numbers or booleans"
    values = checked_array(name, values, "n", holding, axes=axes).astype(np.float64)
    checked_number("threshold", threshold)
    order = np.argsort(levels)
    return levels[order], values[order]


def checked_levels(levels: Any, min_length: int = 2) -> np.ndarray:
    """Returns levels as float64, unsorted.

    Raises:
      TypeError: if they are not numbers.
      ValueError: if they are too few, repeat or are not finite.
    """
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
    """Returns the ends of the range that holds the levels.

    Args:
      levels: `[n]`, ascending.
      bounds: the range's ends; by default the outermost levels.

    Raises:
      TypeError: if the bounds are not two numbers.
      ValueError: if the bounds are not a range, or a level lies outside.
    """
    if bounds is None:
        return levels[0], levels[-1]
    lower, upper = checked_bounds("bounds", bounds)
    if levels[0] < lower or levels[-1] > upper:
        raise ValueError(
            f"levels must lie in the bounds [{lower:g}, {upper:g}]; got levels from "
            f"{levels[0]:g} to {levels[-1]:g}"
        )
    return lower, upper


def checked_confusion(confusion: Any, min_inputs: int = 0) -> np.ndarray:
    """Returns counts `[L, K, K + 1]` by label and answer, of at least two classes.

    Args:
      confusion: the counts.
      min_inputs: the smallest number of inputs allowed at a level.

    Raises:
      TypeError: if the counts are not integers.
      ValueError: if the shape is wrong, a count is negative, or a level counts too few
        inputs.
    """
    shape = "L, K, K + 1"
    confusion = checked_array("confusion", confusion, shape, "integers", at_least=0)
    if confusion.shape[1] < 2:
        raise ValueError(
            f"confusion must have the shape [{shape}] with at least 2 classes; got "
            f"{confusion.shape}"
        )
    if min_inputs and (confusion.sum((-2, -1)) < min_inputs).any():
        raise ValueError(
            "confusion must count at least one input at each level; got none at level "
            f"{np.argmin(confusion.sum((-2, -1)))} of {len(confusion)}"
        )
    return confusion


def checked_confidence_level(confidence_level: Any) -> float:
    """Returns a coverage in (0, 1)."""
    return checked_number("confidence_level", confidence_level, above=0, below=1)
