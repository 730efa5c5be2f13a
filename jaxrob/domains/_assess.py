"""On which levels of a domain a network is good: accepted volume, operating box."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer, checked_number
from jaxrob._arguments.texts import warn
from jaxrob._assessment.assess import provenance_of
from jaxrob._assessment.criterion import Criterion, Tolerance, checked_measure
from jaxrob._assessment.explore import SomeImages, check_goes_with
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._domain import Domain
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import warn_of_dependence
from jaxrob._keys import host_generator
from jaxrob.domains._box_search import BoxSearch
from jaxrob.domains._levels import LevelsAt, by_distribution, in_words
from jaxrob.domains._results import DomainAssessment, OperatingBox
from jaxrob.strategies import Found, Strategy, Volume
from jaxrob.strategies._drive import Explored, Subject, concluded, drive
from jaxrob.strategies._strategy import Task, check_strategy, needs_scores

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


@own_errors()
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
      batch_size, mesh, progress: see `evaluate`.
      journal: see `assess`.

    Returns:
      The `DomainAssessment`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the strategy measures no volume,
        the distribution has no quantiles or no mass in the box, or as `assess`.
      OSError: if the journal cannot be read or written.
    """
    check_type("domain", domain, Domain, "a jaxrob.Domain")
    given = Arguments(classifier, dataset, [domain], key, mesh, batch_size)
    arguments = checked(given._replace(journal=journal, progress=progress, score=score))
    check_strategy(strategy)
    if not needs_scores(strategy) or "volume" not in strategy.rules:
        raise ValueError(
            "strategy must measure a volume, such as jaxrob.strategies.Volume(); got "
            f"{strategy!r}"
        )
    measure = checked_measure(measure, arguments.score)
    criterion = Criterion(threshold, measure, alpha, Tolerance(), confidence_level)
    levels_at, distribution = Task(domain.lower, domain.upper, threshold).levels_at, ""
    if level_distribution is not None:
        levels_at = by_distribution(domain, level_distribution)
        distribution = in_words(level_distribution)
    answers, explored, found, common = _searched(
        arguments, criterion, strategy, levels_at
    )
    (subject,) = answers.subjects
    levels = subject.canonical(levels_at(explored.history.levels))
    seen, sides = answers.at(0, levels), found.sides
    # One by one, because all levels' counts by class may be large.
    values = [
        criterion.values(answers.curve(levels[[place]], [row]))[0][0]
        for place, row in enumerate(seen)
    ]
    assert found.robustness is not None
    return DomainAssessment(
        level_distribution=distribution,
        strategy=repr(strategy),
        guarantee=getattr(strategy, "guarantee", ""),
        accepted_volume=found.robustness,
        dataset_interval=found.interval,
        confidence_interval=found.population_interval,
        status=found.status,
        levels=levels,
        seen=np.array([one.number for one in seen]),
        values=np.array(values),
        sides=np.zeros(len(levels), int) if sides is None else sides,
        **common,
    )


@own_errors()
def operating_box(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    domain: Domain,
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    accepted_share: float = 0.99,
    confidence_level: float = 0.95,
    fixed: Mapping[str, Sequence[float | None]] | None = None,
    budget: int = 200_000,
    score: Score | Callable[[Any, Any], Any] | None = None,
    alpha: float | None = None,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> OperatingBox:
    """Looks for the largest box around the unaltered level that is accepted.

    A model of the measure chooses boxes and proves nothing. A box is claimed only if
    all of several hundred fresh random levels in it are accepted; after a failure the
    model learns from it, and a smaller box needs more levels.

    Example::

        found = jaxrob.operating_box(
            classifier, dataset, domain, fixed={"brightness": (-0.2, None)}
        )
        print(found)

    Args:
      classifier, dataset, domain, threshold, measure: see `assess_domain`.
      accepted_share: the share of the box to be accepted at least, in [0.5, 1).
      confidence_level: how sure that shall be, in (0, 1).
      fixed: faces that the box must have, `(lowest, highest)` by the alteration's name;
        None for an end that is free. They must hold the unaltered level.
      budget: the most images classified.
      score, alpha, key, batch_size, mesh, journal, progress: see `assess_domain`.

    Returns:
      The `OperatingBox`; without a box it says why.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, a fixed face is of no alteration
        or on the wrong side of the unaltered level, or as `assess`.
      OSError: if the journal cannot be read or written.
    """
    check_type("domain", domain, Domain, "a jaxrob.Domain")
    accepted_share = checked_number(
        "accepted_share", accepted_share, at_least=0.5, below=1
    )
    budget = checked_integer("budget", budget, at_least=1)
    box_of = Task(domain.lower, domain.upper, threshold)
    faces = box_of.positions_of(_checked_faces(domain, fixed))
    search = BoxSearch(accepted_share, budget, faces)
    given = Arguments(classifier, dataset, [domain], key, mesh, batch_size)
    arguments = checked(given._replace(journal=journal, progress=progress, score=score))
    measure = checked_measure(measure, arguments.score)
    criterion = Criterion(threshold, measure, alpha, Tolerance(), confidence_level)
    _, explored, _, common = _searched(arguments, criterion, search, box_of.levels_at)
    state, lower, upper, volume, validated = explored.state, None, None, 0.0, 0
    if state.status == "validated":
        lower, upper = box_of.levels_at(np.array(state.box))
        volume, validated = state.box.volume, len(state.fresh)
    return OperatingBox(
        accepted_share=accepted_share,
        status=state.status,
        lower=lower,
        upper=upper,
        volume=volume,
        validated=validated,
        attempts=state.attempt,
        **common,
    )


def _checked_faces(domain: Domain, fixed: Any) -> np.ndarray:
    """Returns the fixed faces, `[2, d]`; NaN for free ones."""
    found = np.full((2, len(domain.alterations)), np.nan)
    wanted = "a mapping from names to (lowest, highest)"
    check_type("fixed", fixed, Mapping | None, wanted)
    names = [one.name for one in domain.alterations]
    for name, ends in (fixed or {}).items():
        if name not in names:
            raise ValueError(f"fixed must name alterations, of {names}; got {name!r}")
        place = names.index(name)
        one, what = domain.alterations[place], f"fixed: {name}"
        if not isinstance(ends, Sequence) or len(ends) != 2:
            raise ValueError(f"{what} must be (lowest, highest); got {ends!r}")
        limits = (one.lower, one.identity), (one.identity, one.upper)
        for side, (end, (least, most)) in enumerate(zip(ends, limits)):
            if end is not None:
                found[side, place] = checked_number(
                    what, end, at_least=least, at_most=most
                )
    if (found[0] == found[1]).any():
        raise ValueError("fixed must leave each alteration a range; got an empty one")
    return found


def _searched(
    arguments: Arguments, criterion: Criterion, strategy: Any, levels_at: LevelsAt
) -> tuple[SomeImages, Explored, Found, dict[str, Any]]:
    """The strategy sees the unit cube, the classifier the levels there."""
    # The last are the fields that both results have.
    check_goes_with(arguments, criterion, strategy)
    with prepare_run(arguments) as prepared, source_ahead(prepared) as run:
        key = arguments.key
        seed = 0 if key is None else int(host_generator(key).integers(2**31))
        answers = SomeImages(run, criterion, strategy, seed)
        (subject,) = answers.subjects
        identity = subject.task.positions_of(np.array(subject.task.identity))
        task = subject.task._replace(
            lower=(0.0,) * len(identity),
            upper=(1.0,) * len(identity),
            identity=tuple(identity.tolist()),
        )

        def canonical(points: np.ndarray) -> np.ndarray:
            return subject.canonical(levels_at(points))

        in_cube = Subject(subject.name, task, np.asarray, canonical)
        (explored,) = drive(strategy, [in_cube], answers.look)
        warn_of_dependence(run.source()["dataset"], task.num_images or 1)
        found = concluded(strategy, in_cube, explored)
        is_volume = found.robustness is not None
        if is_volume and task.groups is not None and found.population_interval is None:
            warn(
                "the images are in groups, so that the interval of the accepted volume "
                "is of this data set alone: none is known for all images of the kind"
            )
    common = {
        "axes": run.alterations[0].axes,
        "threshold": criterion.threshold,
        "measure": criterion.measure,
        "alpha": criterion.alpha,
        "confidence_level": criterion.confidence_level,
        "evaluations": answers.evaluations(0),
        "num_images": task.num_images,
        "warnings": run.warnings(0),
        "provenance": provenance_of(run, run.alterations[0]),
        "seconds": answers.seconds[0],
    }
    return answers, explored, found, common
