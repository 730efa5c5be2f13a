"""The operating box: the largest one of levels that is accepted almost everywhere."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer, checked_number
from jaxrob._arguments.texts import readable
from jaxrob._assessment.assess import checked_measure, provenance_of
from jaxrob._assessment.assessment import MEASURE, Provenance
from jaxrob._assessment.criterion import Criterion, Tolerance
from jaxrob._assessment.explore import SomeImages, check_few
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._codec import Array, Document, Integer, Number, Text, document, read
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._domain import Axis, Domain
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import warn_of_dependence
from jaxrob.domains._assess import in_the_cube, seed_of
from jaxrob.domains._box_search import BoxSearch
from jaxrob.domains._levels import uniform
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.strategies._drive import drive

_UNIT = Number(at_least=0, at_most=1)
_Ends = Annotated[np.ndarray | None, Array("d")]
# Why there is no box.
REASONS = {
    "identity": "unaltered, the measure is below the threshold",
    "fixed": "no box with the fixed faces passed",
    "model": "no box around the unaltered level passed",
    "budget": "the budget was spent before a box passed",
}


@document("jaxrob operating box 1")
@dataclasses.dataclass(frozen=True, eq=False)
class OperatingBox(Document):
    """A box of levels of which almost all are accepted, or why there is none.

    With the confidence, at least `accepted_share` of the box's volume is accepted: all
    of `validated` fresh random levels in it were, which no search had looked at.

    Attributes:
      axes: the alterations in the order in which they are applied, see
        `DomainAssessment`.
      threshold: the lowest value of the measure that is accepted.
      measure: the quality measure, see `jaxrob.assess`.
      accepted_share: the share of the box that is accepted at least.
      confidence_level: how sure that is, in (0, 1).
      status: "validated"; else why there is no box: "identity", "fixed", "model" or
        "budget".
      lower: float64 `[d]`, the box's lowest levels; None without a box.
      upper: float64 `[d]`, its highest levels; None without a box.
      volume: its share of the domain's range, in [0, 1]; 0 without a box.
      validated: the fresh levels in it, all accepted; 0 without a box.
      attempts: how many boxes were tried.
      evaluations: the number of images classified.
      num_images: the number of images in the data set that count.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      provenance: as of an `Assessment`.
      seconds: the time it took.
    """

    axes: tuple[Axis, ...]
    threshold: Annotated[float, _UNIT]
    measure: Annotated[str, MEASURE]
    accepted_share: Annotated[float, _UNIT]
    confidence_level: Annotated[float, Number(above=0, below=1)]
    status: Annotated[str, Text(allowed=("validated", *REASONS))]
    lower: _Ends
    upper: _Ends
    volume: Annotated[float, _UNIT]
    validated: Annotated[int, Integer(at_least=0)]
    attempts: Annotated[int, Integer(at_least=0)]
    evaluations: Annotated[int, Integer(at_least=1)]
    num_images: Annotated[int, Integer(at_least=1)]
    warnings: tuple[str, ...] = ()
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    seconds: Annotated[float, Number(at_least=0)] = 0.0

    def __repr__(self) -> str:
        """The faces and what is claimed of them, or why there is no box."""
        if self.lower is None or self.upper is None:
            said = f"no box: {REASONS[self.status]}"
        else:
            faces = zip(self.axes, self.lower, self.upper)
            said = ", ".join(
                readable(f"{one.name} {low:.4g} to {high:.4g} {one.unit}".rstrip())
                for one, low, high in faces
            )
            said += (
                f"; with {100 * self.confidence_level:.8g} % confidence at least "
                f"{self.accepted_share:.4g} of it has {self.measure} >= "
                f"{self.threshold:g}; {self.volume:.3g} of the range"
            )
        return f"OperatingBox({said}; {self.evaluations:,} evaluations)"

    def _check_together(self) -> None:
        given = self.provenance
        read(Provenance, given, "provenance", is_partial=True, ignores_unknown=True)


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
    budget: int = 100_000,
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
      classifier: the classifier.
      dataset: the test set, see `assess`.
      domain: the alterations.
      threshold: the lowest accepted value of the measure, in [0, 1].
      measure: a measure that is a mean over images, see `assess_domain`.
      accepted_share: the share of the box to be accepted at least, in (0, 1).
      confidence_level: how sure that shall be, in (0, 1).
      fixed: faces that the box must have, `(lowest, highest)` by the alteration's name;
        None for an end that is free. They must hold the unaltered level.
      budget: the most images classified.
      score: see `assess`.
      alpha: see `assess`.
      key: see `assess`. It also chooses the levels.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      journal: see `assess`.
      progress: see `evaluate`.

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
    level = checked_confidence_level(confidence_level)
    budget = checked_integer("budget", budget, at_least=1)
    search = BoxSearch(accepted_share, budget, _faces(domain, fixed))
    given = classifier, dataset, [domain], key, mesh, batch_size
    shared = Arguments(*given, False, journal, progress, score)
    arguments = checked(shared, Domain, "a jaxrob.Domain")
    measure = checked_measure(measure, arguments.score)
    criterion = Criterion(threshold, measure, alpha, Tolerance(), level)
    check_few(search, criterion, None, domain.alterations)
    criterion.check(classifier, False)
    with (
        own_errors(),
        prepare_run(arguments) as prepared,
        source_ahead(prepared) as run,
    ):
        images = SomeImages(run, criterion, search, seed_of(key))
        start = time.perf_counter()
        subject = in_the_cube(images.subjects[0], uniform(domain))
        (explored,) = drive(search, [subject], images.look)
        state, box = explored.state, explored.state.box
        is_found = state.status == "validated"
        ends = uniform(domain)(np.array(box)) if is_found else (None, None)
        if isinstance(run.dataset, Dataset):
            warn_of_dependence(run.source()["dataset"], len(run.dataset))
        assert subject.task.num_images is not None
        return OperatingBox(
            axes=domain.axes,
            threshold=criterion.threshold,
            measure=measure,
            accepted_share=accepted_share,
            confidence_level=level,
            status=state.status,
            lower=ends[0],
            upper=ends[1],
            volume=box.volume if is_found else 0.0,
            validated=len(state.fresh) if is_found else 0,
            attempts=state.attempt,
            evaluations=images.evaluations(0),
            num_images=subject.task.num_images,
            warnings=(*run.warned, *run.warned_of_each[0]),
            provenance=provenance_of(run, domain),
            seconds=time.perf_counter() - start,
        )


def _faces(domain: Domain, fixed: Any) -> np.ndarray:
    """Returns the fixed faces in the unit cube, `[2, d]`; NaN for free ones."""
    found = np.full((2, len(domain.alterations)), np.nan)
    if fixed is None:
        return found
    check_type("fixed", fixed, Mapping, "a mapping from names to (lowest, highest)")
    names = [one.name for one in domain.alterations]
    for name, ends in fixed.items():
        if name not in names:
            raise ValueError(f"fixed must name alterations, of {names}; got {name!r}")
        place = names.index(name)
        one, what = domain.alterations[place], f"fixed: {name}"
        if not isinstance(ends, Sequence) or len(ends) != 2:
            raise ValueError(f"{what} must be (lowest, highest); got {ends!r}")
        limits = (one.lower, one.identity), (one.identity, one.upper)
        for side, (end, (least, most)) in enumerate(zip(ends, limits)):
            if end is not None:
                end = checked_number(what, end, at_least=least, at_most=most)
                found[side, place] = (end - one.lower) / (one.upper - one.lower)
    if (found[0] == found[1]).any():
        raise ValueError("fixed must leave each alteration a range; got an empty one")
    return found
