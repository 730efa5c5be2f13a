"""As few images as the answer needs."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_flag,
    checked_integer,
    checked_number,
    checked_share,
)
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._drive import Span
from jaxrob.strategies._few import banded, decided
from jaxrob.strategies._few.bands import Method, State, narrowing_by_correlation
from jaxrob.strategies._few.estimates import (
    ACCEPTED,
    OPEN,
    Accepted,
    Goal,
    Level,
    population_interval,
)
from jaxrob.strategies._levels import Uniform
from jaxrob.strategies._strategy import Asked, Found, History, Request, Task

# Upper bounds of the error, for "the same answer as all images" and for a requirement.
_ERROR_OF_SAME, _ERROR_OF_REQUIRED = 0.001, 0.01
# Independent looks of a search, which share the error where a verdict may end it.
_LOOKS = 10
# A comparison's share for the two intervals: far errors count twice.
_OF_ERROR = 0.9
# First half width to aim at under a budget or requirement, and its shrinking.
_FIRST_AIM, _SHRINKS = 0.1, 0.7
# Half widths to plan a budget for, finest first, and the share of the budget to plan.
_AIMS = np.geomspace(5e-4, 0.2, 60)
_SPENT = 0.8
# A budget aims at this share of the open half width at least: it must gain.
_BY_WAY_OF = 0.25
# A requirement is decided at about this share of the distance to it.
_OF_DISTANCE = 0.85


@dataclasses.dataclass(frozen=True)
class FewImages:
    """Looks at a strategy's levels, at each on as few images as it needs.

    All levels see the same images in the same random order. The measure must be a mean
    over images: not "precision" or "f1". At least one of `half_width`, `budget`,
    `curtail` and `required` says when images are enough. Example::

        few = jaxrob.strategies.FewImages(half_width=0.02)
        found = jaxrob.assess(classifier, dataset, alteration, strategy=few)
        print(found.dataset_interval, found.evaluations)

    Attributes:
      strategy: gives the levels: `ASAP` adaptively, `Uniform` a fixed number.
      half_width: half the wanted width of `Assessment.dataset_interval`, the interval
        of the robustness on this data set, with the errors of levels and images
        together, at the confidence level. 0 gives the answer of all images, wrong with
        a probability of at most 0.001 for each alteration, or 1 - `confidence_level` if
        that is less.
      budget: the largest number of altered images to classify, of all alterations
        together. The result says how narrow an interval they gave.
      curtail: whether a level is decided only once the remaining images cannot change
        its side: the answer of all images for certain. With `half_width`, levels may
        stay open as far as that allows.
      required: the required robustness: an alteration ends as soon as it is certain
        whether this is reached, wrong with a probability of at most 0.01, or 1 -
        `confidence_level` if that is less.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if one is outside its range, or none says when images are enough.
    """

    strategy: ASAP | Uniform = ASAP()
    half_width: float | None = None
    budget: int | None = None
    curtail: bool = False
    required: float | None = None
    needs_scores = True

    def __post_init__(self) -> None:
        wanted = (
            "a jaxrob.strategies.ASAP or Uniform, whose levels are chosen by sides of "
            "the threshold"
        )
        check_type("strategy", self.strategy, ASAP | Uniform, wanted)
        half_width, budget, required = self.half_width, self.budget, self.required
        if half_width is not None:
            half_width = checked_number("half_width", half_width, at_least=0, below=0.5)
        if budget is not None:
            budget = checked_integer("budget", budget, at_least=1)
        if required is not None:
            required = checked_share("required", required)
        curtail = checked_flag("curtail", self.curtail)
        if half_width is None and budget is None and required is None:
            if not curtail:
                raise ValueError(
                    "half_width, budget, curtail or required must say when images are "
                    "enough; got none of them"
                )
            half_width = 0.0
        object.__setattr__(self, "half_width", half_width)
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "required", required)

    @property
    def rule(self) -> str:
        """The rule of the strategy that gives the levels."""
        return self.strategy.rule

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of the strategy alone, as a tuple."""
        return (self.rule,)

    def init(self, task: Task) -> State:
        """Returns the state that requests the first levels; see `Strategy`."""
        number = checked_integer("task.num_images", task.num_images, at_least=1)
        gives_verdicts = self._is_compared or self.required is not None
        error = self._error(task) / (_LOOKS if gives_verdicts else 1)
        parts, aim = self._parts, self._half_width_asked
        if self.budget or gives_verdicts:
            aim = max(_FIRST_AIM, self.half_width or 0.0)
        error, curtail = max(error, 1e-300), self.curtail
        threshold, bounds, block = task.threshold, task.bounds, task.block
        goal = Goal(parts, threshold, bounds, number, block, error, aim, curtail)
        if isinstance(self.strategy, Uniform):
            steps, share = range(parts), 1.0
        else:
            first = np.rint(self.strategy.first_steps(task)).astype(int)
            steps, share = np.unique(first).tolist(), decided.FIRST
        needed_evidence = math.log(len(steps) / (share * goal.error))
        levels = {step: Level(np.array([]), OPEN, needed_evidence) for step in steps}
        wanted = [goal.request(step, goal.block) for step in steps]
        return State(goal, levels, Accepted(0, parts, parts / 2), wanted=wanted)

    def ask(
        self, task: Task, state: State, history: History
    ) -> tuple[list[Request], State]:
        """Returns the next requests; see `Strategy`."""
        if len(history.levels):
            state = self._updated(task, state, history)
        steps = np.array([one.step for one in state.wanted], int)
        levels = task.levels_at(steps / self._last).tolist()
        asked = [Request(level, one.seen) for level, one in zip(levels, state.wanted)]
        return asked, state

    def result(self, task: Task, state: State) -> Found:
        """Returns the estimate, both intervals and the status; see `Strategy`."""
        goal, wide = state.goal, self._half_width_asked
        low, high, guess = (float(steps) / goal.parts for steps in state.accepted)
        # The estimate is no farther from either end than the half width.
        half = max(wide, (high - low) / 2)
        guess = max(min(max(guess, high - half), low + half, 1.0), 0.0)
        if wide == 0 and not self._is_fixed and not state.is_certain:
            guess = min(max(_accepted_by_right(state) / goal.parts, low), high)
        seen = {step: one for step, one in state.levels.items() if one.seen}
        on_last = goal._replace(parts=self._last)
        within = population_interval(on_last, seen, task.confidence_level)
        within = min(within.low, low), max(within.high, high)
        error = self._error(task)
        asked = Asked(self.half_width, self.budget, self.curtail, error, self.required)
        return Found(
            robustness=guess,
            interval=ConfidenceInterval(low, high),
            status=self._status(state),
            sides=np.array([seen[step].side for step in sorted(seen)]),
            population_interval=ConfidenceInterval(*within),
            asked=asked,
        )

    def planned(self, states: Sequence[State], spent: int) -> Sequence[State]:
        """Aims all searches at the half width that the rest of the budget can pay."""
        if self.budget is None:
            return states
        for aim in _AIMS.tolist():
            costs = sum(banded.expected_cost(one, aim) for one in states if one.wanted)
            if costs <= _SPENT * (self.budget - spent):
                return [one._replace(aim=aim) if one.wanted else one for one in states]
        return states

    def allowed(
        self, states: Sequence[State], spans: Sequence[Span], spent: int
    ) -> Sequence[Span]:
        """Returns the spans that the budget allows, the widest intervals' first."""
        if self.budget is None:
            return spans
        left, number = self.budget - spent, sum(span.length for span in spans)
        if not spent and number > left:
            raise ValueError(
                f"budget must be at least {number}, for {states[0].goal.block} images "
                f"at each of the first levels; got {left}"
            )
        found = []
        for span in sorted(spans, key=lambda one: -states[one.alteration].half_width):
            length, block = span.length, states[span.alteration].goal.block
            if length > left:
                # Only whole blocks: a part of a block would be computed twice.
                length = left // block * block
            if length:
                found.append(span._replace(stop=span.start + length))
                left -= length
        return found

    _is_compared = False

    def _error(self, task: Task) -> float:
        error = 1 - task.confidence_level
        if self.curtail:
            return 0.0
        if self.required is not None:
            return min(error, _ERROR_OF_REQUIRED)
        return min(error, _ERROR_OF_SAME) if self.half_width == 0 else error

    @property
    def _half_width_asked(self) -> float:
        return 0.5 / self._parts if self.half_width is None else self.half_width

    @property
    def _parts(self) -> int:
        """The number of parts of the range: intervals of the grid, or fixed levels."""
        one = self.strategy
        return one.n if isinstance(one, Uniform) else one.parts

    @property
    def _is_fixed(self) -> bool:
        return isinstance(self.strategy, Uniform)

    @property
    def _last(self) -> int:
        return self._parts - self._is_fixed

    def _updated(self, task: Task, before: State, history: History) -> State:
        goal = before.goal
        if before.aim is not None and goal.half_width > 0:
            wide = _BY_WAY_OF * before.accepted.half_width / goal.parts
            aim = max(before.aim, wide, self._half_width_asked)
            goal = goal._replace(half_width=aim)
        assert history.scores is not None
        steps = np.rint(task.positions_of(history.levels) * self._last).astype(int)
        asked = {one.step for one in before.wanted} | set(before.levels)
        scores = dict(zip(steps.tolist(), history.scores))
        new = {step: scores[step] for step in asked if step in scores}
        method = self._method(goal)
        state = before._replace(goal=goal, wanted=(), aim=None)
        state = method.look(self.strategy, state, new)
        while not self._is_certain(state):
            if not state.is_done:
                state = method.following(state)
            if state.wanted:
                is_wider = state.accepted.half_width > before.accepted.half_width
                if is_wider and not goal.curtail:
                    # Levels decided again left a wider interval than the earlier one.
                    return state._replace(accepted=before.accepted)
                return state
            if goal.half_width <= self._half_width_asked:
                return state
            goal = goal._replace(half_width=self._finer(state))
            new, earlier, method = {}, method, self._method(goal)
            if method is not earlier:
                # Bands need less evidence than deciding each level.
                seen = state.levels.items()
                new = {step: one.scores for step, one in seen if one.seen}
                state = self.init(task)._replace(wanted=())
            state = method.look(self.strategy, state._replace(goal=goal), new)
        return state._replace(is_certain=True)

    def _method(self, goal: Goal) -> Method:
        if self._is_fixed:
            return decided.FIXED_LEVELS
        return banded.METHOD if goal.by_bands else decided.METHOD

    def _is_certain(self, state: State) -> bool:
        if self.required is None:
            return False
        least = self.required * state.goal.parts
        return state.accepted.low >= least or state.accepted.high < least

    def _finer(self, state: State) -> float:
        goal, required = state.goal, self.required
        aim = goal.half_width * _SHRINKS
        if required is not None:
            distance = abs(state.accepted.guess / goal.parts - required)
            aim = min(aim, _OF_DISTANCE * distance)
        # Below half a step, further intermediate aims gain nothing on the way to 0.
        aim = aim if aim >= 0.5 / goal.parts else self._half_width_asked
        return max(aim, self._half_width_asked)

    def _status(self, now: State) -> str:
        if now.is_certain:
            return "certain"
        is_done, wide = not now.wanted, self._half_width_asked
        widest = max((gap.width for gap in now.gaps or ()), default=0)
        is_resolved = wide == 0 and widest <= 1 and is_done
        if now.half_width <= wide or is_resolved:
            return "precise"
        if is_done:
            return "resolution"
        # Only a budget or a comparison ends a search from outside.
        return "compared" if self._is_compared else "budget"


@dataclasses.dataclass(frozen=True)
class Compared(FewImages):
    _is_compared = True

    def _error(self, task: Task) -> float:
        return _OF_ERROR * (1 - task.confidence_level)

    def difference(self, first: State, second: State) -> ConfidenceInterval:
        """Bounds the difference of two robustnesses, of searches on the same images."""
        parts = first.goal.parts
        closer = float(narrowing_by_correlation(first, second)) / parts
        low, high, _ = (float(end) / parts for end in first.accepted)
        other_low, other_high, _ = (float(end) / parts for end in second.accepted)
        return ConfidenceInterval(low - other_high + closer, high - other_low - closer)


def _accepted_by_right(state: State) -> float:
    """Returns the number of steps accepted by the rule "right", of all images."""
    sides = {step: one.side for step, one in state.levels.items() if one.side}
    steps = sorted(sides)
    return sum(b - a for a, b in zip(steps, steps[1:]) if sides[b] == ACCEPTED)
