"""A strategy's way through the levels of an alteration, as answers come in."""

import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import Diagnostics, diagnose
from jaxrob._assessment.sampling import Sampling
from jaxrob._curve import Curve, ReducedCurve, join, select
from jaxrob._engine.queue import Frontier
from jaxrob.alterations import Alteration
from jaxrob.strategies import Question, Samples, Strategy
from jaxrob.strategies._strategy import NO_SAMPLES


class Exploration(NamedTuple):
    """What a strategy found out about one alteration.

    Attributes:
      curve: the answers at the levels that the strategy asked for, ascending.
      samples: the measure's values there.
      error_bound: the strategy's, or None.
      diagnostics: how the curve was sampled.
      nominal: the measure's value at the identity, if the scoring needs it.
      seconds: the time that the answers took.
      sampling: what is certain of few images, and what was spent; None of all.
    """

    curve: Curve | ReducedCurve
    samples: Samples
    error_bound: float | None
    diagnostics: Diagnostics
    nominal: float | None
    seconds: float
    sampling: Sampling | None = None


def explore_all(
    alterations: Sequence[Alteration],
    strategy: Strategy,
    criterion: Criterion,
    evaluate: Callable[[Sequence[Frontier]], Sequence[Curve | ReducedCurve]],
) -> list[Exploration]:
    """An exploration of each alteration; all frontiers of a round go in one queue.

    Args:
      alterations: the alterations.
      strategy: decides which levels are evaluated.
      criterion: what the strategy samples for.
      evaluate: gives the answers at the levels of each frontier.

    Raises:
      ValueError: if the strategy proposes nothing at first, or the measure is undefined
        at a level.
    """
    explorations = [_explore(one, strategy, criterion) for one in alterations]
    frontiers = {i: next(steps) for i, steps in enumerate(explorations)}
    results = {}
    while frontiers:
        start = time.perf_counter()
        curves = evaluate(
            [Frontier(alterations[i], levels) for i, levels in frontiers.items()]
        )
        seconds = time.perf_counter() - start
        # An alteration's share of the round's time is its share of the levels.
        each = seconds / sum(map(len, frontiers.values()))
        following = {}
        for (i, levels), curve in zip(frontiers.items(), curves):
            try:
                following[i] = explorations[i].send((curve, each * len(levels)))
            except StopIteration as done:
                results[i] = done.value
        frontiers = following
    return [results[i] for i in range(len(alterations))]


# Yields the levels to evaluate, and is sent their curve and its seconds.
_Steps = Generator[np.ndarray, tuple[Curve | ReducedCurve, float], Exploration]


def _explore(
    alteration: Alteration, strategy: Strategy, criterion: Criterion
) -> _Steps:
    """Asks the strategy until it has seen enough.

    No level is evaluated twice, and of levels of the same effect one is. Where the
    scoring needs the value at the identity, that is evaluated with the first levels.
    """
    question = Question(
        alteration.lower, alteration.upper, criterion.threshold, alteration.identity
    )
    identity = float(alteration.canonical(np.array([alteration.identity]))[0])
    beside = [identity] if criterion.scoring.needs_nominal else []
    samples, seconds = NO_SAMPLES, 0.0
    levels, rows = np.array([]), np.array([], int)
    known = None  # the curve of all canonical levels, in the order evaluated
    row_of: dict[float, int] = {}  # from a canonical level to its row in it
    while True:
        asked = np.asarray(strategy.propose(question, samples), np.float64)
        asked = np.setdiff1d(alteration.snap(asked), levels)
        if not len(asked):
            break
        canonical = alteration.canonical(asked)
        wanted = np.unique(np.append(canonical, beside))
        new = np.array([level for level in wanted if level not in row_of])
        if len(new):
            row_of |= {level: len(row_of) + i for i, level in enumerate(new)}
            curve, taken = yield new
            known = curve if known is None else join(known, curve)
            seconds += taken
        assert known is not None  # the first levels are all new
        levels = np.append(levels, asked)
        rows = np.append(rows, [row_of[level] for level in canonical])
        order = np.argsort(levels)
        levels, rows = levels[order], rows[order]
        values, num_inputs = (part[rows] for part in criterion.values(known))
        _check_defined(alteration, levels, values)
        rounds = samples.rounds + bool(len(new))
        samples = Samples(levels, values, num_inputs, effects=rows, rounds=rounds)
    if known is None:
        raise ValueError("the strategy proposed no level to begin with")
    nominal = None
    if criterion.scoring.needs_nominal:
        nominal = float(criterion.values(known)[0][row_of[identity]])
    return Exploration(
        select(known, rows, levels),
        samples,
        strategy.error_bound(question, samples),
        diagnose(question, samples, len(row_of)),
        nominal,
        seconds,
    )


def _check_defined(
    alteration: Alteration, levels: np.ndarray, values: np.ndarray
) -> None:
    undefined = np.isnan(values)
    if undefined.any():
        raise ValueError(
            f"{alteration.name}: the measure is undefined at level "
            f"{levels[undefined][0]:g}, where no input that it counts is decided (or "
            "none is of its class)"
        )
