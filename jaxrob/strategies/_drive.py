"""The driver: asks strategies for levels, has them evaluated, and keeps histories."""

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_array,
    checked_integer,
    checked_share,
)
from jaxrob._arguments.computing import computing
from jaxrob._files.strict_json import short
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._few.search import FewImages
from jaxrob.strategies._strategy import (
    STATUSES,
    Found,
    History,
    Request,
    Strategy,
    Task,
    needs_scores,
)

# Half widths to plan a budget for, finest first, and the share of the budget to plan.
_AIMS = np.geomspace(5e-4, 0.2, 60)
_SPENT = 0.8


class Subject(NamedTuple):
    """A curve, and the strategy that explores it.

    Attributes:
      name: its name in messages.
      strategy: the strategy.
      task: the task.
      snap: corrects levels that miss a special level by rounding.
      canonical: maps each level to the representative of all levels with the same
        effect.
    """

    name: str
    strategy: Strategy
    task: Task
    snap: Callable[[np.ndarray], np.ndarray]
    canonical: Callable[[np.ndarray], np.ndarray]


class Span(NamedTuple):
    """Images to be classified at a level.

    Attributes:
      subject: the index of the subject.
      level: the level, canonical.
      start: the index of the first image in the random order.
      stop: the index after the last image. For strategies without `needs_scores` a span
        means all images, and neither index counts.
    """

    subject: int
    level: float
    start: int
    stop: int


class Seen(NamedTuple):
    """The answers at a canonical level.

    Attributes:
      value: the measure there.
      num_inputs: the number of inputs that it is a share of; None if it is exact.
      scores: `[n]`, of the images seen, for strategies with `needs_scores`.
    """

    value: float
    num_inputs: int | None
    scores: np.ndarray | None = None


# Takes a span of the round, and what is known at its level.
Learn = Callable[[Span, Seen], None]


def drive(
    subjects: Sequence[Subject],
    look: Callable[[Sequence[Span], Learn], None],
    *,
    budget: int | None = None,
    enough: Callable[[Sequence[History]], bool] | None = None,
) -> list[History]:
    """Runs all strategies until none asks for more, and returns their histories."""
    # The requests of all strategies in a round are evaluated together. No level is
    # evaluated twice, and levels of the same effect are evaluated once. A strategy is
    # asked as soon as its answers are there, while devices compute those of others.
    known = [_Exploring(subject, i) for i, subject in enumerate(subjects)]
    awaited, left = collections.Counter[int](), budget

    def learn(part: Span, seen: Seen) -> None:
        one = known[part.subject]
        one.seen[part.level] = seen
        awaited[part.subject] -= 1
        if not awaited[part.subject]:
            one.remember(classified=True)
            if budget is None and enough is None:
                one.plan()

    while enough is None or not enough([one.history for one in known]):
        if left is not None:
            _aim(known, left)
        parts = [part for one in known for part in one.parts()]
        if left is not None:
            parts = _affordable(known, parts, left)
            left -= sum(map(_length, parts))
        if not parts:
            break
        awaited.update(part.subject for part in parts)
        look(parts, learn)
    return [one.history for one in known]


def at_once(
    look: Callable[[Sequence[Span]], Sequence[Seen]],
) -> Callable[[Sequence[Span], Learn], None]:
    """Makes a `look` of `drive` from a function that returns all a round's answers."""

    def look_and_learn(parts: Sequence[Span], learn: Learn) -> None:
        for part, seen in zip(parts, look(parts)):
            learn(part, seen)

    return look_and_learn


@computing()
def concluded(subject: Subject, history: History) -> Found:
    """Returns the checked conclusions of a subject's strategy."""
    found = subject.strategy.result(subject.task, history)
    name = f"{subject.strategy!r}.result"
    check_type(name, found, Found, "a jaxrob.strategies.Found")
    bound, robustness = (
        None if one is None else checked_share(f"{name}: {part}", one)
        for part, one in zip(found._fields, found[:2])
    )
    interval = _checked_interval(f"{name}: interval", found.interval, robustness)
    population = found.population_interval
    if population is not None:
        part = f"{name}: population_interval"
        population = _checked_interval(part, population, *interval)
    # Only the search by few images knows of a requirement or a comparison.
    allowed = STATUSES
    if not isinstance(subject.strategy, FewImages):
        allowed = tuple(one for one in STATUSES if one not in ("certain", "compared"))
    check_choice(f"{name}: status", found.status, allowed)
    if found.sides is not None:
        sides = checked_array(f"{name}: sides", found.sides, "n", "integers")
        if len(sides) != len(history.levels) or not np.isin(sides, (-1, 0, 1)).all():
            raise ValueError(
                f"{name}: sides must be 1, 0 or -1 for each of {len(history.levels)} "
                f"levels; got {short(sides.tolist())}"
            )
    return Found(bound, robustness, interval, found.status, found.sides, population)


def _checked_interval(
    name: str, value: Any, *inside: float | None
) -> ConfidenceInterval:
    """Returns an interval in [0, 1] after checking that it contains these numbers."""
    check_type(name, value, ConfidenceInterval, "a jaxrob.metrics.ConfidenceInterval")
    start, end = (checked_share(name, one) for one in value)
    if start > end:
        raise ValueError(f"{name} must ascend; got {start:g} to {end:g}")
    for one in inside:
        if one is not None and not start <= one <= end:
            raise ValueError(f"{name} must hold {one:g}; got {start:g} to {end:g}")
    return ConfidenceInterval(start, end)


class _Exploring:
    """The exploration of a subject; it grows as the strategy asks.

    Attributes:
      subject: the subject.
      history: what its strategy knows.
      seen: the answers by canonical level, in order of arrival.
      aim: the half width that a budget is planned for, or None.
    """

    def __init__(self, subject: Subject, place: int) -> None:
        """Starts with an empty history."""
        self.subject, self._place = subject, place
        self.history = History()
        self.seen: dict[float, Seen] = {}
        self.aim: float | None = None
        # The canonical level of each level asked for.
        self._canonical: dict[float, float] = {}
        self._planned: list[Span] | None = None

    def plan(self) -> None:
        """Finds the spans to evaluate next, for the next call of `parts`."""
        self._planned = self.parts()

    def parts(self) -> list[Span]:
        """Returns the spans to evaluate next, by canonical level; empty at the end."""
        # A round that asks only for levels with a known effect needs no images.
        if self._planned is not None:
            planned = self._planned
            if planned:  # Otherwise it has ended.
                self._planned = None
            return planned
        while asked := self._asked():
            canonical = self.subject.canonical(np.array([*asked])).tolist()
            self._canonical |= dict(zip(asked, canonical))
            wanted: dict[float, int] = {}
            for level, number in zip(canonical, asked.values()):
                wanted[level] = max(wanted.get(level, 0), number)
            found = [
                Span(self._place, level, start, number)
                for level, number in sorted(wanted.items())
                if (start := _number(self.seen.get(level))) < number
            ]
            if found:
                return found
            self.remember(classified=False)
        if not len(self.history.levels):
            raise ValueError("the strategy asked for no level to begin with")
        return []

    def remember(self, classified: bool) -> None:
        """Adds the answers of this round to the history."""
        place = {level: i for i, level in enumerate(self.seen)}
        levels = sorted(one for one, of in self._canonical.items() if of in place)
        effects = [place[self._canonical[level]] for level in levels]
        everything = [*self.seen.values()]
        rows = [everything[effect] for effect in effects]
        _check_defined(self.subject.name, levels, rows)
        is_exact = any(one.num_inputs is None for one in rows)
        scores = tuple(one.scores for one in rows if one.scores is not None)
        self.history = History(
            np.array(levels),
            np.array([one.value for one in rows]),
            None if is_exact else np.array([one.num_inputs for one in rows]),
            np.array(effects) if len({*effects}) < len(effects) else None,
            self.history.rounds + classified,
            scores or None,
            self.history if needs_scores(self.subject.strategy) else None,
            self.aim,
        )
        self.aim = None

    @property
    def requests(self) -> Sequence[Request]:
        """The checked requests of the strategy."""
        strategy = self.subject.strategy
        requests = strategy.ask(self.subject.task, self.history)
        name = f"{strategy!r}.ask"
        check_type(name, requests, Sequence, "a list of jaxrob.strategies.Request")
        for one in requests:
            wanted = "of jaxrob.strategies.Request, as all_images(levels) makes them"
            check_type(name, one, Request, wanted)
            if one.images is None:
                continue
            checked_integer(f"{name}: images", one.images, at_least=1)
            if not needs_scores(strategy):
                raise ValueError(
                    f"{name}: images must be None, all images, for a strategy without "
                    f"needs_scores = True; got {one.images}"
                )
        return requests

    def few_images(self) -> FewImages:
        """Returns the strategy, which a budget requires to be `FewImages`."""
        return cast(FewImages, self.subject.strategy)

    def _asked(self) -> dict[float, int]:
        """Returns the number of images asked for, by level, where fewer are known."""
        requests, history = self.requests, self.history
        levels = self.subject.snap(np.array([one.level for one in requests], float))
        known = dict.fromkeys(history.levels, 1)
        if history.scores is not None:
            known = dict(zip(history.levels, map(len, history.scores)))
        asked: dict[float, int] = {}
        for level, one in zip(levels.tolist(), requests):
            number = self._images(one)
            if number > known.get(level, 0):
                asked[level] = max(asked.get(level, 0), number)
        return asked

    def _images(self, request: Request) -> int:
        """Returns the number of images of a request, in whole blocks; see `_number`."""
        if not needs_scores(self.subject.strategy):
            return 1
        block, total = self.subject.task.block, self.subject.task.num_images
        assert total is not None
        wanted = total if request.images is None else request.images
        return min(math.ceil(wanted / block) * block, total)


@computing()
def _check_defined(name: str, levels: Sequence[float], rows: Sequence[Seen]) -> None:
    for level, one in zip(levels, rows):
        if math.isnan(one.value):
            raise ValueError(
                f"{name}: the measure is undefined at level {level:g}, where no input "
                "that it counts is decided (or none is of its class)"
            )


def _number(seen: Seen | None) -> int:
    """Returns the number of images known; 1 stands for all images."""
    if seen is None:
        return 0
    return 1 if seen.scores is None else len(seen.scores)


def _length(part: Span) -> int:
    return part.stop - part.start


def _aim(known: Sequence[_Exploring], left: int) -> None:
    """Aims all searches at the half width that the remaining budget can pay for."""
    going = [one for one in known if one.requests]
    for aim in _AIMS:
        costs = (
            one.few_images().expected_cost(one.subject.task, one.history, aim)
            for one in going
        )
        if sum(costs) <= _SPENT * left:
            for one in going:
                one.aim = float(aim)
            return


def _affordable(
    known: Sequence[_Exploring], parts: Sequence[Span], left: int
) -> list[Span]:
    """Returns the spans that the budget allows, those of the widest intervals first."""
    widths = [
        one.few_images().half_width(one.subject.task, one.history) for one in known
    ]
    at_first = not any(one.history.rounds for one in known)
    if at_first and sum(map(_length, parts)) > left:
        block = known[0].subject.task.block
        raise ValueError(
            f"budget must be at least {sum(map(_length, parts))}, for {block} images "
            f"at each of the first levels; got {left}"
        )
    allowed = []
    for part in sorted(parts, key=lambda one: -widths[one.subject]):
        length, block = _length(part), known[part.subject].subject.task.block
        if length > left:
            # Only whole blocks: a part of a block would be computed twice.
            length = left // block * block
        if length:
            allowed.append(part._replace(stop=part.start + length))
            left -= length
    return allowed
