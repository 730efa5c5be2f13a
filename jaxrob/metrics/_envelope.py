"""Between which two lines a curve may lie where no level was evaluated."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import bend, neighbours

# Straight pieces that stand for a curved edge.
_PIECES = 32
# A line shows a bend if it leaves the chord by so many standard deviations.
_CLEAR = 2.0


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
        none. Lines that stray by no more than that count as the chord, unless one of
        the two strays by twice as much.
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
    lines = []
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
        noise = slack = np.zeros_like(reach)
        if doubts is not None:
            noise = np.hypot(doubts[outer] * far, doubts[other] * part)
            noise = np.hypot(noise, doubts[inner] * (far + part))
        if num_inputs is not None:
            flipped = np.maximum(np.abs(rise), 1 / num_inputs) / num_inputs
            slack = deviations * np.sqrt(flipped) * far
        lines.append(_Line((rise / run - chord) * reach, noise, slack, there))
    # Where one line shows that the curve bends, the other may be as far off as it is.
    bends = np.logical_or(*((one.there & one.is_clear).any(axis=0) for one in lines))
    above = below = np.inf
    for one in lines:
        less = np.sign(one.off) * np.maximum(np.abs(one.off) - one.noise, 0)
        off = np.where(bends, one.off, less)
        up, down = off > -one.slack, off < one.slack
        above = np.minimum(above, np.where(one.there & up, off + one.slack, np.inf))
        below = np.minimum(below, np.where(one.there & down, one.slack - off, np.inf))
    # With no line on a side, the chord itself is the bound there.
    return (
        np.where(np.isinf(above), 0.0, above),
        np.where(np.isinf(below), 0.0, below),
    )


class _Line(NamedTuple):
    """The line through two neighbouring levels, drawn on into an interval.

    Attributes:
      off: float64 `[s, m]`, how far it lies above the chord.
      noise: `[s, m]`, the standard deviation of that.
      slack: `[s, m]`, how far the curve may be beyond it.
      there: bool `[m]`, whether there are such levels.
    """

    off: np.ndarray
    noise: np.ndarray
    slack: np.ndarray
    there: np.ndarray

    @property
    def is_clear(self) -> np.ndarray:
        """Whether it leaves the chord by more than noise, bool `[s, m]`."""
        return np.abs(self.off) > _CLEAR * self.noise
