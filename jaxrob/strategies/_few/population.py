"""How much of the range is accepted by all images of the kind tested: an interval."""

import numpy as np
import scipy

from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._envelope import envelope
from jaxrob.metrics._interval import accepted_widths
from jaxrob.strategies._few.estimates import Estimates, estimates
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Levels
from jaxrob.strategies._strategy import History, Task

# The grid of a search that has none.
_FINE = 2**20
# The share of the error stated that is aimed at: less than all, because the same images
# decided when to stop.
_OF_ERROR = 0.5
# Levels so many standard deviations from the threshold may be on it.
_NEAR = 3.3
# By how many standard deviations of single images' flips the curve may leave chords.
_DEVIATIONS = 1.5


def population_interval(
    goal: Goal, levels: Levels, confidence_level: float
) -> ConfidenceInterval:
    """The interval that holds the robustness on all images of the kind tested.

    The data set is a sample of these, and the images seen are one of the data set. As
    `jaxrob.metrics.confidence_interval` does, it joins bands at the levels.

    Args:
      goal: the goal.
      levels: what was seen, both ends of the range among it.
      confidence_level: the coverage stated.
    """
    low, high = goal.bounds
    found = estimates(levels, goal.least_variance, None)
    steps, means, deviations, *_ = found
    heights = _heights(goal, found, _OF_ERROR * (1 - confidence_level))
    variances = np.square(deviations)
    # On the range from 0 to 1, where shares of right images lie.
    means = np.clip((means - low) / (high - low), 0, 1)
    variances = variances / (high - low) ** 2
    seen = np.array([levels[step].seen for step in steps.tolist()])
    spread = means * (1 - means)
    inputs = np.where(spread > 0, spread / np.maximum(variances, 1e-300), seen)
    inputs = np.clip(inputs, 1, goal.num_images)
    below, above = _wilson(means, inputs, heights)
    positions = steps / goal.parts
    typical = int(np.median(inputs))
    strays = envelope(positions, means, typical, _DEVIATIONS)
    least = (goal.least - low) / (high - low)
    shortest, longest = accepted_widths(positions, below, above, least, strays)
    start, end = float(shortest.sum()), float(longest.sum())
    return ConfidenceInterval(min(max(start, 0.0), 1.0), min(max(start, end), 1.0))


def population_of(
    task: Task, history: History, confidence_level: float
) -> ConfidenceInterval:
    """The interval of a search that may have left out ends of the range.

    What lies beyond its levels is open.
    """
    assert history.scores is not None and task.num_images is not None
    steps = np.rint(task.positions_of(history.levels) * _FINE).astype(int).tolist()
    levels = {step: Level(one, OPEN, 0.0) for step, one in zip(steps, history.scores)}
    goal = Goal(
        _FINE, task.threshold, task.bounds, task.num_images, task.block, 0.0, 0.0
    )
    start, end = population_interval(goal, levels, confidence_level)
    unseen = 1 - (steps[-1] - steps[0]) / _FINE
    return ConfidenceInterval(start, min(end + unseen, 1.0))


def _heights(goal: Goal, found: Estimates, error: float) -> np.ndarray:
    """Half the heights of the bands in standard deviations, `[n]`.

    Where neighbouring levels may all be on the threshold, one of them strays far more
    easily than a given one: as often as if there were one more for each time that the
    error is expected to change its sign (Rice 1945).
    """
    deviations = found.deviations
    near = np.abs(found.means - goal.least) <= _NEAR * deviations
    most = deviations[:-1] * deviations[1:]
    alike = np.clip(found.covariances / np.maximum(most, 1e-300), -1, 1)
    turns = np.where(near[:-1] & near[1:], 2 * np.arccos(alike) / np.pi, 0.0)
    run = np.concatenate([[0], np.cumsum(near[1:] != near[:-1])])
    number = 1 + np.bincount(run[1:], turns, run[-1] + 1)[run]
    return -scipy.special.ndtri(error / 2 / np.where(near, number, 1.0))


def _wilson(
    means: np.ndarray, inputs: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of shares of inputs whose number is no integer."""
    centre = means + z**2 / (2 * inputs)
    half = z * np.sqrt(means * (1 - means) / inputs + (z / (2 * inputs)) ** 2)
    scale = 1 + z**2 / inputs
    low, high = (centre - half) / scale, (centre + half) / scale
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
