"""How probable a failure is in operation: at levels from a profile."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Annotated, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer, checked_number
from jaxrob._arguments.texts import readable
from jaxrob._assessment.assess import provenance_of
from jaxrob._assessment.assessment import Provenance
from jaxrob._assessment.criterion import named_setting
from jaxrob._classifiers.classifier import Classifier
from jaxrob._codec import (
    Array,
    Integer,
    Number,
    Row,
    Text,
    document,
    from_json,
    read,
    to_json,
)
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._domain import Domain
from jaxrob._engine.blocks import counted
from jaxrob._engine.evaluate import Arguments, Run, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import alteration_fingerprint, warn_of_dependence
from jaxrob._engine.queue import answer_parts, random_order
from jaxrob.domains._assess import Axis
from jaxrob.domains._draws import Draws, Spans, Wanted, search
from jaxrob.domains._profile import MOST_DRAWS, checked_profile, drawn_levels
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._bands import bands
from jaxrob.metrics._counts import ImageScores, checked_confidence_level
from jaxrob.strategies._drive import Span

_UNIT = Number(at_least=0, at_most=1)
_ENDS = Row(_UNIT, ascends=True)
_Numbers = Annotated[np.ndarray, Array("K", "int64", at_least=0)]


@document("jaxrob failure probability 1")
@dataclasses.dataclass(frozen=True, eq=False)
class FailureProbability:
    """How probable it is that an image is misclassified at levels from a profile.

    Attributes:
      axes: the alterations in the order in which they are applied, see
        `DomainAssessment`.
      profile: the levels' distribution, as text.
      probability: the estimate, in [0, 1].
      dataset_interval: the interval of the probability for the images of this data set,
        each as probable as another: more draws narrow it.
      confidence_interval: the interval for all images of the kind tested. It is over
        the images' own shares of failures, so that levels cannot replace images.
      confidence_level: the coverage of each interval, in (0, 1).
      status: "precise" if `dataset_interval` is as narrow as wanted, "budget" if the
        budget is spent.
      evaluations: the number of images classified, altered and unaltered.
      unaltered: how many of them were unaltered, for their margins.
      num_images: the number of images in the data set.
      images: int `[K]`, the images in each group, from the lowest margin on; all in one
        group if draws were plain.
      draws: int `[K]`, draws of these images, each at a level of its own.
      failures: int `[K]`, how many of them were misclassified.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      provenance: as of an `Assessment`.
      seconds: the time it took.
    """

    axes: tuple[Axis, ...]
    profile: str
    probability: Annotated[float, _UNIT]
    dataset_interval: Annotated[ConfidenceInterval, _ENDS]
    confidence_interval: Annotated[ConfidenceInterval, _ENDS]
    confidence_level: Annotated[float, Number(above=0, below=1)]
    status: Annotated[str, Text(allowed=("precise", "budget"))]
    evaluations: Annotated[int, Integer(at_least=1)]
    unaltered: Annotated[int, Integer(at_least=0)]
    num_images: Annotated[int, Integer(at_least=1)]
    images: _Numbers
    draws: _Numbers
    failures: _Numbers
    warnings: tuple[str, ...] = ()
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    seconds: Annotated[float, Number(at_least=0)] = 0.0

    def __repr__(self) -> str:
        """The probability with its intervals, and what it took."""
        names = " + ".join(one.name for one in self.axes)
        (low, high), (start, end) = self.dataset_interval, self.confidence_interval
        parts = (
            readable(names),
            f"misclassified with probability {self.probability:.3g}",
            f"{100 * self.confidence_level:.8g} % interval [{low:.3g}, {high:.3g}] for "
            f"these {self.num_images:,} images, [{start:.3g}, {end:.3g}] for all of "
            "the kind",
            f"{self.status}, {self.evaluations:,} evaluations",
        )
        return f"FailureProbability({'; '.join(parts)})"

    def _check_together(self) -> None:
        given = self.provenance
        read(Provenance, given, "provenance", is_partial=True, ignores_unknown=True)

    def to_json(self) -> str:
        """The result as strict JSON text."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "FailureProbability":
        """A result from what `to_json` gave; errors as of `Assessment.from_json`."""
        return from_json(text, FailureProbability)


def failure_probability(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    domain: Domain,
    profile: Any,
    *,
    relative: float = 0.2,
    half_width: float = 0.0,
    budget: int = 200_000,
    confidence_level: float = 0.95,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> FailureProbability:
    """Estimates how probable a misclassification is at levels from a profile.

    A draw is a random image of the data set at a random level of the profile, with
    noise of its own. Images whose margin is low unaltered are drawn more often where
    that saves evaluations, and weigh less; else draws are plain.

    Example::

        from numpyro import distributions as dist

        rainy = [dist.Normal(0, 4), dist.Uniform(-0.4, 0), dist.HalfNormal(0.5)]
        found = jaxrob.failure_probability(
            classifier, dataset, domain, rainy, key=jax.random.key(0)
        )
        print(found.probability, found.dataset_interval, found.confidence_interval)

    Args:
      classifier: the classifier.
      dataset: the test set. Without labels the network's own answers on the unaltered
        images count as right.
      domain: the alterations.
      profile: how probable levels are in operation: a sequence of NumPyro
        distributions, one for each of the d alterations; a joint one of d numbers; or
        recorded levels `[M, d]`, each as probable as another. What a distribution
        draws outside the alterations' ranges is left out, with a warning.
      relative: half the width of `dataset_interval` that is narrow enough, as a share
        of the probability; 0 for none.
      half_width: half the width that is narrow enough whatever the probability. Give
        one for a failure that may never happen: relative alone goes on until the budget
        is spent, and the interval then is [0, u].
      budget: the most images classified, altered and unaltered, below 2**23.
      confidence_level: the coverage of the intervals, in (0, 1).
      key: a random key, for images, levels and noise.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      journal: see `assess`.
      progress: see `evaluate`.

    Returns:
      The `FailureProbability`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the key is missing, the profile
        has another number of levels or lies outside the box, or as `evaluate`.
      OSError: if the journal cannot be read or written.
    """
    check_type("domain", domain, Domain, "a jaxrob.Domain")
    relative = checked_number("relative", relative, at_least=0, below=1)
    half_width = checked_number("half_width", half_width, at_least=0, below=0.5)
    if not relative and not half_width:
        raise ValueError("relative or half_width must be above 0; got 0 for both")
    budget = checked_integer("budget", budget, at_least=1, at_most=MOST_DRAWS)
    level = checked_confidence_level(confidence_level)
    wanted = Wanted(relative, half_width, budget, level)
    alteration = drawn_levels(domain, checked_profile(domain, profile))
    given = classifier, dataset, [alteration], key, mesh, batch_size
    arguments = checked(Arguments(*given, False, journal, progress))
    with (
        own_errors(),
        prepare_run(arguments) as prepared,
        source_ahead(prepared) as run,
    ):
        start, look = time.perf_counter(), _Look(run)
        order = random_order(run.key, len(look.labels))
        found, status = search(wanted, order, look)
        if isinstance(run.dataset, Dataset):
            warn_of_dependence(run.source()["dataset"], len(run.dataset))
        probability, interval = found.interval(wanted.tail)
        table = getattr(run.dataset, "_table", None)
        groups = table and table.groups
        failures, draws = found.counts
        return FailureProbability(
            axes=tuple(
                Axis(one.name, one.unit, one.lower, one.upper, one.identity)
                for one in domain.alterations
            ),
            profile=_in_words(profile),
            probability=probability,
            dataset_interval=interval,
            confidence_interval=of_population(found, level, groups),
            confidence_level=level,
            status=status,
            evaluations=found.evaluations,
            unaltered=len(found.margins),
            num_images=len(order),
            images=found.sizes,
            draws=draws,
            failures=failures,
            warnings=(*run.warned, *run.warned_of_each[0]),
            provenance=provenance_of(run, domain)
            | {
                "alteration": alteration_fingerprint(run.alterations[0]),
                "stochastic": True,
            },
            seconds=time.perf_counter() - start,
        )


def _in_words(profile: Any) -> str:
    if hasattr(profile, "sample"):
        return named_setting(profile)
    if isinstance(profile, Sequence) and hasattr(profile[0], "sample"):
        return ", ".join(map(named_setting, profile))
    return f"{len(profile):,} recorded levels"


def of_population(
    found: Draws, confidence_level: float, groups: np.ndarray | None
) -> ConfidenceInterval:
    """The interval for images to come: over images' shares, and the draws' error."""
    share, (low, high) = found.interval((1 - confidence_level) / 2)
    values = found.values()
    comes_once = len(found.starts) == 1 and found.drawn.max() <= 1
    if comes_once:
        values = np.where(found.drawn > 0, values, np.nan)
    scores = ImageScores(values[None], groups)
    (start,), (end,) = bands(scores, "mean failure", confidence_level)
    start, end = min(start, share), max(end, share)
    if comes_once:
        # The images' error holds that of the draws.
        return ConfidenceInterval(float(min(low, start)), float(max(high, end)))
    below, above = (
        np.hypot(share - low, share - start),
        np.hypot(high - share, end - share),
    )
    return ConfidenceInterval(
        float(max(share - below, 0.0)), float(min(share + above, 1.0))
    )


class _Look:
    """Classifies draws by the engine."""

    def __init__(self, run: Run) -> None:
        self._run, self._data = run, counted(run.dataset)
        # Batches keep the first images of one order.
        self._again = self._data
        if not isinstance(self._data, Dataset):
            self._again = dataclasses.replace(self._data)
        self.labels = np.asarray(self._data.labels)

    def margins(self, order: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Signed confidences: of wrong answers below 0."""
        (found,) = self._answers(order, [(-1.0, start, stop)], False)
        right = found.predicted == self.labels[order[start:stop]]
        confidence = np.nan_to_num(found.confidence, nan=1.0)
        return np.where(right, confidence, -confidence)

    def failing(
        self, order: np.ndarray, spans: Sequence[Spans], by_margin: bool
    ) -> list[np.ndarray]:
        wanted = [(2.0 * draw + by_margin, *images) for draw, *images in spans]
        found = self._answers(order, wanted, by_margin)
        return [
            one.predicted != self.labels[order[span.start : span.stop]]
            for one, span in zip(found, spans)
        ]

    def _answers(
        self, order: np.ndarray, wanted: Sequence[Any], by_margin: bool
    ) -> list[Any]:
        run = self._run
        parts = [Span(run.alterations[0], *one) for one in wanted]
        data = self._again if by_margin else self._data
        return answer_parts(run.execution, data, parts, order)
