"""What the levels around an interval say about the curve in it."""

import math
from typing import NamedTuple

import numpy as np

# The concavity assumed is at least the first number (per squared range), and at least
# the second times the concavity that neighbouring levels show.
_MIN_CONCAVITY = 8.0
_MARGIN = 2.0
# The part of a concavity that counts if only one of an interval's two triples shows it.
_ONE_SIDED = 0.25


class Bend(NamedTuple):
    """The shape of a curve in each of m intervals, on the range mapped to [0, 1]."""

    # float64 `[m]`, twice the concavity that neighbouring levels show beyond what the
    # number of inputs explains
    concavity: np.ndarray
    bounding: np.ndarray  # float64 `[m]`, the concavity assumed as a bound there
    # float64 `[m]`, the expected second divided difference, signed
    slope_change: np.ndarray
    doubt: np.ndarray  # float64 `[m]`, how far that may be off


def bend(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    standard_errors: np.ndarray | None = None,
) -> Bend:
    # With the next level on either side, at least half its width away, so at its own
    # scale: a bend inside shows in both triples, one outside in only one of them.
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
    last = len(positions) - 1
    first, second = np.arange(last), np.arange(1, last + 1)
    left, right = neighbours(positions)
    has_left, has_right = left >= 0, right <= last
    with_left = np.stack([left.clip(0), first, second])
    with_right = np.stack([first, second, right.clip(0, last)])
    needed, change = np.zeros((2, last)), np.zeros((2, last))
    sides = (with_left, has_left), (with_right, has_right)
    for i, (triple, there) in enumerate(sides):
        triple = triple[:, there]
        where = positions[triple]
        unsure = None if standard_errors is None else standard_errors[triple]
        found, expected = middle_deviation(where, values[triple], num_inputs, unsure)
        spread = (where[1] - where[0]) * (where[2] - where[1])
        needed[i, there] = np.maximum(np.abs(found) - 2 * expected, 0) / spread
        change[i, there] = -found / spread
    return needed, change, has_left.astype(int) + has_right


def neighbours(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Slightly less than half, because positions are rounded.
    gap = np.diff(positions) * (0.5 - 1e-9)
    left = np.searchsorted(positions, positions[:-1] - gap, side="right") - 1
    right = np.searchsorted(positions, positions[1:] + gap, side="left")
    return left, right


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


# Straight pieces that approximate a curved edge.
_PIECES = 32
# A line shows a bend if it leaves the chord by more than this many standard deviations.
_CLEAR = 2.0


class Envelope(NamedTuple):
    """Bounds of a curve's deviation from its chord in each of m intervals."""

    share: np.ndarray  # float64 `[s, 1]` from 0 to 1, the position in the interval
    # float64 `[s, m]`, how far the curve may lie above the chord there
    above: np.ndarray
    below: np.ndarray  # float64 `[s, m]`, how far below


def envelope(
    levels: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    num_deviations: float = 0.0,
    standard_errors: np.ndarray | None = None,
) -> Envelope:
    """Computes how far a curve may deviate from the chords between its values."""
    # The wider of two bounds: it bends at most twice as much as the levels around show,
    # or in one direction within three levels: lines through two bound that, and a jump.
    share = np.linspace(0, 1, _PIECES + 1)[:, None]
    intervals = max(len(levels) - 1, 0)
    if intervals < 1:
        none = np.zeros((len(share), intervals))
        return Envelope(share, none, none)
    span = levels[-1] - levels[0]
    positions = (levels - levels[0]) / span
    width = np.diff(positions)
    found = bend(positions, values, num_inputs, standard_errors)
    parabola = np.nan_to_num(found.concavity) * width**2 * share * (1 - share)
    above, below = _between_lines(
        positions, values, num_inputs, share, num_deviations, standard_errors
    )
    return Envelope(share, np.maximum(parabola, above), np.maximum(parabola, below))


def _between_lines(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    share: np.ndarray,
    num_deviations: float,
    standard_errors: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    left, right = neighbours(positions)
    last = len(positions) - 1
    first, second = np.arange(last), np.arange(1, last + 1)
    chord = np.diff(values) / np.diff(positions)
    if standard_errors is None:
        standard_errors = np.zeros(len(positions))
    lines, bends = [], np.zeros(last, bool)
    for outer, inner, away, there in (
        (left, first, share, left >= 0),
        (right, second, share - 1, right <= last),
    ):
        other = second if inner is first else first
        outer = np.where(there, outer, other)
        run = positions[inner] - positions[outer]
        rise = values[inner] - values[outer]
        reach = away * np.diff(positions)
        part, far = np.abs(away), np.abs(reach / run)
        noise = np.hypot(standard_errors[outer] * far, standard_errors[other] * part)
        noise = np.hypot(noise, standard_errors[inner] * (far + part))
        slack = np.zeros_like(reach)
        if num_inputs is not None:
            flipped = np.maximum(np.abs(rise), 1 / num_inputs) / num_inputs
            slack = num_deviations * np.sqrt(flipped) * far
        # How far it lies above the chord, and the curve beyond it.
        off = (rise / run - chord) * reach
        lines.append((off, noise, slack, there))
        # Where one line shows a bend, neither is moved towards the chord by its noise.
        bends |= (there & (np.abs(off) > _CLEAR * noise)).any(axis=0)
    above = below = np.inf
    for off, noise, slack, there in lines:
        less = np.sign(off) * np.maximum(np.abs(off) - noise, 0)
        off = np.where(bends, off, less)
        up, down = off > -slack, off < slack
        above = np.minimum(above, np.where(there & up, off + slack, np.inf))
        below = np.minimum(below, np.where(there & down, slack - off, np.inf))
    # Without a line on one side, the chord itself is the bound there.
    return np.where(np.isinf(above), 0.0, above), np.where(np.isinf(below), 0.0, below)


# Positions in an interval at which the chord is compared with the threshold.
_SHARES = (np.arange(64) + 0.5) / 64


def between_counts(threshold: float, num_inputs: int | None) -> float:
    """Returns the number half a count below the lowest accepted value."""
    # A value on the threshold lies as far above this number as the next lower value
    # lies below it.
    if num_inputs is None:
        return threshold
    return (least_count(threshold, num_inputs) - 0.5) / num_inputs


def least_count(threshold: float, num_inputs: int) -> int:
    """Returns the lowest count with a share of at least the threshold."""
    # Not ceil(threshold * num_inputs), which is 56 for 0.55 * 100.
    count = max(math.ceil(threshold * num_inputs) - 2, 0)
    while count / num_inputs < threshold:
        count += 1
    return count


def flips(values: np.ndarray, share: np.ndarray, num_inputs: int | None) -> np.ndarray:
    """Returns the standard deviation of a value from the chord, for few inputs."""
    # With the same random numbers, single inputs turn wrong or right at levels of their
    # own: a bridge of as many steps as the ends differ by, at least one.
    if num_inputs is None:
        return np.zeros(np.broadcast_shapes(values.shape[:-1], np.shape(share)))
    step = 1 / num_inputs
    change = np.maximum(np.abs(values[..., 1] - values[..., 0]), step)
    return np.sqrt(change * step * share * (1 - share))


def open_width(
    levels: np.ndarray, values: np.ndarray, threshold: float, num_inputs: int | None
) -> np.ndarray:
    """Returns the width of each interval where the threshold may be crossed unseen."""
    # There the chord lies within one and a half inputs plus one standard deviation of
    # `flips` of the threshold.
    if num_inputs is None:
        return np.zeros(len(levels) - 1)
    ends = np.stack([values[:-1], values[1:]], axis=-1)[:, None]
    chord = ends[..., 0] * (1 - _SHARES) + ends[..., 1] * _SHARES
    reach = 1.5 / num_inputs + flips(ends, _SHARES, num_inputs)
    distance = np.abs(chord - between_counts(threshold, num_inputs))
    return np.diff(levels) * np.mean(distance <= reach, axis=-1)
