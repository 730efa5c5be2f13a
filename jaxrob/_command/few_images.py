"""The flags `--half_width`, `--budget` and `--curtail`, for as few images as needed."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxrob._assessment.criterion import ratio_per_image
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob.reporting import Plan, Requirement
from jaxrob.reporting._requirements import AT_LEAST
from jaxrob.strategies import ASAP, FewImages, Uniform

FLAGS = ("half_width", "budget", "curtail")


def requested(values: Values, plan: Plan | None) -> FewImages | None:
    """Returns the search of the flags or the plan; None for all images."""
    given = [name for name in FLAGS if values[name].present]
    found: Any = values
    if plan is not None and plan.wants_few:
        if given:
            raise Refused(f"--{given[0]}: the plan says it; leave it out, or the plan")
        found = plan
    half_width, budget, curtail = found.half_width, found.budget, found.curtail
    if half_width is None and budget is None and not curtail:
        return None
    levels = ASAP() if values.levels is None else Uniform(values.levels)
    try:
        return FewImages(levels, half_width, budget, curtail)
    except ValueError as error:
        raise Refused(f"--{error}") from error


def with_requirements(
    few: FewImages, requirements: Sequence[Requirement], earlier: Sequence[str]
) -> FewImages:
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
    return dataclasses.replace(few, required=least)


def check_measure(measure: str) -> None:
    try:
        ratio_per_image(measure)
    except ValueError as error:
        raise Refused(f"--{error}") from error
