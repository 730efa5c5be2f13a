"""Verdicts: whether each requirement is met."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.counted import counted
from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting._gate import Requirement, ends, is_open, quantities, unmet
from jaxrob.reporting._report.certainty import certainty
from jaxrob.reporting._report.text import interval, percent, short
from jaxrob.reporting._results import Results
from jaxrob.roma import RomaResult

_MOST_NAMES = 5  # Names of alterations in a sentence.
MET, NOT_MET, NOT_KNOWN = "met", "not met", "not known"
# The quantities' meanings, for readers who do not know their names.
_MEANINGS = {
    "robustness": "the share of the range over which the network is good enough, on "
    "the images of the data set",
    "robustness.low": "the lower end of the interval of the robustness. "
    "Robustness is the share of the range over which the network is good enough; the "
    "interval says where it lies for all images of the kind tested",
    "decided_ratio": 'the share of images that get an answer other than "unknown", at '
    "that accepted level where it is smallest",
    "plr": "the probability that a random perturbation of an image leads to no "
    "distinct misclassification, on average over the images",
    "plr.low": "the probability that a random perturbation of an image leads to no "
    "distinct misclassification: the lower ends of the intervals, on average",
}


class Check(NamedTuple):
    """A requirement, and the value found for one alteration.

    Attributes:
      requirement: the requirement as text.
      of: the alteration's name, or "RoMA".
      found: the value found.
      verdict: `MET`, `NOT_MET` or `NOT_KNOWN`, which counts as not met.
      certainty: how sure the verdict is, in words.
      is_open: whether it is not met, but not shown to be missed either.
      is_missed_at_once: whether an interval with simultaneous coverage shows that it is
        missed for the population of images.
    """

    requirement: str
    of: str
    found: str
    verdict: str
    certainty: str
    is_open: bool
    is_missed_at_once: bool


class Verdict(NamedTuple):
    """The verdict on one network.

    Attributes:
      network: the network's name.
      passed: whether all is good enough; None if nothing was required.
      words: the verdict in a sentence.
      meanings: pairs of a required quantity and its meaning.
      checks: each requirement of each alteration; those that are not met come first.
      regressions: the regressions, a sentence each.
    """

    network: str
    passed: bool | None
    words: str
    meanings: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    regressions: tuple[str, ...]


def verdict_of(
    results: Results,
    network: str,
    joints: Sequence[tuple[float, float]],
    number: int,
) -> Verdict:
    """Decides whether one network is good enough.

    Args:
      results: its results.
      network: its name in the report.
      joints: each assessment's interval with simultaneous coverage over the report.
      number: the number of the report's intervals.
    """
    found = _checks(results, joints, number)
    checks = tuple(
        sorted(found, key=lambda check: check.verdict == MET)  # Stable.
    )
    failed = [check for check in checks if check.verdict != MET]
    asked = dict.fromkeys(one.quantity for one in results.requirements)
    meanings = tuple((one, _MEANINGS[one]) for one in asked if one in _MEANINGS)
    regressions = tuple(results.regressions)
    other = _other_than_planned(results)
    if not checks and not regressions:
        words = f"No requirement was given, so nothing was passed or failed.{other}"
        return Verdict(network, None, words, meanings, checks, regressions)
    said = []
    if failed:
        said.append(
            f"{len(failed)} of {counted(len(checks), 'check')} not met "
            f"({_names(failed)})"
        )
        missed = [one for one in failed if one.is_missed_at_once]
        if missed and number > 1:
            said.append(f"sure for all {number} intervals at once: {_names(missed)}")
    elif checks:
        many = len(checks) > 1
        said.append(f"all {len(checks)} checks met" if many else "the one check is met")
    if regressions:
        number_worse = counted(len(regressions), "respect")
        said.append(f"worse than an earlier result in {number_worse}")
    passed = not failed and not regressions
    words = "Good enough: " if passed else "Not good enough: "
    if failed and not regressions and all(check.is_open for check in failed):
        words = "Not shown to be good enough: "
    words += "; ".join(said) + "." + other
    return Verdict(network, passed, words, meanings, checks, regressions)


def _names(checks: Sequence[Check]) -> str:
    names = list(dict.fromkeys(short(check.of) for check in checks))
    names[_MOST_NAMES:] = ["..."] * (len(names) > _MOST_NAMES)
    return ", ".join(names)


def is_as_planned(results: Results) -> bool:
    """Whether the requirements are the plan's, if there is a plan."""
    plan = results.plan
    return plan is None or set(results.requirements) == set(plan.requirements)


def written(requirement: Requirement) -> str:
    """Returns a requirement as a user writes it."""
    return f"{requirement.quantity} >= {requirement.least:g}"


def _other_than_planned(results: Results) -> str:
    """Returns a sentence if the requirements are not the plan's, else ""."""
    if results.plan is None or is_as_planned(results):
        return ""
    planned = ", ".join(map(written, results.plan.requirements)) or "nothing"
    return f" But the plan requires something else: {planned}."


def _checks(
    results: Results, joints: Sequence[tuple[float, float]], number: int
) -> list[Check]:
    checks = []
    for requirement in results.requirements:
        if requirement.quantity in ("plr", "plr.low"):
            checks.append(_of_roma(requirement, results.roma, number))
            continue
        for one, joint in zip(results.assessments, joints):
            words = certainty(one, requirement, joint, number) + _of_decided(one)
            open_ = is_open(one, requirement, number)
            found = quantities(one)
            checks.append(_check(requirement, one.alteration, found, words, open_))
    return checks


def _of_decided(one: Assessment) -> str:
    """States the share of decided images, if "unknown" answers do not count."""
    if not one.is_of_decided or math.isnan(one.lowest_decided_ratio):
        return ""
    least = percent(one.lowest_decided_ratio)
    return f". Of the decided images alone: where levels are accepted, {least} or more"


def _of_roma(requirement: Requirement, roma: RomaResult | None, number: int) -> Check:
    found = {} if roma is None else quantities(roma)
    open_ = roma is None or is_open(roma, requirement, number)
    words = "an average over the tested images alone" if found else ""
    return _check(requirement, "RoMA", found, words, open_)


def _check(
    requirement: Requirement,
    of: str,
    found: dict[str, float | ConfidenceInterval],
    words: str,
    open_: bool,
) -> Check:
    value = found.get(requirement.quantity, math.nan)
    failed = unmet([requirement], {of: {requirement.quantity: value}})
    low, high = ends(value)
    unknown = math.isnan(low) or low < requirement.least <= high
    shown = NOT_KNOWN
    if low == high:
        shown = _distinct_percent(low, requirement.least)
    elif low < high:
        shown = interval(low, high)
    return Check(
        written(requirement),
        readable(of),
        shown,
        NOT_KNOWN if unknown else NOT_MET if failed else MET,
        words,
        bool(failed) and open_,
        bool(failed) and not open_ and requirement.quantity == "robustness.low",
    )


def _distinct_percent(value: float, least: float) -> str:
    """Formats a share in as few digits as distinguish it from the requirement."""
    for digits in range(1, 14):
        text = percent(value, digits)
        if value == least or text != percent(least, digits):
            return text
    return repr(value)


def overall(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether all networks are good enough; None if nothing was required."""
    passed = [one.passed for one in verdicts if one.passed is not None]
    return all(passed) if passed else None
