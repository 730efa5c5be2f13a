"""The search for an accepted box: grown on a model, validated with fresh levels."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.domains._grow import FORBIDDEN, Box, cloud_of, grown
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED
from jaxrob.strategies._strategy import Found, History, Request, Task
from jaxrob.strategies._volume import model as models
from jaxrob.strategies._volume.sides import answers, requests, sides, to_decide

# The share of a box that the model may think rejected; a quarter after each failure.
_MOST_BAD = 0.01
# Times that levels are added to learn from, around the box that the model thinks of.
_REFINEMENTS = 4
# Random points by which a box is judged: of the cube, then of what is around the box.
_POINTS, _AROUND = 3000, 0.15
# The error of a decision. Levels have their blocks of images in orders of their own, so
# that wrong decisions are spread evenly: few blocks leave twice as many.
_ERROR, _MOST_WRONG = 0.05, 0.1
# A box is grown above the threshold, in logits, until validating it is affordable.
_ABOVE = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
_AFFORDABLE = 1.1
# Levels of an attempt that are asked for at first; then as many again.
_PORTION = 24
# Levels of a failed attempt that the model learns from, from the lowest measure on.
_LEARNT = 24
_MOST_ATTEMPTS = 20


class State(NamedTuple):
    points: np.ndarray  # [m, d] that the model learns from; the first is the identity
    refinements: int = _REFINEMENTS
    model: models.Model | None = None
    rejected: np.ndarray | None = None  # [r, d], levels that no box may hold
    attempt: int = 0
    box: Box | None = None
    fresh: np.ndarray | None = None  # [n, d], uniform in the box; nothing learnt them
    asked: int = 0  # how many of them
    # "validated", "budget", or why there is none: "identity", "fixed", "model"
    status: str = ""


def levels_needed(attempt: int, accepted_share: float, error: float) -> int:
    """So many fresh levels validate a box; the attempts' errors add up to one."""
    own = error / (attempt * (attempt + 1))
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
        first = models.exploration(len(task.identity), task.seed)
        least = models.images_to_learn(task) * (1 + len(first))
        if least > self.budget:
            raise ValueError(
                f"budget must be at least {least}, for the levels that are looked at "
                f"first; got {self.budget}"
            )
        return State(np.concatenate([[task.identity], first]))

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[Sequence[Request], State]:
        """Asks for levels to learn from, then for those that validate a box."""
        if not len(history.levels):
            return self._within_budget(task, state, history, state.points)
        if state.status:
            return [], state
        decided = state.fresh is not None or state.model is not None
        if not decided:
            side, more = _decided(task, history, state.points[:1])
            if side[0] == REJECTED:
                return [], state._replace(status="identity")
            if len(more):
                return more, state
        if state.fresh is None:
            state = self._learnt(task, state, history)
            if not state.refinements:
                return self._attempted(task, state, history)
            points = self._worth(task, state)
            joined = np.concatenate([state.points, points])
            left = state.refinements - 1
            state = state._replace(points=joined, refinements=left)
            return self._within_budget(task, state, history, points)
        return self._validated(task, state, history)

    def result(self, task: Task, state: State) -> Found:
        """Returns the box's volume; the box itself is in the state."""
        del task
        is_found = state.status == "validated" and state.box is not None
        volume = state.box.volume if is_found and state.box else 0.0
        status = "budget" if state.status == "budget" else "precise"
        return Found(None, volume, ConfidenceInterval(volume, 1.0), status)

    def _within_budget(
        self, task: Task, state: State, history: History, points: np.ndarray
    ) -> tuple[Sequence[Request], State]:
        """Returns requests for some images at new levels, unless they cost too much."""
        images = models.images_to_learn(task)
        if _spent(history) + images * len(points) > self.budget:
            return [], state._replace(status="budget")
        return requests(task, points, images), state

    def _learnt(self, task: Task, state: State, history: History) -> State:
        given = task, history, state.points, state.model
        return state._replace(model=models.learnt(*given))

    def _candidate(self, task: Task, state: State, left: float) -> Box | None:
        """The largest box that the model accepts, and that `left` images validate."""
        levels = levels_needed(
            state.attempt + 1, self.accepted_share, 1 - task.confidence_level
        )
        box = None
        for above in _ABOVE:
            smaller, images = self._grown(task, state, above)
            box = smaller or box
            if levels * images <= _AFFORDABLE * left:
                break
        return box

    def _grown(
        self, task: Task, state: State, above: float
    ) -> tuple[Box | None, float]:
        """Returns a box, and about how many images each level in it will take."""
        model, dimension = state.model, state.points.shape[1]
        assert model is not None
        rng = np.random.default_rng([task.seed, 1, state.attempt, state.refinements])
        identity, is_free = state.points[0], np.isnan(self.fixed)
        start = Box(*np.where(is_free, identity, self.fixed))
        most, region = _MOST_BAD / 4**state.attempt, Box(*np.indices((2, dimension))[0])
        box, images = None, 0.0
        for _ in range(3):
            points = region.drawn(_POINTS, rng)
            mean, deviation = model.at(points)
            bad = scipy.special.ndtr((above - mean) / deviation)
            if state.rejected is not None:
                points = np.concatenate([points, state.rejected])
                bad = np.append(bad, np.full(len(state.rejected), FORBIDDEN))
            box = grown(cloud_of(points, bad, region), start, is_free, most, rng)
            if box is None and region.volume == 1:
                # It may be too small for points of the whole cube.
                region = start.wider(0.0, 0.1)
                continue
            if box is None:
                return None, 0.0
            inside = mean[box.holds(points[:_POINTS])] + model.threshold
            images = float(to_decide(task, scipy.special.expit(inside), _ERROR).mean())
            region = box.wider(_AROUND)
        return box, images

    def _worth(self, task: Task, state: State) -> np.ndarray:
        """Returns points around the box at which the model is not sure of the side."""
        assert state.model is not None
        dimension = state.points.shape[1]
        whole = Box(np.zeros(dimension), np.ones(dimension))
        box, _ = self._grown(task, state, 0.0)
        region = whole if box is None else box.wider(_AROUND)
        rng = np.random.default_rng([task.seed, 2, state.refinements])
        number = max(8, len(state.points) // 4)
        return state.model.straddling(region.drawn(_POINTS // 2, rng), number)

    def _attempted(
        self, task: Task, state: State, history: History
    ) -> tuple[Sequence[Request], State]:
        """Draws the first of the levels that are to validate a new box."""
        box = self._candidate(task, state, self.budget - _spent(history))
        if box is None or state.attempt == _MOST_ATTEMPTS:
            why = "model" if np.isnan(self.fixed).all() else "fixed"
            return [], state._replace(status=why, box=None)
        number, error = state.attempt + 1, 1 - task.confidence_level
        levels = levels_needed(number, self.accepted_share, error)
        rng = np.random.default_rng([task.seed, 3, number])
        fresh = box.drawn(levels, rng)
        # All must be accepted: the doubtful ones first, so that failures are cheap.
        assert state.model is not None
        mean, deviation = state.model.at(fresh)
        fresh = fresh[np.argsort(mean / deviation)]
        state = state._replace(attempt=number, box=box, fresh=fresh, asked=0)
        return self._portion(task, state, history)

    def _portion(
        self, task: Task, state: State, history: History
    ) -> tuple[Sequence[Request], State]:
        assert state.fresh is not None
        asked = min(max(2 * state.asked, _PORTION), len(state.fresh))
        points = state.fresh[state.asked : asked]
        state = state._replace(asked=asked)
        return self._within_budget(task, state, history, points)

    def _validated(
        self, task: Task, state: State, history: History
    ) -> tuple[Sequence[Request], State]:
        assert state.fresh is not None
        points = state.fresh[: state.asked]
        side, more = _decided(task, history, points)
        if (side == REJECTED).any():
            return self._lowered(task, state, history, side)
        if more:
            cost = sum(one.images or 0 for one in more) / 2
            if _spent(history) + cost > self.budget:
                return [], state._replace(status="budget", box=None)
            return more, state
        assert (side == ACCEPTED).all()
        if state.asked == len(state.fresh):
            return [], state._replace(status="validated")
        return self._portion(task, state, history)

    def _lowered(
        self, task: Task, state: State, history: History, side: np.ndarray
    ) -> tuple[Sequence[Request], State]:
        """The model learns from the failed attempt, and tries a smaller box."""
        assert state.fresh is not None
        points = state.fresh[: state.asked]
        known = answers(task, history, points)
        lowest = np.argsort(known.right / known.seen)[:_LEARNT]
        rejected = points[side == REJECTED]
        if state.rejected is not None:
            rejected = np.concatenate([state.rejected, rejected])
        joined = np.concatenate([state.points, points[lowest]])
        state = state._replace(points=joined, rejected=rejected)
        return self._attempted(task, self._learnt(task, state, history), history)


def _decided(
    task: Task, history: History, points: np.ndarray
) -> tuple[np.ndarray, list[Request]]:
    """Returns levels' sides, and requests for more images at the open ones."""
    known = answers(task, history, points)
    side, more = sides(task, history, known, _ERROR), []
    for i in np.flatnonzero(side == OPEN).tolist():
        seen = int(known.seen[i])
        more += requests(task, points[[i]], max(2 * seen, seen + task.block))
    return side, more


def _spent(history: History) -> int:
    return sum(map(len, history.scores or ()))
