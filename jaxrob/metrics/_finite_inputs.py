"""Effects of a finite number of inputs: scatter of values, unseen crossings."""

import math

import numpy as np

# Positions in an interval at which the chord is compared with the threshold.
_SHARES = (np.arange(64) + 0.5) / 64


def between_counts(threshold: float, num_inputs: int | None) -> float:
    """Returns the number half a count below the lowest accepted value."""
    # A value on the threshold lies as far above this number as the next lower value
    # lies below it.
    if num_inputs is None:
        return threshold
    # Not ceil(threshold * num_inputs), which is 56 for 0.55 * 100.
    count = max(math.ceil(threshold * num_inputs) - 2, 0)
    while count / num_inputs < threshold:
        count += 1
    return (count - 0.5) / num_inputs


def flips(values: np.ndarray, share: np.ndarray, num_inputs: int | None) -> np.ndarray:
    """Returns the standard deviation of a value from the chord, for few inputs."""
    # Between two levels with the same random numbers, single inputs turn wrong or right
    # at levels of their own. The value is a bridge of as many steps as the ends differ
    # by, at least one.
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
