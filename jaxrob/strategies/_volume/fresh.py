"""Fresh levels, which no model has seen: their sides, counts, and what they cost."""

import math
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED, Goal
from jaxrob.strategies._strategy import History, Task
from jaxrob.strategies._volume.limits import Tally
from jaxrob.strategies._volume.model import Model
from jaxrob.strategies._volume.sides import Answers, answers, sides


class Fresh(NamedTuple):
    """Levels drawn uniformly in strata, m of them."""

    points: np.ndarray  # [m, d], in the unit cube
    stratum: np.ndarray  # int [m]
    side: np.ndarray  # int [m], by all images
    seen: np.ndarray  # int [m], images of which the side takes account
    right: np.ndarray  # float64 [m]
    expected: np.ndarray  # float64 [m, 2], the model's shares and their deviations


def unseen(points: np.ndarray, stratum: np.ndarray, model: Model | None) -> Fresh:
    none = np.zeros(len(points))
    expected = np.tile([0.5, 1e3], (len(points), 1))
    if model is not None and len(points):
        expected = np.stack(model.shares(points), axis=1)
    return Fresh(points, stratum, none.astype(int), none, none, expected)


def joined(fresh: Fresh, new: Fresh) -> Fresh:
    return Fresh(*map(np.concatenate, zip(fresh, new)))


def looked(task: Task, fresh: Fresh, history: History, error: float) -> Fresh:
    """Decides the open levels that have new answers, each wrong with this error."""
    known = answers(task, history, fresh.points)
    new = np.flatnonzero((known.seen > fresh.seen) & (fresh.side == OPEN))
    side = fresh.side.copy()
    if len(new):
        side[new] = sides(task, history, Answers(*(one[new] for one in known)), error)
    return fresh._replace(side=side, seen=known.seen, right=known.right)


def tallied(volumes: np.ndarray, stratum: np.ndarray, side: np.ndarray) -> Tally:
    counted = [
        np.bincount(stratum[kind], minlength=len(volumes)).astype(float)
        for kind in (side == side, side == ACCEPTED, side == REJECTED)
    ]
    return Tally(volumes, *counted)


def guessed(task: Task, fresh: Fresh) -> np.ndarray:
    """Returns sides, those of open levels as they are likely."""
    likely = np.where(_likely(task, fresh)[0] >= 0, ACCEPTED, REJECTED)
    return np.where(fresh.side == OPEN, likely, fresh.side)


# Quantiles of a normal variable, for averaging costs.
_NORMAL = np.array([-1.4, -0.6, 0.0, 0.6, 1.4])


def to_decide(task: Task, fresh: Fresh, error: float) -> np.ndarray:
    """Returns about how many more images decide each level, 0 if it is decided."""
    total = task.num_images or 1
    goal = Goal(1, task.threshold, task.bounds, total, task.block, error, 0.0)
    off, doubt = _likely(task, fresh)
    off = off[:, None] + doubt[:, None] * _NORMAL
    needed = goal.to_decide(off, math.log(1 / error)).mean(axis=1)
    left = np.maximum(total - fresh.seen, 0)
    needed = np.clip(needed - fresh.seen, np.minimum(task.block, left), left)
    return np.where(fresh.side == OPEN, needed, 0)


def _likely(task: Task, fresh: Fresh) -> tuple[np.ndarray, np.ndarray]:
    """Returns the measure less the threshold as model and images say, and its error."""
    # Images alone seem far from the threshold where they are so by chance.
    low, high = task.bounds
    least, seen = (task.threshold - low) / (high - low), np.maximum(fresh.seen, 1)
    of_model = 1 / np.square(np.maximum(fresh.expected[:, 1], 1e-3))
    of_images = fresh.seen / max(least * (1 - least), 0.01)
    both = of_model + of_images
    share = (of_model * fresh.expected[:, 0] + of_images * fresh.right / seen) / both
    return (high - low) * (share - least), (high - low) / np.sqrt(both)
