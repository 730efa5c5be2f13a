"""Decides whether results are good enough, for instance in continuous integration."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxrob._arguments.checks import (
    check_type,
    checked_names,
    checked_number,
    checked_sequence,
    checked_text,
)
from jaxrob._arguments.naming import named
from jaxrob._arguments.warnings import warn
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison, compare
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting._adjusted import adjusted, difference_text
from jaxrob.reporting._few import is_open_by_levels
from jaxrob.reporting._joint import joint_interval
from jaxrob.roma import RomaResult

#: The quantities that may be required, of an assessment and of RoMA.
QUANTITIES = ("robustness", "robustness.low", "decided_ratio", "plr", "plr.low")


Quantities = Mapping[str, float | ConfidenceInterval]


class Requirement(NamedTuple):
    """A quantity and the least value, in [0, 1], that is good enough."""

    quantity: str
    least: float


def requirement(text: str, quantities: Sequence[str]) -> Requirement:
    """Parses a requirement such as "robustness>=0.9", for instance from a command line.

    Example::

        found = {result.alteration: result for result in results}
        least = reporting.requirement("robustness>=0.9", ["robustness"])
        for sentence in reporting.unmet([least], found):
            print(sentence)  # blur: robustness is 0.85, at least 0.9 is required

    Args:
      text: a quantity, ">=" and a number in [0, 1]; spaces do not matter.
      quantities: the quantities allowed.

    Raises:
      ValueError: if the text is not of this form, or names another quantity.
    """
    return checked_requirement("text", text, quantities)


def checked_requirement(name: str, text: str, quantities: Sequence[str]) -> Requirement:
    """Parses a requirement like `requirement`, with the text's name for messages."""
    checked_text(name, text, may_be_empty=True)
    quantities = checked_names("quantities", quantities)
    found = re.fullmatch(r"\s*([^<>=]*[^<>=\s])\s*>=\s*(\S+)\s*", text)
    if not found:
        raise ValueError(
            f'{name}: a requirement is written "{quantities[0]}>=0.9"; got {text!r}'
        )
    quantity, number = found.groups()
    if quantity not in quantities:
        raise ValueError(
            f"{name}: the quantity must be one of {tuple(quantities)}; got "
            f"{quantity!r} in {text!r}. A requirement holds for everything that a run "
            "assesses; for one alteration alone take a run of its own"
        )
    if not re.fullmatch(r"[0-9.eE+-]+", number) or not _is_number(number):
        raise ValueError(f"{name}: {number!r} in {text!r} is not a number")
    if not 0 <= float(number) <= 1:
        raise ValueError(
            f"{name}: the number must lie in [0, 1]; got {number} in {text!r}"
        )
    return Requirement(quantity, float(number))


def quantities(
    result: Assessment | RomaResult,
) -> dict[str, float | ConfidenceInterval]:
    """Returns the quantities of a result that may be required.

    An assessment has "robustness", "robustness.low", the lower end of its confidence
    interval, and "decided_ratio", the lowest share of decided inputs at an accepted
    level (not known if no level is accepted).

    RoMA has "plr", the mean over the inputs, and "plr.low", the mean of the lower ends
    of their intervals. An input without an answer counts with the share of its crude
    Monte Carlo samples that are not distinctly misclassified, and has no interval. If a
    budget left inputs undecided, "plr" is an interval, whose ends take each of these
    inputs at the lower or upper end of its own. If a half width left inputs unseen,
    they count like the seen ones of their category; in "plr.low", as low as they can
    be with the confidence of the result.

    From few images (`Assessment.sampling`) the robustness is the interval of that on
    all images of the data set, unless only the levels leave its width; "decided_ratio"
    is not known.

    Returns:
      The values, in [0, 1], or intervals; NaN if not known.

    Raises:
      TypeError: if `result` is neither.
    """
    if isinstance(result, Assessment):
        return {
            "robustness": _robustness(result),
            "robustness.low": float(result.confidence_interval.low),
            "decided_ratio": math.nan
            if result.sampling
            else result.lowest_decided_ratio,
        }
    if isinstance(result, RomaResult):
        return {"plr": _mean_plr(result), "plr.low": result.mean_low}
    raise TypeError(
        "result must be a jaxrob.Assessment or a jaxrob.roma.RomaResult; got "
        f"{named(result)}"
    )


def _mean_plr(result: RomaResult) -> float | ConfidenceInterval:
    """Returns the mean plr, or its interval if a budget left inputs undecided."""
    if (result.status == "undecided").any():
        return result.mean_plr_interval
    return result.mean_plr


def _robustness(result: Assessment) -> float | ConfidenceInterval:
    """Returns the robustness, or its interval if unseen images may change it."""
    if math.isnan(result.robustness):
        return math.nan
    if result.sampling is None or is_open_by_levels(result.sampling):
        return float(result.robustness)
    return result.dataset_interval


def unmet(
    requirements: Sequence[Requirement],
    found: Mapping[str, Assessment | RomaResult | Quantities],
) -> list[str]:
    """Returns a sentence for each requirement that is not met; empty if all are.

    Args:
      requirements: the requirements; each applies to everything found.
      found: results, or their `quantities`, by name, such as an alteration's. NaN is
        not good enough, nor is an interval that lies partly below the requirement. A
        `RobustnessWarning` says so if an assessment with alpha may pass although it
        leaves most inputs undecided.
    """
    requirements = _checked(requirements, found)
    values = _quantities_of(found)
    for quantity, _ in requirements:
        for name in values:
            _check_value(f"found[{name!r}]", values[name], quantity)
    assessments = [one for one in found.values() if isinstance(one, Assessment)]
    _warn_of_undecided(requirements, assessments)
    return [
        f"{name}: {one.quantity} is "
        f"{_missed_text(values[name][one.quantity], one.least)}, at least "
        f"{one.least:g} is required"
        for name in values
        for one in requirements
        if _falls_short(values[name], one)
    ]


def is_open(
    result: Assessment | RomaResult, requirement: Requirement, number: int
) -> bool:
    """Whether a requirement that is not met is not shown to be missed either.

    A lower end is shown to be missed only by an interval with simultaneous coverage,
    because a report may state as much of each assessment.

    Args:
      result: a result.
      requirement: the requirement.
      number: the number of assessments.
    """
    quantity, least = requirement
    low, high = ends(quantities(result)[quantity])
    # From few images the value is an interval, which may hold the requirement.
    if math.isnan(low) or low < least <= high:
        return True
    if isinstance(result, RomaResult):
        return quantity == "plr.low" and result.mean_plr >= least
    # NaN, where no joint interval is known, shows nothing.
    return quantity == "robustness.low" and not (
        joint_interval(result, number)[1] < least
    )


def ends(value: float | ConfidenceInterval) -> ConfidenceInterval:
    """Returns the interval of a value; both ends of a number are the number."""
    return (
        value
        if isinstance(value, ConfidenceInterval)
        else ConfidenceInterval(value, value)
    )


def _missed_text(value: float | ConfidenceInterval, least: float) -> str:
    """Returns a value that misses a requirement as text."""
    low, high = ends(value)
    if math.isnan(low):
        return "not known"
    if low == high:
        return f"{low:.6g}"
    found = f"between {low:.6g} and {high:.6g}"
    return found if high < least else f"not sure, {found}"


def regressions(
    new: Assessment | Sequence[Assessment], old: Assessment | Sequence[Assessment]
) -> list[str]:
    """Returns a sentence for each regression against earlier assessments.

    Assessments of one alteration are compared by `jaxrob.compare`, at the new one's
    confidence level. The new one is a regression if the interval of the difference in
    robustness lies below 0, or that of the difference in the measure's mean over the
    range, which distinguishes networks that are accepted everywhere. In addition the
    p-value, adjusted for all comparisons (Holm 1979), must be significant: between
    equally robust networks, the chance of any regression is at most one minus the
    confidence level.

    Args:
      new: an assessment, or one for each alteration.
      old: earlier assessments, of the same network or another, on the same images.

    Returns:
      A sentence for each earlier assessment that is better, has no counterpart, or
      cannot be compared, with the reason. Empty if there is no regression.

    Raises:
      TypeError: if `new` or `old` holds anything but assessments.
      ValueError: if two of them are of one alteration, range, measure and alpha.
    """
    by_subject = _by_subject("new", new, 1)
    pairs, found = [], []
    for subject, before in _by_subject("old", old, 0).items():
        # Another range or measure than before: the comparison says which.
        alike = [one for one in by_subject.values() if one.alteration == subject[0]]
        now = by_subject.get(subject, alike[0] if alike else None)
        if now is None:
            found.append(f"{before.alteration}: it is not assessed any more")
            continue
        try:
            pairs.append((now, before, compare(now, before, now.confidence_level)))
        except ValueError as error:
            found.append(f"{before.alteration}: no comparison is possible, {error}")
    return _regressions(pairs) + found


def _by_subject(
    name: str, given: Assessment | Sequence[Assessment], min_length: int
) -> dict[tuple[Any, ...], Assessment]:
    """Returns assessments by alteration, range, measure and alpha."""
    if isinstance(given, Assessment):
        given = (given,)
    checked_sequence(
        name, given, Assessment, "jaxrob.Assessment", min_length=min_length
    )
    found: dict[tuple[Any, ...], Assessment] = {}
    for one in given:
        subject = one.alteration, one.lower, one.upper, one.measure, one.curve.alpha
        if subject in found:
            raise ValueError(
                f"{name} must have one assessment of each alteration, range, measure "
                f"and alpha; got two of {one.alteration!r}"
            )
        found[subject] = one
    return found


def _regressions(
    pairs: Sequence[tuple[Assessment, Assessment, Comparison]],
) -> list[str]:
    """Returns a sentence for each pair whose first is worse than the second."""
    return [
        f"{new.alteration}: robustness is {new.robustness:.6g}, it was "
        f"{old.robustness:.6g} ({difference_text(one)})"
        for (new, old, found), one in zip(pairs, adjusted([row[2] for row in pairs]))
        # NaN counts as worse, because it is not known to be as good.
        if one.is_worse or math.isnan(found.difference)
    ]


def verdict(
    requirements: Sequence[Requirement],
    found: Mapping[str, Assessment | RomaResult | Quantities],
    regressions: Sequence[str] = (),
) -> str:
    """Returns everything that is not good enough in one line; "" if all is.

    The command and the scripts end with this line, and status 1. It begins with "not
    shown to be good enough" if there are no regressions and more images might still
    show every unmet requirement to be met. A requirement counts as missed only with
    simultaneous coverage of all results. A report's headline agrees with this line.

    Args:
      requirements: the requirements, see `unmet`.
      found: the results, see `unmet`.
      regressions: further faults as text, see `regressions`.
    """
    worse = checked_sequence("regressions", regressions, str, "texts", min_length=0)
    failed = [*unmet(requirements, found), *worse]
    if not failed:
        return ""
    results = {name: one for name, one in found.items() if not isinstance(one, Mapping)}
    number = sum(isinstance(one, Assessment) for one in results.values())
    only_open = not worse and all(
        name in results and is_open(results[name], one, number)
        for name, values in _quantities_of(found).items()
        for one in requirements
        if _falls_short(values, one)
    )
    begins = "not shown to be good enough" if only_open else "not good enough"
    return f"{begins}: {'; '.join(failed)}"


def _warn_of_undecided(
    requirements: Sequence[Requirement], assessments: Sequence[Assessment]
) -> None:
    """Warns of a gate that a network may pass while it leaves most images undecided.

    Args:
      requirements: the requirements.
      assessments: the assessments that they apply to.
    """
    asked = {one.quantity for one in requirements}
    of_decided = [one for one in assessments if one.is_of_decided]
    if not of_decided or "decided_ratio" in asked:
        return
    if not asked & {"robustness", "robustness.low"}:
        return
    shares = [one.lowest_decided_ratio for one in of_decided]
    known = [one for one in shares if not math.isnan(one)]
    least = f", {min(known):.1%} of the images at least" if known else ""
    warn(
        f"with alpha = {of_decided[0].curve.alpha:g} the robustness required is of the "
        f"decided images alone{least}: a network that declines most of them meets it. "
        'Require "decided_ratio>=0.9" as well, or take measure="effectiveness", which '
        "counts unknown answers."
    )


def _checked(
    requirements: Sequence[Requirement], found: Mapping[str, object]
) -> Sequence[Requirement]:
    requirements = checked_sequence(
        "requirements", requirements, tuple, "Requirement", min_length=0
    )
    kinds = Mapping | Assessment | RomaResult
    check_type("found", found, Mapping, "results or quantities by name")
    for name, one in found.items():
        check_type(f"found[{name!r}]", one, kinds, "a result, or numbers by quantity")
    for quantity, least in requirements:
        checked_text("a requirement's quantity", quantity)
        checked_number("a requirement's least", least, at_least=0, at_most=1)
    return requirements


def _quantities_of(
    found: Mapping[str, Assessment | RomaResult | Quantities],
) -> dict[str, Quantities]:
    return {
        name: one if isinstance(one, Mapping) else quantities(one)
        for name, one in found.items()
    }


def _falls_short(values: Quantities, requirement: Requirement) -> bool:
    return not ends(values[requirement.quantity])[0] >= requirement.least


def _check_value(name: str, values: Quantities, quantity: str) -> None:
    """Rejects values without a quantity, or where it is no number in [0, 1]."""
    if quantity not in values:
        raise ValueError(f"{name} must have {quantity!r}; got {tuple(values)}")
    for value in ends(values[quantity]):
        if not (isinstance(value, float) and math.isnan(value)):
            checked_number(f"{name}[{quantity!r}]", value, at_least=0, at_most=1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
