"""The results of one domain together, as a folder of results keeps them."""

import dataclasses

from jaxrob._codec import Document, document
from jaxrob._domain import Axis
from jaxrob.domains._assess import DomainAssessment
from jaxrob.domains._box import OperatingBox
from jaxrob.domains._failure import FailureProbability


@document("jaxrob domain results 1")
@dataclasses.dataclass(frozen=True, eq=False)
class DomainResults(Document):
    """What is known of a network in one operating domain.

    Attributes:
      volume: what `jaxrob.assess_domain` found.
      box: what `jaxrob.operating_box` found, or None.
      failure: what `jaxrob.failure_probability` found, or None.
    """

    volume: DomainAssessment
    box: OperatingBox | None = None
    failure: FailureProbability | None = None

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
