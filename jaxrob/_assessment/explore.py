"""Alterations explored: a strategy's levels, answered on all or some images."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob import metrics
from jaxrob._arguments.texts import collected, warn
from jaxrob._assessment.assessment import Sampling
from jaxrob._assessment.criterion import Criterion, per_image, ratio_per_image
from jaxrob._assessment.diagnostics import Diagnostics, diagnose, diagnose_few
from jaxrob._curve import AnyCurve, ReducedCurve, join, select
from jaxrob._devices.blocks import joined
from jaxrob._domain import levels_of, members
from jaxrob._engine.answers import INVALID
from jaxrob._engine.blocks import counted
from jaxrob._engine.evaluate import Arguments, Run
from jaxrob._engine.queue import answer_parts, evaluate_queue, everywhere, random_order
from jaxrob._engine.scores import Scored
from jaxrob.alterations import Alteration
from jaxrob.alterations._recorded import Recorded
from jaxrob.metrics import ConfidenceInterval, Counts
from jaxrob.metrics._counts import MOST_CONFUSED, MOST_RANKS, Groups, Worth, count
from jaxrob.metrics._groups import worth_of
from jaxrob.metrics._measures import any_measure, in_words, top_k
from jaxrob.strategies import Asked, Found, History, Strategy, Task
from jaxrob.strategies._drive import (
    Explored,
    Learn,
    Seen,
    Span,
    Subject,
    concluded,
    drive,
)
from jaxrob.strategies._few.estimates import population_of
from jaxrob.strategies._levels import Including, Uniform
from jaxrob.strategies._strategy import BLOCK, needs_scores
from jaxrob.uncertainty import unknown_threshold


class Exploration(NamedTuple):
    curve: AnyCurve  # the answers at the strategy's levels, ascending
    history: History  # the measure's values there
    error_bound: float | None  # the strategy's
    diagnostics: Diagnostics
    nominal: float | None  # the measure at the identity, if the scoring needs it
    seconds: float  # that computing the answers took
    sampling: Sampling | None = None  # of few images


def check_goes_with(
    arguments: Arguments, criterion: Criterion, strategy: Any, rule: str | None = None
) -> None:
    """Rejects arguments that need all images, or levels, where there are some."""
    criterion.check(arguments.classifier, arguments.reduced)
    asked = strategy or rule or (None if criterion.scoring.is_plain else "tolerance")
    for one in (one for each in arguments.alterations for one in members(each)):
        if asked is not None and isinstance(one, Recorded):
            raise ValueError(
                f"strategy, rule and tolerance do not go with {one.name}: there are no "
                "pictures between those recorded, so all levels are looked at, and "
                f"each counts by its weight; got {asked!r}"
            )
    if not needs_scores(strategy):
        return
    what = f"{strategy!r}, which looks at some of the images"
    if rule is not None:
        raise ValueError(
            f"rule does not go with {what}: their robustness is a best guess in "
            f"dataset_interval; got {rule!r}"
        )
    if not criterion.scoring.is_plain:
        raise ValueError(
            f"tolerance does not go with {what}, "
            "because it needs the measure's value at every level"
        )
    if not criterion.is_of_scores:
        ratio_per_image(criterion.measure)


def explore(run: Run, criterion: Criterion, strategy: Strategy) -> list[Exploration]:
    images = SomeImages if needs_scores(strategy) else AllImages
    answers = images(run, criterion, strategy)
    found = drive(strategy, answers.subjects, answers.look)
    explorations = [answers.exploration(place, one) for place, one in enumerate(found)]
    for place, exploration in enumerate(explorations):
        with collected() as messages:
            _look_at_curve(run.alterations[place], exploration, criterion)
        run.warned_of_each[place].extend(messages)
    return explorations


def listed(one: Alteration) -> Strategy | None:
    """Returns what asks for all levels, if only some exist: the ends and the others."""
    is_recorded = isinstance(one, Recorded)
    return Including(Uniform(2), tuple(one.pictures.at)) if is_recorded else None


class _Answers:
    """The answers so far, which grow by what the strategy looks at."""

    def __init__(self, run: Run, criterion: Criterion, strategy: Strategy) -> None:
        criterion.check_classes(run.execution.info.num_classes)
        self.run, self._criterion, self._strategy = run, criterion, strategy
        self.seconds = [0.0] * len(run.alterations)

    @property
    def subjects(self) -> list[Subject]:
        return [
            Subject(one.name, self._task(one), one.snap, one.canonical, listed(one))
            for one in self.run.alterations
        ]

    def _task(self, one: Any) -> Task:
        return Task(one.lower, one.upper, self._criterion.threshold, one.identity)

    def _took(self, seconds: float, amounts: Sequence[tuple[int, int]]) -> None:
        total = sum(amount for _, amount in amounts)
        for place, amount in amounts:
            self.seconds[place] += seconds * amount / total


class AllImages(_Answers):
    """The answers on all images at every level that was asked for."""

    def __init__(self, run: Run, criterion: Criterion, strategy: Strategy) -> None:
        super().__init__(run, criterion, strategy)
        self._known: dict[int, AnyCurve] = {}  # by the alteration's index

    def look(self, spans: Sequence[Span], learn: Learn) -> None:
        # `learn` gets each span's answers as soon as they are known, see `drive`.
        asked: dict[int, dict[float, Span]] = {}
        for span in spans:
            asked.setdefault(span.alteration, {})[span.level] = span
        places = [*asked]

        def add(queued: int, curve: AnyCurve) -> None:
            place = places[queued]
            known = self._known.get(place)
            self._known[place] = curve if known is None else join(known, curve)
            rows = (part.tolist() for part in self._criterion.values(curve))
            for level, value, number in zip(curve.levels.tolist(), *rows):
                if level in asked[place]:
                    learn(asked[place][level], Seen(value, number))

        queue = [
            everywhere(self.run.alterations[place], self._levels(place, [*some]))
            for place, some in asked.items()
        ]
        start = time.perf_counter()
        evaluate_queue(self.run.execution, self.run.dataset, queue, add)
        amounts = [len(spans) for spans in queue]
        self._took(time.perf_counter() - start, [*zip(places, amounts)])

    def exploration(self, place: int, explored: Explored) -> Exploration:
        criterion, subject = self._criterion, self.subjects[place]
        known, history = self._known.pop(place), explored.history
        row_of = {level: row for row, level in enumerate(known.levels.tolist())}
        canonical = subject.canonical(history.levels).tolist()
        rows = np.array([row_of[level] for level in canonical])
        only = subject.listed is not None
        diagnostics = diagnose(subject.task, history, len(known.levels), only)
        if self.run.alterations[place].resolution is not None:
            # It moves by steps of its own, which no key decides.
            diagnostics = diagnostics._replace(jitter=math.nan)
        nominal = None
        if criterion.scoring.needs_nominal:
            at_identity = np.array([row_of[self._identity(place)]])
            one = select(known, at_identity, known.levels[at_identity])
            nominal = float(criterion.values(one)[0][0])
        return Exploration(
            select(known, rows, history.levels),
            history,
            0.0 if only else concluded(self._strategy, subject, explored).error_bound,
            diagnostics,
            nominal,
            self.seconds[place],
        )

    def _levels(self, place: int, levels: list[float]) -> np.ndarray:
        """Returns the levels to evaluate: at first with the identity, if needed."""
        if self._criterion.scoring.needs_nominal and place not in self._known:
            levels = [*levels, self._identity(place)]
        return np.array(sorted({*levels}))

    def _identity(self, place: int) -> float:
        one = self.run.alterations[place]
        return float(one.canonical(np.array([one.identity]))[0])


class SomeImages(_Answers):
    """The answers on the images that were asked for, at every level.

    The images come in one random order, the same for all levels and alterations. With a
    seed each level has its blocks in an order of its own.
    """

    def __init__(
        self,
        run: Run,
        criterion: Criterion,
        strategy: Strategy,
        seed: int | None = None,
    ) -> None:
        super().__init__(run, criterion, strategy)
        self._seed = seed
        self._num_classes = run.execution.info.num_classes
        self._data = counted(run.dataset)
        labels = np.asarray(self._data.labels)
        self._measure = per_image(criterion, labels, self._num_classes)
        images = self._measure.counted
        self._order = images[random_order(run.key, len(images))]
        self._labels = labels[self._order]
        table = getattr(run.dataset, "_table", None)
        self._groups = table and table.groups
        if self._groups is not None:
            self._groups = self._groups[self._order]
        self._rows: list[dict[float, _Row]] = [{} for _ in run.alterations]

    def look(self, spans: Sequence[Span], learn: Learn) -> None:
        if not spans:
            return
        run, task, start = self.run, self.subjects[0].task, time.perf_counter()
        places = [
            [slice(one.start, one.stop)]
            if self._seed is None
            else own_blocks(one, task)
            for one in spans
        ]
        wanted = [
            Span(run.alterations[span.alteration], span.level, part.start, part.stop)
            for span, parts in zip(spans, places)
            for part in parts
        ]
        found = iter(
            answer_parts(run.execution, self._data, wanted, self._order, task.block)
        )
        amounts = [(span.alteration, span.length) for span in spans]
        self._took(time.perf_counter() - start, amounts)
        for span, parts in zip(spans, places):
            learn(span, self._kept(span, [(part, next(found)) for part in parts]))

    def exploration(self, place: int, explored: Explored) -> Exploration:
        criterion, rows = self._criterion, self._rows[place]
        subject, history = self.subjects[place], explored.history
        levels = history.levels
        curve = self.curve(levels, self.at(place, subject.canonical(levels)))
        values, _ = criterion.values(curve)
        shown = History(levels, values, rounds=history.rounds)
        task = subject.task._replace(threshold=criterion.threshold)
        found = concluded(self._strategy, subject, explored)
        if found.robustness is None:
            robustness = metrics.heaviside_robustness(
                levels, values, task.threshold, self._strategy.rule
            )
            low, high = found.interval
            found = found._replace(robustness=min(max(robustness, low), high))
        return Exploration(
            curve,
            shown,
            found.error_bound,
            diagnose_few(task, shown, len(rows)),
            None,
            self.seconds[place],
            _sampling(subject.task, history, found, self.evaluations(place)),
        )

    def evaluations(self, place: int) -> int:
        return sum(one.number for one in self._rows[place].values())

    def at(self, place: int, levels: np.ndarray) -> list["_Row"]:
        return [self._rows[place][level] for level in levels_of(levels)]

    def _task(self, one: Any) -> Task:
        measure, number, seed = self._measure, len(self._order), self._seed
        block = BLOCK if seed is None else block_of(number)
        return Task(
            one.lower,
            one.upper,
            measure.least,
            one.identity,
            number,
            measure.bounds,
            min(block, number),
            self._criterion.confidence_level,
            self._groups,
            seed or 0,
        )

    def _kept(self, span: Span, found: Sequence[tuple[slice, Any]]) -> Seen:
        rows, total = self._rows[span.alteration], len(self._order)
        if span.level not in rows:
            room = self.run.execution.kind.empty((total,))
            rows[span.level] = _Row(room, np.empty(total), np.array([], int))
        row = rows[span.level]
        for part, answers in found:
            for whole, some in zip(row.answers, answers):
                whole[part] = some
            row.scores[part] = self._measure.score(answers, self._labels[part])
        new = [np.arange(part.start, part.stop) for part, _ in found]
        row = row._replace(places=np.concatenate([row.places, *new]))
        rows[span.level], scores = row, row.scores[row.places]
        return Seen(float(scores.mean()), len(scores), scores)

    def curve(self, levels: np.ndarray, seen: Sequence["_Row"]) -> AnyCurve:
        kind = self.run.execution.kind
        if kind.num_classes is not None:
            counts = self._with_worth([self._counts(one) for one in seen])
            return ReducedCurve(levels, counts, self._criterion.alpha)
        scores = np.full((len(levels), len(self._order)), np.nan)
        for row, one in zip(scores, seen):
            row[self._order[one.places]] = one.scores[one.places]
        return kind.curve(levels, Scored(scores), self._labels)

    def _with_worth(self, counts: list[Counts]) -> Counts:
        whole = joined([one._replace(groups=None) for one in counts])
        if self._groups is None:
            return whole
        measure: Any = any_measure(self._criterion.measure)
        found = [worth_of(one, measure) for one in counts]
        inputs, freedom = (joined([one[i] for one in found]) for i in (1, 2))
        return whole._replace(groups=Worth(measure.name, inputs, freedom))

    def _counts(self, row: "_Row") -> Counts:
        part = row.places
        given = row.answers.predicted[part].astype(int)
        if self._criterion.alpha is not None:
            limit = unknown_threshold(self._criterion.alpha)
            unknown = row.answers.uncertainty[part] > limit
            given = np.where(unknown, self._num_classes, given)
        ranks = row.answers.rank[None, part]
        rank = ranks if (ranks[:, :1] != INVALID).all() else None
        most = max(top_k(self._criterion.measure) or 0, MOST_RANKS)
        labels = self._labels[part]
        found = count(given[None], labels, self._num_classes, rank, most)
        if self._groups is None:
            return found
        groups = Groups(self._groups[part], labels, given[None], rank)
        return found._replace(groups=groups)


class _Row(NamedTuple):
    """The answers at a level, in the random order, with room for all images."""

    answers: Any  # [N]
    scores: np.ndarray  # float64 [N]
    places: np.ndarray  # int, of the images classified, as they came

    @property
    def number(self) -> int:
        return len(self.places)


# Images of a block, and the fewest blocks of a level's own order: few would make levels
# wrong together.
_OWN_BLOCK, _FEWEST_BLOCKS = 32, 16


def block_of(num_images: int) -> int:
    """Returns how many images make a block, where levels have orders of their own."""
    return min(_OWN_BLOCK, math.ceil(num_images / _FEWEST_BLOCKS))


def own_blocks(span: Span, task: Task) -> list[slice]:
    """Returns which images, of the one random order, a span of a level's own are."""
    assert task.num_images is not None
    total, block = task.num_images, task.block
    number = math.ceil(total / block)
    rng = np.random.default_rng(
        [task.seed, *np.array(span.level).view(np.uint32).tolist()]
    )
    # The last block may be shorter.
    order = [*rng.permutation(number - 1).tolist(), number - 1]
    places = order[span.start // block : math.ceil(span.stop / block)]
    return [slice(one * block, min((one + 1) * block, total)) for one in places]


def _sampling(task: Task, history: History, found: Found, number: int) -> Sampling:
    """Returns what was concluded from some images; `number` is what was classified."""
    scores, asked = history.scores, found.asked or Asked()
    assert scores and found.robustness is not None and task.num_images
    population = found.population_interval
    if population is None:
        start, end = population_of(task, history)
        low, high = found.interval
        population = ConfidenceInterval(min(start, low), max(end, high))
    return Sampling(
        asked.half_width,
        asked.budget,
        asked.curtail,
        asked.error,
        found.status,
        task.num_images,
        number,
        np.array([len(some) for some in scores]),
        np.zeros(len(scores), int) if found.sides is None else found.sides,
        found.robustness,
        found.interval,
        population,
        asked.required,
    )


# Fewer images may have the same answer by chance.
_FEWEST_IMAGES = 10
# Beyond that, orders of classes take too long to try.
_MOST_CLASSES = 2000
# The levels next to the identity can reveal a jump if the first is this near, as a
# share of the range, and the second at most this many times as far.
_NEAR = 1 / 32
_MOST_TIMES = 4.0
# A jump is more than this many times what the slope beside it explains (a square root's
# is 3 at most), plus this many standard deviations of the inputs that change.
_STEEPER = 8.0
_DEVIATIONS = 5.0


def _look_at_curve(
    alteration: Alteration, exploration: Exploration, criterion: Criterion
) -> None:
    """Warns of a network that fails unaltered, and of a jump beside the identity."""
    # Without a level at the identity it does not warn.
    history = exploration.history
    (rows,) = np.nonzero(history.levels == alteration.identity)
    if not len(rows):
        return
    at = rows[:1]
    unaltered = select(exploration.curve, at, history.levels[at])
    value = float(history.values[at[0]])
    answers_one_class = _answers_one_class(criterion.with_unknown(unaltered))
    if value < criterion.threshold and not answers_one_class:
        warn(
            f"unaltered, the {in_words(criterion.measure)} is {value:.4g}, already "
            f"below the threshold {criterion.threshold:g}: what is accepted then says "
            "little about the alteration. Look at the labels and at what the network "
            "was trained on (scale=..., mean=..., std=...), or lower the threshold."
            + _other_order(unaltered, criterion.threshold)
        )
    if isinstance(alteration, Recorded):
        return
    distances = (history.levels - alteration.identity) / (
        alteration.upper - alteration.lower
    )
    for side in (-1, 1):
        beyond = history.distinct[side * distances[history.distinct] > 0]
        near = beyond[np.argsort(side * distances[beyond])][:3]
        steps, values = side * distances[near], history.values[near]
        if jumps(steps, values, value, history.typical_inputs):
            cause = alteration.about.jump or (
                "The alteration is not continuous there, or its range is far too wide."
            )
            warn(
                f"{alteration.name}: the measure jumps beside the identity, from "
                f"{value:.4g} at level {alteration.identity:g} to {values[0]:.4g} at "
                f"{history.levels[near[0]]:g}, and hardly changes from there to the "
                f"next level. {cause}"
            )
            return


def jumps(
    distances: np.ndarray, values: np.ndarray, unaltered: float, num_inputs: int | None
) -> bool:
    """Returns whether a curve is discontinuous at the identity, seen from one side."""
    if len(distances) < 2 or distances[0] > _NEAR or num_inputs is None:
        return False
    if distances[1] > _MOST_TIMES * distances[0]:
        return False
    jump = abs(values[0] - unaltered)
    slope = np.abs(np.diff(values) / np.diff(distances)).max()
    chance = math.sqrt(max(jump, 1 / num_inputs) / num_inputs)
    return bool(jump > _STEEPER * slope * distances[0] + _DEVIATIONS * chance)


def _answers_one_class(unaltered: AnyCurve) -> bool:
    """Returns whether images of several classes all get one answer; warns if so."""
    if not unaltered.num_classes:
        return False
    counts: Any = unaltered.counts.at(0)
    answers = np.flatnonzero(np.append(counts.given, counts.unknown.sum()))
    number, num_labels = counts.inputs.sum(), np.count_nonzero(counts.inputs)
    if len(answers) > 1 or num_labels < 2 or number < _FEWEST_IMAGES:
        return False
    is_unknown = answers[0] == counts.num_classes
    what = '"unknown"' if is_unknown else f"class {answers[0]}"
    cause = "the images are not scaled as it expects them"
    cause = "alpha is too high for it" if is_unknown else cause
    warn(
        f"unaltered, the classifier answers {what} for all {number} images of "
        f"{num_labels} classes. It has learnt nothing, or {cause}."
    )
    return True


def _other_order(unaltered: Any, threshold: float) -> str:
    """Says so if the network is good enough with its outputs in another order."""
    most = MOST_CONFUSED if isinstance(unaltered, ReducedCurve) else _MOST_CLASSES
    if not 0 < (number := unaltered.num_classes) <= most:
        return ""
    (found,) = unaltered.confusion
    order = scipy.optimize.linear_sum_assignment(found[:, :-1], maximize=True)
    # Of few images for each class, some order suits any network by chance.
    share = found[order].sum() / max(found.sum(), _FEWEST_IMAGES * number)
    words = (
        f" With its outputs in another order the accuracy would be {share:.4g}: are "
        "labels and class_names numbered in the order of the network's outputs?"
    )
    return words * bool(share >= threshold and (order[0] != order[1]).any())
