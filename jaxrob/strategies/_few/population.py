"""The confidence interval of the robustness on the population of images."""

import numpy as np
import scipy

from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._curvature import envelope
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._few.estimates import Estimates, estimates
from jaxrob.strategies._few.goal import OPEN, Goal, Level, Levels
from jaxrob.strategies._strategy import History, Task

# The grid of a search without one.
_FINE = 2**20
# Aims at this share of the stated error, because the same images decided when to stop.
_OF_ERROR = 0.5
# Levels within this many standard errors of the threshold may be on it.
_NEAR = 3.3
# How far the curve may leave chords, in standard deviations of single images' flips.
_DEVIATIONS = 1.5


def population_interval(
    goal: Goal, levels: Levels, confidence_level: float
) -> ConfidenceInterval:
    """Returns the confidence interval of the robustness on the population."""
    # The levels seen must include both ends of the range. The data set is a sample of
    # the population, and the images seen are a sample of the data set. As in
    # `jaxrob.metrics.confidence_interval`, bands at the levels are joined.
    low, high = goal.bounds
    # Wilson's intervals need no variance as at the threshold, which is far too large
    # where nearly all images are right.
    found = estimates(levels, None, None)
    steps, means, standard_errors, *_ = found
    critical_values = _critical_values(goal, found, _OF_ERROR * (1 - confidence_level))
    variances = np.square(standard_errors)
    # Rescaled to [0, 1], the range of shares of right images.
    means = np.clip((means - low) / (high - low), 0, 1)
    variances = variances / (high - low) ** 2
    seen = np.array([levels[step].seen for step in steps.tolist()])
    spread = np.maximum(means * (1 - means), 1 / seen)
    inputs = np.clip(spread / variances, 1, goal.num_images)
    below, above = _wilson(means, inputs, critical_values)
    positions = steps / goal.parts
    typical = int(np.median(inputs))
    deviations = envelope(positions, means, typical, _DEVIATIONS)
    least = (goal.least - low) / (high - low)
    shortest, longest = accepted_widths(positions, below, above, least, deviations)
    start, end = float(shortest.sum()), float(longest.sum())
    return ConfidenceInterval(min(max(start, 0.0), 1.0), min(max(start, end), 1.0))


def population_of(
    task: Task, history: History, confidence_level: float
) -> ConfidenceInterval:
    """Returns the interval of a search that may lack the ends of the range."""
    # The parts of the range beyond its levels are open.
    assert history.scores is not None and task.num_images is not None
    steps = np.rint(task.positions_of(history.levels) * _FINE).astype(int).tolist()
    levels = {step: Level(one, OPEN, 0.0) for step, one in zip(steps, history.scores)}
    goal = Goal(
        _FINE, task.threshold, task.bounds, task.num_images, task.block, 0.0, 0.0
    )
    start, end = population_interval(goal, levels, confidence_level)
    unseen = 1 - (steps[-1] - steps[0]) / _FINE
    return ConfidenceInterval(start, min(end + unseen, 1.0))


def _critical_values(goal: Goal, found: Estimates, error: float) -> np.ndarray:
    """Returns the bands' critical value at each level, `[n]`."""
    # Where several neighbouring levels may lie on the threshold, the largest of their
    # errors exceeds a critical value more often than the error of a given level. The
    # number of independent levels is taken as 1 plus the expected number of sign
    # changes of the error (Rice 1945).
    standard_errors = found.standard_errors
    near = np.abs(found.means - goal.least) <= _NEAR * standard_errors
    most = standard_errors[:-1] * standard_errors[1:]
    alike = np.clip(found.covariances / np.maximum(most, 1e-300), -1, 1)
    turns = np.where(near[:-1] & near[1:], 2 * np.arccos(alike) / np.pi, 0.0)
    run = np.concatenate([[0], np.cumsum(near[1:] != near[:-1])])
    number = 1 + np.bincount(run[1:], turns, run[-1] + 1)[run]
    return -scipy.special.ndtri(error / 2 / np.where(near, number, 1.0))


def _wilson(
    means: np.ndarray, inputs: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns Wilson's interval of shares of a number of inputs that is no integer."""
    centre = means + z**2 / (2 * inputs)
    half = z * np.sqrt(means * (1 - means) / inputs + (z / (2 * inputs)) ** 2)
    scale = 1 + z**2 / inputs
    low, high = (centre - half) / scale, (centre + half) / scale
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
