"""The accepted volume: a model chooses levels, fresh ones in strata decide."""

import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_integer,
    checked_number,
)
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._few.estimates import ACCEPTED, OPEN, REJECTED
from jaxrob.strategies._strategy import Asked, Found, History, Request, Task
from jaxrob.strategies._volume import model as models
from jaxrob.strategies._volume.limits import Rule, Strata, Tally, limits, plan, strata
from jaxrob.strategies._volume.sides import (
    answers,
    population_sides,
    requests,
    sides,
    spent,
    to_decide,
)

# Shares of the error of the counts' limits. The calibrated ones were simulated, because
# the search ends where the interval is narrow enough.
_OF_COUNTS = {"calibrated": 0.85, "proven": 0.9}
_OF_COUNTS_THERE = {"calibrated": 0.6, "proven": 0.7}
# Calibrated: the error of a level's decision, in half widths, and the share of it that
# is found on the threshold, because evidence is looked at by blocks.
_WRONG, _FOUND_WRONG = 0.05, 0.25
_WRONG_THERE = 0.05
# Proven: levels may be wrong together, on this share of the half width, with that share
# of the error (Markov). Of the population's, the data set may be off at all its levels.
_SLACK, _OF_LEVELS = 0.04, 0.1
_SLACK_THERE, _MOST_SLACK_THERE = 0.24, 0.005
_OF_IMAGES = {"calibrated": 0.4, "proven": 0.1}
# A relative half width is of a volume of at least this; its slack is of that.
_LEAST_VOLUME, _USUAL_VOLUME = 0.01, 0.05
# First levels of a stratum, and for a volume of the half width. Fewer stop by chance:
# then intervals miss too often.
_FIRST, _FEWEST, _FOR_ONE = 30, 10, 8
# The most fresh levels.
_MOST = 20_000
# Refinements of the model, which may take this share of a budget.
_REFINEMENTS, _EXPLORED = 2, 0.35
# A round asks for this share of the levels planned, or all if few are left.
_ROUND, _FEW_LEFT = 0.7, 1.4
# Numbers fixed in advance are planned for this share of the width. If they do not do,
# there are so many times as many; the first attempt has most of the error.
_AIM, _TIMES, _FIRST_ATTEMPT = 0.87, 1.3, 0.8
# Levels that are open after so many images lie on the threshold, as far as these tell.
_MANY = 512
# Quantiles of a normal variable, for averaging costs.
_NORMAL = np.array([-1.4, -0.6, 0.0, 0.6, 1.4])


class State(NamedTuple):
    learnt: np.ndarray  # [l, d], levels of the unit cube that the model learns from
    points: np.ndarray  # [m, d], fresh levels, drawn uniformly in strata
    stratum: np.ndarray  # int [m]
    refinements: int = _REFINEMENTS  # that are left
    model: models.Model | None = None
    strata: Strata | None = None  # frozen once the model is
    # With numbers fixed in advance: 0 a pilot; only levels from `first` on count.
    attempt: int = 0
    first: int = 0
    rounds: int = 0
    history: History = History()
    status: str = "budget"

    def tally(self, side: np.ndarray) -> Tally:
        assert self.strata is not None
        volumes, stratum = self.strata.volumes, self.stratum[self.first :]
        side = side[self.first :]
        counted = [
            np.bincount(stratum[kind], minlength=len(volumes)).astype(float)
            for kind in (side == side, side == ACCEPTED, side == REJECTED)
        ]
        return Tally(volumes, *counted)


class Look(NamedTuple):
    """What is known of the fresh levels."""

    side: np.ndarray  # int [m], by all images
    likely: np.ndarray  # int [m], those of open levels too
    seen: np.ndarray  # int [m], images
    price: np.ndarray  # [m], about how many more decide the level


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
        at three to four times the evaluations.

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
        checked_integer("task.num_images", task.num_images, at_least=1)
        if not isinstance(task.lower, tuple):
            raise TypeError(
                "task.lower must be a tuple, of a jaxrob.Domain's alterations, for "
                f"strategies.Volume; got {task.lower!r}"
            )
        points = models.exploration(task, self.budget)
        return State(points, points[:0], np.empty(0, int))

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[list[Request], State]:
        """Returns the next requests; see `Strategy`."""
        state = state._replace(history=history, rounds=state.rounds + 1)
        if not len(history.levels) and self._has_model:
            return requests(task, state.learnt, models.IMAGES), state
        if state.strata is None:
            return self._explored(task, state)
        return self._searched(task, state)

    def result(self, task: Task, state: State) -> Found:
        """Returns the volume, both intervals and the status; see `Strategy`."""
        history, error = state.history, self._error(task)
        asked = Asked(self.half_width, self.budget, error=1 - task.confidence_level)
        found = Found(robustness=0.5, status=state.status, asked=asked)
        if task.groups is None:
            found = found._replace(population_interval=ConfidenceInterval(0.0, 1.0))
        if not len(history.levels):
            return found
        known = answers(task, history, task.positions_of(history.levels))
        found = found._replace(sides=sides(task, history, known, error))
        if not len(state.points):
            return found
        look = _look(task, state, error)
        tally = state.tally(look.side)
        low, high = limits(tally, self._rule(task, state))
        guess = state.tally(look.likely)
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

    def _of_width(self, share: float) -> float:
        return share * self.half_width * (_USUAL_VOLUME if self.relative else 1.0)

    def _error(self, task: Task) -> float:
        if not self._is_proven:
            return self._of_width(_WRONG)
        return _OF_LEVELS * (1 - task.confidence_level) * self._of_width(_SLACK)

    def _rule(self, task: Task, state: State) -> Rule:
        error = _OF_COUNTS[self.guarantee] * (1 - task.confidence_level)
        if not self._is_proven:
            return Rule(error, False, 0.0, _FOUND_WRONG * self._error(task))
        others = (1 - _FIRST_ATTEMPT) / 2 ** max(state.attempt, 1)
        share = _FIRST_ATTEMPT if state.attempt == 1 else others
        return Rule(error * share, True, self._of_width(_SLACK))

    def _population(self, task: Task, state: State) -> tuple[float, float]:
        # Levels whose images show the side for all images of the kind.
        misses, kind = 1 - task.confidence_level, self.guarantee
        slack = min(self._of_width(_SLACK_THERE), _MOST_SLACK_THERE)
        error = self._error(task) if self._is_proven else _WRONG_THERE
        tail = _OF_IMAGES[kind] * misses * slack
        known = answers(task, state.history, state.points)
        side = population_sides(task, state.history, known, error, tail)
        rule = self._rule(task, state)
        rule = rule._replace(
            error=rule.error * _OF_COUNTS_THERE[kind] / _OF_COUNTS[kind],
            slack=rule.slack + slack,
            wrong=0.0 if self._is_proven else _FOUND_WRONG * error,
        )
        return limits(state.tally(side), rule)

    def _width(self, low: float, high: float) -> float:
        """Returns the wanted width."""
        volume = max((low + high) / 2, _LEAST_VOLUME) if self.relative else 1.0
        return 2 * self.half_width * volume

    def _left(self, task: Task, state: State) -> float:
        """Returns how many blocks the budget has left."""
        history, room = state.history, self.budget
        if room is None:
            return math.inf
        return (room - spent(history)) // min(task.block, task.num_images or 1)

    def _explored(self, task: Task, state: State) -> tuple[list[Request], State]:
        points, budget = state.learnt, self.budget
        cut = models.cells(points.shape[1])
        found = Strata(cut, np.zeros(cut.number, int))
        if self._has_model:
            model = models.learnt(task, state.history, points, state.model)
            state = state._replace(model=model)
            cost = 1.5 * len(points) * models.images_to_learn(task)
            if state.refinements and (budget is None or cost < _EXPLORED * budget):
                new = models.refined(points, model, task.seed)
                state = state._replace(
                    learnt=np.concatenate([points, new]),
                    refinements=state.refinements - 1,
                )
                return requests(task, new, models.IMAGES), state
            found = strata(cut, models.acceptance(model, cut))
        state, share = state._replace(strata=found), found.volumes / self._of_width(1)
        numbers = np.clip(np.rint(_FOR_ONE * share), _FEWEST, _FIRST)
        return self._drawn(task, state, numbers, self._left(task, state))

    def _drawn(
        self, task: Task, state: State, numbers: np.ndarray, left: float
    ) -> tuple[list[Request], State]:
        """Draws fresh levels, so many of each stratum, or as many as can be paid."""
        assert state.strata is not None
        numbers = np.maximum(numbers, 0)
        numbers = numbers * min(1.0, max(left, 0) / max(numbers.sum(), 1))
        numbers = np.floor(numbers).astype(int)
        if len(state.points) + numbers.sum() > _MOST:
            return [], state
        # The levels depend on the seed and the round alone.
        rng = np.random.default_rng([task.seed, state.rounds])
        points = state.strata.drawn(numbers, rng)
        stratum = np.repeat(np.arange(len(numbers)), numbers)
        state = state._replace(
            points=np.concatenate([state.points, points]),
            stratum=np.concatenate([state.stratum, stratum]),
        )
        return requests(task, points, 1), state

    def _searched(self, task: Task, state: State) -> tuple[list[Request], State]:
        look = _look(task, state, self._error(task))
        rule, left = self._rule(task, state), self._left(task, state)
        tally = state.tally(look.side)
        low, high = limits(tally, rule)
        if high - low <= self._width(low, high):
            return [], state._replace(status="precise")
        flat = state.tally(((look.side == OPEN) & (look.seen >= _MANY)) * ACCEPTED)
        is_flat = tally.each @ flat.accepted > (high - low) / 2
        is_paid = is_flat or self.budget is None
        state = state._replace(status="resolution" if is_paid else "budget")
        if self._is_proven:
            state, worth, new = self._fixed(task, state, look, left)
        else:
            numbers, worth = self._planned(state, look, rule)
            new = numbers - tally.numbers
            if new.sum() > (_FEW_LEFT - 1) * tally.numbers.sum():
                new = np.ceil(new * _ROUND)
        some = []
        steps = np.clip(look.price, task.block, np.maximum(look.seen, task.block))
        for i in worth.tolist():
            blocks = math.ceil(steps[i] / task.block)
            if blocks <= left:
                some.append(i)
                left -= blocks
        asked = requests(task, state.points[some], (look.seen + steps)[some])
        drawn, state = self._drawn(task, state, new, left)
        return [*asked, *drawn], state

    def _fixed(
        self, task: Task, state: State, look: Look, left: float
    ) -> tuple[State, np.ndarray, np.ndarray]:
        """Returns open levels to decide, or the new ones of the next attempt."""
        # No other levels can make up for open ones: their number is fixed.
        tally, worth = state.tally(look.side), _opened(state, look)
        if state.attempt and len(worth):
            return state, worth[: (len(worth) + 1) // 2], 0 * tally.numbers
        later = state._replace(attempt=state.attempt + 1)
        new = (_TIMES - 1) * tally.numbers
        if not state.attempt:
            later = later._replace(first=len(look.side))
            new, _ = self._planned(state, look, self._rule(task, later))
            cost = new @ _costs(state, look.seen + look.price)
            new = new * min(1.0, left * task.block / cost)
        # Fewer levels than the pilot's would tell less than these.
        can_pay = tally.numbers.sum() < new.sum() or state.attempt
        if not can_pay or new.sum() > left:
            return state, worth[:0], 0 * new
        return later, worth[:0], np.ceil(new)

    def _planned(
        self, state: State, look: Look, rule: Rule
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the cheapest numbers of levels, and the open ones to be decided."""
        tally, cost = state.tally(look.likely), look.seen + look.price
        wanted = self._width(*limits(tally, rule)) * (_AIM if self._is_proven else 1)
        costs = _costs(state, cost)
        numbers = plan(tally, costs, wanted, rule)
        # A dear level stays open where new ones make up for its width at a lower cost.
        opened = _opened(state, look)[::-1]
        each = tally.each[state.stratum[opened]]
        stays = look.price[opened] > 2 * (numbers @ costs) / wanted * each
        stays &= np.cumsum(each) <= wanted / 2
        worth, stays = opened[~stays], opened[stays]
        if len(stays):
            now = look.likely.copy()
            now[stays], cost[stays] = OPEN, look.seen[stays]
            tally = state.tally(now)
            numbers = plan(tally, _costs(state, cost), wanted, rule)
        if not len(worth) and (numbers <= tally.numbers).all():
            numbers = np.ceil(1.05 * numbers)
        return numbers, worth[::-1]


def _look(task: Task, state: State, error: float) -> Look:
    known, (low, high) = answers(task, state.history, state.points), task.bounds
    side = sides(task, state.history, known, error)
    least, seen = (task.threshold - low) / (high - low), known.seen
    # Images alone seem far from the threshold where they are so by chance.
    expected, of_model = 0.5, 1e-6
    if state.model is not None:
        expected, deviation = state.model.shares(state.points)
        of_model = 1 / np.square(np.maximum(deviation, 1e-3))
    one = 1 / max(least * (1 - least), 0.01)
    both = of_model + one * seen
    share = (of_model * expected + one * known.right) / both
    likely = np.where(share >= least, ACCEPTED, REJECTED)
    spread = share[:, None] + _NORMAL / np.sqrt(both)[:, None]
    needed = to_decide(task, np.clip(spread, 0.0, 1.0), error).mean(axis=1)
    left = (task.num_images or 1) - seen
    price = np.clip(needed - seen, np.minimum(task.block, left), left)
    is_open = side == OPEN
    return Look(side, np.where(is_open, likely, side), seen, price * is_open)


def _opened(state: State, look: Look) -> np.ndarray:
    """Returns the open levels that count, by their price for the width's part."""
    price = look.price / state.tally(look.side).each[state.stratum]
    counted = np.arange(len(price)) >= state.first
    opened = np.flatnonzero(counted & (look.side == OPEN))
    return opened[np.argsort(price[opened], kind="stable")]


def _costs(state: State, cost: np.ndarray) -> np.ndarray:
    """Returns the mean cost of a level by stratum, `[k]`."""
    assert state.strata is not None
    stratum, number = state.stratum, len(state.strata.volumes)
    levels = np.bincount(stratum, minlength=number)
    return np.bincount(stratum, cost, number) / np.maximum(levels, 1) + 1
