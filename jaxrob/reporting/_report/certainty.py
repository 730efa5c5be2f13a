"""How sure it is that a requirement is met, or that it is not."""

import math

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.sampling import Sampling
from jaxrob.reporting._few import how_sure, is_open_by_levels
from jaxrob.reporting._gate import Requirement
from jaxrob.reporting._report.text import interval, percent, points


def certainty(
    one: Assessment, requirement: Requirement, joint: tuple[float, float], number: int
) -> str:
    """In words, what the two errors leave of a verdict on an alteration's robustness.

    Args:
      one: the assessment.
      requirement: what is required of it.
      joint: the interval that holds together with all others of the report.
      number: how many those are.
    """
    if requirement.quantity not in ("robustness", "robustness.low"):
        return "" if one.sampling else "a value of the tested images alone"
    if one.sampling is not None and requirement.quantity == "robustness":
        on_data = _on_data(one, one.sampling, requirement.least)
        return f"{on_data}. For all images: {_of_all(one, requirement, joint, number)}"
    return _of_all(one, requirement, joint, number)


def _on_data(one: Assessment, sampling: Sampling, least: float) -> str:
    """How sure a verdict is on the images of the data set, of which few were seen."""
    low, high = one.dataset_interval
    if low >= least:
        return f"on this data set it is reached, {how_sure(sampling)}"
    if high < least:
        return f"on this data set it is missed, {how_sure(sampling)}"
    if is_open_by_levels(sampling):
        return f"on this data set {interval(low, high)}, which the levels leave open"
    return "not sure on this data set; more images would tell"


def _of_all(
    one: Assessment, requirement: Requirement, joint: tuple[float, float], number: int
) -> str:
    """How sure it is for all images of the kind tested."""
    low, high = one.confidence_interval
    if math.isnan(one.robustness) or math.isnan(low) or math.isnan(high):
        return ""
    found, least = interval(low, high), requirement.least
    if low >= least:
        reached = joint[0] - least, low - least
        return f"shown: the whole interval, {found}, is high enough" + _still(
            one, reached, "taken off", number
        )
    if high < least:
        reached = least - joint[1], least - high
        return f"shown to fall short: the whole interval, {found}, is too low" + _still(
            one, reached, "added", number
        )
    words = f"not shown either way: the interval, {found}, holds {percent(least)}"
    if requirement.quantity == "robustness" and one.sampling is None:
        words = f"true of the tested images; for all images {words}"
    return words


def _still(one: Assessment, reached: tuple[float, float], how: str, number: int) -> str:
    """What is left where all intervals are to hold at once, and of the levels' error.

    Args:
      one: the assessment.
      reached: by how much the adjusted interval lies on the right side, and the plain.
      how: what the levels' error does to the plain one.
      number: how many intervals there are.
    """
    holds, fails, unknown = [], [], []
    if number > 1:
        words = f"for all {number} intervals at once"
        if math.isnan(reached[0]):
            unknown.append(words)
        else:
            # An end on what is required is high enough, and not too low.
            kept = reached[0] >= 0 if how == "taken off" else reached[0] > 0
            (holds if kept else fails).append(words)
    if one.sampling is not None:
        pass  # The interval is of levels and images together.
    elif one.error_bound is None:
        unknown.append("with the error of the levels")
    elif one.error_bound > 0:
        words = f"with the levels' {points(one.error_bound)} {how}"
        left = reached[1] - one.error_bound
        kept = left >= 0 if how == "taken off" else left > 0
        (holds if kept else fails).append(words)
    return (
        (f", also {' and '.join(holds)}" if holds else "")
        + (f", but not {' or '.join(fails)}" if fails else "")
        + (f"; not known {' or '.join(unknown)}" if unknown else "")
    )
