"""The driver: asks a strategy for levels, on a classifier or a function of a level."""

import collections
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_array,
    checked_integer,
    checked_share,
)
from jaxrob._arguments.messages import wrong_type
from jaxrob._arguments.texts import computing
from jaxrob._domain import Level, level_text, levels_of
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._strategy import (
    STATUSES,
    Found,
    History,
    Request,
    Strategy,
    Task,
    check_strategy,
    checked_task,
    needs_scores,
)

_ALWAYS = ("precise", "budget", "resolution")


class Subject(NamedTuple):
    name: str  # in messages
    task: Task
    # Corrects levels that miss a special level by rounding.
    snap: Callable[[np.ndarray], np.ndarray]
    # Maps each level to the representative of all levels with the same effect.
    canonical: Callable[[np.ndarray], np.ndarray]
    # In place of the strategy, where only some levels exist
    listed: Strategy | None = None


class Span(NamedTuple):
    """Images to classify at a level: from `start` to `stop` in the random order."""

    # The driver takes its index for it. Without `needs_scores` all images are meant.
    alteration: Any
    level: Any  # canonical; a tuple for a domain's alterations
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


class Seen(NamedTuple):
    value: float
    num_inputs: int | None  # None if the value is exact
    scores: np.ndarray | None = None  # [n], of the images seen, if it `needs_scores`


class Explored(NamedTuple):
    history: History
    state: Any


# Takes a span of the round, and what is known at its level.
Learn = Callable[[Span, Seen], None]


@runtime_checkable
class Joint(Protocol):
    """A strategy whose searches share what they may look at."""

    def planned(self, states: Sequence[Any], spent: int) -> Any:
        """Returns the states before a round; `spent` images were classified."""
        ...

    def allowed(
        self, states: Sequence[Any], spans: Sequence[Span], spent: int
    ) -> Sequence[Span]:
        """Returns the spans, or parts of them, that may be looked at in the round."""
        ...


def drive(
    strategy: Strategy,
    subjects: Sequence[Subject],
    look: Callable[[Sequence[Span], Learn], None],
    enough: Callable[[Sequence[Any]], bool] = lambda states: False,
) -> list[Explored]:
    # All subjects' requests of a round go together, each effect once. A subject asks on
    # as soon as its answers are there, while devices compute others'.
    known = [_Exploring(strategy, subject, i) for i, subject in enumerate(subjects)]
    joint = strategy if isinstance(strategy, Joint) else None
    awaited, spent = collections.Counter[int](), 0

    def learn(part: Span, seen: Seen) -> None:
        one = known[part.alteration]
        one.seen[part.level] = seen
        awaited[part.alteration] -= 1
        if not awaited[part.alteration]:
            one.remember(classified=True)
            if joint is None:
                one.settle()

    def states() -> list[Any]:
        return [one.state for one in known]

    while not enough(states()):
        if joint is not None:
            for one, state in zip(known, joint.planned(states(), spent)):
                one.state = state
        spans = [span for one in known for span in one.settle()]
        if joint is not None:
            spans = joint.allowed(states(), spans, spent)
        if not spans:
            break
        spent += sum(span.length for span in spans)
        awaited.update(span.alteration for span in spans)
        look(spans, learn)
    return [Explored(one.history, one.state) for one in known]


def at_once(
    look: Callable[[Sequence[Span]], Iterable[Seen]],
) -> Callable[[Sequence[Span], Learn], None]:
    def look_and_learn(parts: Sequence[Span], learn: Learn) -> None:
        for part, seen in zip(parts, look(parts)):
            learn(part, seen)

    return look_and_learn


@computing()
def concluded(strategy: Strategy, subject: Subject, explored: Explored) -> Found:
    found = strategy.result(subject.task, explored.state)
    name = f"{strategy!r}.result"
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
    # Who was asked for nothing ends for neither a requirement nor a comparison.
    allowed = _ALWAYS if found.asked is None else STATUSES
    check_choice(f"{name}: status", found.status, allowed)
    if found.sides is not None:
        axes = {"n": len(explored.history.levels)}
        part = f"{name}: sides"
        checked_array(
            part, found.sides, "n", "integers", at_least=-1, at_most=1, axes=axes
        )
    return found._replace(
        error_bound=bound,
        robustness=robustness,
        interval=interval,
        population_interval=population,
    )


def _checked_interval(
    name: str, value: Any, *inside: float | None
) -> ConfidenceInterval:
    check_type(name, value, ConfidenceInterval, "a jaxrob.metrics.ConfidenceInterval")
    start, end = (checked_share(name, one) for one in value)
    if start > end:
        raise ValueError(f"{name} must ascend; got {start:g} to {end:g}")
    for one in inside:
        if one is not None and not start <= one <= end:
            raise ValueError(f"{name} must hold {one:g}; got {start:g} to {end:g}")
    return ConfidenceInterval(start, end)


class _Exploring:
    def __init__(self, strategy: Strategy, subject: Subject, place: int) -> None:
        strategy = subject.listed or strategy
        self._strategy, self._subject, self._place = strategy, subject, place
        self.history, self.state = History(), strategy.init(subject.task)
        self.seen: dict[Level, Seen] = {}  # by canonical level, in order of arrival
        self._canonical: dict[Level, Level] = {}
        self._ask()

    def settle(self) -> list[Span]:
        # A round that asks only for levels with a known effect needs no images.
        while self._has_news:
            spans = [
                Span(self._place, level, start, number)
                for level, number in sorted(self._wanted.items())
                if (start := _number(self.seen.get(level))) < number
            ]
            if spans:
                return spans
            self.remember(classified=False)
        if not len(self.history.levels):
            raise ValueError("the strategy asked for no level to begin with")
        return []

    def remember(self, classified: bool) -> None:
        place = {level: i for i, level in enumerate(self.seen)}
        levels = sorted(one for one, of in self._canonical.items() if of in place)
        rows = [self.seen[self._canonical[level]] for level in levels]
        effects = [place[self._canonical[level]] for level in levels]
        _check_defined(self._subject.name, levels, rows)
        is_exact = any(one.num_inputs is None for one in rows)
        scores = tuple(one.scores for one in rows if one.scores is not None)
        self.history = History(
            np.array(levels),
            np.array([one.value for one in rows]),
            None if is_exact else np.array([one.num_inputs for one in rows]),
            np.array(effects) if len({*effects}) < len(effects) else None,
            self.history.rounds + classified,
            scores or None,
        )
        self._ask()

    def _ask(self) -> None:
        strategy, name = self._strategy, f"{self._strategy!r}.ask"
        answer = strategy.ask(self._subject.task, self.state, self.history)
        if not isinstance(answer, tuple) or len(answer) != 2:
            wanted = "a tuple of a list of requests and the next state"
            raise wrong_type(name, wanted, answer)
        requests, self.state = answer
        check_type(name, requests, Sequence, "a list of jaxrob.strategies.Request")
        numbers = [self._images(name, one) for one in requests]
        levels = np.array([one.level for one in requests], float)
        levels = levels.reshape(-1, *np.shape(self._subject.task.lower))
        levels = self._subject.snap(levels)
        canonical = levels_of(self._subject.canonical(levels))
        self._wanted: dict[Level, int] = {}  # images by canonical level
        self._has_news = False
        for level, effect, number in zip(levels_of(levels), canonical, numbers):
            known = level in self._canonical and _number(self.seen.get(effect))
            self._has_news |= number > known
            self._canonical[level] = effect
            self._wanted[effect] = max(self._wanted.get(effect, 0), number)

    def _images(self, name: str, request: Request) -> int:
        wanted = "of jaxrob.strategies.Request, as all_images(levels) makes them"
        check_type(name, request, Request, wanted)
        images = request.images
        if images is not None:
            checked_integer(f"{name}: images", images, at_least=1)
        if not needs_scores(self._strategy):
            if images is not None:
                raise ValueError(
                    f"{name}: images must be None, all images, for a strategy without "
                    f"needs_scores = True; got {images}"
                )
            return 1
        block, total = self._subject.task.block, self._subject.task.num_images
        assert total is not None
        blocks = math.ceil((total if images is None else images) / block)
        return min(blocks * block, total)


@computing()
def _check_defined(name: str, levels: Sequence[Level], rows: Sequence[Seen]) -> None:
    for level, one in zip(levels, rows):
        if math.isnan(one.value):
            raise ValueError(
                f"{name}: the measure is undefined at level {level_text(level)}, where "
                "no input that it counts is decided (or none is of its class)"
            )


def _number(seen: Seen | None) -> int:
    """Returns the number of images known; 1 stands for all images."""
    if seen is None:
        return 0
    return 1 if seen.scores is None else len(seen.scores)


def sample(
    strategy: Strategy,
    task: Task,
    function: Callable[[np.ndarray], np.ndarray],
    num_inputs: int | None = None,
) -> tuple[History, Found]:
    """Evaluates a function at the levels that a strategy asks for.

    Use it to try a strategy out, or for curves computed elsewhere. Example::

        task = strategies.Task(lower=0.0, upper=1.0, threshold=0.8)
        seen, found = strategies.sample(strategies.ASAP(), task, lambda x: 1 - x / 2)
        metrics.heaviside_robustness(seen.levels, seen.values, 0.8, "linear")  # 0.4

    With the scores of images it tells what a half width of `FewImages` costs on a curve
    like yours, before any image is classified.

    Args:
      strategy: the strategy.
      task: the range and the threshold. For a strategy with `needs_scores` also
        `num_images`, N.
      function: maps levels `[m]`, of a domain `[m, d]`, to values `[m]`; for a strategy
        with `needs_scores` to the scores `[m, N]` of the images, in a random order. It
        is called again for a level if more of its images are wanted.
      num_inputs: the number of inputs that each value is a share of; None for exact
        values, and for a strategy with `needs_scores`.

    Returns:
      All levels asked for, with their values, and what follows from them.

    Raises:
      TypeError: if the strategy lacks a part.
      ValueError: if the range is empty or not finite, the threshold outside [0, 1],
        num_inputs below 1, the function gives another number of values or one that
        is not finite, or a budget is too small for the first levels.
    """
    check_strategy(strategy)
    task = checked_task(task)
    wanted = "a function from levels [m] to values [m], or to scores [m, N]"
    check_type("function", function, Callable, wanted)
    if num_inputs is not None:
        num_inputs = checked_integer("num_inputs", num_inputs, at_least=1)
    shape, axes = "m", {}
    if needs_scores(strategy):
        if num_inputs is not None:
            raise ValueError(
                "num_inputs must be None for a strategy with needs_scores, which looks "
                f"at task.num_images; got {num_inputs}"
            )
        number = checked_integer("task.num_images", task.num_images, at_least=1)
        task = task._replace(block=min(task.block, number))
        shape, axes = "m, N", {"N": number}

    def look(parts: Sequence[Span]) -> list[Seen]:
        values = checked_array(
            "function(levels)",
            function(np.array([part.level for part in parts])),
            shape,
            "numbers or booleans",
            axes=axes | {"m": len(parts)},
        ).astype(np.float64)
        if not axes:
            return [Seen(value, num_inputs) for value in values.tolist()]
        scores = [some[: part.stop] for some, part in zip(values, parts)]
        return [Seen(float(some.mean()), len(some), some) for some in scores]

    subject = Subject("sample", task, np.asarray, np.asarray)
    (explored,) = drive(strategy, [subject], at_once(look))
    return explored.history, concluded(strategy, subject, explored)
