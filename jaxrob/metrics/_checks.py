"""Checks of what the functions of this package share: curves, counts, confidences."""

import math

import numpy as np


def checked_curve(
    levels: np.ndarray, values: np.ndarray, threshold: float, fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Levels and values as float64, in ascending order of the levels.

    Args:
      levels: `[n]`, distinct and finite, in any order.
      values: `[n]`, finite.
      threshold: finite.
      fewest: the smallest n allowed.

    Raises:
      ValueError: if one of them is not as described.
    """
    levels, values = np.asarray(levels, np.float64), np.asarray(values, np.float64)
    if levels.ndim != 1 or levels.shape != values.shape or len(levels) < fewest:
        raise ValueError(
            f"levels and values must be vectors of one length, at least {fewest}; got "
            f"the shapes {levels.shape} and {values.shape}"
        )
    for name, array in (("levels", levels), ("values", values)):
        if not np.isfinite(array).all():
            bad = np.flatnonzero(~np.isfinite(array))[0]
            raise ValueError(f"{name} must be finite; got {array[bad]} at index {bad}")
    if not math.isfinite(threshold):
        raise ValueError(f"threshold must be finite; got {threshold}")
    order = np.argsort(levels)
    levels, values = levels[order], values[order]
    repeated = np.flatnonzero(np.diff(levels) == 0)
    if len(repeated):
        raise ValueError(f"levels must be distinct; got {levels[repeated[0]]:g} twice")
    return levels, values


def range_around(
    levels: np.ndarray, bounds: tuple[float, float] | None
) -> tuple[float, float]:
    """The ends of the range that holds the levels.

    Args:
      levels: `[n]`, ascending.
      bounds: the range's ends; by default the outermost levels.

    Raises:
      ValueError: if the bounds are not a range, or a level lies outside.
    """
    lower, upper = (levels[0], levels[-1]) if bounds is None else bounds
    if bounds is not None and not -np.inf < lower < upper < np.inf:
        raise ValueError(
            f"bounds must be finite, the lower below the upper; got {bounds}"
        )
    if levels[0] < lower or levels[-1] > upper:
        raise ValueError(
            f"levels must lie in the bounds [{lower:g}, {upper:g}]; got levels from "
            f"{levels[0]:g} to {levels[-1]:g}"
        )
    return lower, upper


def checked_confusion(confusion: np.ndarray) -> np.ndarray:
    """Counts `[L, K, K + 1]` by label and answer, at least one input at each level.

    Raises:
      ValueError: if they are not such counts.
    """
    confusion = np.asarray(confusion)
    shape = confusion.shape
    if len(shape) != 3 or shape[1] < 2 or shape[2] != shape[1] + 1:
        raise ValueError(
            "confusion must have the shape [L, K, K + 1] with at least 2 classes; got "
            f"{shape}"
        )
    if not np.issubdtype(confusion.dtype, np.integer) or (confusion < 0).any():
        raise ValueError("confusion must hold counts, integers of at least 0")
    if (confusion.sum((-2, -1)) == 0).any():
        raise ValueError("confusion must count at least one input at each level")
    return confusion


def check_confidence(confidence: float) -> None:
    """Refuses a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence}")


def check_share(name: str, number: float) -> None:
    """Refuses a number outside [0, 1]."""
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {number}")
