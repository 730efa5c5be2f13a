"""On which side of the threshold levels lie, from some images in a random order."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob.strategies._few import decided
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED, Goal, Level
from jaxrob.strategies._strategy import History, Request, Task

# Evidence beyond the threshold that a decision takes.
_PRIOR = 2.0
# So many images of the kind that none comes again.
_UNLIMITED = 10**9


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


def spent(history: History) -> int:
    """Returns how many images were classified; levels of one effect share them."""
    return sum(len((history.scores or ())[i]) for i in history.distinct)


def requests(task: Task, points: np.ndarray, images: Any) -> list[Request]:
    """Returns requests for so many images at points of the unit cube, `[m, d]`."""
    levels: Any = task.levels_at(points).tolist()
    numbers = np.minimum(np.broadcast_to(images, len(points)), task.num_images or 1)
    return [Request(tuple(at), int(n)) for at, n in zip(levels, numbers)]


def to_decide(task: Task, shares: np.ndarray, error: float) -> np.ndarray:
    """Returns about how many images decide levels of such measures, in [0, 1]."""
    low, high = task.bounds
    least, total = (task.threshold - low) / (high - low), task.num_images or 1
    each = scipy.special.rel_entr(shares, least)
    each += scipy.special.rel_entr(1 - shares, 1 - least)
    needed = (math.log(1 / error) + _PRIOR) / np.maximum(each, 1e-9)
    needed /= 1 + needed / total
    return np.minimum(np.ceil(needed / task.block) * task.block, total)


def sides(task: Task, history: History, found: Answers, error: float) -> np.ndarray:
    """Returns levels' sides by all images, int `[m]`, each wrong with this error."""
    assert history.scores is not None and task.num_images is not None
    needed, total = math.log(1 / error), task.num_images
    goal = Goal(1, task.threshold, task.bounds, total, task.block, error, 0.0)
    result = np.zeros(len(found.rows), int)
    counts = _are_counts(task, history, found.rows)
    right, seen = np.rint(found.right[counts]).astype(int), found.seen[counts]
    # Many levels share their counts.
    each, of = np.unique([right, seen], axis=1, return_inverse=True)
    side = decided.sides_of_counts(each[0], each[1], total, task.threshold, needed)
    result[counts] = side[of.ravel()]  # NumPy 2.0 gives it two axes.
    for i in np.flatnonzero(~counts).tolist():
        level = Level(history.scores[found.rows[i]], OPEN, needed)
        result[i] = decided.side(goal, level)
    return result


def population_sides(
    task: Task, history: History, found: Answers, error: float, tail: float
) -> np.ndarray:
    """Returns sides by all images of the kind, wrong by this error, or twice `tail`."""
    # As far from the threshold as this data set's measure may be off.
    assert task.num_images is not None
    (low, high), total = task.bounds, task.num_images
    if _are_counts(task, history, found.rows).all():
        images = scipy.stats.binom(total, task.threshold)
        least, most = images.ppf(tail) / total, (images.isf(tail) + 1) / total
    else:
        # Hoeffding's inequality.
        away = (high - low) * math.sqrt(math.log(1 / tail) / (2 * total))
        least, most = task.threshold - away, task.threshold + away
    if task.threshold <= low:
        most = task.threshold
    accepted, rejected = (
        sides(task._replace(threshold=float(one)), history, found, error)
        for one in (most, least)
    )
    # Or by a test of images to come alone, which is better where many were seen.
    alone = sides(task._replace(num_images=_UNLIMITED), history, found, tail)
    is_rejected = (rejected < 0) | (alone < 0)
    rest = np.where(is_rejected, REJECTED, OPEN)
    return np.where((accepted > 0) | (alone > 0), ACCEPTED, rest)


def _are_counts(task: Task, history: History, rows: np.ndarray) -> np.ndarray:
    assert history.scores is not None
    scores = [history.scores[i] for i in rows.tolist()]
    whole, starts = np.concatenate(scores), np.cumsum([0, *map(len, scores[:-1])])
    found = np.logical_and.reduceat((whole == 0) | (whole == 1), starts)
    return found & (task.bounds == (0.0, 1.0))
