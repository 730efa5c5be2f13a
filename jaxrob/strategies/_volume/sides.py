"""On which side of the threshold levels lie, from some images in a random order."""

import math
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._curvature import least_count
from jaxrob.metrics._testing import count_evidence, mean_evidence
from jaxrob.strategies._few import decided
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED, Goal, Level
from jaxrob.strategies._strategy import History, Task


class Answers(NamedTuple):
    """What is known at some levels."""

    rows: np.ndarray  # int `[m]`, of the history
    seen: np.ndarray  # int `[m]`, images
    right: np.ndarray  # float64 `[m]`, the sums of their scores, rescaled to [0, 1]


def answers(task: Task, history: History, points: np.ndarray) -> Answers:
    """Returns what is known at points of the unit cube, `[m, d]`."""
    # Levels may have been moved by their rounding, or to one of the same effect.
    assert history.scores is not None
    known = scipy.spatial.KDTree(task.positions_of(history.levels))
    rows = known.query(points)[1]
    seen = np.array([len(one) for one in history.scores])[rows]
    low, high = task.bounds
    return Answers(rows, seen, (history.values[rows] - low) / (high - low) * seen)


def sides(task: Task, history: History, found: Answers, error: float) -> np.ndarray:
    """Returns levels' sides by all images, int `[m]`, each wrong with this error."""
    assert history.scores is not None and task.num_images is not None
    needed, total = math.log(1 / error), task.num_images
    goal = Goal(1, task.threshold, task.bounds, total, task.block, error, 0.0)
    result = np.zeros(len(found.rows), int)
    counts = _are_counts(task, history, found.rows)
    right, seen = np.rint(found.right[counts]).astype(int), found.seen[counts]
    least = least_count(task.threshold, total)
    evidence = count_evidence(right, seen, total, least)
    accepted = (right >= least) | (evidence.accepted >= needed)
    rejected = (right + total - seen < least) | (evidence.rejected >= needed)
    result[counts] = np.where(accepted, ACCEPTED, np.where(rejected, REJECTED, OPEN))
    for i in np.flatnonzero(~counts).tolist():
        level = Level(history.scores[found.rows[i]], OPEN, needed)
        result[i] = decided.side(goal, level)
    return result


# The prior holds so many shares on each side, from this over sqrt(N) away.
_GAPS, _LEAST_GAP = 40, 0.25
# Bets on the mean score of all images of the kind: so many that none comes again.
_UNLIMITED = 10**9


def population_sides(
    task: Task, history: History, found: Answers, error: float
) -> np.ndarray:
    """Returns levels' sides by all images of the kind, each wrong with this error."""
    assert history.scores is not None and task.num_images is not None
    total, threshold = task.num_images, task.threshold
    counts = _are_counts(task, history, found.rows)
    # Half of the error for any number of images, half for all of them.
    needed, tail = math.log(2 / error), error / 2
    right, seen = np.rint(found.right), found.seen
    whole = seen == total
    with np.errstate(divide="ignore", invalid="ignore"):
        above = scipy.special.bdtrc(right - 1, total, threshold)
        below = scipy.special.bdtr(right, total, threshold)
    accepted = _independent_evidence(right, seen, threshold, total) >= needed
    rejected = _independent_evidence(seen - right, seen, 1 - threshold, total) >= needed
    accepted |= whole & (above <= tail) | (threshold <= 0)
    rejected |= whole & (below <= tail)
    for i in np.flatnonzero(~counts).tolist():
        scores = history.scores[found.rows[i]]
        evidence = mean_evidence(scores, _UNLIMITED, threshold, task.bounds)
        accepted[i] = evidence.accepted >= needed
        rejected[i] = evidence.rejected >= needed
    return np.where(accepted, ACCEPTED, np.where(rejected, REJECTED, OPEN))


def _independent_evidence(
    hits: np.ndarray, seen: np.ndarray, null: float, total: int
) -> np.ndarray:
    """Returns the evidence that the share of hits among all of the kind exceeds one."""
    # A likelihood ratio with a prior as `count_evidence` has, with replacement.
    if not 0 < null < 1:
        return np.full(hits.shape, -np.inf)
    least = min(_LEAST_GAP / math.sqrt(total), 1 - null)
    share = np.minimum(null + np.geomspace(least, 1 - null, _GAPS), 1.0)
    misses = seen - hits
    each = scipy.special.xlogy(hits[:, None], share / null)
    each += scipy.special.xlogy(misses[:, None], (1 - share) / (1 - null))
    return scipy.special.logsumexp(each, axis=1) - math.log(_GAPS)


def _are_counts(task: Task, history: History, rows: np.ndarray) -> np.ndarray:
    assert history.scores is not None
    if task.bounds != (0.0, 1.0):
        return np.zeros(len(rows), bool)
    scores = history.scores
    each = [bool((scores[i] * (1 - scores[i]) == 0).all()) for i in rows.tolist()]
    return np.array(each, bool)
