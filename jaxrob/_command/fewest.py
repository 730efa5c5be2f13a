"""`--half_width`, `--budget` and `--curtail`: as few images as the answer needs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.per_image import check_per_image
from jaxrob._assessment.scoring import Scoring
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob.reporting import Plan, Requirement
from jaxrob.strategies._few.stopping import checked_stopping

FLAGS = ("half_width", "budget", "curtail")


class Fewest(NamedTuple):
    """What is asked of the number of images; the arguments of `jaxrob.assess`.

    Attributes:
      half_width: half the width of the interval that is wanted, or None.
      budget: the most altered images that are classified, or None.
      curtail: whether levels end only where the images left cannot change them.
      required: the least robustness, or None; the work ends once it is certain.
    """

    half_width: float | None = None
    budget: int | None = None
    curtail: bool = False
    required: float | None = None


def asked(values: Values, plan: Plan | None) -> Fewest | None:
    """What the flags say, or the plan; None where all images are looked at.

    Raises:
      Refused: if both say it, or a value is out of range.
    """
    given = [name for name in FLAGS if values[name].present]
    found: Any = values
    if plan is not None and plan.wants_few:
        if given:
            raise Refused(f"--{given[0]}: the plan says it; leave it out, or the plan")
        found = plan
    wanted = Fewest(found.half_width, found.budget, found.curtail)
    try:
        few = checked_stopping(*wanted, confidence_level=0.95)
    except ValueError as error:
        raise Refused(f"--{error}") from error
    return None if few is None else wanted


def with_requirements(
    few: Fewest, requirements: Sequence[Requirement], regressions: Sequence[str]
) -> Fewest:
    """The same, with the requirement that ends the work early.

    That is the strictest one of the robustness, if nothing else is required: the lower
    end of an interval says most where the work was not ended.

    Raises:
      Refused: if something is required that few images cannot tell.
    """
    flags = "--half_width, --budget and --curtail"
    if regressions:
        raise Refused(
            "--regressions compares the answers on every image at every level, which "
            f"{flags} leave out; leave these out, or --regressions"
        )
    if any(one.quantity == "decided_ratio" for one in requirements):
        raise Refused(
            "--require: decided_ratio is told by all images alone; leave it out, or "
            f"{flags}. What goes with them: robustness, which ends each alteration as "
            "soon as it is certain, and robustness.low, which does not"
        )
    if any(one.quantity != "robustness" for one in requirements):
        return few
    least = max((one.least for one in requirements), default=None)
    return few._replace(required=least)


def check_measure(threshold: float, measure: str, alpha: float | None) -> None:
    """Refuses measures that few images do not tell.

    Raises:
      Refused: if it is one.
    """
    scoring = Scoring(None, None, None)
    try:
        check_per_image(Criterion(threshold, measure, alpha, scoring))
    except ValueError as error:
        raise Refused(f"--{error}") from error


def arguments(few: Fewest | None) -> Mapping[str, Any]:
    """What `jaxrob.assess` is told."""
    return {} if few is None else few._asdict()
