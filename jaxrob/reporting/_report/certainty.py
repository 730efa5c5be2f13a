"""The certainty of verdicts on requirements, in words."""

import math

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.document import Sampling
from jaxrob.reporting._few import confidence_text, is_open_by_levels
from jaxrob.reporting._report.text import interval, percent, points
from jaxrob.reporting._requirement import Requirement


def certainty(
    one: Assessment, requirement: Requirement, joint: tuple[float, float], number: int
) -> str:
    """Describes how sure a verdict on an alteration's robustness is, by both errors."""
    if one.sampling is not None and requirement.quantity == "robustness":
        on_data = _on_data(one, one.sampling, requirement.bound)
        return f"{on_data}. For all images: {_of_all(one, requirement, joint, number)}"
    return _of_all(one, requirement, joint, number)


def _on_data(one: Assessment, sampling: Sampling, least: float) -> str:
    """Describes how sure a verdict from few images is for the whole data set."""
    low, high = one.dataset_interval
    if low >= least:
        return f"on this data set it is reached, {confidence_text(sampling)}"
    if high < least:
        return f"on this data set it is missed, {confidence_text(sampling)}"
    if is_open_by_levels(sampling):
        return f"on this data set {interval(low, high)}, which the levels leave open"
    return "not sure on this data set; more images would tell"


def _of_all(
    one: Assessment, requirement: Requirement, joint: tuple[float, float], number: int
) -> str:
    """Describes how sure a verdict is for the population of images."""
    low, high = one.confidence_interval
    if math.isnan(one.robustness) or math.isnan(low) or math.isnan(high):
        return ""
    found, least = interval(low, high), requirement.bound
    if low >= least:
        margins = joint[0] - least, low - least
        adjustments = _adjustments(one, margins, number, is_met=True)
        return f"{found} suffices{adjustments}"
    if high < least:
        margins = least - joint[1], least - high
        adjustments = _adjustments(one, margins, number, is_met=False)
        return f"{found} falls short{adjustments}"
    words = f"not shown either way: {found} contains {percent(least)}"
    if requirement.quantity == "robustness" and one.sampling is None:
        words = f"true of the tested images; for all images {words}"
    return words


def _adjustments(
    one: Assessment, margins: tuple[float, float], number: int, *, is_met: bool
) -> str:
    """Says whether a verdict survives adjusted intervals, and the levels' error."""
    holds, fails, unknown = [], [], []
    if number > 1:
        words = f"for all {number} at once"
        if math.isnan(margins[0]):
            unknown.append(words)
        else:
            # An end equal to the requirement meets it.
            kept = margins[0] >= 0 if is_met else margins[0] > 0
            (holds if kept else fails).append(words)
    if one.sampling is not None:
        pass  # The interval covers the errors of levels and images.
    elif one.error_bound is None:
        unknown.append("with the error of the levels")
    elif one.error_bound > 0:
        words = f"with the levels' {points(one.error_bound)}"
        left = margins[1] - one.error_bound
        kept = left >= 0 if is_met else left > 0
        (holds if kept else fails).append(words)
    return (
        (f", also {' and '.join(holds)}" if holds else "")
        + (f", but not {' or '.join(fails)}" if fails else "")
        + (f"; not known {' or '.join(unknown)}" if unknown else "")
    )
