"""Bounds of a curve between evaluated levels."""

from typing import NamedTuple

import numpy as np

from jaxrob.metrics._curvature import bend, neighbours

# Straight pieces that approximate a curved edge.
_PIECES = 32
# A line shows a bend if it leaves the chord by more than this many standard deviations.
_CLEAR = 2.0


class Envelope(NamedTuple):
    """Bounds of a curve's deviation from its chord in each of m intervals.

    Attributes:
      share: float64 `[s, 1]` from 0 to 1, the position in the interval.
      above: float64 `[s, m]`, how far the curve may lie above the chord there.
      below: float64 `[s, m]`, how far below.
    """

    share: np.ndarray
    above: np.ndarray
    below: np.ndarray


def envelope(
    levels: np.ndarray,
    values: np.ndarray,
    num_inputs: int | None,
    num_deviations: float = 0.0,
    standard_errors: np.ndarray | None = None,
) -> Envelope:
    """Computes how far a curve may deviate from the chords between its values."""
    # It returns the wider of two bounds. The first assumes that the curve bends at most
    # twice as much as the levels around an interval show. The second assumes that it
    # bends in one direction within each triple of neighbouring levels. A curve that is
    # concave over (L, A, B) lies below the line through L and A, extended over the
    # interval from A to B; one that is concave over (A, B, R) lies below the line
    # through B and R. A convex curve lies above these lines. Unlike a parabola through
    # the ends, the lines also bound a kink or a jump anywhere in the interval.
    share = np.linspace(0, 1, _PIECES + 1)[:, None]
    intervals = max(len(levels) - 1, 0)
    if intervals < 1:
        none = np.zeros((len(share), intervals))
        return Envelope(share, none, none)
    span = levels[-1] - levels[0]
    positions = (levels - levels[0]) / span
    width = np.diff(positions)
    concavity = np.nan_to_num(
        bend(positions, values, num_inputs, standard_errors).concavity
    )
    parabola = concavity * width**2 * share * (1 - share)
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
    """Computes how far neighbours' lines lie above and below the chord, `[s, m]`."""
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
        if standard_errors is not None:
            noise = np.hypot(
                standard_errors[outer] * far, standard_errors[other] * part
            )
            noise = np.hypot(noise, standard_errors[inner] * (far + part))
        if num_inputs is not None:
            flipped = np.maximum(np.abs(rise), 1 / num_inputs) / num_inputs
            slack = num_deviations * np.sqrt(flipped) * far
        lines.append(_Line((rise / run - chord) * reach, noise, slack, there))
    # Where one line shows a bend, neither is moved towards the chord by its noise.
    bends = np.logical_or(*((one.there & one.is_clear).any(axis=0) for one in lines))
    above = below = np.inf
    for one in lines:
        less = np.sign(one.off) * np.maximum(np.abs(one.off) - one.noise, 0)
        off = np.where(bends, one.off, less)
        up, down = off > -one.slack, off < one.slack
        above = np.minimum(above, np.where(one.there & up, off + one.slack, np.inf))
        below = np.minimum(below, np.where(one.there & down, one.slack - off, np.inf))
    # Without a line on one side, the chord itself is the bound there.
    return (
        np.where(np.isinf(above), 0.0, above),
        np.where(np.isinf(below), 0.0, below),
    )


class _Line(NamedTuple):
    """A line through two neighbouring levels, extended into an interval.

    Attributes:
      off: float64 `[s, m]`, how far it lies above the chord.
      noise: `[s, m]`, the standard deviation of `off`.
      slack: `[s, m]`, how far the curve may lie beyond the line.
      there: bool `[m]`, whether these levels exist.
    """

    off: np.ndarray
    noise: np.ndarray
    slack: np.ndarray
    there: np.ndarray

    @property
    def is_clear(self) -> np.ndarray:
        """Whether it leaves the chord by more than its noise, bool `[s, m]`."""
        return np.abs(self.off) > _CLEAR * self.noise
