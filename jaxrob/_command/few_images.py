"""The flags `--half_width`, `--budget` and `--curtail`, for as few images as needed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxrob._assessment.criterion import Criterion
from jaxrob._assessment.per_image import check_per_image
from jaxrob._assessment.scoring import Scoring
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob.reporting import Plan, Requirement
from jaxrob.reporting._plan import AT_LEAST
from jaxrob.strategies._few.stopping import checked_stopping

FLAGS = ("half_width", "budget", "curtail")


class FewImagesFlags(NamedTuple):
    """The limits on the number of images; arguments of `jaxrob.assess`.

    Attributes:
      half_width: half the width of the wanted interval, or None.
      budget: the largest number of altered images to classify, or None.
      curtail: whether levels end only if the unseen images cannot change them.
      required: the required robustness, or None; the work ends once its answer is
        certain.
    """

    half_width: float | None = None
    budget: int | None = None
    curtail: bool = False
    required: float | None = None


def requested(values: Values, plan: Plan | None) -> FewImagesFlags | None:
    """Returns the limits of the flags or the plan; None for all images."""
    given = [name for name in FLAGS if values[name].present]
    found: Any = values
    if plan is not None and plan.wants_few:
        if given:
            raise Refused(f"--{given[0]}: the plan says it; leave it out, or the plan")
        found = plan
    wanted = FewImagesFlags(found.half_width, found.budget, found.curtail)
    try:
        few = checked_stopping(*wanted, confidence_level=0.95)
    except ValueError as error:
        raise Refused(f"--{error}") from error
    return None if few is None else wanted


def with_requirements(
    few: FewImagesFlags, requirements: Sequence[Requirement], earlier: Sequence[str]
) -> FewImagesFlags:
    """Adds the requirement that ends the work early."""
    # This is the highest bound on the robustness, if all requirements are such bounds
    # of all alterations: the lower end of an interval is most informative if the work
    # was not ended early.
    flags = "--half_width, --budget and --curtail"
    if earlier:
        raise Refused(
            "--regressions and --earlier compare the answers on every image at every "
            f"level, which {flags} leave out; leave these out, or those"
        )
    known = ("robustness", "robustness.low")
    for one in requirements:
        if one.quantity in known:
            continue
        raise Refused(
            f"--require: {one.quantity} needs all images; leave it out, or "
            f"{flags}. What goes with them: robustness, which ends each alteration as "
            "soon as it is certain, and robustness.low, which does not"
        )
    # One bound ends all alterations.
    if any(
        one.quantity != "robustness" or one.sign != AT_LEAST or one.alteration
        for one in requirements
    ):
        return few
    least = max((one.bound for one in requirements), default=None)
    return few._replace(required=least)


def check_measure(threshold: float, measure: str, alpha: float | None) -> None:
    """Rejects measures that need all images."""
    scoring = Scoring(None, None, None)
    try:
        check_per_image(Criterion(threshold, measure, alpha, scoring))
    except ValueError as error:
        raise Refused(f"--{error}") from error


def arguments(few: FewImagesFlags | None) -> Mapping[str, Any]:
    """Returns the arguments of `jaxrob.assess`."""
    return {} if few is None else few._asdict()
