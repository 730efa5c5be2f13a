"""The answers on some images in random order, as many as a search asks for."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import diagnose_few
from jaxrob._assessment.explore import Exploration, subject_of
from jaxrob._assessment.per_image import per_image
from jaxrob._assessment.sampling import Sampling
from jaxrob._curve import AnyCurve, ReducedCurve
from jaxrob._engine.answers import INVALID
from jaxrob._engine.parts import Part, answer_parts, random_order
from jaxrob._engine.picked import counted
from jaxrob._engine.scores import Scored
from jaxrob._run.prepare import Run
from jaxrob.alterations import Alteration
from jaxrob.metrics import ConfidenceInterval, Counts
from jaxrob.metrics._counts import MOST_RANKS, count, stacked
from jaxrob.metrics._quality import top_k
from jaxrob.strategies import Found, History, Strategy
from jaxrob.strategies._drive import Seen, Span, Subject, concluded
from jaxrob.strategies._few.population import population_of
from jaxrob.strategies._few.search import FewImages
from jaxrob.strategies._few.stopping import StoppingRule
from jaxrob.strategies._strategy import BLOCK
from jaxrob.uncertainty import unknown_threshold


class SomeImages:
    """The answers on the images that were asked for, at every level.

    The images come in one random order, the same for all levels and alterations.

    Attributes:
      run: the run.
    """

    def __init__(self, run: Run, criterion: Criterion) -> None:
        """Starts without answers."""
        criterion.check_classes(run.execution.info.num_classes)
        self.run, self._criterion = run, criterion
        self._num_classes = run.execution.info.num_classes
        self._data = counted(run.dataset)
        labels = np.asarray(self._data.labels)
        self._measure = per_image(criterion, labels, self._num_classes)
        images = self._measure.counted
        self._order = images[random_order(run.key, len(images))]
        self._labels = labels[self._order]
        self._rows: list[dict[float, _Row]] = [{} for _ in run.alterations]
        self._seconds = [0.0] * len(run.alterations)

    def subjects(self, strategy: Strategy) -> list[Subject]:
        """Returns a strategy's subjects: one for each alteration."""
        return [self._subject(one, strategy) for one in self.run.alterations]

    def look(self, parts: Sequence[Span]) -> list[Seen]:
        """Computes answers; levels and alterations share blocks of images."""
        if not parts:
            return []
        run, start = self.run, time.perf_counter()
        wanted = [
            Part(run.alterations[one.subject], one.level, one.start, one.stop)
            for one in parts
        ]
        found = answer_parts(run.execution, self._data, wanted, self._order)
        seconds = time.perf_counter() - start
        total = sum(one.stop - one.start for one in wanted)
        for part, one in zip(parts, wanted):
            # An alteration's share of the time is its share of the images.
            self._seconds[part.subject] += seconds * (one.stop - one.start) / total
        return [self._kept(part, answers) for part, answers in zip(parts, found)]

    def exploration(
        self, place: int, subject: Subject, history: History
    ) -> Exploration:
        """Returns the exploration of the alteration at an index."""
        criterion, rows = self._criterion, self._rows[place]
        levels = history.levels
        seen = [rows[level] for level in subject.canonical(levels).tolist()]
        curve = self._curve(levels, seen)
        values, _ = criterion.values(curve)
        shown = History(levels, values, rounds=history.rounds)
        task = subject.task._replace(threshold=criterion.threshold)
        found = concluded(subject, history)
        if found.robustness is None:
            robustness = metrics.heaviside_robustness(
                levels, values, task.threshold, subject.strategy.rule
            )
            low, high = found.interval
            found = found._replace(robustness=min(max(robustness, low), high))
        return Exploration(
            curve,
            shown,
            found.error_bound,
            diagnose_few(task, shown, len(rows)),
            None,
            self._seconds[place],
            self._sampling(place, subject, history, found),
        )

    def _subject(self, alteration: Alteration, strategy: Strategy) -> Subject:
        """Returns the subject of an alteration, with its task in scores of images."""
        measure, number = self._measure, len(self._order)
        subject = subject_of(alteration, strategy, self._criterion)
        task = subject.task._replace(
            threshold=measure.least,
            num_images=number,
            bounds=measure.bounds,
            block=min(BLOCK, number),
            confidence_level=self._criterion.confidence_level,
        )
        return subject._replace(task=task)

    def _sampling(
        self, place: int, subject: Subject, history: History, found: Found
    ) -> Sampling:
        """Returns a search's conclusions; a user's own strategy has no stop rule."""
        strategy, task, scores = subject.strategy, subject.task, history.scores
        assert scores and found.robustness is not None and task.num_images
        stopping, error = StoppingRule(None), None
        if isinstance(strategy, FewImages):
            stopping, error = strategy.stopping, strategy.stopping.error
        population = found.population_interval
        if population is None:
            start, end = population_of(task, history, self._criterion.confidence_level)
            low, high = found.interval
            population = ConfidenceInterval(min(start, low), max(end, high))
        return Sampling(
            stopping.half_width,
            stopping.budget,
            stopping.curtail,
            error,
            found.status,
            task.num_images,
            sum(one.number for one in self._rows[place].values()),
            np.array([len(some) for some in scores]),
            np.zeros(len(scores), int) if found.sides is None else found.sides,
            found.robustness,
            found.interval,
            population,
            stopping.required,
        )

    def _kept(self, part: Span, answers: Any) -> Seen:
        """Stores new answers of a level, and returns all scores there."""
        rows, total = self._rows[part.subject], len(self._order)
        if part.level not in rows:
            room = self.run.execution.kind.empty((total,))
            rows[part.level] = _Row(room, np.empty(total), 0)
        row = rows[part.level]
        where = slice(part.start, part.stop)
        for whole, some in zip(row.answers, answers):
            whole[where] = some
        row.scores[where] = self._measure.score(answers, self._labels[where])
        rows[part.level] = row._replace(number=part.stop)
        scores = row.scores[: part.stop]
        return Seen(float(scores.mean()), part.stop, scores)

    def _curve(self, levels: np.ndarray, seen: Sequence["_Row"]) -> AnyCurve:
        """Returns the answers seen, as counts, or each image's score."""
        kind = self.run.execution.kind
        if kind.num_classes is not None:
            counts = stacked([self._counts(one) for one in seen])
            return ReducedCurve(levels, counts, self._criterion.alpha)
        scores = np.full((len(levels), len(self._order)), np.nan)
        for row, one in zip(scores, seen):
            row[self._order[: one.number]] = one.scores[: one.number]
        return kind.curve(levels, Scored(scores), self._labels)

    def _counts(self, row: "_Row") -> Counts:
        """Returns the counts of answers by label, `[1, K]`."""
        part = slice(row.number)
        given = row.answers.predicted[part].astype(int)
        if self._criterion.alpha is not None:
            limit = unknown_threshold(self._criterion.alpha)
            unknown = row.answers.uncertainty[part] > limit
            given = np.where(unknown, self._num_classes, given)
        measure, has_ranks = self._criterion.measure, row.answers.rank[:1] != INVALID
        rank = row.answers.rank[None, part] if has_ranks.all() else None
        most = max(top_k(measure) or 0, MOST_RANKS)
        about = given[None], self._labels[part], self._num_classes
        return count(*about, rank, most)


class _Row(NamedTuple):
    """The answers at a level.

    Attributes:
      answers: `[N]` in the random order, with room for all images.
      scores: float64 `[N]`, in the same order.
      number: the number of images classified.
    """

    answers: Any
    scores: np.ndarray
    number: int
