"""The exploration of an alteration by a search."""

from typing import NamedTuple

from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob._assessment.per_image import check_per_image
from jaxrob._assessment.sampling import Sampling
from jaxrob._curve import AnyCurve
from jaxrob.alterations import Alteration
from jaxrob.strategies import ASAP, History, Strategy, Task, Uniform
from jaxrob.strategies._drive import Subject
from jaxrob.strategies._few.search import FewImages
from jaxrob.strategies._few.stopping import StoppingRule

# The arguments that ask for few images.
_FEW = "half_width, budget, curtail and required"


class Exploration(NamedTuple):
    """A strategy's findings about one alteration.

    Attributes:
      curve: the answers at the levels that the strategy asked for, ascending.
      history: the measure's values there.
      error_bound: the strategy's error bound, or None.
      diagnostics: how the curve was sampled.
      nominal: the measure's value at the identity, if the scoring needs it.
      seconds: the time that computing the answers took.
      sampling: for few images, the conclusions and the cost; None for all images.
    """

    curve: AnyCurve
    history: History
    error_bound: float | None
    diagnostics: Diagnostics
    nominal: float | None
    seconds: float
    sampling: Sampling | None = None


def few_images(
    strategy: Strategy, criterion: Criterion, rule: str | None, stopping: StoppingRule
) -> FewImages:
    """Returns the search by few images at the levels of a strategy."""
    if not isinstance(strategy, ASAP | Uniform):
        raise ValueError(
            f"{_FEW} go with strategies.ASAP and strategies.Uniform alone, whose "
            f"levels are chosen by sides of the threshold; got {strategy!r}"
        )
    check_few(criterion, rule, _FEW)
    return FewImages(strategy, stopping)


def check_few(criterion: Criterion, rule: str | None, what: str) -> None:
    """Rejects arguments that need all images."""
    if rule is not None:
        raise ValueError(
            f"rule does not go with {what}, whose robustness is a best guess in "
            f"dataset_interval; got {rule!r}"
        )
    if not criterion.scoring.is_plain:
        raise ValueError(
            f"tolerance does not go with {what}, "
            "because it needs the measure's value at every level"
        )
    check_per_image(criterion)


def subject_of(
    alteration: Alteration, strategy: Strategy, criterion: Criterion
) -> Subject:
    """Returns an alteration as a strategy's subject, for all images."""
    one = alteration
    task = Task(one.lower, one.upper, criterion.threshold, one.identity)
    return Subject(one.name, strategy, task, one.snap, one.canonical)
