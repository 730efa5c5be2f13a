"""A sequential comparison of two classifiers, on as few images as it needs."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
from jax.sharding import Mesh

from jaxrob._arguments.checks import checked_flag, checked_number
from jaxrob._arguments.warnings import collected
from jaxrob._assessment.assess import checked_measure, result_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.explore import few_images
from jaxrob._assessment.scoring import Tolerance
from jaxrob._assessment.some_images import SomeImages
from jaxrob._classifier import Classifier
from jaxrob._codec import Number, Row, document, from_json, to_json
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.execution import progress_bar
from jaxrob._run.prepare import checked_arguments, prepare_run, source_ahead
from jaxrob._score import Score, checked_score
from jaxrob.alterations import Alteration
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._checks import checked_confidence_level
from jaxrob.strategies import ASAP, History, Strategy
from jaxrob.strategies._checks import check_strategy
from jaxrob.strategies._drive import Seen, Span, at_once, drive
from jaxrob.strategies._few.stopping import StoppingRule

# The share of the error that each of the two intervals has, and that of the difference.
# Errors of levels away from the crossings count twice in the difference.
_OF_ERROR = 0.9
# Sums of ends of intervals may exceed 1 by an ulp.
_DIFFERENCE = Number(at_least=-1 - 1e-9, at_most=1 + 1e-9)


@document("jaxrob sequential comparison 1")
class SequentialComparison(NamedTuple):
    """The difference in robustness of two classifiers on one data set.

    Attributes:
      difference: the first's robustness less the second's, the estimate.
      dataset_interval: the interval of the difference on all images of the data set.
      is_certain: whether the interval excludes 0, so that it is certain which of the
        two is more robust.
      first: the first's assessment.
      second: the second's.
    """

    difference: Annotated[float, _DIFFERENCE]
    dataset_interval: Annotated[ConfidenceInterval, Row(_DIFFERENCE, ascends=True)]
    is_certain: bool
    first: Assessment
    second: Assessment

    @property
    def evaluations(self) -> int:
        """The number of altered images classified, for both together."""
        return self.first.evaluations + self.second.evaluations

    def to_json(self) -> str:
        """Returns the comparison as JSON text, including both assessments.

        NaN becomes null.
        """
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "SequentialComparison":
        """Reads a comparison from the text that `to_json` gave.

        Nothing is executed.

        Raises:
          TypeError: if `text` is not text.
          ValueError: as `Assessment.from_json`; the message names the path of the part,
            such as "first.sampling.seen".
        """
        return from_json(text, SequentialComparison)


def compare_sequentially(
    first: Classifier,
    second: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    score: Score | Callable[[Any, Any], Any] | None = None,
    half_width: float = 0.01,
    strategy: Strategy = ASAP(),  # noqa: B008 (immutable)
    alpha: float | None = None,
    confidence_level: float = 0.95,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> SequentialComparison:
    """Says which of two classifiers is more robust, from as few images as needed.

    Both classifiers see the same images in the same random order, with the same noise,
    so their difference has a smaller error than either robustness. The comparison ends
    as soon as the interval of the difference, at the confidence level, excludes 0, or
    is no wider than twice the half width. The interval is for this data set;
    `jaxrob.compare` is for all images of the kind tested, from assessments on all
    images. Example::

        found = jaxrob.compare_sequentially(improved, classifier, dataset, blur)
        print(found.difference, found.dataset_interval, found.evaluations)

    Args:
      first: a classifier.
      second: another one, of the same classes; with a score any other.
      dataset: the test set, with labels.
      alteration: the alteration.
      threshold: see `assess`.
      measure: see `assess`; not "precision" or "f1".
      score: see `assess`.
      half_width: half the width of the interval at which the comparison ends in any
        case, in (0, 0.5).
      strategy: `strategies.ASAP` or `Uniform`.
      alpha: see `assess`.
      confidence_level: the confidence level of the interval of the difference, in (0,
        1).
      key: see `assess`.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      progress: whether a progress bar is shown, and a line on standard error says how
        long the run takes, if that is over ten seconds.

    Returns:
      The `SequentialComparison`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the data have no labels, or as
        `assess`.
    """
    score = checked_score(score)
    asked = [
        checked_arguments(
            one, dataset, [alteration], key, mesh, batch_size, score=score
        )
        for one in (first, second)
    ]
    checked_flag("progress", progress)
    measure = checked_measure(measure, score)
    check_strategy(strategy)
    half_width = checked_number("half_width", half_width, above=0, below=0.5)
    confidence_level = checked_confidence_level(confidence_level)
    plain = Tolerance()
    criterion = Criterion(threshold, measure, alpha, plain, confidence_level)
    error = _OF_ERROR * (1 - confidence_level)
    stopping = StoppingRule(half_width / 2, error_asked=error)
    search = few_images(strategy, criterion, None, stopping)
    for one in (first, second):
        criterion.check(one, False)
    if isinstance(dataset, Dataset) and dataset.labels is None:
        raise ValueError(
            "dataset must have labels: the answers of two networks are no common "
            "measure; got a data set without"
        )
    with own_errors(), contextlib.ExitStack() as stack:
        bar = stack.enter_context(progress_bar(f"{alteration.name}, twice", progress))
        runs = []
        for one in asked:
            prepared = stack.enter_context(prepare_run(one))
            run = stack.enter_context(source_ahead(prepared))
            # One bar for both, and the images on the devices once.
            kept = runs[0].execution.kept if runs else run.execution.kept
            execution = dataclasses.replace(run.execution, bar=bar, kept=kept)
            runs.append(run._replace(execution=execution))
        answering = [SomeImages(run, criterion) for run in runs]
        subjects = [one.subjects(search)[0] for one in answering]
        task = subjects[0].task

        def enough(histories: Sequence[History]) -> bool:
            start, end = search.difference(task, *histories)
            return start > 0 or end < 0 or end - start <= 2 * half_width

        look = at_once(functools.partial(_look, answering))
        histories = drive(subjects, look, enough=enough)
        explorations = [
            one.exploration(0, subject, history)
            for one, subject, history in zip(answering, subjects, histories)
        ]
    about = criterion, strategy.rule, strategy
    results = [
        result_of(run, 0, exploration, *about)
        for run, exploration in zip(runs, explorations)
    ]
    interval = search.difference(task, *histories)
    difference = results[0].robustness - results[1].robustness
    difference = min(max(difference, interval.low), interval.high)
    is_certain = interval.low > 0 or interval.high < 0
    return SequentialComparison(difference, interval, is_certain, *results)


def _look(answering: Sequence[SomeImages], parts: Sequence[Span]) -> list[Seen]:
    """Evaluates each network's spans; a network's index is its subject's."""
    found = []
    for place, one in enumerate(answering):
        own = [part for part in parts if part.subject == place]
        # Each network collects its own warnings, or the last run begun would collect
        # all.
        with collected() as messages:
            found += one.look([part._replace(subject=0) for part in own])
        one.run.warned.extend(messages)
    return found
