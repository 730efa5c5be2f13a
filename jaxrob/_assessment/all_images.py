"""The answers on all images, at the levels that a search asks for."""

import time
from collections.abc import Iterable, Sequence

import numpy as np

from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import diagnose
from jaxrob._assessment.explore import Exploration, subject_of
from jaxrob._curve import AnyCurve, join, select
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob._run.prepare import Run
from jaxrob.strategies import History, Strategy
from jaxrob.strategies._drive import Learn, Seen, Span, Subject, concluded


class AllImages:
    """The answers on all images at every level that was asked for.

    Attributes:
      run: the run.
    """

    def __init__(self, run: Run, criterion: Criterion) -> None:
        """Starts without answers."""
        criterion.check_classes(run.execution.info.num_classes)
        self.run, self._criterion = run, criterion
        # The curve so far and its time, by the alteration's index.
        self._known: dict[int, AnyCurve] = {}
        self._seconds = [0.0] * len(run.alterations)

    def subjects(self, strategy: Strategy) -> list[Subject]:
        """Returns a strategy's subjects: one for each alteration."""
        return [
            subject_of(one, strategy, self._criterion) for one in self.run.alterations
        ]

    def look(self, parts: Sequence[Span], learn: Learn) -> None:
        """Computes answers; the levels of all alterations share one queue."""
        # `learn` gets each span's answers as soon as they are known, see `drive`.
        asked: dict[int, dict[float, Span]] = {}
        for part in parts:
            asked.setdefault(part.subject, {})[part.level] = part
        places = [*asked]

        def add(queued: int, curve: AnyCurve) -> None:
            place = places[queued]
            known = self._known.get(place)
            self._known[place] = curve if known is None else join(known, curve)
            rows = (part.tolist() for part in self._criterion.values(curve))
            for level, value, number in zip(curve.levels.tolist(), *rows):
                if level in asked[place]:
                    learn(asked[place][level], Seen(value, number))

        frontiers = [
            Frontier(self.run.alterations[place], self._levels(place, some))
            for place, some in asked.items()
        ]
        start = time.perf_counter()
        evaluate_queue(self.run.execution, self.run.dataset, frontiers, add)
        seconds = time.perf_counter() - start
        # An alteration's share of the round's time is its share of the levels.
        each = seconds / sum(len(one.levels) for one in frontiers)
        for place, frontier in zip(places, frontiers):
            self._seconds[place] += each * len(frontier.levels)

    def exploration(
        self, place: int, subject: Subject, history: History
    ) -> Exploration:
        """Returns the exploration of the alteration at an index."""
        criterion, task = self._criterion, subject.task
        known = self._known.pop(place)
        row_of = {level: row for row, level in enumerate(known.levels.tolist())}
        canonical = subject.canonical(history.levels).tolist()
        rows = np.array([row_of[level] for level in canonical])
        nominal = None
        if criterion.scoring.needs_nominal:
            at_identity = np.array([row_of[self._identity(place)]])
            one = select(known, at_identity, known.levels[at_identity])
            nominal = float(criterion.values(one)[0][0])
        return Exploration(
            select(known, rows, history.levels),
            history,
            concluded(subject, history).error_bound,
            diagnose(task, history, len(known.levels)),
            nominal,
            self._seconds[place],
        )

    def _levels(self, place: int, asked: Iterable[float]) -> np.ndarray:
        """Returns the levels to evaluate: at first with the identity, if needed."""
        levels = {*asked}
        if self._criterion.scoring.needs_nominal and place not in self._known:
            levels.add(self._identity(place))
        return np.array(sorted(levels))

    def _identity(self, place: int) -> float:
        one = self.run.alterations[place]
        return float(one.canonical(np.array([one.identity]))[0])
