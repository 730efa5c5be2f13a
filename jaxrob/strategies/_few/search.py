"""The search that looks at as few images as its answer takes."""

import dataclasses
import math
import weakref
from types import ModuleType
from typing import NamedTuple

import numpy as np

from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few import banded, decided, fixed_levels
from jaxrob.strategies._few.clusters import closer_apart
from jaxrob.strategies._few.goal import ACCEPTED, OPEN, Goal, Level, Wanted, in_blocks
from jaxrob.strategies._few.population import population_interval
from jaxrob.strategies._few.state import Accepted, State
from jaxrob.strategies._few.stopping import StoppingRule
from jaxrob.strategies._strategy import Found, History, Request, Task
from jaxrob.strategies._uniform import Uniform

# With a budget or a requirement the half width aimed at starts here, and shrinks by
# this factor.
_FIRST_AIM, _SHRINKS = 0.1, 0.7
# A budget aims at no less than this share of what is open, so that a search which it
# ends has bought something.
_BY_WAY_OF = 0.25
# A requirement is met or missed for certain once about this share of the distance is
# the half width.
_OF_DISTANCE = 0.85


@dataclasses.dataclass(frozen=True)
class FewImages:
    """Looks at the levels of a strategy, at each on no more images than it takes.

    All levels see the same images in the same random order. What was seen is looked at
    after each round (`_looked`), and what a look concludes depends on the looks before
    it. So the state is a fold over the history's rounds; it is kept beside the history,
    and computed again where it is not there.

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
        """That one alone."""
        return (self.rule,)

    def ask(self, task: Task, history: History) -> list[Request]:
        """What to look at next; see `Strategy`."""
        now = self._progress(task, history)
        steps = np.array([one.step for one in now.wanted], int)
        levels = task.levels_at(steps / self.last).tolist()
        return [Request(level, one.seen) for level, one in zip(levels, now.wanted)]

    def result(self, task: Task, history: History) -> Found:
        """The best guess, both intervals, and why the search ended; see `Strategy`."""
        now = self._progress(task, history)
        goal, accepted = now.goal, now.state.accepted
        low, high, guess = (float(one) / goal.parts for one in accepted)
        # No farther from either end than the half width.
        half = max(self.half_width_asked, (high - low) / 2)
        guess = max(min(max(guess, high - half), low + half, 1.0), 0.0)
        if (
            self.half_width_asked == 0
            and isinstance(self.levels, ASAP)
            and not now.is_certain
        ):
            guess = min(max(_right(now.state) / goal.parts, low), high)
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
        """Half of what is open, as a share of the range."""
        now = self._progress(task, history)
        return now.state.accepted.half_width / now.goal.parts

    def expected_cost(self, task: Task, history: History, half_width: float) -> float:
        """About how many images more a half width takes; 0 where it is not known."""
        now = self._progress(task, history)
        return banded.expected_cost(now.goal, now.state, half_width)

    def difference(
        self, task: Task, first: History, second: History
    ) -> ConfidenceInterval:
        """Where one robustness less another is, of two searches on the same images."""
        one, other = (self._progress(task, each) for each in (first, second))
        parts = one.goal.parts
        closer = closer_apart(one.goal, one.state, other.state) / parts
        (low, high, _), (other_low, other_high, _) = (
            (float(end) / parts for end in each.state.accepted) for each in (one, other)
        )
        return ConfidenceInterval(low - other_high + closer, high - other_low - closer)

    @property
    def half_width_asked(self) -> float:
        """The half width asked for; that of the levels if none is."""
        if self.stopping.half_width is not None:
            return self.stopping.half_width
        return 0.5 / self.parts

    @property
    def parts(self) -> int:
        """Of which the accepted ones are counted: intervals of the grid, or levels."""
        return self.levels.n if isinstance(self.levels, Uniform) else self.levels.parts

    @property
    def last(self) -> int:
        """The last step of the grid."""
        return self.parts - isinstance(self.levels, Uniform)

    def _progress(self, task: Task, history: History) -> "_Progress":
        """What follows from the history, from what followed from it a round earlier."""
        later = []
        while (now := _kept.get(history, {}).get((self, task))) is None:
            if not len(history.levels):
                now = self._begun(task)
                break
            later.append(history)
            history = history.before or History()
        for one in reversed(later):
            now = self._looked(task, now, one)
            _kept.setdefault(one, {})[self, task] = now
            if one.before is not None:  # What follows, follows from this round.
                _kept.get(one.before, {}).pop((self, task), None)
        return now

    def _begun(self, task: Task) -> "_Progress":
        """Begins: the first levels are wanted."""
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
            max(stopping.error_of_a_look, 1e-300),
            aim,
            stopping.curtail,
        )
        if isinstance(self.levels, Uniform):
            steps, share = range(parts), 1.0
        else:
            first = np.rint(self.levels.first_steps(task)).astype(int)
            steps, share = np.unique(first).tolist(), decided.FIRST
        price = math.log(len(steps) / (share * goal.error))
        levels = {step: Level(np.array([]), OPEN, price) for step in steps}
        state = State(levels, Accepted(0, parts, parts / 2))
        wanted = [Wanted(step, in_blocks(goal, goal.block)) for step in steps]
        return _Progress(goal, state, wanted)

    def _looked(self, task: Task, now: "_Progress", history: History) -> "_Progress":
        """Takes in the last round, and decides what to look at next."""
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
                return _Progress(goal, _no_wider(state, now.state), wanted)
            if goal.half_width <= self.half_width_asked:
                return _Progress(goal, state, wanted)
            goal = goal._replace(half_width=self._finer(goal, state))
            new, before, method = {}, method, self._method(goal)
            if method is not before:
                # Bands decided sides with less evidence than deciding each level takes.
                seen = state.levels.items()
                new = {step: one.scores for step, one in seen if one.seen}
                state = self._begun(task).state
            state = method.look(goal, self.levels, state, new)
        return _Progress(goal, state, [], is_certain=True)

    def _method(self, goal: Goal) -> ModuleType:
        """How levels are chosen, and what is told from their images."""
        if isinstance(self.levels, Uniform):
            return fixed_levels
        return banded if goal.by_bands else decided

    def _is_certain(self, goal: Goal, state: State) -> bool:
        """Whether it is certain that the requirement is met, or missed."""
        if self.stopping.required is None:
            return False
        least = self.stopping.required * goal.parts
        return state.accepted.low >= least or state.accepted.high < least

    def _finer(self, goal: Goal, state: State) -> float:
        """The next half width to aim at, once this one is reached."""
        aim, required = goal.half_width * _SHRINKS, self.stopping.required
        if required is not None:
            distance = abs(state.accepted.guess / goal.parts - required)
            aim = min(aim, _OF_DISTANCE * distance)
        # Below half a step, a smaller one buys nothing on the way to 0.
        aim = aim if aim >= 0.5 / goal.parts else self.half_width_asked
        return max(aim, self.half_width_asked)

    def _status(self, now: "_Progress") -> str:
        if now.is_certain:
            return "certain"
        gaps = now.state.known.gaps if now.state.known else []
        is_done = not now.wanted
        widest = max((gap.width for gap in gaps), default=0)
        is_resolved = self.half_width_asked == 0 and widest <= 1 and is_done
        half_width = now.state.accepted.half_width / now.goal.parts
        if half_width <= self.half_width_asked or is_resolved:
            return "precise"
        # Without a budget or another search beside it, none ends but by itself.
        may_be_ended = self.stopping.budget or self.stopping.error_asked
        return "resolution" if is_done or not may_be_ended else "budget"


class _Progress(NamedTuple):
    """How far a search is.

    Attributes:
      goal: with the half width that is aimed at now.
      state: what was seen and concluded.
      wanted: what to look at next; nothing at the end.
      is_certain: whether the requirement is certainly met or missed, which ends it.
    """

    goal: Goal
    state: State
    wanted: list[Wanted]
    is_certain: bool = False


# By history, as long as it lives, of the last round alone.
_kept: weakref.WeakKeyDictionary[History, dict[tuple[FewImages, Task], _Progress]] = (
    weakref.WeakKeyDictionary()
)


def _no_wider(state: State, before: State) -> State:
    """Keeps the interval before, where levels that are decided anew leave more open."""
    is_wider = state.accepted.half_width > before.accepted.half_width
    return state._replace(accepted=before.accepted) if is_wider else state


def _right(state: State) -> float:
    """How many steps are accepted by the rule "right", as of all images."""
    sides = {step: one.side for step, one in state.levels.items() if one.side}
    steps = sorted(sides)
    accepted = [b - a for a, b in zip(steps, steps[1:]) if sides[b] == ACCEPTED]
    return sum(accepted)
