"""What is found in an operating domain: accepted volume, box, failure probability."""

import dataclasses
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import readable
from jaxrob._assessment.assessment import MEASURE, Provenance
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
from jaxrob._domain import Axis
from jaxrob.metrics import ConfidenceInterval
from jaxrob.strategies._strategy import STATUSES

_UNIT = Number(at_least=0, at_most=1)
_Share = Annotated[float, _UNIT]
_Interval = Annotated[ConfidenceInterval, Row(_UNIT, ascends=True)]
_Number = Annotated[int, Integer(0, 2**53)]
_Numbers = Annotated[np.ndarray, Array("K", "int64", at_least=0)]
_Ends = Annotated[np.ndarray | None, Array("d")]
# Why there is no box.
REASONS = {
    "identity": "unaltered, the measure is below the threshold",
    "fixed": "no box with the fixed faces passed",
    "model": "no box around the unaltered level passed, or seemed to",
    "budget": "the budget was spent before a box passed",
}


@dataclasses.dataclass(frozen=True, eq=False)
class _Found(Document):
    axes: tuple[Axis, ...]
    _: dataclasses.KW_ONLY  # So that its own fields come first in a document.
    confidence_level: Annotated[float, Number(above=0, below=1)]
    evaluations: _Number
    num_images: Annotated[int, Integer(1)]
    warnings: tuple[str, ...] = dataclasses.field(repr=False)
    provenance: dict[str, Any] = dataclasses.field(repr=False)
    seconds: Annotated[float, Number(at_least=0)]

    def _check_together(self) -> None:
        name, given = "provenance", self.provenance
        read(Provenance, given, name, is_partial=True, ignores_unknown=True)


@document("jaxrob domain assessment 1")
@dataclasses.dataclass(frozen=True, eq=False)
class DomainAssessment(_Found):
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
      status: why the search ended: "precise" if the interval is as narrow as wanted,
        "budget" if the budget is spent, "resolution" if the levels tell no more, as
        where the measure lies on the threshold over a wide area.
      levels: float64 `[L, d]`, the levels that were looked at.
      seen: integers `[L]`, on how many images.
      values: float64 `[L]`, the measure on these.
      sides: integers `[L]`, by all images: 1 accepted, -1 not accepted, 0 open.
      confidence_level: the coverage of both intervals, in (0, 1).
      evaluations: how many images were classified.
      num_images: N, the images of the data set that count.
      warnings: what the call warned of (`jaxrob.RobustnessWarning`), a message each.
      provenance: see `jaxrob.provenance`, with the domain as "alteration".
      seconds: the time the answers took, compilation included.
    """

    threshold: _Share
    measure: Annotated[str, MEASURE]
    alpha: Annotated[float | None, _UNIT]
    level_distribution: str
    strategy: str
    guarantee: Annotated[str, Text(allowed=("calibrated", "proven", ""))]
    accepted_volume: _Share
    dataset_interval: _Interval
    confidence_interval: Annotated[ConfidenceInterval | None, Row(_UNIT, ascends=True)]
    status: Annotated[str, Text(allowed=STATUSES)]
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

    def _check_together(self) -> None:
        super()._check_together()
        number = len(self.axes)
        refuse(self.levels.shape[1] != number, f"levels must be of {number} axes")


@document("jaxrob operating box 1")
@dataclasses.dataclass(frozen=True, eq=False)
class OperatingBox(_Found):
    """A box of levels of which almost all are accepted, or why there is none.

    With the confidence, at least `accepted_share` of the box's volume is accepted: all
    of `validated` fresh random levels in it were, which no search had looked at.

    Attributes that are not listed are as of a `DomainAssessment`.

    Attributes:
      accepted_share: the share of the box that is accepted at least.
      status: "validated"; else why there is no box: "identity", "fixed", "model" or
        "budget".
      lower: float64 `[d]`, the box's lowest levels; None without a box.
      upper: float64 `[d]`, its highest levels; None without a box.
      volume: its share of the domain's range, in [0, 1]; 0 without a box.
      validated: the fresh levels in it, all accepted; 0 without a box.
      attempts: how many boxes were tried.
      confidence_level: how sure the claim is, in (0, 1).
    """

    threshold: _Share
    measure: Annotated[str, MEASURE]
    alpha: Annotated[float | None, _UNIT]
    accepted_share: _Share
    status: Annotated[str, Text(allowed=("validated", *REASONS))]
    lower: _Ends
    upper: _Ends
    volume: _Share
    validated: _Number
    attempts: _Number

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


@document("jaxrob failure probability 1")
@dataclasses.dataclass(frozen=True, eq=False)
class FailureProbability(_Found):
    """How probable it is that an image is misclassified at levels from a profile.

    Attributes that are not listed are as of a `DomainAssessment`.

    Attributes:
      profile: the levels' distribution, as text.
      probability: the estimate, in [0, 1].
      dataset_interval: the interval of the probability for the images of this data set,
        each as probable as another: more draws narrow it.
      confidence_interval: the interval for all images of the kind tested. It is over
        the images' own shares of failures, so that levels cannot replace images.
      status: "precise" if `dataset_interval` is as narrow as wanted, "budget" if the
        budget is spent.
      unaltered: how many images were classified unaltered, for their margins; they
        count in `evaluations`.
      images: int `[K]`, the images in each group, from the lowest margin on; all in one
        group if draws were plain.
      draws: int `[K]`, draws of these images, each at a level of its own.
      failures: int `[K]`, how many of them were misclassified.
    """

    profile: str
    probability: _Share
    dataset_interval: _Interval
    confidence_interval: _Interval
    status: Annotated[str, Text(allowed=("precise", "budget"))]
    unaltered: _Number
    images: _Numbers
    draws: _Numbers
    failures: _Numbers

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


class Corners(NamedTuple):
    """Pictures of a few images, unaltered and at corners of the box of levels.

    Attributes:
      images: integers `[P, H, W, C]` of 0 to 255, reduced to what a page shows.
      levels: float64 `[P, d]`, the level of each; each image begins unaltered.
    """

    images: Annotated[np.ndarray, Array("P, H, W, C", "int64", 0, 255)]
    levels: Annotated[np.ndarray, Array("P, d")]


@document("jaxrob domain results 1")
@dataclasses.dataclass(frozen=True, eq=False)
class DomainResults(Document):
    """What is known of a network in one operating domain.

    Attributes:
      volume: what `jaxrob.assess_domain` found.
      box: what `jaxrob.operating_box` found, or None.
      failure: what `jaxrob.failure_probability` found, or None.
      corners: examples of pictures; None where images are no pictures.
    """

    volume: DomainAssessment
    box: OperatingBox | None = None
    failure: FailureProbability | None = None
    corners: Corners | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The alterations, in the order in which they are applied."""
        return self.volume.axes

    @property
    def name(self) -> str:
        """The names of the alterations, in this order."""
        return " + ".join(one.name for one in self.axes)

    @property
    def seconds(self) -> float:
        """The time that all took."""
        parts = self.volume, self.box, self.failure
        return sum(one.seconds for one in parts if one is not None)
