"""The accepted volume of a domain: on which share of its levels a network is good."""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.texts import collected, warn
from jaxrob._assessment.assess import checked_measure, provenance_of
from jaxrob._assessment.assessment import MEASURE, Provenance
from jaxrob._assessment.criterion import Criterion, Tolerance, named_setting
from jaxrob._assessment.explore import SomeImages, check_few
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._codec import (
    Array,
    Document,
    Integer,
    Number,
    Row,
    Text,
    document,
    read,
    refuse,
)
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._domain import Axis, Domain
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import warn_of_dependence
from jaxrob._keys import host_generator
from jaxrob.domains._levels import by_distribution, uniform
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.strategies import Strategy, Volume
from jaxrob.strategies._drive import Subject, concluded, drive
from jaxrob.strategies._strategy import STATUSES, check_strategy, needs_scores

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

_UNIT = Number(at_least=0, at_most=1)
_ENDS = Row(_UNIT, ascends=True)


@document("jaxrob domain assessment 1")
@dataclasses.dataclass(frozen=True, eq=False)
class DomainAssessment(Document):
    """On which share of a domain's levels a classifier is good enough.

    Attributes:
      axes: the alterations in the order in which they are applied: name, unit, lowest
        and highest level, and the level at which nothing is altered.
      threshold: the lowest value of the measure that is accepted.
      measure: the quality measure, see `jaxrob.assess`.
      alpha: the confidence above which the classifier may answer "unknown", or None.
      level_distribution: the distribution of the levels, as text; "" if uniform.
      strategy: the strategy that chose levels and images, as text.
      guarantee: "calibrated" if the intervals' coverage was simulated, "proven" if it
        is proven; "" for a strategy of your own that does not say.
      accepted_volume: the share of the box of levels (or the probability of the levels,
        with a distribution) on which the measure reaches the threshold, in [0, 1]: the
        best guess in `dataset_interval`.
      dataset_interval: where it is for all images of this data set.
      confidence_interval: where it is for all images of the kind tested; None where it
        is not known, such as of images in groups.
      confidence_level: the coverage of both intervals, in (0, 1).
      status: why the search ended: "precise" if the interval is as narrow as wanted,
        "budget" if the budget is spent, "resolution" if the levels tell no more, as
        where the measure lies on the threshold over a wide area.
      evaluations: how many altered images were classified.
      num_images: N, the images of the data set that count.
      levels: float64 `[L, d]`, the levels that were looked at.
      seen: integers `[L]`, on how many images.
      values: float64 `[L]`, the measure on these.
      sides: integers `[L]`, by all images: 1 accepted, -1 not accepted, 0 open.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      provenance: see `jaxrob.provenance`, with the domain as "alteration".
      seconds: the time the answers took, compilation included.
    """

    axes: tuple[Axis, ...]
    threshold: Annotated[float, _UNIT]
    measure: Annotated[str, MEASURE]
    alpha: Annotated[float | None, _UNIT]
    level_distribution: str
    strategy: str
    guarantee: Annotated[str, Text(allowed=("calibrated", "proven", ""))]
    accepted_volume: Annotated[float, _UNIT]
    dataset_interval: Annotated[ConfidenceInterval, _ENDS]
    confidence_interval: Annotated[ConfidenceInterval | None, _ENDS]
    confidence_level: Annotated[float, Number(above=0, below=1)]
    status: Annotated[str, Text(allowed=STATUSES)]
    evaluations: Annotated[int, Integer(0, 2**53)]
    num_images: Annotated[int, Integer(1)]
    levels: Annotated[np.ndarray, Array("L, d")] = dataclasses.field(repr=False)
    seen: Annotated[np.ndarray, Array("L", "int64", at_least=0)] = dataclasses.field(
        repr=False
    )
    values: Annotated[np.ndarray, Array("L", may_be_nan=True)] = dataclasses.field(
        repr=False
    )
    sides: Annotated[np.ndarray, Array("L", "int64", at_least=-1, at_most=1)] = (
        dataclasses.field(repr=False)
    )
    warnings: tuple[str, ...] = dataclasses.field(repr=False)
    provenance: dict[str, Any] = dataclasses.field(repr=False)
    seconds: Annotated[float, Number(at_least=0)]

    def _check_together(self) -> None:
        name, given = "provenance", self.provenance
        read(Provenance, given, name, is_partial=True, ignores_unknown=True)
        number = len(self.axes)
        refuse(self.levels.shape[1] != number, f"levels must be of {number} axes")


def assess_domain(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    domain: Domain,
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    score: Score | Callable[[Any, Any], Any] | None = None,
    alpha: float | None = None,
    level_distribution: "Distribution | Sequence[Distribution] | None" = None,
    confidence_level: float = 0.95,
    strategy: Strategy = Volume(half_width=0.02),  # noqa: B008 (immutable)
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> DomainAssessment:
    """Computes on which share of a domain's levels a classifier is good enough.

    Several alterations at once, each with a level of its own: the accepted volume is
    the share of the box of all levels on which the measure reaches the threshold.

    Example::

        turned = jaxrob.alterations.rotation(-15, 15)
        dark = jaxrob.alterations.brightness(-0.4, 0.4)
        domain = jaxrob.Domain([turned, dark])
        found = jaxrob.assess_domain(classifier, dataset, domain, threshold=0.8)
        print(found.accepted_volume, found.dataset_interval)

    Args:
      classifier: the classifier.
      dataset: the test set, see `assess`.
      domain: the alterations.
      threshold: the lowest accepted value of the measure, in [0, 1].
      measure: a measure that is a mean over images: not "precision" or "f1", see
        `assess`.
      score: see `assess`; its labels have no place in the picture.
      alpha: see `assess`.
      level_distribution: how probable levels are, in place of uniformly in the box: a
        NumPyro distribution for each alteration, in their order, or a joint one,
        `Independent` or `GaussianCopula`. Of each, what lies beyond the range is left
        out. The volume is then the probability of an accepted level.
      confidence_level: the coverage of the intervals, in (0, 1).
      strategy: `jaxrob.strategies.Volume`, which says how narrow the interval shall be,
        and whether its coverage is proven.
      key: see `assess`. It also chooses the levels.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      journal: see `assess`.
      progress: see `evaluate`.

    Returns:
      The `DomainAssessment`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the strategy measures no volume,
        the distribution has no quantiles or no mass in the box, or as `assess`.
      OSError: if the journal cannot be read or written.
    """
    check_type("domain", domain, Domain, "a jaxrob.Domain")
    given = classifier, dataset, [domain], key, mesh, batch_size
    shared = Arguments(*given, False, journal, progress, score)
    arguments = checked(shared, Domain, "a jaxrob.Domain")
    check_strategy(strategy)
    if not needs_scores(strategy) or "volume" not in strategy.rules:
        raise ValueError(
            "strategy must measure a volume, such as jaxrob.strategies.Volume(); got "
            f"{strategy!r}"
        )
    measure = checked_measure(measure, arguments.score)
    level = checked_confidence_level(confidence_level)
    criterion = Criterion(threshold, measure, alpha, Tolerance(), level)
    check_few(strategy, criterion, None, domain.alterations)
    criterion.check(classifier, False)
    levels_at, distribution = uniform(domain), ""
    if level_distribution is not None:
        levels_at = by_distribution(domain, level_distribution)
        is_joint = not isinstance(level_distribution, Sequence)
        each = [level_distribution] if is_joint else level_distribution
        distribution = ", ".join(map(named_setting, each))
    with (
        own_errors(),
        prepare_run(arguments) as prepared,
        source_ahead(prepared) as run,
    ):
        answers = SomeImages(run, criterion, strategy, seed_of(key))
        (own,), start = run.alterations, time.perf_counter()
        subject = in_the_cube(answers.subjects[0], levels_at)
        (explored,) = drive(strategy, [subject], answers.look)
        seconds = time.perf_counter() - start
        found = concluded(strategy, subject, explored)
        if isinstance(run.dataset, Dataset):
            warn_of_dependence(run.source()["dataset"], len(run.dataset))
        with collected() as said:
            if subject.task.groups is not None and found.population_interval is None:
                warn(
                    "the images are in groups, so that the interval of the accepted "
                    "volume is of this data set alone: none is known for all images of "
                    "the kind"
                )
        levels = subject.canonical(explored.history.levels)
        seen = answers.at(0, levels)
        # One by one, because all levels' counts by class may be large.
        values = [
            criterion.values(answers.curve(levels[[place]], [row]))[0][0]
            for place, row in enumerate(seen)
        ]
        robustness, sides = found.robustness, found.sides
        assert robustness is not None and subject.task.num_images
        return DomainAssessment(
            axes=own.axes,
            threshold=criterion.threshold,
            measure=measure,
            alpha=criterion.alpha,
            level_distribution=distribution,
            strategy=repr(strategy),
            guarantee=getattr(strategy, "guarantee", ""),
            accepted_volume=robustness,
            dataset_interval=found.interval,
            confidence_interval=found.population_interval,
            confidence_level=level,
            status=found.status,
            evaluations=answers.evaluations(0),
            num_images=subject.task.num_images,
            levels=levels,
            seen=np.array([one.number for one in seen]),
            values=np.array(values),
            sides=np.zeros(len(levels), int) if sides is None else sides,
            warnings=(*run.warned, *run.warned_of_each[0], *said),
            provenance=provenance_of(run, own),
            seconds=seconds,
        )


def seed_of(key: jax.Array | None) -> int:
    return 0 if key is None else int(host_generator(key).integers(2**31))


def in_the_cube(subject: Subject, levels_at: Callable[..., np.ndarray]) -> Subject:
    """The strategy sees the unit cube, the classifier the levels there."""
    task = subject.task
    identity = task.positions_of(np.array(task.identity))
    task = task._replace(
        lower=(0.0,) * len(identity),
        upper=(1.0,) * len(identity),
        identity=tuple(identity.tolist()),
    )

    def canonical(points: np.ndarray) -> np.ndarray:
        return subject.canonical(levels_at(points))

    return Subject(subject.name, task, np.asarray, canonical)
