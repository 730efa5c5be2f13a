"""A sequential comparison of two classifiers, on as few images as it needs."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_flag, checked_number
from jaxrob._arguments.texts import collected
from jaxrob._assessment.assess import result_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.criterion import Criterion, Tolerance, checked_measure
from jaxrob._assessment.explore import SomeImages, check_goes_with
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._codec import Number, Row, document, from_json, to_json
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, source_ahead
from jaxrob._engine.execution import progress_bar
from jaxrob.alterations import Alteration
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies import FewImages
from jaxrob.strategies._drive import Learn, Seen, Span, drive
from jaxrob.strategies._few.bands import State
from jaxrob.strategies._few_images import Compared

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
        """Returns the comparison as JSON text with both assessments, NaN as null."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "SequentialComparison":
        """Reads what `to_json` gave; errors as of `Assessment.from_json`."""
        return from_json(text, SequentialComparison)


@own_errors()
def compare_sequentially(
    first: Classifier,
    second: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    score: Score | Callable[[Any, Any], Any] | None = None,
    strategy: FewImages = FewImages(half_width=0.01),  # noqa: B008 (immutable)
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
      strategy: gives the levels, and with `half_width`, above 0, half the width of the
        interval of the difference at which the comparison ends in any case; without
        `budget`, `curtail` and `required`.
      alpha: see `assess`.
      confidence_level: the confidence level of the interval of the difference, in (0,
        1).
      key: see `assess`.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      progress: see `evaluate`.

    Returns:
      The `SequentialComparison`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the data have no labels, or as
        `assess`.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    asked = [
        checked(
            Arguments(one, dataset, [alteration], key, mesh, batch_size, score=score)
        )
        for one in (first, second)
    ]
    checked_flag("progress", progress)
    check_type("strategy", strategy, FewImages, "a jaxrob.strategies.FewImages")
    half_width = checked_number(
        "strategy.half_width", strategy.half_width, above=0, below=0.5
    )
    if (strategy.budget, strategy.curtail, strategy.required) != (None, False, None):
        raise ValueError(
            "strategy must be without budget, curtail and required, because the "
            f"comparison ends it; got {strategy!r}"
        )
    measure = checked_measure(measure, asked[0].score)
    criterion = Criterion(threshold, measure, alpha, Tolerance(), confidence_level)
    for one in asked:
        check_goes_with(one, criterion, strategy)
    search = Compared(strategy.strategy, half_width / 2)
    if isinstance(dataset, Dataset) and dataset.labels is None:
        raise ValueError(
            "dataset must have labels: the answers of two networks are no common "
            "measure; got a data set without"
        )
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(progress_bar(f"{alteration.name}, twice", progress))
        runs = []
        for one in asked:
            prepared = stack.enter_context(prepare_run(one))
            run = stack.enter_context(source_ahead(prepared))
            # One bar for both, and the images on the devices once.
            kept = runs[0].execution.kept if runs else run.execution.kept
            execution = dataclasses.replace(run.execution, bar=bar, kept=kept)
            runs.append(run._replace(execution=execution))
        answering = [SomeImages(run, criterion, search) for run in runs]
        subjects = [one.subjects[0] for one in answering]

        def enough(states: Sequence[State]) -> bool:
            start, end = search.difference(*states)
            return start > 0 or end < 0 or end - start <= 2 * half_width

        found = drive(search, subjects, functools.partial(_look, answering), enough)
        explorations = [
            one.exploration(0, explored) for one, explored in zip(answering, found)
        ]
    results = [
        result_of(run, 0, exploration, criterion, strategy.rule, strategy)
        for run, exploration in zip(runs, explorations)
    ]
    interval = search.difference(*(explored.state for explored in found))
    difference = results[0].robustness - results[1].robustness
    difference = min(max(difference, interval.low), interval.high)
    is_certain = interval.low > 0 or interval.high < 0
    return SequentialComparison(difference, interval, is_certain, *results)


def _look(answering: Sequence[SomeImages], spans: Sequence[Span], learn: Learn) -> None:
    """Evaluates each network's spans: its index stands for the alteration's."""

    def learn_of(place: int, span: Span, seen: Seen) -> None:
        learn(span._replace(alteration=place), seen)

    for place, one in enumerate(answering):
        own = [span for span in spans if span.alteration == place]
        own = [span._replace(alteration=0) for span in own]
        # Each network collects its own warnings, or the last run begun would collect
        # all.
        with collected() as messages:
            one.look(own, functools.partial(learn_of, place))
        one.run.warned.extend(messages)
