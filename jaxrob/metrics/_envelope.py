"""Between which two lines a curve may lie where no level was evaluated."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import bend, neighbours

# Straight pieces that stand for a curved edge.
_PIECES = 32


class Envelope(NamedTuple):
    """How far a curve may stray from its chord in each of m intervals.

    Attributes:
      share: float64 `[s, 1]` from 0 to 1, where in the interval.
      above: float64 `[s, m]`, by how much it may lie above the chord there.
      below: float64 `[s, m]`, by how much below.
    """

    share: np.ndarray
    above: np.ndarray
    below: np.ndarray


def envelope(
    levels: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    deviations: float = 0.0,
    doubts: np.ndarray | None = None,
) -> Envelope:
    """How far a curve may stray from the chords between its values.

    Two arguments, of which the wider one counts. First, the curve bends no more than
    twice as much as the levels around an interval show. Second, it bends in one
    direction within each triple of neighbouring levels. Where it is concave over
    (L, A, B), it lies below the line through L and A, extended over the interval from
    A to B; so it does below the line through B and R where it is concave over
    (A, B, R). Where it is convex, it lies above these lines. A kink or a jump anywhere
    in the interval stays within them, which no parabola through the ends promises.

    Args:
      levels: `[n]`, ascending.
      values: `[n]`, the measure there.
      num_inputs: the number of inputs behind each value; None for exact values.
      deviations: by how many standard deviations of single inputs' flips the lines may
        be off.
      doubts: `[n]`, standard deviations of what the values do not err alike; by default
        none. Lines that stray by no more than that count as the chord.
    """
    share = np.linspace(0, 1, _PIECES + 1)[:, None]
    intervals = max(len(levels) - 1, 0)
    if intervals < 1:
        none = np.zeros((len(share), intervals))
        return Envelope(share, none, none)
    span = levels[-1] - levels[0]
    positions = (levels - levels[0]) / span
    width = np.diff(positions)
    concavity = np.nan_to_num(bend(positions, values, num_inputs, doubts).concavity)
    parabola = concavity * width**2 * share * (1 - share)
    above, below = _between_lines(
        positions, values, num_inputs, share, deviations, doubts
    )
    return Envelope(share, np.maximum(parabola, above), np.maximum(parabola, below))


def _between_lines(
    positions: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    share: np.ndarray,
    deviations: float,
    doubts: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """By how much the neighbours' lines lie above and below the chord, `[s, m]`."""
    left, right = neighbours(positions)
    last = len(positions) - 1
    first, second = np.arange(last), np.arange(1, last + 1)
    chord = np.diff(values) / np.diff(positions)
    above = below = np.inf
    for outer, inner, away, there in (
        (left, first, share, left >= 0),
        (right, second, share - 1, right <= last),
    ):
        outer = np.where(there, outer, second if inner is first else first)
        run = positions[inner] - positions[outer]
        rise = values[inner] - values[outer]
        reach = away * np.diff(positions)
        line = (rise / run - chord) * reach
        if doubts is not None:
            other = second if inner is first else first
            part, far = np.abs(away), np.abs(reach / run)
            noise = np.hypot(doubts[outer] * far, doubts[other] * part)
            noise = np.hypot(noise, doubts[inner] * (far + part))
            line = np.sign(line) * np.maximum(np.abs(line) - noise, 0)
        off = 0.0
        if num_inputs is not None:
            flipped = np.maximum(np.abs(rise), 1 / num_inputs) / num_inputs
            off = deviations * np.sqrt(flipped) * np.abs(reach / run)
        above = np.minimum(above, np.where(there & (line > -off), line + off, np.inf))
        below = np.minimum(below, np.where(there & (line < off), off - line, np.inf))
    # With no line on a side, the chord itself is the bound there.
    return (
        np.where(np.isinf(above), 0.0, above),
        np.where(np.isinf(below), 0.0, below),
    )
