"""What a finite number of inputs leaves open: how values scatter, what may cross."""

import math

import numpy as np

# Points of an interval at which the chord is compared with the threshold.
_SHARES = (np.arange(64) + 0.5) / 64


def between_counts(threshold: float, num_inputs: int | None) -> float:
    """Half a count below the lowest value that is accepted.

    Seen from here, a value on the threshold lies as far above as the next lower one
    lies below.

    Args:
      threshold: the lowest value accepted.
      num_inputs: the number of inputs behind each value; None for exact values.
    """
    if num_inputs is None:
        return threshold
    # Not ceil(threshold * num_inputs), which makes 56 of 0.55 * 100.
    count = max(math.ceil(threshold * num_inputs) - 2, 0)
    while count / num_inputs < threshold:
        count += 1
    return (count - 0.5) / num_inputs


def flips(values: np.ndarray, share: np.ndarray, num_inputs: int | None) -> np.ndarray:
    """By how much a value may stray from the chord because inputs are few.

    Between two levels with the same random numbers, single inputs turn wrong or right
    at levels of their own: a bridge of as many steps as the values differ by, at least
    one, whose standard deviation this is.

    Args:
      values: `[..., 2]`, the values at the interval's ends.
      share: `[...]` in [0, 1], where in the interval.
      num_inputs: the number of inputs behind each value; None for exact values.
    """
    if num_inputs is None:
        return np.zeros(np.broadcast_shapes(values.shape[:-1], np.shape(share)))
    step = 1 / num_inputs
    change = np.maximum(np.abs(values[..., 1] - values[..., 0]), step)
    return np.sqrt(change * step * share * (1 - share))


def open_width(
    levels: np.ndarray, values: np.ndarray, threshold: float, num_inputs: int | None
) -> np.ndarray:
    """The width, in each interval, where the curve may cross the threshold unseen.

    There the chord is within an input and a half, and one standard deviation of
    `flips`, of the threshold.

    Args:
      levels: `[n]`, ascending.
      values: `[n]`, the measure there.
      threshold: the lowest value accepted.
      num_inputs: the number of inputs behind each value; None for exact values.

    Returns:
      float64 `[n - 1]`, in units of the levels.
    """
    if num_inputs is None:
        return np.zeros(len(levels) - 1)
    ends = np.stack([values[:-1], values[1:]], axis=-1)[:, None]
    chord = ends[..., 0] * (1 - _SHARES) + ends[..., 1] * _SHARES
    reach = 1.5 / num_inputs + flips(ends, _SHARES, num_inputs)
    distance = np.abs(chord - between_counts(threshold, num_inputs))
    return np.diff(levels) * np.mean(distance <= reach, axis=-1)
