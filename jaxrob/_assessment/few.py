"""Robustness from few images: rounds of levels and images, of all alterations."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxrob import metrics
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import diagnose_few
from jaxrob._assessment.explore import Exploration
from jaxrob._assessment.per_image import PerImage, check_per_image, per_image
from jaxrob._assessment.sampling import Sampling
from jaxrob._classifier import Classifier
from jaxrob._curve import ReducedCurve, count
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.execution import Execution
from jaxrob._engine.order import random_order
from jaxrob._engine.parts import BLOCK, Part, answer_parts
from jaxrob._engine.picked import CountedBatches, counted
from jaxrob._runtime.checks import checked_flag, checked_integer, checked_number
from jaxrob._sequential import even, search
from jaxrob._sequential.cost import expected_cost
from jaxrob._sequential.joint import closer_apart
from jaxrob._sequential.population import population_interval
from jaxrob._sequential.state import State
from jaxrob._sequential.task import ACCEPTED, Task
from jaxrob.alterations import Alteration
from jaxrob.metrics import Interval
from jaxrob.strategies import ASAP, Question, Strategy, Uniform
from jaxrob.strategies._strategy import NO_SAMPLES, Samples
from jaxrob.uncertainty import unknown_threshold

# The error of "the same answer as all images", and of a requirement, or less.
_ERROR_OF_SAME, _ERROR_OF_REQUIRED = 0.001, 0.01
# About so many looks of a search are not one another's like.
_LOOKS = 10
# With a budget or a requirement the precision aimed at begins here and shrinks by this.
_FIRST_AIM, _SHRINKS = 0.1, 0.7
# Precisions that a budget may buy, finest first, and how much of it is planned with.
_AIMS = np.geomspace(5e-4, 0.2, 60)
_SPENT = 0.8
# The next precision is at least this share of what is open, so that a search that a
# budget ends has bought something.
_BY_WAY_OF = 0.25
# A requirement is met or missed for certain once about this share of the distance is
# the precision.
_OF_DISTANCE = 0.85


class Fewest(NamedTuple):
    """How few images are wanted.

    Attributes:
      precision: half the width of the interval that is wanted; None with a budget or a
        requirement alone.
      budget: the most altered images to be classified, or None.
      curtail: whether levels are decided only when the images left cannot change them.
      required: the least robustness, once it is certain whether it is reached all ends.
      error_asked: the probability of a wrong answer, None for the usual one.
      confidence_level: of the intervals.
    """

    precision: float | None
    budget: int | None
    curtail: bool
    required: float | None = None
    error_asked: float | None = None
    confidence_level: float = 0.95

    @property
    def error(self) -> float:
        """The probability of a wrong answer, for each alteration."""
        if self.curtail:
            return 0.0
        if self.error_asked is not None:
            return self.error_asked
        error = 1 - self.confidence_level
        if self.required is not None:
            return min(error, _ERROR_OF_REQUIRED)
        return min(error, _ERROR_OF_SAME) if self.precision == 0 else error

    @property
    def error_of_a_look(self) -> float:
        """The part of the error that one look may take.

        Where a verdict ends all, every look may give a wrong one: they share the error.
        """
        gives_verdicts = self.required is not None or self.error_asked is not None
        return self.error / _LOOKS if gives_verdicts else self.error


def checked_fewest(
    precision: float | None,
    budget: int | None,
    curtail: bool,
    required: float | None,
    confidence_level: float,
) -> Fewest | None:
    """What is asked for, None if all images are.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if one is outside its range.
    """
    if precision is not None:
        precision = checked_number("precision", precision, at_least=0, below=0.5)
    if budget is not None:
        budget = checked_integer("budget", budget, at_least=1)
    curtail = checked_flag("curtail", curtail)
    if required is not None:
        required = checked_number("required", required, at_least=0, at_most=1)
    if precision is None and budget is None and required is None:
        if not curtail:
            return None
        precision = 0.0
    return Fewest(
        precision, budget, curtail, required, confidence_level=confidence_level
    )


def check_goes_with_few(
    strategy: Strategy, criterion: Criterion, rule: str | None
) -> None:
    """Refuses what needs all images.

    Raises:
      ValueError: if there is such.
    """
    few = "precision, budget, curtail and required"
    if not isinstance(strategy, ASAP | Uniform):
        raise ValueError(
            f"{few} go with strategies.ASAP and strategies.Uniform alone, whose levels "
            f"are chosen by sides of the threshold; got {strategy!r}"
        )
    if rule is not None:
        raise ValueError(
            f"rule does not go with {few}, whose robustness is a best guess in "
            f"dataset_interval; got {rule!r}"
        )
    if not criterion.scoring.is_plain:
        raise ValueError(
            f"tolerance, penalization and level_distribution do not go with {few}, "
            "because they need the measure's value at every level"
        )
    check_per_image(criterion)


def explore_few(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alterations: Sequence[Alteration],
    strategy: Strategy,
    criterion: Criterion,
    fewest: Fewest,
    execution: Execution,
    num_classes: int,
) -> list[Exploration]:
    """An exploration of each alteration, of which all open levels share blocks.

    The images come in one random order, the same for all levels and alterations.

    Args:
      classifier: the classifier.
      dataset: the images, with labels.
      alterations: the alterations.
      strategy: `ASAP` or `Uniform`.
      criterion: what is accepted.
      fewest: how few images are wanted.
      execution: how they are evaluated.
      num_classes: K.

    Raises:
      ValueError: as `evaluate`, or if the measure is no mean over images.
    """
    data = counted(dataset)
    measure, order = images_that_count(data, criterion, num_classes, execution.key)
    labels = np.asarray(data.labels)[order]
    pursuits = [Pursuit(one, strategy, measure, fewest, labels) for one in alterations]
    left = 2**62 if fewest.budget is None else fewest.budget
    at_first = sum(part.stop - part.start for one in pursuits for part in one.parts())
    if left < at_first:
        raise ValueError(
            f"budget must be at least {at_first}, for {min(BLOCK, len(order))} images "
            f"at each of the first levels; got {left}"
        )
    while left > 0:
        if fewest.budget is not None:
            _aim_at_what(pursuits, left)
        spent = pursue(classifier, data, order, pursuits, execution, left)
        left -= spent
        if not spent:
            break
    return [one.result(criterion, num_classes) for one in pursuits]


def _aim_at_what(pursuits: Sequence["Pursuit"], left: int) -> None:
    """Aims all searches at the precision that what is left is about to buy."""
    going = [one for one in pursuits if not one.is_done]
    for aim in _AIMS:
        if sum(one.expected_cost(aim) for one in going) <= _SPENT * left:
            for one in going:
                one.aim_at(aim)
            return


def images_that_count(
    data: Dataset | CountedBatches,
    criterion: Criterion,
    num_classes: int,
    key: jax.Array | None,
) -> tuple[PerImage, np.ndarray]:
    """The criterion's scores, and the indices of its images in a random order.

    Raises:
      ValueError: as `per_image`.
    """
    measure = per_image(criterion, np.asarray(data.labels), num_classes)
    return measure, measure.counted[random_order(key, len(measure.counted))]


def pursue(
    classifier: Classifier,
    data: Dataset | CountedBatches,
    order: np.ndarray,
    pursuits: Sequence["Pursuit"],
    execution: Execution,
    left: int,
) -> int:
    """One round of all pursuits, which share blocks of images.

    Args:
      classifier: the classifier.
      data: the images.
      order: `[N]`, the indices of those that count, in random order.
      pursuits: the searches; what is found is added to them.
      execution: how levels are evaluated.
      left: how many altered images may be classified.

    Returns:
      How many were; 0 at the end.

    Raises:
      ValueError: as `evaluate`.
    """
    wanted = [(one, part) for one in pursuits for part in one.parts()]
    chosen = _affordable(wanted, left)
    if not chosen:
        return 0
    start = time.perf_counter()
    parts = [part for _, part in chosen]
    found = answer_parts(classifier, data, parts, order, execution)
    seconds = time.perf_counter() - start
    total = sum(part.stop - part.start for part in parts)
    for (one, part), answers in zip(chosen, found):
        one.add(part, answers, seconds * (part.stop - part.start) / total)
    for one in {id(one): one for one, _ in chosen}.values():
        one.look()
    return total


def _affordable(
    parts: list[tuple["Pursuit", Part]], left: int
) -> list[tuple["Pursuit", Part]]:
    """The parts that the budget allows, those of the widest intervals first."""
    widest = sorted(parts, key=lambda one: -one[0].half_width)
    allowed = []
    for one, part in widest:
        images = min(part.stop - part.start, left)
        # Whole blocks: parts of one would be computed twice.
        stop = part.stop
        if images < part.stop - part.start:
            stop = part.start + images // BLOCK * BLOCK
        if stop > part.start:
            allowed.append((one, part._replace(stop=stop)))
            left -= stop - part.start
    return allowed


class Pursuit:
    """The search of one alteration: its state, and the answers that it rests on.

    Attributes:
      is_done: whether nothing more is to be looked at.
    """

    def __init__(
        self,
        alteration: Alteration,
        strategy: Strategy,
        measure: PerImage,
        fewest: Fewest,
        labels: np.ndarray,
    ) -> None:
        """A search that has seen nothing."""
        self._alteration = alteration
        self._strategy = strategy
        self._measure = measure
        self._fewest = fewest
        self._labels = labels
        self._is_even = isinstance(strategy, Uniform)
        aim = fewest.precision
        if fewest.budget or fewest.required is not None or fewest.error_asked:
            aim = max(_FIRST_AIM, aim or 0.0)
        assert aim is not None
        parts = strategy.n if isinstance(strategy, Uniform) else _parts(strategy)
        self._task = Task(
            parts,
            measure.least,
            measure.bounds,
            len(labels),
            min(BLOCK, len(labels)),
            max(fewest.error_of_a_look, 1e-300),
            aim,
            fewest.curtail,
        )
        if self._is_even:
            self._state, self._wanted = even.begin(self._task)
        else:
            self._state, self._wanted = search.begin(self._task, self._first())
        # By canonical level: the answers on the images seen, and their scores.
        self._answers: dict[float, HostAnswers] = {}
        self._scores: dict[float, np.ndarray] = {}
        self._canonicals: dict[int, float] = {}
        self._seconds, self._rounds = 0.0, 0
        self._status = "resolution"
        self.is_done = False

    @property
    def interval(self) -> Interval:
        """Where the robustness on the data set is, by what was seen so far."""
        now, parts = self._state.accepted, self._task.parts
        return Interval(float(now.low) / parts, float(now.high) / parts)

    @property
    def half_width(self) -> float:
        """Half of what is open, as a share of the range."""
        return self._state.accepted.half_width / self._task.parts

    def less(self, other: "Pursuit") -> Interval:
        """Where this robustness less another one is, on the same images."""
        parts = self._task.parts
        closer = closer_apart(self._task, self._state, other._state) / parts
        (low, high), (other_low, other_high) = self.interval, other.interval
        return Interval(low - other_high + closer, high - other_low - closer)

    def expected_cost(self, precision: float) -> float:
        """About how many images more a precision takes; 0 where it is not known."""
        return expected_cost(self._task, self._state, precision)

    def aim_at(self, precision: float) -> None:
        """Aims at a precision, by way of wider ones, which cost little beside it."""
        aim = max(precision, _BY_WAY_OF * self.half_width, self._aim())
        self._task = self._task._replace(precision=aim)

    def parts(self) -> list[Part]:
        """What is to be answered next; levels of the same effect share answers."""
        if self.is_done:
            return []
        stops: dict[float, int] = {}
        for step, seen in self._wanted:
            level = self._canonical(step)
            stops[level] = max(stops.get(level, 0), seen)
        found = []
        for level, stop in sorted(stops.items()):
            start = len(self._scores.get(level, ()))
            if stop > start:
                found.append(Part(self._alteration, level, start, stop))
        # Only levels whose effect is known are wanted: no images are needed.
        if not found:
            self.look()
            return self.parts()
        return found

    def add(self, part: Part, answers: HostAnswers, seconds: float) -> None:
        """Takes the answers on a part."""
        labels = self._labels[part.start : part.stop]
        scores = self._measure.score(answers, labels)
        if part.level in self._scores:
            answers = Answers(
                *map(np.concatenate, zip(self._answers[part.level], answers))
            )
            scores = np.concatenate([self._scores[part.level], scores])
        self._answers[part.level], self._scores[part.level] = answers, scores
        self._seconds += seconds

    def look(self) -> None:
        """Takes in what was answered, and decides what to look at next."""
        if self.is_done:
            return
        self._rounds += 1
        steps = {one.step for one in self._wanted} | set(self._state.levels)
        new = {
            step: self._scores[self._canonical(step)]
            for step in steps
            if self._canonical(step) in self._scores
        }
        self._state = self._looked(new)
        while self._is_settled():
            if not self._shrinks():
                self.is_done = True
                return
            self._state = self._looked({})
        following = even.following if self._is_even else search.following
        self._state, self._wanted = following(self._task, self._state)
        self.is_done = not self._wanted

    def result(self, criterion: Criterion, num_classes: int) -> Exploration:
        """What was found out."""
        state, task = self._state, self._task
        steps = sorted(s for s, one in state.levels.items() if one.seen)
        levels = self._levels_at(np.array(steps))
        seen = np.array([state.levels[step].seen for step in steps])
        confusion = np.concatenate(
            [self._confusion(step, criterion, num_classes) for step in steps]
        )
        parts = task.parts
        low, high, guess = (float(one) / parts for one in state.accepted)
        # No farther from either end than the precision.
        half = max(self._aim(), (high - low) / 2)
        guess = max(min(max(guess, high - half), low + half, 1.0), 0.0)
        if self._aim() == 0 and not self._is_even and self._status != "certain":
            guess = min(max(self._right(), low), high)
        curve = ReducedCurve(levels, confusion, criterion.alpha)
        values = metrics.measures[criterion.measure](confusion)
        within = population_interval(
            task._replace(parts=max(steps)) if self._is_even else task,
            {step: state.levels[step] for step in steps},
            self._fewest.confidence_level,
        )
        sampling = Sampling(
            self._fewest.precision,
            self._fewest.budget,
            self._fewest.curtail,
            self._fewest.error,
            self._final_status(),
            task.num_images,
            sum(len(scores) for scores in self._scores.values()),
            seen,
            np.array([state.levels[step].side for step in steps]),
            guess,
            Interval(low, high),
            Interval(min(within.start, low), max(within.end, high)),
            self._fewest.required,
        )
        samples = Samples(levels, values, rounds=self._rounds)
        question = self._question._replace(threshold=criterion.threshold)
        return Exploration(
            curve,
            samples,
            None,
            diagnose_few(question, samples, len(self._scores)),
            None,
            self._seconds,
            sampling,
        )

    def _right(self) -> float:
        """The share accepted by the rule "right", as of all images."""
        sides = {s: one.side for s, one in self._state.levels.items() if one.side}
        steps = sorted(sides)
        accepted = [b - a for a, b in zip(steps, steps[1:]) if sides[b] == ACCEPTED]
        return sum(accepted) / self._task.parts

    def _looked(self, new: dict[int, np.ndarray]) -> State:
        if self._is_even:
            return even.look(self._task, self._state, new)
        assert isinstance(self._strategy, ASAP)
        return search.look(self._task, self._strategy, self._state, new)

    def _is_settled(self) -> bool:
        """Whether the requirement is certain, or the precision aimed at reached."""
        required, now = self._fewest.required, self._state.accepted
        if required is not None:
            least = required * self._task.parts
            if now.low >= least or now.high < least:
                self._status = "certain"
                return True
        return self._state.is_done

    def _shrinks(self) -> bool:
        """Aims at a smaller precision; False if the one asked for is reached."""
        if self._status == "certain" or self._task.precision <= self._aim():
            return False
        aim = self._task.precision * _SHRINKS
        if self._fewest.required is not None:
            guess = self._state.accepted.guess / self._task.parts
            distance = abs(guess - self._fewest.required)
            aim = min(aim, max(_OF_DISTANCE * distance, 0.0))
        # Below half a step, a smaller one buys nothing on the way to 0.
        aim = aim if aim >= 0.5 / self._task.parts else self._aim()
        self._task = self._task._replace(precision=max(aim, self._aim()))
        return True

    def _aim(self) -> float:
        """The precision asked for; that of the levels if none is."""
        if self._fewest.precision is not None:
            return self._fewest.precision
        return 0.5 / self._task.parts

    def _final_status(self) -> str:
        if self._status == "certain":
            return "certain"
        widths = (
            [gap.width for gap in self._state.known.gaps] if self._state.known else []
        )
        is_resolved = self._aim() == 0 and max(widths, default=0) <= 1
        if self.half_width <= self._aim() or (is_resolved and self.is_done):
            return "precise"
        return "resolution" if self.is_done else "budget"

    def _first(self) -> np.ndarray:
        """The steps that ASAP begins with."""
        none = NO_SAMPLES
        levels = self._strategy.propose(self._question, none)
        positions = self._question.positions_of(np.asarray(levels))
        return np.rint(positions * self._task.parts).astype(int)

    @property
    def _question(self) -> Question:
        one = self._alteration
        return Question(one.lower, one.upper, 0.5, one.identity)

    def _levels_at(self, steps: np.ndarray) -> np.ndarray:
        last = self._task.parts - 1 if self._is_even else self._task.parts
        return self._alteration.snap(self._question.levels_at(steps / last))

    def _canonical(self, step: int) -> float:
        if step not in self._canonicals:
            levels = self._alteration.canonical(self._levels_at(np.array([step])))
            self._canonicals[step] = float(levels[0])
        return self._canonicals[step]

    def _confusion(
        self, step: int, criterion: Criterion, num_classes: int
    ) -> np.ndarray:
        answers = self._answers[self._canonical(step)]
        given = answers.predicted.astype(int)
        if criterion.alpha is not None:
            unknown = answers.uncertainty > unknown_threshold(criterion.alpha)
            given = np.where(unknown, num_classes, given)
        return count(given[None], self._labels[: len(given)], num_classes)


def _parts(strategy: Strategy) -> int:
    assert isinstance(strategy, ASAP)
    return 1 << (int(strategy.n) - 1).bit_length()
