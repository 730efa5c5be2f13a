"""The search for an accepted box: grown on a model, validated with fresh levels."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.domains._grow import FORBIDDEN, Box, cloud_of, grown
from jaxrob.strategies._few.estimates import OPEN, REJECTED
from jaxrob.strategies._strategy import Found, History, Request, Task
from jaxrob.strategies._volume import model as models
from jaxrob.strategies._volume.sides import answers, requests, sides, spent, to_decide

# The share of a box that the model may think rejected; half after each failure.
_MOST_BAD = 0.0003
# The first attempt's share of the error, because a second is seldom needed.
_FIRST_ATTEMPT = 0.8
# Parts of the images left that a box may be expected to take; the model may be wrong.
_PAID = 0.88, 1.15, math.inf
# Times that levels are added to learn from, around the box that the model thinks of.
_REFINEMENTS = 4
# Random points by which a box is judged: of the cube, then of what is around the box.
_POINTS, _AROUND = 3000, 0.15
# The error of a decision. Levels have their blocks of images in orders of their own, so
# that wrong decisions are spread evenly: few blocks leave twice as many.
_ERROR, _MOST_WRONG = 0.05, 0.1
# A wrong rejection proves nothing wrong, and costs a box.
_ERROR_REJECTED = 1e-3
# Levels of an attempt that are asked for at first; then as many again.
_PORTION = 6
# Levels of a failed attempt that the model learns from, from the lowest measure on.
_LEARNT = 24


class State(NamedTuple):
    points: np.ndarray  # [m, d] that the model learns from; the first is the identity
    rejected: np.ndarray  # [r, d], levels that no box may hold
    refinements: int = _REFINEMENTS
    model: models.Model | None = None
    attempt: int = 0
    box: Box | None = None
    fresh: np.ndarray = np.empty((0, 0))  # [n, d], in the box; nothing learnt them
    asked: int = 0  # how many of them
    history: History = History()
    # "validated", "budget", or why there is none: "identity", "fixed", "model"
    status: str = ""


def levels_needed(attempt: int, accepted_share: float, error: float) -> int:
    """So many fresh levels validate a box; the attempts' errors add up to one."""
    rest = (1 - _FIRST_ATTEMPT) / max(attempt * (attempt - 1), 1)
    own = error * (_FIRST_ATTEMPT if attempt == 1 else rest)
    left_out = (1 - accepted_share) * (1 - _MOST_WRONG)
    return math.ceil(math.log(own) / math.log1p(-left_out))


@dataclasses.dataclass(frozen=True, eq=False)
class BoxSearch:
    """A strategy on the unit cube; the task's identity is a point of it."""

    accepted_share: float
    budget: int
    fixed: np.ndarray  # [2, d], faces in the unit cube; NaN for free ones
    needs_scores = True
    rule = "box"
    rules = ("box",)

    def init(self, task: Task) -> State:
        assert isinstance(task.identity, tuple)
        first = models.exploration(task, self.budget, others=1)
        points = np.concatenate([[task.identity], first])
        return State(points, points[:0])

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[Sequence[Request], State]:
        """Asks for levels to learn from, then for those that validate a box."""
        state = state._replace(history=history)
        if not len(history.levels):
            return self._within_budget(task, state, state.points)
        if state.status:
            return [], state
        if state.box is not None:
            return self._validated(task, state)
        if state.model is None:
            side, seen = _decided(task, state, state.points[:1])
            if side[0] == REJECTED:
                return [], state._replace(status="identity")
            if side[0] == OPEN:
                return self._within_budget(task, state, state.points[:1], seen)
        state = self._learnt(task, state)
        if not state.refinements:
            return self._attempted(task, state)
        points = self._worth(task, state)
        joined = np.concatenate([state.points, points])
        state = state._replace(points=joined, refinements=state.refinements - 1)
        return self._within_budget(task, state, points)

    def result(self, task: Task, state: State) -> Found:
        """Returns nothing of a curve: the box is in the state."""
        del task, state
        return Found()

    def _within_budget(
        self, task: Task, state: State, points: np.ndarray, seen: np.ndarray | int = 0
    ) -> tuple[Sequence[Request], State]:
        """Returns requests for some images more, unless they cost too much."""
        first = models.images_to_learn(task)
        more = np.where(seen, np.maximum(task.block, seen // 8), first)
        total = task.num_images or 1
        images = np.minimum(seen + np.broadcast_to(more, len(points)), total)
        if spent(state.history) + (images - seen).sum() > self.budget:
            return [], state._replace(status="budget")
        return requests(task, points, images), state

    def _learnt(self, task: Task, state: State) -> State:
        model = models.learnt(task, state.history, state.points, state.model)
        return state._replace(model=model)

    def _candidate(self, task: Task, state: State, each: float) -> Box | None:
        """The largest box that the model accepts, of levels of so many images each."""
        boxes = (self._grown(task, state, part * each) for part in _PAID)
        return next((box for box in boxes if box is not None), None)

    def _grown(self, task: Task, state: State, each: float) -> Box | None:
        """Returns a box whose levels take so many images to decide, in the mean."""
        model, dimension = state.model, state.points.shape[1]
        assert model is not None
        rng = np.random.default_rng([task.seed, 1, state.attempt, state.refinements])
        is_free = np.isnan(self.fixed)
        start = Box(*np.where(is_free, state.points[0], self.fixed))
        most, region = _MOST_BAD / 2**state.attempt, Box(*np.indices((2, dimension))[0])
        box, forbidden = None, np.full((2, len(state.rejected)), FORBIDDEN)
        for _ in range(3):
            points = region.drawn(_POINTS, rng)
            mean, deviation = model.at(points)
            bad = scipy.special.ndtr(-mean / deviation) / most
            # Levels that look good count as noisy, so that the mean is too low there.
            logit = mean + deviation / 2 + model.threshold
            images = to_decide(task, scipy.special.expit(logit), _ERROR)
            burdens = np.hstack([[bad, images / each], forbidden])
            points = np.concatenate([points, state.rejected])
            box = grown(cloud_of(points, burdens, region), start, is_free, rng)
            if box is not None:
                region = box.wider(_AROUND)
            elif region.volume == 1:
                # It may be too small for points of the whole cube.
                region = start.wider(0.0, 0.1)
            else:
                return None
        return box

    def _worth(self, task: Task, state: State) -> np.ndarray:
        """Returns points in a box, for its cost, and around it, for its faces."""
        assert state.model is not None
        dimension = state.points.shape[1]
        box = self._grown(task, state, math.inf)
        if box is None:
            box = Box(np.zeros(dimension), np.ones(dimension))
        rng = np.random.default_rng([task.seed, 2, state.refinements])
        number = max(4, len(state.points) // 4)
        around = box.wider(_AROUND).drawn(_POINTS // 2, rng)
        unsure = state.model.straddling(around, number)
        return np.concatenate([unsure, box.drawn(number, rng)])

    def _attempted(self, task: Task, state: State) -> tuple[Sequence[Request], State]:
        """Draws the first of the levels that are to validate a new box."""
        number, error = state.attempt + 1, 1 - task.confidence_level
        levels = levels_needed(number, self.accepted_share, error)
        left = self.budget - spent(state.history)
        box = self._candidate(task, state, left / levels)
        if box is None:
            why = "model" if np.isnan(self.fixed).all() else "fixed"
            return [], state._replace(status=why)
        fresh = box.drawn(levels, np.random.default_rng([task.seed, 3, number]))
        # All must be accepted: the doubtful ones first, so that failures are cheap.
        assert state.model is not None
        mean, deviation = state.model.at(fresh)
        fresh = fresh[np.argsort(mean / deviation)]
        state = state._replace(attempt=number, box=box, fresh=fresh, asked=0)
        return self._portion(task, state)

    def _portion(self, task: Task, state: State) -> tuple[Sequence[Request], State]:
        asked = min(max(2 * state.asked, _PORTION), len(state.fresh))
        points = state.fresh[state.asked : asked]
        return self._within_budget(task, state._replace(asked=asked), points)

    def _validated(self, task: Task, state: State) -> tuple[Sequence[Request], State]:
        points = state.fresh[: state.asked]
        side, seen = _decided(task, state, points)
        if (side == REJECTED).any():
            return self._lowered(task, state, side)
        if (left := side == OPEN).any():
            return self._within_budget(task, state, points[left], seen[left])
        if state.asked == len(state.fresh):
            return [], state._replace(status="validated")
        return self._portion(task, state)

    def _lowered(
        self, task: Task, state: State, side: np.ndarray
    ) -> tuple[Sequence[Request], State]:
        """The model learns from the failed attempt, and tries a smaller box."""
        points = state.fresh[: state.asked]
        known = answers(task, state.history, points)
        lowest = np.argsort(known.right / known.seen)[:_LEARNT]
        rejected = np.concatenate([state.rejected, points[side == REJECTED]])
        joined = np.concatenate([state.points, points[lowest]])
        state = state._replace(points=joined, rejected=rejected)
        return self._attempted(task, self._learnt(task, state))


def _decided(
    task: Task, state: State, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns levels' sides, and how many images have been seen there."""
    known = answers(task, state.history, points)
    side = sides(task, state.history, known, _ERROR)
    surely = sides(task, state.history, known, _ERROR_REJECTED)
    side[(side == REJECTED) & (surely != REJECTED)] = OPEN
    return side, known.seen
