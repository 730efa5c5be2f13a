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
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN
from jaxrob.strategies._strategy import Asked, Found, History, Request, Task
from jaxrob.strategies._volume import model as models
from jaxrob.strategies._volume.fresh import (
    Fresh,
    guessed,
    joined,
    looked,
    tallied,
    to_decide,
    unseen,
)
from jaxrob.strategies._volume.limits import (
    Plan,
    Rule,
    Strata,
    Tally,
    limits,
    plan,
    strata,
    thirds,
)
from jaxrob.strategies._volume.sides import answers, population_sides, sides

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
# Exploring may take this share of a budget, and at most about so many levels.
_EXPLORED, _MOST_LEARNT = 0.35, 200
# What another refinement gains, as a share of all images at each unsure level; how many
# these are for their share in half widths; the share that may stay open.
_GAIN, _UNSURE_LEVELS, _MAY_STAY_OPEN = 0.05, 1.4, 0.6
# A round asks for this share of the levels planned, or all if few are left.
_ROUND, _FEW_LEFT = 0.7, 1.4
# Attempts with numbers fixed in advance plan for this share of the width, and share
# the error: the first has most, because one is usually enough.
_AIM, _FIRST_ATTEMPT = 0.87, 0.8
# Levels that are open after so many images lie on the threshold, as far as these tell.
_MANY = 512
# Shares of the open levels that a plan may decide.
_PARTS = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1])


class State(NamedTuple):
    exploration: models.Exploration
    fresh: Fresh
    model: models.Model | None = None
    strata: Strata | None = None  # frozen once the model is
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
        none = np.empty((0, len(task.lower))), np.empty(0, int)
        return State(first, unseen(*none, None))

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[list[Request], State]:
        """Returns the next requests; see `Strategy`."""
        state = state._replace(history=history, rounds=state.rounds + 1)
        if not len(history.levels) and self._has_model:
            return _requests(task, state.exploration.points, models.IMAGES), state
        if state.strata is None:
            return self._explored(task, state)
        fresh = looked(task, state.fresh, history, self._error(task))
        return self._searched(task, state._replace(fresh=fresh))

    def result(self, task: Task, state: State) -> Found:
        """Returns the volume, both intervals and the status; see `Strategy`."""
        history = state.history
        asked = Asked(self.half_width, self.budget, error=1 - task.confidence_level)
        found = Found(robustness=0.5, status=state.status, asked=asked)
        if task.groups is None:
            found = found._replace(population_interval=ConfidenceInterval(0.0, 1.0))
        if not len(history.levels):
            return found
        known = answers(task, history, task.positions_of(history.levels))
        decided = sides(task, history, known, self._error(task))
        found = found._replace(sides=decided)
        if not len(state.fresh.points):
            return found
        decided[answers(task, history, state.fresh.points).rows] = state.fresh.side
        tally = _tally(state, state.fresh.side)
        low, high = limits(tally, self._rule(task, state))
        guess = _tally(state, guessed(task, state.fresh))
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
            others = (1 - _FIRST_ATTEMPT) / 2 ** max(state.attempt, 1)
            error *= _FIRST_ATTEMPT if state.attempt == 1 else others
        return Rule(error, self._is_proven, self._slack(_SLACK))

    def _population(self, task: Task, state: State) -> tuple[float, float]:
        # Levels whose images show the side for all images of the kind.
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
            probability = models.acceptance(model, cut)
            found = strata(cut, probability)
            if self._is_worth_refining(task, now, probability):
                later = models.refined(now, model)
                state = state._replace(exploration=later, model=model)
                new = later.points[len(now.points) :]
                return _requests(task, new, models.IMAGES), state
        state = state._replace(model=model, strata=found)
        numbers = np.full(len(found.volumes), _FIRST)
        return self._drawn(task, state, numbers, self._left(task, state))

    def _is_worth_refining(
        self, task: Task, now: models.Exploration, probability: np.ndarray
    ) -> bool:
        # Levels where the model is unsure cost most, and half as many levels to learn
        # from again make them a fifth fewer. Few of them may as well stay open.
        total, half = task.num_images or 1, self._width(*[probability.mean()] * 2) / 2
        unsure = float((thirds(probability) == 1).mean())
        spent = len(now.points) * min(task.block, total)
        if self.budget is not None and 1.5 * spent > _EXPLORED * self.budget:
            return False
        levels = max(_FIRST, (_UNSURE_LEVELS * unsure / half) ** 2)
        gain = _GAIN * levels * total
        pays = unsure > _MAY_STAY_OPEN * half and gain > spent / 2
        return now.refinements > 0 or (pays and len(now.points) < _MOST_LEARNT)

    def _drawn(
        self, task: Task, state: State, numbers: np.ndarray, left: float
    ) -> tuple[list[Request], State]:
        """Draws fresh levels, so many of each stratum, or as many as can be paid."""
        assert state.strata is not None
        numbers = np.maximum(numbers, 0)
        if numbers.sum() > left:
            numbers = numbers * max(left, 0) / numbers.sum()
        numbers = np.floor(numbers).astype(int)
        # The levels depend on the seed and the round alone.
        rng = np.random.default_rng([task.seed, state.rounds])
        points = state.strata.drawn(numbers, rng)
        stratum = np.repeat(np.arange(len(numbers)), numbers)
        fresh = joined(state.fresh, unseen(points, stratum, state.model))
        return _requests(task, points, 1), state._replace(fresh=fresh)

    def _searched(self, task: Task, state: State) -> tuple[list[Request], State]:
        fresh = state.fresh
        rule, left = self._rule(task, state), self._left(task, state)
        tally = _tally(state, fresh.side)
        low, high = limits(tally, rule)
        if high - low <= self._width(low, high):
            return [], state._replace(status="precise")
        flat = (fresh.side == OPEN) & (fresh.seen >= _MANY)
        share = _tally(state, flat * ACCEPTED).accepted / np.maximum(tally.numbers, 1)
        is_flat = tally.volumes @ share > (high - low) / 2
        is_paid = is_flat or self.budget is None
        state = state._replace(status="resolution" if is_paid else "budget")
        decide = to_decide(task, fresh, self._error(task))
        if not self._is_proven:
            best, worth = self._planned(task, state, decide)
            planned = best.numbers
        else:
            # No other levels can make up for open ones: their number is fixed.
            worth, planned = _opened(state, decide), tally.numbers
            if not state.attempt or not len(worth):
                best, _ = self._planned(task, state._replace(first=0), decide)
                number = len(fresh.points)
                most = best.numbers.sum() + number
                if best.cost / task.block <= left and most <= _MOST:
                    state = state._replace(attempt=state.attempt + 1, first=number)
                    return self._drawn(task, state, best.numbers, left)
            worth = worth[: (len(worth) + 1) // 2]
        steps = np.clip(decide, task.block, np.maximum(fresh.seen, task.block))
        more = np.minimum(fresh.seen + steps, task.num_images or 1).astype(int)
        asked = []
        for i in worth.tolist():
            blocks = math.ceil((more[i] - fresh.seen[i]) / task.block)
            if blocks <= left:
                asked += _requests(task, fresh.points[[i]], int(more[i]))
                left -= blocks
        new = planned - tally.numbers
        if new.sum() > (_FEW_LEFT - 1) * tally.numbers.sum():
            new = np.ceil(new * _ROUND)
        if len(fresh.points) + new.sum() > _MOST:
            return [], state._replace(status="resolution")
        drawn, state = self._drawn(task, state, new, left)
        return [*asked, *drawn], state

    def _planned(
        self, task: Task, state: State, decide: np.ndarray
    ) -> tuple[Plan, np.ndarray]:
        """Returns the cheapest plan, and the open levels that it decides."""
        fresh = state.fresh
        rule, likely = self._rule(task, state), guessed(task, fresh)
        if self._is_proven:
            rule = self._rule(task, state._replace(attempt=state.attempt + 1))
        whole = _tally(state, likely)
        wanted = self._width(*limits(whole, rule))
        wanted *= _AIM if self._is_proven else 1.0
        opened = _opened(state, decide)

        def planned(number: int) -> tuple[Plan, np.ndarray]:
            # The first levels that are open will be decided, the dearer ones stay open.
            now, cost, stays = likely.copy(), fresh.seen + decide, opened[number:]
            now[stays], cost[stays] = OPEN, fresh.seen[stays]
            tally = _tally(state, now)
            costs = np.bincount(fresh.stratum, cost, len(tally.volumes))
            costs = np.maximum(costs / np.maximum(tally.numbers, 1), 1.0)
            if self._is_proven:
                tally = tally.of(np.minimum(tally.numbers, _FIRST))
            return plan(tally, costs, wanted, rule), opened[:number]

        numbers = np.unique(np.rint(_PARTS * len(opened)).astype(int)).tolist()
        best, worth = min(map(planned, numbers), key=lambda one: one[0].cost)
        if not len(worth) and (best.numbers <= whole.numbers).all():
            worth = opened[:1]
            if not len(worth):
                best = best._replace(numbers=np.ceil(whole.numbers * 1.05))
        return best, worth


def _opened(state: State, decide: np.ndarray) -> np.ndarray:
    """Returns the open levels that count, by their price for the width's part."""
    tally = _tally(state, state.fresh.side)
    each = (tally.volumes / np.maximum(tally.numbers, 1))[state.fresh.stratum]
    counted = np.arange(len(decide)) >= state.first
    opened = np.flatnonzero(counted & (state.fresh.side == OPEN))
    return opened[np.argsort((decide / each)[opened], kind="stable")]


def _requests(task: Task, points: np.ndarray, images: int) -> list[Request]:
    levels: Sequence = task.levels_at(points).tolist()
    number = min(images, task.num_images or 1)
    return [Request(tuple(level), int(number)) for level in levels]


def _tally(state: State, side: np.ndarray) -> Tally:
    assert state.strata is not None
    stratum = state.fresh.stratum[state.first :]
    return tallied(state.strata.volumes, stratum, side[state.first :])
