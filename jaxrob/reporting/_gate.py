"""Decides whether results are good enough, for instance in continuous integration."""

import collections
import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from jaxrob._arguments.checks import (
    check_type,
    checked_integer,
    checked_number,
    checked_sequence,
)
from jaxrob._arguments.texts import readable, warn
from jaxrob._assessment.assessment import Assessment
from jaxrob.domains._results import DomainResults
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting._requirements import (
    AT_LEAST,
    OF_ALTERATION,
    OF_SET,
    QUANTITIES,
    Requirement,
    about_quantity,
    checked_bound,
    doubt_of,
    kind_of,
    slices_of,
)
from jaxrob.reporting._results import Difference, Results
from jaxrob.reporting._words import corruptions
from jaxrob.roma import RomaResult

Quantities = Mapping[str, float | ConfidenceInterval]
Result = Assessment | RomaResult | DomainResults
Found = Mapping[str, Result | Quantities] | Sequence[Assessment] | Results

#: The states of an outcome. What is not met or not shown fails a gate.
MET, NOT_MET, NOT_SHOWN = "met", "not met", "not shown"
_UNKNOWN = ConfidenceInterval(math.nan, math.nan)


class Outcome(NamedTuple):
    """Whether a result meets a requirement.

    Attributes:
      subject: the alteration's name, "RoMA", or "all alterations".
      requirement: the requirement.
      value: the value's interval, both ends alike if it has none; NaN if not known.
      state: "met"; "not met", which is sure, of several results for all at once; or
        "not shown", which more images might change, or more levels where the curve is
        jagged, or nothing is known.
      words: value and requirement in a sentence, without the subject.
      how_sure: how sure the state is, in words.
    """

    subject: str
    requirement: Requirement
    value: ConfidenceInterval
    state: str
    words: str
    how_sure: str


class _Value(NamedTuple):
    """A value's ends, those sure for all results at once, and why it shows nothing."""

    ends: ConfidenceInterval = _UNKNOWN
    at_once: ConfidenceInterval = _UNKNOWN
    reason: str = ""
    part: str = ""  # whose value it is


def quantities(
    result: Assessment | RomaResult,
) -> dict[str, float | ConfidenceInterval]:
    """Returns the quantities of a result that may be required.

    An assessment has "robustness"; "robustness.low", the lower end of its confidence
    interval; "accuracy", the lowest at any level that was looked at (of decided inputs,
    if some are not); "worst_class", the lowest robustness of any class with inputs;
    "worst_slice.robustness.low", the lowest end of the joint intervals of
    `Assessment.by`, over all columns; and "decided_ratio", the lowest share of decided
    inputs at an accepted level. From few images the robustness is the interval on the
    data set, unless only the levels leave its width, and the last four are not known.
    Scores have no classes.

    RoMA has "plr", the mean over the inputs, and "plr.low", the mean of the lower ends
    of their intervals. An input without an answer counts with its crude Monte Carlo
    samples, and has no interval; undecided ones make "plr" an interval. Unseen inputs
    count like the seen ones of their category, in "plr.low" as low as they can be.

    Returns:
      The values, in [0, 1], or intervals; NaN if not known.

    Raises:
      TypeError: if `result` is neither.
    """
    wanted = "a jaxrob.Assessment or a jaxrob.roma.RomaResult"
    check_type("result", result, Assessment | RomaResult, wanted)
    of = kind_of(result)
    return {
        name: one.get(result)
        for name, one in QUANTITIES.items()
        if one.of == of and one.get
    }


def outcomes(
    requirements: Sequence[Requirement],
    found: Found,
    differences: Sequence[Difference] = (),
    number: int | None = None,
) -> list[Outcome]:
    """Returns whether each result meets each requirement.

    That all are met needs no adjustment: to pass wrongly, the interval of one that
    falls short has to miss. That one of many is not met does: it is stated only if an
    interval with simultaneous coverage of all shows it.

    Args:
      requirements: the requirements. One without an alteration applies to everything
        found that has the quantity.
      found: assessments; a network's `Results`; or results, or their `quantities`, by
        name, such as an alteration's: a mapping holds one of two rotations.
      differences: for "difference", see `reporting.differences`.
      number: the number of assessments of which something is stated at once; by
        default those found.

    Returns:
      An outcome for each result and requirement that concern each other, and one that
      is not shown for each requirement of something that was not found.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a requirement or a value is out of its quantity's range, or values
        lack a required quantity.
    """
    requirements = checked_sequence(
        "requirements", requirements, Requirement, "Requirement", min_length=0
    )
    requirements = [checked_bound(one) for one in requirements]
    pairs, wanted = _pairs(found), "a result, or numbers by quantity"
    for name, one in pairs:
        check_type(f"found[{name!r}]", one, Mapping | Result, wanted)
    differences = checked_sequence(
        "differences", differences, Difference, "Difference", min_length=0
    )
    if number is not None:
        number = checked_integer("number", number, at_least=1)
    return [one for _, one in _placed(requirements, pairs, differences, number)]


def _pairs(found: Found) -> list[tuple[str, Any]]:
    """Returns results with their names, which two of a sequence may share."""
    if isinstance(found, Mapping):
        return list(found.items())
    if isinstance(found, Results):
        # One alteration with two measures, or one called RoMA.
        return [*_pairs(found.assessments), *beside_assessments(found).items()]
    wanted = "jaxrob.Assessment, or results by name"
    ones = checked_sequence("found", found, Assessment, wanted, min_length=0)
    return [(one.alteration, one) for one in ones]


def _placed(
    requirements: Sequence[Requirement],
    found: Sequence[tuple[str, Any]],
    differences: Sequence[Difference],
    number: int | None,
) -> list[tuple[int | None, Outcome]]:
    """Returns each outcome with the place of its result, which may share its name."""
    assessments = [one for _, one in found if isinstance(one, Assessment)]
    number = max(len(assessments), 1) if number is None else number
    names = [one.alteration for one in differences]
    by_name = {n: one for n, one in zip(names, differences) if names.count(n) == 1}
    every: list[tuple[int | None, Outcome]] = []
    for place, (name, one) in enumerate(found):
        of = kind_of(one)
        for each in requirements:
            is_open = isinstance(one, Mapping) or each.quantity not in QUANTITIES
            has_it = is_open or QUANTITIES[each.quantity].of == of
            if not has_it or not each.is_of(name):
                continue
            value = _value(name, one, each.quantity, by_name.get(name), number)
            # Any curve has a robustness of 0 at least, and of 1 at most.
            is_sure = each.bound <= 0 if each.sign == AT_LEAST else each.bound >= 1
            if (doubt := doubt_of(one, each.quantity)) and not is_sure:
                value = value._replace(reason=doubt)
            every.append((place, _outcome(name, each, value, number)))
    concerned = {one.requirement for _, one in every}
    for each in dict.fromkeys(requirements):
        if each in concerned:
            continue
        about = about_quantity(each.quantity)
        is_mce = about.of == OF_SET and assessments
        value = _mce(assessments) if is_mce else _Value(reason="it was not measured")
        subject = each.alteration or (OF_SET if about.of == OF_ALTERATION else about.of)
        every.append((None, _outcome(subject, each, value, number)))
    return every


def _value(
    name: str, one: Any, quantity: str, difference: Difference | None, number: int
) -> _Value:
    about = about_quantity(quantity)
    if isinstance(one, Mapping):
        if quantity not in one:
            raise ValueError(
                f"found[{name!r}] must have {quantity!r}; got {tuple(one)}"
            )
        value = _ends(one[quantity])
        for end in value:
            if not (isinstance(end, float) and math.isnan(end)):
                place = f"found[{name!r}][{quantity!r}]"
                checked_number(place, end, at_least=about.low, at_most=about.high)
        if value.low > value.high:
            raise ValueError(f"found[{name!r}][{quantity!r}] must ascend; got {value}")
        # How high the value of a lower end may be is not known from it.
        is_low = quantity.endswith(".low")
        return _Value(value, value._replace(high=math.nan) if is_low else value)
    if quantity == "difference":
        if difference is None:
            return _Value(reason="there is no earlier result, or more than one")
        return _Value(difference.interval, difference.joint_interval, difference.reason)
    if about.get is None:
        raise ValueError(
            f"found[{name!r}] must have {quantity!r}; results have {tuple(QUANTITIES)}"
        )
    value = _ends(about.get(one))
    most = value.high if about.most is None else about.most(one, number)
    slices = slices_of(one) if quantity.startswith("worst_slice.") else {}
    lows = {name: each.joint_interval.low for name, each in slices.items()}
    # The first that is not known, or the lowest.
    name = min(lows, key=lambda one: (lows[one] == lows[one], lows[one]), default="")
    return _Value(value, value._replace(high=most), part=f" ({name})" if name else "")


def _mce(assessments: Sequence[Assessment]) -> _Value:
    found = corruptions(assessments)
    if found is None or found.mce is None:
        of = "the fifteen corruptions of ImageNet-C, of 1,000 classes at 224 pixels"
        return _Value(reason=f"it is of {of}")
    value = _ends(found.mce.value)
    return _Value(value, value, found.mce.reason)


def _outcome(
    subject: str, requirement: Requirement, value: _Value, number: int
) -> Outcome:
    low, high = value.ends
    bound, at_least = requirement.bound, requirement.sign == AT_LEAST
    state = NOT_SHOWN
    # NaN compares as false, and so shows nothing.
    if value.reason:
        pass
    elif low >= bound if at_least else high <= bound:
        state = MET
    elif value.at_once.high < bound if at_least else value.at_once.low > bound:
        state = NOT_MET
    side = "at least" if at_least else "at most"
    sure = "not sure, " if state == NOT_SHOWN else ""
    text = f"{sure}between {low:.6g} and {high:.6g}"
    if low == high or math.isnan(low):
        text = "not known" if math.isnan(low) else f"{low:.6g}"
    text += f" ({value.reason})" if value.reason else value.part
    return Outcome(
        subject,
        requirement,
        value.ends,
        state,
        f"{requirement.quantity} is {text}, {side} {bound:.12g} is required",
        _how_sure(requirement.quantity, state, value, number),
    )


def _how_sure(quantity: str, state: str, value: _Value, number: int) -> str:
    if math.isnan(value.ends.low):
        return "what is not known does not pass"
    if value.reason:
        return f"not sure: {value.reason}; more levels may show it"
    of_tested = about_quantity(quantity).of_tested
    if state == NOT_SHOWN:
        shown = "not sure" if of_tested else "not shown either way"
        return f"{shown}; more images may show it"
    if of_tested:
        return "of the tested images alone; of others nothing is stated"
    if state == MET:
        return "shown by its interval; that all are met needs no adjustment"
    if number == 1:
        return "shown to fall short: the whole interval does"
    return f"shown to fall short, for all {number} intervals at once"


def unmet(
    requirements: Sequence[Requirement],
    found: Found,
    differences: Sequence[Difference] = (),
) -> list[str]:
    """Returns a sentence for each requirement that is not met; empty if all are.

    Args:
      requirements: the requirements.
      found: as in `outcomes`. NaN is not good enough, nor is an interval that lies
        partly beyond the bound. A `RobustnessWarning` says so if an assessment with
        alpha may pass although it leaves most inputs undecided.
      differences: as in `outcomes`.
    """
    return list(map(_sentence, _failed(requirements, found, differences)))


def _failed(
    requirements: Sequence[Requirement], found: Found, differences: Sequence[Difference]
) -> list[Outcome]:
    """Returns the outcomes that fail a gate, and warns of one that may pass wrongly."""
    every = outcomes(requirements, found, differences)
    quantities = {one.quantity for one in requirements}
    ones = [one for _, one in _pairs(found) if isinstance(one, Assessment)]
    of_decided = [one for one in ones if one.is_of_decided]
    of_robustness = quantities & {"robustness", "robustness.low"}
    if of_decided and of_robustness and "decided_ratio" not in quantities:
        shares = [one.lowest_decided_ratio for one in of_decided]
        known = [share for share in shares if not math.isnan(share)]
        least = f", {min(known):.1%} of the images at least" if known else ""
        warn(
            f"with alpha = {of_decided[0].curve.alpha:g} the robustness required is of "
            f"the decided images alone{least}: a network that declines most of them "
            'meets it. Require "decided_ratio>=0.9" as well, or take '
            'measure="effectiveness", which counts unknown answers.'
        )
    return [one for one in every if one.state != MET]


def _sentence(one: Outcome) -> str:
    return f"{one.subject}: {one.words}"


def _ends(value: float | ConfidenceInterval) -> ConfidenceInterval:
    """Returns the interval of a value; both ends of a number are the number."""
    if isinstance(value, ConfidenceInterval):
        return value
    return ConfidenceInterval(value, value)


def verdict(
    requirements: Sequence[Requirement],
    found: Found,
    regressions: Sequence[str] = (),
    differences: Sequence[Difference] = (),
) -> str:
    """Returns everything that is not good enough in one line; "" if all is.

    It begins with "not shown to be good enough" if there are no regressions and every
    unmet requirement is only not shown to be met, as a report's headline does.

    Args:
      requirements: as in `outcomes`.
      found: as in `outcomes`.
      regressions: further faults as text, see `regressions`.
      differences: as in `outcomes`.
    """
    worse = checked_sequence("regressions", regressions, str, "texts", min_length=0)
    failed = _failed(requirements, found, differences)
    if not failed and not worse:
        return ""
    only_open = not worse and all(one.state == NOT_SHOWN for one in failed)
    begins = "not shown to be good enough" if only_open else "not good enough"
    return f"{begins}: {'; '.join([*map(_sentence, failed), *worse])}"


def outcomes_of(results: Results, number: int | None = None) -> list[Outcome]:
    """Returns whether a network's results meet their requirements, see `outcomes`."""
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    return [one for _, one in placed_of(results, number)]


def placed_of(
    results: Results, number: int | None = None
) -> list[tuple[int | None, Outcome]]:
    return _placed(results.requirements, _pairs(results), results.differences, number)


def beside_assessments(results: Results) -> dict[str, RomaResult | DomainResults]:
    """Returns the results by name that are of no single alteration."""
    found: dict[str, RomaResult | DomainResults] = {}
    if results.roma is not None:
        found["RoMA"] = results.roma
    if results.domain is not None:
        found[results.domain.name] = results.domain
    return found


def to_junit(results: Results) -> str:
    """Returns the outcomes as JUnit XML, which GitLab, Jenkins and others read.

    Each requirement of each result is a test case. One that is not met is a failure of
    the type "not met" or "not shown"; each regression is one of the type "regression".
    Characters that XML forbids, or that are invisible, are spelt out: "(U+0007)".

    Raises:
      TypeError: if `results` has a wrong type.
    """
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    network = readable(results.network or "") or "network"
    every = outcomes_of(results)
    timed = [*results.assessments, *[results.domain] * (results.domain is not None)]
    number_failed = sum(one.state != MET for one in every) + len(results.regressions)
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        id="0",
        package="jaxrob",
        name=network,
        # The format has no time zone. The machine's name is nobody's business.
        timestamp=datetime.datetime.now().isoformat(timespec="seconds"),
        hostname="localhost",
        tests=str(len(every) + len(results.regressions)),
        failures=str(number_failed),
        errors="0",
        time=f"{sum(one.seconds for one in timed):.3f}",
    )
    # Of two common schemas one requires properties, the other that they are not empty.
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="network", value=network)
    titles: collections.Counter[str] = collections.Counter()

    def add(title: str, state: str, failure: str) -> None:
        # Readers collapse spaces, and no two cases may share a name.
        name = " ".join(readable(title).split())
        titles[name] += 1
        if titles[name] > 1:
            name = f"{name} ({titles[name]})"
        case = ElementTree.SubElement(
            suite, "testcase", name=name, classname=network, time="0"
        )
        if state != MET:
            text = readable(failure)
            failed = ElementTree.SubElement(case, "failure", message=text, type=state)
            failed.text = text

    for one in every:
        said = f"{one.subject}: {one.words} ({one.how_sure})"
        add(f"{one.subject}: {one.requirement.condition}", one.state, said)
    for text in results.regressions:
        add(f"no regression: {text}", "regression", text)
    for name in ("system-out", "system-err"):
        ElementTree.SubElement(suite, name)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
