"""The search that looks at as few images as its answer needs."""

import dataclasses
import math
import weakref
from types import ModuleType
from typing import NamedTuple

import numpy as np

from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few import banded, decided, fixed_levels
from jaxrob.strategies._few.clusters import narrowing_by_correlation
from jaxrob.strategies._few.goal import (
    ACCEPTED,
    OPEN,
    Goal,
    Level,
    Wanted,
    rounded_to_blocks,
)
from jaxrob.strategies._few.population import population_interval
from jaxrob.strategies._few.state import Accepted, State
from jaxrob.strategies._few.stopping import StoppingRule
from jaxrob.strategies._strategy import Found, History, Request, Task
from jaxrob.strategies._uniform import Uniform

# With a budget or a requirement the first half width to aim at, and the factor by which
# it shrinks.
_FIRST_AIM, _SHRINKS = 0.1, 0.7
# A budget aims at no less than this share of the open half width, so that a search
# stopped by the budget has gained something.
_BY_WAY_OF = 0.25
# A requirement is decided once the half width is about this share of the distance to
# it.
_OF_DISTANCE = 0.85


@dataclasses.dataclass(frozen=True)
class FewImages:
    """Looks at a strategy's levels, at each on as few images as it needs.

    All levels see the same images in the same random order. Each look at the scores
    (`_updated`) depends on the looks before it, so the state is a fold over the
    history's rounds. It is cached by history, and recomputed where the cache lacks it.

    Attributes:
      levels: gives the levels: `ASAP` adaptively, `Uniform` a fixed number.
      stopping: when few images are enough.
    """

    levels: ASAP | Uniform
    stopping: StoppingRule
    needs_scores = True

    @property
    def rule(self) -> str:
        """The rule of the strategy that gives the levels."""
        return self.levels.rule

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of the strategy alone, as a tuple."""
        return (self.rule,)

    def ask(self, task: Task, history: History) -> list[Request]:
        """Returns the next requests; see `Strategy`."""
        now = self._progress(task, history)
        steps = np.array([one.step for one in now.wanted], int)
        levels = task.levels_at(steps / self.last).tolist()
        return [Request(level, one.seen) for level, one in zip(levels, now.wanted)]

    def result(self, task: Task, history: History) -> Found:
        """Returns the estimate, both intervals and the status; see `Strategy`."""
        now = self._progress(task, history)
        goal, accepted = now.goal, now.state.accepted
        low, high, guess = (float(one) / goal.parts for one in accepted)
        # The estimate is no farther from either end than the half width.
        half = max(self.half_width_asked, (high - low) / 2)
        guess = max(min(max(guess, high - half), low + half, 1.0), 0.0)
        if (
            self.half_width_asked == 0
            and isinstance(self.levels, ASAP)
            and not now.is_certain
        ):
            guess = min(max(_accepted_by_right(now.state) / goal.parts, low), high)
        seen = {step: one for step, one in now.state.levels.items() if one.seen}
        confidence_level = self.stopping.confidence_level
        on_last = goal._replace(parts=self.last)
        within = population_interval(on_last, seen, confidence_level)
        return Found(
            robustness=guess,
            interval=ConfidenceInterval(low, high),
            status=self._status(now),
            sides=np.array([seen[step].side for step in sorted(seen)]),
            population_interval=ConfidenceInterval(
                min(within.low, low), max(within.high, high)
            ),
        )

    def half_width(self, task: Task, history: History) -> float:
        """Returns half the interval's width, as a share of the range."""
        now = self._progress(task, history)
        return now.state.accepted.half_width / now.goal.parts

    def expected_cost(self, task: Task, history: History, half_width: float) -> float:
        """Returns about how many more images a half width needs; 0 if unknown."""
        now = self._progress(task, history)
        return banded.expected_cost(now.goal, now.state, half_width)

    def difference(
        self, task: Task, first: History, second: History
    ) -> ConfidenceInterval:
        """Bounds the difference of two robustnesses, of searches on the same images."""
        one, other = (self._progress(task, each) for each in (first, second))
        parts = one.goal.parts
        closer = narrowing_by_correlation(one.goal, one.state, other.state) / parts
        (low, high, _), (other_low, other_high, _) = (
            (float(end) / parts for end in each.state.accepted) for each in (one, other)
        )
        ends = low - other_high + closer, high - other_low - closer
        return ConfidenceInterval(*map(float, ends))

    @property
    def half_width_asked(self) -> float:
        """The half width asked for; half an interval of the grid by default."""
        if self.stopping.half_width is not None:
            return self.stopping.half_width
        return 0.5 / self.parts

    @property
    def parts(self) -> int:
        """The number of parts of the range: intervals of the grid, or fixed levels."""
        return self.levels.n if isinstance(self.levels, Uniform) else self.levels.parts

    @property
    def last(self) -> int:
        """The last step of the grid."""
        return self.parts - isinstance(self.levels, Uniform)

    def _progress(self, task: Task, history: History) -> "_Progress":
        """Returns the progress after a history, from that of the round before."""
        later = []
        while (now := _cache.get(history, {}).get((self, task))) is None:
            if not len(history.levels):
                now = self._initial(task)
                break
            later.append(history)
            history = history.before or History()
        for one in reversed(later):
            now = self._updated(task, now, one)
            _cache.setdefault(one, {})[self, task] = now
            if one.before is not None:  # Later rounds start from this one.
                _cache.get(one.before, {}).pop((self, task), None)
        return now

    def _initial(self, task: Task) -> "_Progress":
        """Returns the progress before the first round: it requests the first levels."""
        stopping, parts, aim = self.stopping, self.parts, self.half_width_asked
        if stopping.begins_wide:
            aim = max(_FIRST_AIM, stopping.half_width or 0.0)
        assert task.num_images is not None
        goal = Goal(
            parts,
            task.threshold,
            task.bounds,
            task.num_images,
            task.block,
            max(stopping.error_per_look, 1e-300),
            aim,
            stopping.curtail,
        )
        if isinstance(self.levels, Uniform):
            steps, share = range(parts), 1.0
        else:
            first = np.rint(self.levels.first_steps(task)).astype(int)
            steps, share = np.unique(first).tolist(), decided.FIRST
        needed_evidence = math.log(len(steps) / (share * goal.error))
        levels = {step: Level(np.array([]), OPEN, needed_evidence) for step in steps}
        state = State(levels, Accepted(0, parts, parts / 2))
        wanted = [Wanted(step, rounded_to_blocks(goal, goal.block)) for step in steps]
        return _Progress(goal, state, wanted)

    def _updated(self, task: Task, now: "_Progress", history: History) -> "_Progress":
        """Returns the progress after the last round, with the next requests."""
        goal, state = now.goal, now.state
        if history.aim is not None and goal.half_width > 0:
            wide = _BY_WAY_OF * state.accepted.half_width / goal.parts
            aim = max(history.aim, wide, self.half_width_asked)
            goal = goal._replace(half_width=aim)
        assert history.scores is not None
        steps = np.rint(task.positions_of(history.levels) * self.last).astype(int)
        asked = {one.step for one in now.wanted} | set(state.levels)
        scores = dict(zip(steps.tolist(), history.scores))
        new = {step: scores[step] for step in asked if step in scores}
        method = self._method(goal)
        state = method.look(goal, self.levels, state, new)
        while not self._is_certain(goal, state):
            wanted = []
            if not state.is_done:
                state, wanted = method.following(goal, state)
            if wanted:
                kept = state if goal.curtail else _no_wider(state, now.state)
                return _Progress(goal, kept, wanted)
            if goal.half_width <= self.half_width_asked:
                return _Progress(goal, state, wanted)
            goal = goal._replace(half_width=self._finer(goal, state))
            new, before, method = {}, method, self._method(goal)
            if method is not before:
                # Bands decide sides with less evidence than deciding each level
                # requires.
                seen = state.levels.items()
                new = {step: one.scores for step, one in seen if one.seen}
                state = self._initial(task).state
            state = method.look(goal, self.levels, state, new)
        return _Progress(goal, state, [], is_certain=True)

    def _method(self, goal: Goal) -> ModuleType:
        """The module that chooses levels and draws conclusions from their scores."""
        if isinstance(self.levels, Uniform):
            return fixed_levels
        return banded if goal.by_bands else decided

    def _is_certain(self, goal: Goal, state: State) -> bool:
        """Whether the requirement is certainly met or certainly missed."""
        if self.stopping.required is None:
            return False
        least = self.stopping.required * goal.parts
        return state.accepted.low >= least or state.accepted.high < least

    def _finer(self, goal: Goal, state: State) -> float:
        """Returns the next half width to aim at."""
        aim, required = goal.half_width * _SHRINKS, self.stopping.required
        if required is not None:
            distance = abs(state.accepted.guess / goal.parts - required)
            aim = min(aim, _OF_DISTANCE * distance)
        # Below half a step, further intermediate aims gain nothing on the way to 0.
        aim = aim if aim >= 0.5 / goal.parts else self.half_width_asked
        return max(aim, self.half_width_asked)

    def _status(self, now: "_Progress") -> str:
        if now.is_certain:
            return "certain"
        gaps = now.state.partition.gaps if now.state.partition else []
        is_done = not now.wanted
        widest = max((gap.width for gap in gaps), default=0)
        is_resolved = self.half_width_asked == 0 and widest <= 1 and is_done
        half_width = now.state.accepted.half_width / now.goal.parts
        if half_width <= self.half_width_asked or is_resolved:
            return "precise"
        if is_done:
            return "resolution"
        # Only a budget or a second search can end this one from outside.
        if self.stopping.budget:
            return "budget"
        return "compared" if self.stopping.error_asked else "resolution"


class _Progress(NamedTuple):
    """The progress of a search.

    Attributes:
      goal: the goal, with the half width currently aimed at.
      state: the levels seen, and the conclusions.
      wanted: the next requests; empty at the end.
      is_certain: whether the requirement is certainly met or missed, which ends the
        search.
    """

    goal: Goal
    state: State
    wanted: list[Wanted]
    is_certain: bool = False


# Progress by history, while that lives; only the last round's is kept.
_cache: weakref.WeakKeyDictionary[History, dict[tuple[FewImages, Task], _Progress]] = (
    weakref.WeakKeyDictionary()
)


def _no_wider(state: State, before: State) -> State:
    """Keeps the earlier interval if levels decided again leave a wider one."""
    is_wider = state.accepted.half_width > before.accepted.half_width
    return state._replace(accepted=before.accepted) if is_wider else state


def _accepted_by_right(state: State) -> float:
    """Returns the number of steps accepted by the rule "right", of all images."""
    sides = {step: one.side for step, one in state.levels.items() if one.side}
    steps = sorted(sides)
    accepted = [b - a for a, b in zip(steps, steps[1:]) if sides[b] == ACCEPTED]
    return sum(accepted)
