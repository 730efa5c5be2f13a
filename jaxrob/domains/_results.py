"""The results of one domain together, as a folder of results keeps them."""

from typing import NamedTuple

from jaxrob._codec import document, from_json, to_json
from jaxrob.domains._assess import Axis, DomainAssessment
from jaxrob.domains._failure import FailureProbability


@document("jaxrob domain results 1")
class DomainResults(NamedTuple):
    """What is known of a network in one operating domain.

    Attributes:
      volume: what `jaxrob.assess_domain` found.
      failure: what `jaxrob.failure_probability` found, or None.
    """

    volume: DomainAssessment
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
        return self.volume.seconds + (self.failure.seconds if self.failure else 0)

    def to_json(self) -> str:
        """The results as strict JSON text."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "DomainResults":
        """Results from what `to_json` gave; errors as of `Assessment.from_json`."""
        return from_json(text, DomainResults)
