"""Verdicts: whether each requirement is met."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.document import Sampling
from jaxrob.reporting._gate import (
    MET,
    NOT_MET,
    NOT_SHOWN,
    Outcome,
    is_doubted,
    placed_of,
)
from jaxrob.reporting._plan import (
    AT_LEAST,
    Requirement,
)
from jaxrob.reporting._quantities import QUANTITIES
from jaxrob.reporting._report.report import Network, Report, Tested
from jaxrob.reporting._report.tested import is_as_planned, planned_text
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import (
    confidence_text,
    distinct_percent,
    interval,
    is_open_by_levels,
    percent,
    points,
    short,
)

_MOST_NAMES = 5  # Names of alterations in a sentence.


class Check(NamedTuple):
    """A requirement, and the value found for an alteration, RoMA or all of them."""

    requirement: str
    of: str
    found: str
    verdict: str
    certainty: str


class Verdict(NamedTuple):
    """The verdict on one network; `passed` is None if nothing was required.

    `meanings` are of the required quantities. Checks that are not met come first.
    """

    passed: bool | None
    words: str
    meanings: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    regressions: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        states = {one.verdict for one in self.checks}
        return NOT_SHOWN in states and NOT_MET not in states and not self.regressions


def verdict_of(network: Network, report: Report) -> Verdict:
    results, number = network.results, len(report.ones)
    order = (NOT_MET, NOT_SHOWN, MET)
    ordered = sorted(  # Stable.
        placed_of(results, max(number, 1)), key=lambda pair: order.index(pair[1].state)
    )
    every = [one for _, one in ordered]
    # RoMA comes after the assessments.
    tested = dict(enumerate(network.each))
    checks = tuple(
        _check(one, None if place is None else tested.get(place), number)
        for place, one in ordered
    )
    asked = dict.fromkeys(one.quantity for one in results.requirements)
    meanings = tuple((one, _meaning(one)) for one in asked)
    regressions = tuple(results.regressions)
    other = _other_than_planned(results)
    if not every and not regressions:
        words = f"No requirement was given, so nothing was passed or failed.{other}"
        return Verdict(None, words, meanings, checks, regressions)
    failed = [one for one in every if one.state != MET]
    begins = "Good enough: "
    if regressions or any(one.state == NOT_MET for one in failed):
        begins = "Not good enough: "
    elif failed:
        begins = "Not shown to be good enough: "
    said = _said(every, failed)
    if regressions:
        number_worse = counted(len(regressions), "respect")
        said.append(f"worse than an earlier result in {number_worse}")
    words = f"{begins}{'; '.join(said)}.{other}"
    passed = not failed and not regressions
    return Verdict(passed, words, meanings, checks, regressions)


def _meaning(quantity: str) -> str:
    about = QUANTITIES[quantity]
    if (about.low, about.high) == (0, 1):
        return f"is {about.meaning}"
    to = "upwards" if math.isinf(about.high) else f"to {about.high:g} (100 %)"
    low = f"{about.low:g} ({100 * about.low:g} %)"
    return f"from {low} {to}, is {about.meaning}"


def _said(every: Sequence[Outcome], failed: Sequence[Outcome]) -> list[str]:
    if not every:
        return []
    if not failed:
        many = len(every) > 1
        return [f"all {len(every)} checks met" if many else "the one check is met"]
    said = []
    for state in (NOT_MET, NOT_SHOWN):
        if some := [one for one in failed if one.state == state]:
            of = "" if said else f" of {counted(len(every), 'check')}"
            said.append(f"{len(some)}{of} {state} ({_names(some, every)})")
    return said


def _names(failed: Sequence[Outcome], every: Sequence[Outcome]) -> str:
    several = len({one.requirement.quantity for one in every}) > 1
    names = list(
        dict.fromkeys(
            short(one.subject) + f" {one.requirement.quantity}" * several
            for one in failed
        )
    )
    names[_MOST_NAMES:] = ["..."] * (len(names) > _MOST_NAMES)
    return ", ".join(names)


def _other_than_planned(results: Results) -> str:
    if is_as_planned(results):
        return ""
    return f" But the plan requires something else: {planned_text(results)}."


def _check(
    outcome: Outcome,
    assessed: Tested | None,
    number: int,
) -> Check:
    asked = outcome.requirement
    how_sure = outcome.how_sure
    if assessed is not None:
        one, joint = assessed.one, assessed.joint
        of_robustness = asked.quantity in ("robustness", "robustness.low")
        is_sure = asked.sign == AT_LEAST and not is_doubted(one, asked.quantity)
        if of_robustness and is_sure:
            how_sure = _certainty(one, asked, joint, number) or how_sure
        if asked.quantity == "worst_class":
            how_sure += _of_worst(one, assessed.classes)
        how_sure += _of_decided(one)
    low, high = outcome.value
    shown = distinct_percent(low, asked.bound) if low == high else interval(low, high)
    if asked.quantity == "difference":
        shown = f"{points(low)} to {points(high)}" if not math.isnan(low) else shown
    return Check(
        asked.condition, readable(outcome.subject), shown, outcome.state, how_sure
    )


def _of_worst(one: Assessment, class_names: Sequence[str]) -> str:
    """Names a class that is not good enough unaltered, so that no alteration is."""
    if one.sampling is not None or one.scores or not one.curve.num_classes:
        return ""
    values = one.robustness_per_class
    worst = int(np.where(np.isnan(values), np.inf, values).argmin())
    at = np.flatnonzero(one.levels == one.identity)
    # NaN, where it is not known, is not below either.
    if not len(at) or not one.values_per_class[at[0], worst] < one.threshold:
        return ""
    name = short(class_names[worst], 40)
    return f". “{name}” is not good enough even unaltered"


def _of_decided(one: Assessment) -> str:
    if not one.is_of_decided or math.isnan(one.lowest_decided_ratio):
        return ""
    least = percent(one.lowest_decided_ratio)
    return f". Of the decided images alone: where levels are accepted, {least} or more"


def _certainty(
    one: Assessment, requirement: Requirement, joint: tuple[float, float], number: int
) -> str:
    if one.sampling is not None and requirement.quantity == "robustness":
        on_data = _on_data(one, one.sampling, requirement.bound)
        return f"{on_data}. For all images: {_of_all(one, requirement, joint, number)}"
    return _of_all(one, requirement, joint, number)


def _on_data(one: Assessment, sampling: Sampling, least: float) -> str:
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
