"""The accepted volume: a model chooses levels, fresh ones in strata decide."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_integer,
    checked_number,
)
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED, Goal
from jaxrob.strategies._strategy import Asked, Found, History, Request, Task
from jaxrob.strategies._volume import model as models
from jaxrob.strategies._volume.limits import Plan, Rule, Strata, Tally, limits, plan
from jaxrob.strategies._volume.limits import strata as strata_of
from jaxrob.strategies._volume.sides import Answers, answers, population_sides, sides

# Shares of the error: of the counts' limits, by guarantee, and of wrong levels.
_OF_COUNTS = {"calibrated": 0.7, "proven": 0.9}
_OF_LEVELS = 0.1
# Of the population's: of the counts, and of wrong levels on either side.
_OF_COUNTS_THERE, _OF_LEVELS_THERE = {"calibrated": 0.6, "proven": 0.7}, 0.15
# All levels see one order of images, so they may be wrong together: on this share of
# the half width, with that share of the error (Markov).
_SLACK, _SLACK_THERE = 0.04, 0.24
_MOST_SLACK_THERE = 0.005
# A relative half width is of a volume of at least this; its slack is of that.
_LEAST_VOLUME, _USUAL_VOLUME = 0.01, 0.05
# First levels of each stratum. Fewer stop by chance: then intervals miss too often.
_FIRST = 30
# The most fresh levels.
_MOST = 20_000
# Exploring may take this share of a budget.
_EXPLORED = 0.35
# A round asks for this share of the levels planned, or all if few are left.
_ROUND, _FEW_LEFT = 0.7, 1.4
# Attempts with numbers fixed in advance plan for this share of the width, and share
# the error: the first has most, because one is usually enough.
_AIM, _FIRST_ATTEMPT = 0.93, 0.9
# Shares of the open levels that a plan may decide.
_PARTS = np.array([0, 0.2, 0.4, 0.6, 0.8, 1])


class Fresh(NamedTuple):
    """Levels drawn uniformly in strata, which no model has seen."""

    points: np.ndarray  # [m, d], in the unit cube
    stratum: np.ndarray  # int [m]
    side: np.ndarray  # int [m], by all images
    seen: np.ndarray  # int [m], images of which the side takes account
    right: np.ndarray  # float64 [m]


class State(NamedTuple):
    exploration: models.Exploration
    model: models.Model | None = None
    strata: Strata | None = None  # frozen once the model is
    fresh: Fresh | None = None
    # With numbers fixed in advance: 0 a pilot; only levels from `first` on count.
    attempt: int = 0
    first: int = 0
    rounds: int = 0
    history: History = History()
    status: str = "budget"


@dataclasses.dataclass(frozen=True)
class Volume:
    """Measures the share of a domain's box of levels that is accepted.

    A model of the measure says where levels are worth their images. It decides nothing:
    the levels that it learnt from are not counted. Fresh levels, drawn uniformly in
    parts of the box, are each decided on as few images as that takes. The measure must
    be a mean over images. Example::

        volume = jaxrob.strategies.Volume(half_width=0.05)
        found = jaxrob.assess_domain(classifier, dataset, domain, strategy=volume)

    Attributes:
      half_width: half the wanted width of the interval for this data set, in (0, 0.5).
      relative: whether the half width is a share of the volume, of at least 0.01.
      budget: the largest number of altered images to classify, None for any.
      guarantee: "calibrated" for an interval whose coverage was simulated, because it
        ends once it is narrow enough; "proven" for numbers of levels fixed in advance,
        at two to three times the evaluations.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if one is outside its range.
    """

    half_width: float = 0.02
    relative: bool = False
    budget: int | None = None
    guarantee: Literal["calibrated", "proven"] = "calibrated"
    needs_scores = True
    rule = "volume"
    rules = ("volume",)
    _has_model = True

    def __post_init__(self) -> None:
        half_width = checked_number("half_width", self.half_width, above=0, below=0.5)
        object.__setattr__(self, "half_width", half_width)
        checked_flag("relative", self.relative)
        if self.budget is not None:
            budget = checked_integer("budget", self.budget, at_least=1)
            object.__setattr__(self, "budget", budget)
        check_choice("guarantee", self.guarantee, tuple(_OF_COUNTS))

    def init(self, task: Task) -> State:
        """Returns the state that requests the levels to learn from; see `Strategy`."""
        number = checked_integer("task.num_images", task.num_images, at_least=1)
        if not isinstance(task.lower, tuple):
            raise TypeError(
                "task.lower must be a tuple, of a jaxrob.Domain's alterations, for "
                f"strategies.Volume; got {task.lower!r}"
            )
        first = models.exploration(len(task.lower), task.seed)
        each = min(task.block, number)
        least = len(first.points) * each
        if self.budget is not None and least > self.budget:
            raise ValueError(
                f"budget must be at least {least}, for {each} images at each of the "
                f"first levels; got {self.budget}"
            )
        return State(first)

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[list[Request], State]:
        """Returns the next requests; see `Strategy`."""
        state = state._replace(history=history, rounds=state.rounds + 1)
        if not len(history.levels) and self._has_model:
            return _requests(task, state.exploration.points, models.IMAGES), state
        if state.strata is None:
            return self._explored(task, state)
        return self._searched(task, _looked(task, state, self._error(task)))

    def result(self, task: Task, state: State) -> Found:
        """Returns the volume, both intervals and the status; see `Strategy`."""
        history = state.history
        asked = Asked(self.half_width, self.budget, error=1 - task.confidence_level)
        found = Found(robustness=0.5, status=state.status, asked=asked)
        if len(history.levels):
            known = answers(task, history, task.positions_of(history.levels))
            decided = sides(task, history, known, self._error(task))
            found = found._replace(sides=decided)
        if state.fresh is None or not len(state.fresh.points):
            return found
        decided[answers(task, history, state.fresh.points).rows] = state.fresh.side
        tally = _tally(state, state.fresh.side)
        low, high = limits(tally, self._rule(task, state))
        guess = _tally(state, _guessed(task, state.fresh))
        share = guess.accepted / np.maximum(guess.numbers, 1)
        volume = float(tally.volumes @ np.where(guess.numbers > 0, share, 0.5))
        found = found._replace(
            robustness=min(max(volume, low), high),
            interval=ConfidenceInterval(low, high),
        )
        if task.groups is not None:
            return found
        start, end = self._population(task, state)
        within = ConfidenceInterval(min(start, low), max(end, high))
        return found._replace(population_interval=within)

    @property
    def _is_proven(self) -> bool:
        return self.guarantee == "proven"

    def _slack(self, share: float) -> float:
        return share * self.half_width * (_USUAL_VOLUME if self.relative else 1.0)

    def _error(self, task: Task) -> float:
        return _OF_LEVELS * (1 - task.confidence_level) * self._slack(_SLACK)

    def _rule(self, task: Task, state: State, of_counts: dict = _OF_COUNTS) -> Rule:
        error = of_counts[self.guarantee] * (1 - task.confidence_level)
        if self._is_proven:
            later = max(state.attempt - 1, 0)
            error *= (1 - _FIRST_ATTEMPT) / 2**later if later else _FIRST_ATTEMPT
        return Rule(error, self._is_proven, self._slack(_SLACK))

    def _population(self, task: Task, state: State) -> tuple[float, float]:
        # Levels whose images show the side for all images of the kind.
        assert state.fresh is not None
        slack = min(self._slack(_SLACK_THERE), _MOST_SLACK_THERE)
        error = _OF_LEVELS_THERE * (1 - task.confidence_level) * slack
        known = answers(task, state.history, state.fresh.points)
        tally = _tally(state, population_sides(task, state.history, known, error))
        rule = self._rule(task, state, _OF_COUNTS_THERE)
        return limits(tally, rule._replace(slack=slack))

    def _width(self, low: float, high: float) -> float:
        """Returns the wanted width."""
        volume = max((low + high) / 2, _LEAST_VOLUME) if self.relative else 1.0
        return 2 * self.half_width * volume

    def _left(self, task: Task, state: State) -> float:
        """Returns how many blocks the budget has left."""
        history, room = state.history, self.budget
        if room is None:
            return math.inf
        spent = sum(len((history.scores or ())[i]) for i in history.distinct)
        return (room - spent) // min(task.block, task.num_images or 1)

    def _explored(self, task: Task, state: State) -> tuple[list[Request], State]:
        now, dimension = state.exploration, state.exploration.dimension
        cut, model = models.cells(dimension), None
        found = Strata(cut, np.zeros(cut.number, int))
        if self._has_model:
            known = answers(task, state.history, now.points)
            low, high = task.bounds
            least = (task.threshold - low) / (high - low)
            model = models.fitted(
                now.points, known.right, known.seen, least, state.model
            )
            spent = (self.budget or 0) * (1 - _EXPLORED)
            more = len(now.points) * task.block / 2
            rich = self.budget is None
            rich = rich or self._left(task, state) * task.block - more >= spent
            if now.refinements and rich:
                later = models.refined(now, model)
                state = state._replace(exploration=later, model=model)
                new = later.points[len(now.points) :]
                return _requests(task, new, models.IMAGES), state
            found = strata_of(model, cut)
        none = np.empty(0)
        fresh = Fresh(
            np.empty((0, dimension)), none.astype(int), none.astype(int), none, none
        )
        state = state._replace(model=model, strata=found, fresh=fresh)
        numbers = np.full(len(found.volumes), _FIRST)
        return self._drawn(task, state, numbers, self._left(task, state))

    def _drawn(
        self, task: Task, state: State, numbers: np.ndarray, left: float
    ) -> tuple[list[Request], State]:
        """Draws fresh levels, so many of each stratum, or as many as can be paid."""
        assert state.strata is not None and state.fresh is not None
        numbers = np.maximum(numbers, 0)
        if numbers.sum() > left:
            numbers = numbers * max(left, 0) / numbers.sum()
        numbers = np.floor(numbers).astype(int)
        old = state.fresh
        # The levels depend on the seed and the round alone.
        rng = np.random.default_rng([task.seed, state.rounds])
        points = state.strata.drawn(numbers, rng)
        new = np.zeros(len(points))
        fresh = Fresh(
            np.concatenate([old.points, points]),
            np.append(old.stratum, np.repeat(np.arange(len(numbers)), numbers)),
            np.append(old.side, new.astype(int)),
            np.append(old.seen, new),
            np.append(old.right, new),
        )
        return _requests(task, points, 1), state._replace(fresh=fresh)

    def _searched(self, task: Task, state: State) -> tuple[list[Request], State]:
        fresh = state.fresh
        assert fresh is not None
        rule, left = self._rule(task, state), self._left(task, state)
        tally = _tally(state, fresh.side)
        counts = state.attempt > 0 or not self._is_proven
        low, high = limits(tally, rule)
        if counts and high - low <= self._width(low, high):
            return [], state._replace(status="precise")
        unknown = float(tally.volumes @ (1 - _decided_share(tally)))
        status = "resolution" if unknown > (high - low) / 2 else "budget"
        state = state._replace(status=status)
        planned, more, worth = self._planned(task, state, tally, rule)
        if self._is_proven:
            if counts and len(worth):
                planned = tally.numbers
            else:
                state = state._replace(
                    attempt=state.attempt + 1, first=len(fresh.points)
                )
                return self._drawn(task, state, planned, left)
        asked = []
        for i in worth.tolist():
            blocks = math.ceil((more[i] - fresh.seen[i]) / task.block)
            if blocks <= left:
                asked += _requests(task, fresh.points[[i]], more[i])
                left -= blocks
        new = planned - tally.numbers
        if new.sum() > (_FEW_LEFT - 1) * tally.numbers.sum():
            new = np.ceil(new * _ROUND)
        if len(fresh.points) + new.sum() > _MOST:
            return [], state._replace(status="resolution")
        drawn, state = self._drawn(task, state, new, left)
        return [*asked, *drawn], state

    def _planned(
        self, task: Task, state: State, tally: Tally, rule: Rule
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns levels by stratum, images by level, and the levels that need them."""
        fresh = state.fresh
        assert fresh is not None and task.num_images is not None
        total, guessed = task.num_images, _guessed(task, fresh)
        left = np.where(
            fresh.side == OPEN, _to_decide(task, fresh, self._error(task)), 0
        )
        wanted = self._width(*limits(_tally(state, guessed), rule))
        wanted *= _AIM if self._is_proven else 1.0
        inside = np.arange(len(fresh.side)) >= state.first
        each = (tally.volumes / np.maximum(tally.numbers, 1))[fresh.stratum]
        opened = np.flatnonzero(inside & (fresh.side == OPEN))
        opened = opened[np.argsort((left / each)[opened], kind="stable")]

        def planned(number: int) -> tuple[Plan, np.ndarray]:
            # The first levels that are open will be decided, the dearer ones stay open.
            now, cost = guessed.copy(), fresh.seen + left
            now[opened[number:]], cost[opened[number:]] = (
                OPEN,
                fresh.seen[opened[number:]],
            )
            costs = np.bincount(fresh.stratum[inside], cost[inside], len(tally.volumes))
            costs = np.maximum(costs / np.maximum(tally.numbers, 1), 1.0)
            return plan(_tally(state, now), costs, wanted, rule), opened[:number]

        numbers = np.unique(np.rint(_PARTS * len(opened)).astype(int)).tolist()
        best, worth = min(map(planned, numbers), key=lambda one: one[0].cost)
        numbers = best.numbers
        if self._is_proven and state.attempt:
            # No other levels can make up for them.
            worth = opened[: (len(opened) + 1) // 2]
        if not len(worth) and (numbers <= tally.numbers).all():
            worth = opened[:1]
            if not len(worth):
                numbers = np.ceil(tally.numbers * 1.05)
        steps = np.clip(left, task.block, np.maximum(fresh.seen, task.block))
        return numbers, np.minimum(fresh.seen + steps, total).astype(int), worth


def _requests(task: Task, points: np.ndarray, images: int) -> list[Request]:
    levels: Sequence = task.levels_at(points).tolist()
    number = min(images, task.num_images or 1)
    return [Request(tuple(level), int(number)) for level in levels]


def _looked(task: Task, state: State, error: float) -> State:
    """Decides the open levels that have new answers."""
    fresh, history = state.fresh, state.history
    assert fresh is not None
    known = answers(task, history, fresh.points)
    new = np.flatnonzero((known.seen > fresh.seen) & (fresh.side == OPEN))
    side = fresh.side.copy()
    if len(new):
        side[new] = sides(task, history, Answers(*(one[new] for one in known)), error)
    fresh = fresh._replace(side=side, seen=known.seen, right=known.right)
    return state._replace(fresh=fresh)


def _tally(state: State, side: np.ndarray) -> Tally:
    assert state.fresh is not None and state.strata is not None
    volumes = state.strata.volumes
    side, stratum = side[state.first :], state.fresh.stratum[state.first :]
    counted = [
        np.bincount(stratum[kind], minlength=len(volumes)).astype(float)
        for kind in (side == side, side == ACCEPTED, side == REJECTED)
    ]
    return Tally(volumes, *counted)


def _decided_share(tally: Tally) -> np.ndarray:
    return (tally.accepted + tally.rejected) / np.maximum(tally.numbers, 1)


def _guessed(task: Task, fresh: Fresh) -> np.ndarray:
    """Returns sides, of open levels by the images seen."""
    low, high = task.bounds
    mean = low + (high - low) * fresh.right / np.maximum(fresh.seen, 1)
    likely = np.where(mean >= task.threshold, ACCEPTED, REJECTED)
    return np.where((fresh.side == OPEN) & (fresh.seen > 0), likely, fresh.side)


def _to_decide(task: Task, fresh: Fresh, error: float) -> np.ndarray:
    """Returns about how many more images decide each level."""
    total, (low, high) = task.num_images or 1, task.bounds
    goal = Goal(1, task.threshold, task.bounds, total, task.block, error, 0.0)
    seen = np.maximum(fresh.seen, 1)
    off = np.abs(low + (high - low) * fresh.right / seen - task.threshold)
    off = np.maximum(off, goal.deviation / np.sqrt(seen) / 2)
    needed = goal.to_decide(off, math.log(1 / error))
    return np.clip(needed - seen, min(task.block, total), np.maximum(total - seen, 0))
