"""What a strategy is: its task, history, requests, conclusions, and their checks."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_bounds,
    checked_integer,
    checked_number,
    checked_share,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._domain import Level, levels_of
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._counts import checked_confidence_level, typical_inputs

#: Images in a block of some, the same on all devices; parts compute it twice.
BLOCK = 128


class Task(NamedTuple):
    """The question that a strategy answers: where is a measure at least a threshold?

    Attributes:
      lower: the range's lower end; of a domain a tuple of d numbers, one for each
        alteration, as are `upper` and `identity`.
      upper: its upper end.
      threshold: the lowest value accepted.
      identity: the level at which nothing is altered, None if it is not known.
      num_images: how many images there are, None if it is not known.
      bounds: the lowest and the highest score of an image (see `History.scores`).
      block: images are classified in blocks of this many, as `jaxrob.assess` does:
        requests for some of the images are rounded up to whole blocks.
      confidence_level: the coverage of intervals, in (0, 1).
      groups: integers `[N]` in the images' random order, equal where images belong
        together (see `jaxrob.Dataset`), or None.
      seed: where strategies take their random levels from.
    """

    lower: Level
    upper: Level
    threshold: float
    identity: Level | None = None
    num_images: int | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    block: int = BLOCK
    confidence_level: float = 0.95
    groups: np.ndarray | None = None
    seed: int = 0

    @property
    def width(self) -> Any:
        """The length of the range; of a domain `[d]`."""
        return np.subtract(self.upper, self.lower)

    def positions_of(self, levels: np.ndarray) -> np.ndarray:
        """The levels on the range mapped to [0, 1]."""
        return (levels - np.asarray(self.lower)) / self.width

    def levels_at(self, positions: np.ndarray) -> np.ndarray:
        """The levels at positions in [0, 1], exact at both ends and in the middle."""
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        return lower * (1 - positions) + upper * positions


class Request(NamedTuple):
    """A level to evaluate.

    Attributes:
      level: the level; of a domain a tuple of d numbers.
      images: how many images must have been classified there in all, the first ones of
        a random order; None for all images.
    """

    level: Level
    images: int | None = None


def all_images(levels: Sequence[float] | np.ndarray) -> list[Request]:
    """Returns requests for all images at these levels.

    Args:
      levels: `[m]`.

    Raises:
      TypeError: if the levels are not numbers.
      ValueError: if one is not finite.
    """
    found = checked_array("levels", levels, "m", may_be_empty=True)
    return [Request(float(level)) for level in found]


@dataclasses.dataclass(frozen=True, eq=False)
class History:
    """The known part of a curve: its values at some levels.

    Attributes:
      levels: float64 `[n]`, ascending; of a domain `[n, d]`, in lexicographic order.
      values: float64 `[n]`, the measure there; with `scores`, their means.
      num_inputs: `[n]`, the number of inputs that each value is a share of (unknown
        answers make it differ between levels); None for values that are exact.
      effects: integers `[n]`, the same for levels of the same effect, such as levels of
        one JPEG quality: they share one evaluation. None if no two do.
      rounds: the number of rounds that classified images.
      scores: for strategies with `needs_scores`, float64 `[n_i]` for each level: the
        scores of the images classified there, the first `n_i` of the same random order
        at every level. A level is accepted where the mean score of all images is at
        least the task's threshold. None for other strategies.
    """

    levels: np.ndarray = dataclasses.field(default_factory=lambda: np.array([]))
    values: np.ndarray = dataclasses.field(default_factory=lambda: np.array([]))
    num_inputs: np.ndarray | None = None
    effects: np.ndarray | None = None
    rounds: int = 0
    scores: tuple[np.ndarray, ...] | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        axes: dict[str, int] = {}
        for name in ("levels", "values", "num_inputs", "effects"):
            value = getattr(self, name)
            if value is not None or name in ("levels", "values"):
                holding = "integers" if name == "effects" else "numbers"
                shape = "n, d" if name == "levels" and np.ndim(self.levels) > 1 else "n"
                array = checked_array(
                    name, value, shape, holding, may_be_empty=True, axes=axes
                )
                object.__setattr__(self, name, array)
        levels = levels_of(self.levels)
        if any(one >= other for one, other in zip(levels, levels[1:])):
            raise ValueError(f"levels must ascend; got {self.levels}")
        checked_integer("rounds", self.rounds, at_least=0)

    @functools.cached_property
    def distinct(self) -> np.ndarray:
        """Indices `[m]` of one level for each effect, ascending."""
        if self.effects is None:
            return np.arange(len(self.levels))
        _, first = np.unique(self.effects, return_index=True)
        return np.sort(first)

    @functools.cached_property
    def typical_inputs(self) -> int | None:
        """The number of inputs for the whole curve; None if its values are exact.

        The median over levels; levels of the same effect count once.
        """
        if self.num_inputs is None or not len(self.levels):
            return None
        return typical_inputs(self.num_inputs[self.distinct])


class Asked(NamedTuple):
    """What few images were asked for, see `FewImages`; all None if nothing was.

    Attributes:
      half_width: half the width of the wanted interval.
      budget: the largest number of altered images.
      curtail: whether only what the unseen images cannot change decides a level.
      error: the probability that the interval misses.
      required: the required robustness.
    """

    half_width: float | None = None
    budget: int | None = None
    curtail: bool = False
    error: float | None = None
    required: float | None = None


class Found(NamedTuple):
    """The conclusions of a strategy.

    Attributes:
      error_bound: the largest error of the robustness that the levels leave open, in
        [0, 1]; None if the strategy knows no bound, or has `needs_scores`: then
        `interval` bounds the robustness. All other attributes are for such strategies
        only.
      robustness: the robustness; None if the strategy's rule computes it from the
        values at all levels.
      interval: the interval of the robustness on all images of the data set; it
        contains `robustness`.
      status: why the search ended: "precise" if the interval is as narrow as wanted,
        "budget" if the budget is spent, "resolution" if the strategy's levels yield
        nothing more.
      sides: integers `[n]` for each level: 1 accepted, -1 not accepted, 0 open, by all
        images; None if all are open.
      population_interval: the interval of the robustness on all images of the kind
        tested; it contains `interval`. None for bands around the means of the images
        seen.
      asked: what the strategy was asked for and promises. None if it only reports.
    """

    error_bound: float | None = None
    robustness: float | None = None
    interval: ConfidenceInterval = ConfidenceInterval(0.0, 1.0)
    status: str = "resolution"
    sides: np.ndarray | None = None
    population_interval: ConfidenceInterval | None = None
    asked: Asked | None = None


#: Ends of a search by few images; "certain" of a requirement, "compared" of two.
STATUSES = ("precise", "certain", "compared", "budget", "resolution")


class Strategy(Protocol):
    """Decides which levels to look at, and on how many images.

    A strategy is pure functions of a state that the caller keeps, like the solvers of
    optimistix. It knows nothing of classifiers: it can be tested on any function of a
    level, by `jaxrob.strategies.sample`.

    Any object with these five parts is a strategy; there is nothing to inherit. One
    that needs nothing but what is known takes that as its state, as `Uniform` does. See
    "A search of your own".

    A strategy with a sixth part, `needs_scores = True`, may ask for some of the images
    at a level, and receives the score of each.
    """

    @property
    def rule(self) -> str:
        """The rule of integration unless another is asked for, usually the paper's."""
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that suit the levels; `jaxrob.metrics.RULES` if all do."""
        ...

    def init(self, task: Task) -> Any:
        """Returns the state before anything is known."""
        ...

    def ask(
        self, task: Task, state: Any, history: History
    ) -> tuple[Sequence[Request], Any]:
        """Returns the requests to evaluate next, and the next state.

        Args:
          task: the task.
          state: the state that the last call returned, at first that of `init`.
          history: what is known so far; it has no levels at first.

        Returns:
          The requests, empty when the strategy has seen enough, and the state. Levels
          already known, or of the same effect as a known one, cost nothing.
        """
        ...

    def result(self, task: Task, state: Any) -> Found:
        """Returns the conclusions of the last state, in which all answers are known."""
        ...


def needs_scores(strategy: Any) -> bool:
    return getattr(strategy, "needs_scores", False)


def check_strategy(strategy: Any) -> None:
    if isinstance(strategy, type):
        wanted = "an object such as ASAP(), not a class"
        raise wrong_type("strategy", wanted, strategy)
    parts = ("init", "ask", "result", "rule", "rules")
    missing = [part for part in parts if not hasattr(strategy, part)]
    if missing:
        raise TypeError(
            "strategy must be one of jaxrob.strategies, such as ASAP(), or have the "
            f"parts of jaxrob.strategies.Strategy; got {named(strategy)}, and "
            f"{type(strategy).__name__} lacks {', '.join(missing)}"
        )


def checked_task(task: Any) -> Task:
    check_type("task", task, Task, "a jaxrob.strategies.Task")
    rows = [[*np.ravel(one)] for one in task[:2]]
    if np.ndim(task.lower) > 1 or len(rows[0]) != len(rows[1]) or not rows[0]:
        raise ValueError(
            "(task.lower, task.upper) must be numbers, or tuples of as many numbers as "
            f"there are alterations; got {task[:2]}"
        )
    ends = [checked_bounds("(task.lower, task.upper)", pair) for pair in zip(*rows)]
    number, identity = task.num_images, task.identity
    if number is not None:
        number = checked_integer("task.num_images", number, at_least=1)
    if identity is not None:
        identity = tuple(
            checked_number("task.identity", value, at_least=lower, at_most=upper)
            for value, (lower, upper) in zip(np.ravel(identity), ends, strict=True)
        )
    lower, upper = zip(*ends)
    if np.ndim(task.lower) == 0:
        (lower,), (upper,) = lower, upper
        identity = identity and identity[0]
    groups = task.groups
    if groups is not None:
        axes = {} if number is None else {"N": number}
        groups = checked_array(
            "task.groups", groups, "N", "integers", at_least=0, axes=axes
        )
    return task._replace(
        lower=lower,
        upper=upper,
        threshold=checked_share("task.threshold", task.threshold),
        identity=identity,
        num_images=number,
        bounds=checked_bounds("task.bounds", task.bounds),
        block=checked_integer("task.block", task.block, at_least=1),
        confidence_level=checked_confidence_level(task.confidence_level),
        groups=groups,
        seed=checked_integer("task.seed", task.seed, at_least=0),
    )


def checked_asked(task: Any, history: Any) -> Task:
    task = checked_task(task)
    check_type("history", history, History, "jaxrob.strategies.History")
    levels = history.levels
    if not len(levels) or levels[0] < task.lower or levels[-1] > task.upper:
        raise ValueError(
            f"history must have levels, all in the range [{task.lower:g}, "
            f"{task.upper:g}]; got {levels}"
        )
    return task
