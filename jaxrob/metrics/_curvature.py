"""How much a curve bends in each interval, told from the levels around it."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._finite_inputs import flips

# No curve is taken to be flatter than this (per squared range), nor to bend less than
# this many times what its neighbourhood shows.
_LEAST = 8.0
_MARGIN = 2.0
# What the one triple shows that an interval shares with a bend outside of it.
_ONE_SIDED = 0.25


class Bend(NamedTuple):
    """The shape of a curve in each of m intervals, on the range mapped to [0, 1].

    Attributes:
      concavity: float64 `[m]`, twice the concavity that the levels around show beyond
        what the number of inputs explains.
      bounding: float64 `[m]`, the concavity taken to bound the curve there.
      slope_change: float64 `[m]`, the second divided difference to expect, signed.
      doubt: float64 `[m]`, how far off that may be.
    """

    concavity: np.ndarray
    bounding: np.ndarray
    slope_change: np.ndarray
    doubt: np.ndarray


def bend(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    doubts: np.ndarray | None = None,
) -> Bend:
    """The shape of a curve in each interval between neighbouring levels.

    An interval is held by two triples: with the next level to the left, and with the
    next to the right, each at least half its width away, so that the estimate is of
    the interval's own scale: the smaller the interval, the more accuracy curves bend.
    A bend inside shows in both triples. One outside shows in a single one, and is left
    to the interval that holds it.

    Args:
      positions: `[n]` in [0, 1], ascending.
      values: `[n]`, the measure there.
      num_inputs: the number of inputs behind each value; None for exact values.
      doubts: `[n]`, standard deviations of what the values do not err alike; by default
        none.

    Returns:
      A `Bend` of n - 1 intervals.
    """
    needed, change, found = _both_sides(positions, values, num_inputs, doubts)
    both = found == 2
    largest = needed.max(axis=0)
    inside = np.where(both, needed.min(axis=0), largest)
    bounding = _MARGIN * np.maximum(inside, _ONE_SIDED * largest)
    mean = change.sum(axis=0) / np.maximum(found, 1)
    doubt = np.where(both, np.abs(change[0] - change[1]) / 2, np.abs(mean))
    return Bend(_MARGIN * inside, np.maximum(bounding, _LEAST), mean, doubt)


def sharpest(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    doubts: np.ndarray | None = None,
) -> np.ndarray:
    """The larger concavity `[n - 1]` that the two triples of an interval show.

    Args:
      positions: `[n]` in [0, 1], ascending.
      values: `[n]`, the measure there.
      num_inputs: the number of inputs behind each value; None for exact values.
      doubts: `[n]`, see `bend`.
    """
    return _both_sides(positions, values, num_inputs, doubts)[0].max(axis=0)


def _both_sides(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    doubts: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `second_differences` gives for both triples of each interval.

    Returns:
      Both its results, `[2, n - 1]` each, 0 where a triple is missing; and how many
      triples there are, `[n - 1]`.
    """
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
            None if doubts is None else doubts[triple],
        )
        needed[i, there], change[i, there] = excess, difference
    return needed, change, has_left.astype(int) + has_right


def neighbours(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The levels on both sides of each interval, at least half its width away.

    Args:
      positions: `[n]`, ascending.

    Returns:
      Places in `positions`, `[n - 1]` each: the last level to the left, -1 where there
      is none; the first to the right, n where there is none.
    """
    # A little less than half, because positions are rounded.
    gap = np.diff(positions) * (0.5 - 1e-9)
    left = np.searchsorted(positions, positions[:-1] - gap, side="right") - 1
    right = np.searchsorted(positions, positions[1:] + gap, side="left")
    return left, right


def second_differences(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    doubts: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The concavity of parabolas through three points.

    Args:
      positions: `[3, m]`, ascending along the first axis.
      values: `[3, m]`.
      num_inputs: the number of inputs behind each value; None for exact values.
      doubts: `[3, m]`, what the values do not err alike; by default none.

    Returns:
      The size of the concavity beyond what two standard deviations of `flips` and of
      doubts explain, and the concavity itself, signed: each `[m]`.
    """
    deviation, expected = middle_deviation(positions, values, num_inputs, doubts)
    spread = (positions[1] - positions[0]) * (positions[2] - positions[1])
    excess = np.maximum(np.abs(deviation) - 2 * expected, 0)
    return excess / spread, -deviation / spread


def middle_deviation(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    doubts: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """By how much the middle of three points is off the chord of the others.

    Args:
      positions: `[3, m]`, ascending along the first axis.
      values: `[3, m]`.
      num_inputs: the number of inputs behind each value; None for exact values.
      doubts: `[3, m]`, what the values do not err alike; by default none.

    Returns:
      The deviation and its standard deviation by `flips` and doubts: each `[m]`.
    """
    share = (positions[1] - positions[0]) / (positions[2] - positions[0])
    chord = values[0] * (1 - share) + values[2] * share
    ends = np.stack([values[0], values[2]], axis=-1)
    expected = flips(ends, share, num_inputs)
    if doubts is not None:
        parts = np.stack([1 - share, np.ones_like(share), share])
        unsure = np.sqrt(np.square(parts * doubts).sum(axis=0))
        expected = np.hypot(expected, unsure)
    return values[1] - chord, expected
