"""Estimates of a curve's concavity in each interval, from the levels around it."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._finite_inputs import flips

# The concavity assumed is at least the first number (per squared range), and at least
# the second times the concavity that neighbouring levels show.
_MIN_CONCAVITY = 8.0
_MARGIN = 2.0
# The part of a concavity that counts if only one of an interval's two triples shows it.
_ONE_SIDED = 0.25


class Bend(NamedTuple):
    """The shape of a curve in each of m intervals, on the range mapped to [0, 1].

    Attributes:
      concavity: float64 `[m]`, twice the concavity that neighbouring levels show beyond
        what the number of inputs explains.
      bounding: float64 `[m]`, the concavity assumed as a bound there.
      slope_change: float64 `[m]`, the expected second divided difference, signed.
      doubt: float64 `[m]`, how far that may be off.
    """

    concavity: np.ndarray
    bounding: np.ndarray
    slope_change: np.ndarray
    doubt: np.ndarray


def bend(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None = None,
) -> Bend:
    """Estimates the shape of a curve in each interval between neighbouring levels."""
    # Two triples of levels contain an interval: with the next level to the left, and
    # with the next to the right, each at least half its width away. The estimate thus
    # has the interval's own scale, since accuracy curves bend more in smaller
    # intervals. A bend inside shows in both triples. A bend outside shows in only one
    # of them, and counts for the interval that contains it.
    needed, change, found = _both_sides(positions, values, num_inputs, standard_errors)
    both = found == 2
    largest = needed.max(axis=0)
    inside = np.where(both, needed.min(axis=0), largest)
    bounding = _MARGIN * np.maximum(inside, _ONE_SIDED * largest)
    mean = change.sum(axis=0) / np.maximum(found, 1)
    doubt = np.where(both, np.abs(change[0] - change[1]) / 2, np.abs(mean))
    return Bend(_MARGIN * inside, np.maximum(bounding, _MIN_CONCAVITY), mean, doubt)


def sharpest(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the larger concavity, `[n - 1]`, of each interval's two triples."""
    return _both_sides(positions, values, num_inputs, standard_errors)[0].max(axis=0)


def _both_sides(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes `second_differences` for both triples of each interval."""
    last = len(positions) - 1
    first, second = np.arange(last), np.arange(1, last + 1)
    left, right = neighbours(positions)
    has_left, has_right = left >= 0, right <= last
    with_left = np.stack([left.clip(0), first, second])
    with_right = np.stack([first, second, right.clip(0, last)])
    needed, change = np.zeros((2, last)), np.zeros((2, last))
    for i, (triple, there) in enumerate(
        ((with_left, has_left), (with_right, has_right))
    ):
        triple = triple[:, there]
        excess, difference = second_differences(
            positions[triple],
            values[triple],
            num_inputs,
            None if standard_errors is None else standard_errors[triple],
        )
        needed[i, there], change[i, there] = excess, difference
    return needed, change, has_left.astype(int) + has_right


def neighbours(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds the levels on both sides of each interval, at least half its width away."""
    # Slightly less than half, because positions are rounded.
    gap = np.diff(positions) * (0.5 - 1e-9)
    left = np.searchsorted(positions, positions[:-1] - gap, side="right") - 1
    right = np.searchsorted(positions, positions[1:] + gap, side="left")
    return left, right


def second_differences(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the concavity of parabolas through three points."""
    deviation, expected = middle_deviation(
        positions, values, num_inputs, standard_errors
    )
    spread = (positions[1] - positions[0]) * (positions[2] - positions[1])
    excess = np.maximum(np.abs(deviation) - 2 * expected, 0)
    return excess / spread, -deviation / spread


def middle_deviation(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Computes how far the middle of three points lies above the others' chord."""
    share = (positions[1] - positions[0]) / (positions[2] - positions[0])
    chord = values[0] * (1 - share) + values[2] * share
    ends = np.stack([values[0], values[2]], axis=-1)
    expected = flips(ends, share, num_inputs)
    if standard_errors is not None:
        parts = np.stack([1 - share, np.ones_like(share), share])
        unsure = np.sqrt(np.square(parts * standard_errors).sum(axis=0))
        expected = np.hypot(expected, unsure)
    return values[1] - chord, expected
