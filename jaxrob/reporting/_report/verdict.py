"""The first page: verdicts, what was not tested, and what is left to judge."""

import math
import operator
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import RobustnessWarning, counted, readable
from jaxrob._assessment.assessment import Assessment, Sampling
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._gate import MET, NOT_MET, NOT_SHOWN, Outcome, placed_of
from jaxrob.reporting._ranks import rank_text, ranks
from jaxrob.reporting._report.curve import accepted, condition, span
from jaxrob.reporting._report.parts import (
    Facts,
    Group,
    Mark,
    Part,
    Section,
    Table,
    Text,
    Words,
    code,
    line,
    say,
    strong,
)
from jaxrob.reporting._report.report import Network, Report, Tested
from jaxrob.reporting._report.tested import is_as_planned, planned_text
from jaxrob.reporting._requirements import AT_LEAST, QUANTITIES, Requirement, doubt_of
from jaxrob.reporting._results import Results, sizes
from jaxrob.reporting._words import (
    VERSION,
    confidence_text,
    distinct_percent,
    first_names,
    interval,
    is_open_by_levels,
    percent,
    points,
    range_with_unit,
    short,
)

# The alterations of the papers, which an assessor may look for.
_USUAL = (
    *("gaussian noise", "gaussian blur", "brightness", "horizontal translation"),
    *("vertical translation", "rotation", "zoom", "jpeg compression"),
)
# Three looks, by word and shape: what is not known is not shown either.
_STATES = {
    MET: Mark("✓ met", "state met"),
    NOT_MET: Mark("✗ not met", "state unmet"),
    NOT_SHOWN: Mark("? not shown", "state unshown"),
}


#: What a requirement is of, its state, itself, the value found, and how sure that is.
Check = tuple[str, str, str, str, str]


class Verdict(NamedTuple):
    """The verdict on one network; those of its checks that are not met come first."""

    passed: bool | None  # None if nothing was required
    is_open: bool  # whether nothing is known to be bad
    words: str
    checks: tuple[Check, ...]


def first_page(report: Report) -> Iterator[Section]:
    verdicts = [(one, verdict_of(one, report)) for one in report.networks]
    parts: list[Part] = [_box(report.of(one), one, found) for one, found in verdicts]
    parts.append(Facts(_facts(report)))
    for network, verdict in verdicts:
        if verdict.checks:
            of = report.of(network)
            label = f"Requirements of {of}" if of else "Requirements"
            how_sure = f"how sure ({report.level} interval)"
            parts.append(checks_table(verdict.checks, how_sure, of, label, _STATES))
    asked = [each.quantity for one in report.results for each in one.requirements]
    meanings = [
        part
        for quantity in dict.fromkeys(asked)
        for part in (code(quantity), f" {_meaning(quantity)}. ")
    ]
    parts += [Text(meanings, "soft")] * bool(meanings)
    if report.many:
        best = f" {_first(report)} {_surely(report)}"
        parts.append(Text((strong("Which network is best."), best)))
    for title, said in (
        ("Not tested:", _not_tested(report.results)),
        ("To be judged by people:", _to_judge(report)),
    ):
        parts.append(Text((strong(title), f" {'; '.join(said)}.")))
    parts.append(Text(_scope(report)))
    rows = [("tested by", "", "", ""), ("checked by", "", "", "")]
    heads = ("Signatures", "name", "date", "signature")
    parts.append(Table(heads, rows, ("row",), "", "signatures", "Signatures"))
    yield Section("Verdict", parts, "verdict")


def _box(name: str, network: Network, verdict: Verdict) -> Group:
    look = {None: "", True: " good", False: " open" if verdict.is_open else " bad"}
    parts = [Text(strong(name))] * bool(name) + [Text(verdict.words, "said")]
    for one in network.results.regressions:
        parts.append(Text((Mark("worse", "unmet"), f" {one}")))
    return Group(parts, f"verdict{look[verdict.passed]}")


def checks_table(
    checks: Sequence[Check],
    how_sure: str,
    caption: str,
    label: str,
    states: Mapping[str, Words],
) -> Table:
    heads = ("alteration", "verdict", "required", "value", how_sure)
    rows = [
        (of, states[state], Mark(required, "whole"), value, sure)
        for of, state, required, value, sure in checks
    ]
    return Table(heads, rows, ("row", "", "", "n", ""), caption, "checks", label)


def about(report: Report) -> Words:
    are = "image classifiers" if report.many else "an image classifier"
    name = "of_classifiers" if report.has_classes else "of_networks"
    words = line(name, are=are, version=VERSION)
    known = report.ones or any(one.roma for one in report.results)
    return [words, *say("words_explained") * bool(known)]


def _meaning(quantity: str) -> str:
    about = QUANTITIES[quantity]
    if (about.low, about.high) == (0, 1):
        return f"is {about.meaning}"
    low, high = (f"{end:g} ({100 * end:g} %)" for end in (about.low, about.high))
    return f"from {low} to {high}, is {about.meaning}"


def verdict_of(network: Network, report: Report) -> Verdict:
    results, number = network.results, len(report.ones)
    order = (NOT_MET, NOT_SHOWN, MET)
    ordered = sorted(  # Stable.
        placed_of(results, max(number, 1)), key=lambda pair: order.index(pair[1].state)
    )
    # RoMA, and all of them together, are at no assessment's place.
    tested: dict[int | None, Tested] = dict(enumerate(network.each))
    checks = tuple(_check(one, tested.get(at), number) for at, one in ordered)
    every, worse = [one for _, one in ordered], len(results.regressions)
    states = {one.state for one in every}
    is_open = NOT_SHOWN in states and NOT_MET not in states and not worse
    passed = states <= {MET} and not worse
    met = f"all {len(every)} checks met" if len(every) > 1 else "the one check is met"
    said = _failed(every) or [met] * bool(every)
    if worse:
        said.append(f"worse than an earlier result in {counted(worse, 'respect')}")
    begins = "Not shown to be good enough" if is_open else "Not good enough"
    words = f"{'Good enough' if passed else begins}: {'; '.join(said)}."
    if not said:
        passed, words = None, line("nothing_required")
    if not is_as_planned(results):
        words += f" But the plan requires something else: {planned_text(results)}."
    return Verdict(passed, is_open, words, checks)


def _failed(every: Sequence[Outcome]) -> list[str]:
    said = []
    several = len({one.requirement.quantity for one in every}) > 1
    for state in (NOT_MET, NOT_SHOWN):
        if some := [one for one in every if one.state == state]:
            of = "" if said else f" of {counted(len(every), 'check')}"
            names = first_names(
                short(one.subject) + f" {one.requirement.quantity}" * several
                for one in some
            )
            said.append(f"{len(some)}{of} {state} ({names})")
    return said


def _check(outcome: Outcome, tested: Tested | None, number: int) -> Check:
    asked, how_sure = outcome.requirement, outcome.how_sure
    if tested is not None:
        one = tested.one
        if asked.quantity in ("robustness", "robustness.low"):
            is_sure = asked.sign == AT_LEAST and not doubt_of(one, asked.quantity)
            how_sure = is_sure * _certainty(tested, asked, number) or how_sure
        if one.is_of_decided and not math.isnan(one.lowest_decided_ratio):
            how_sure += line("of_decided", least=percent(one.lowest_decided_ratio))
    low, high = outcome.value
    shown = distinct_percent(low, asked.bound) if low == high else interval(low, high)
    shown += ", lower end" * asked.quantity.endswith(".low")
    if asked.quantity == "difference" and not math.isnan(low):
        shown = f"{points(low)} to {points(high)}"
    return readable(outcome.subject), outcome.state, asked.condition, shown, how_sure


def _certainty(tested: Tested, requirement: Requirement, number: int) -> str:
    one, least = tested.one, requirement.bound
    low, high = one.confidence_interval
    words, found = "", f"{interval(low, high)}"
    of_data = one.sampling is not None and requirement.quantity == "robustness"
    if math.isnan(one.robustness) or math.isnan(low) or math.isnan(high):
        pass
    elif low >= least:
        margins = tested.joint[0] - least, low - least
        words = f"{found} suffices{_adjustments(one, margins, number, is_met=True)}"
    elif high < least:
        margins = least - tested.joint[1], least - high
        adjustments = _adjustments(one, margins, number, is_met=False)
        words = f"{found} falls short{adjustments}"
    else:
        words = f"not shown either way: {found} contains {percent(least)}"
        if requirement.quantity == "robustness" and not of_data:
            words = f"true of the tested images; for all images {words}"
    if one.sampling is not None and of_data:
        return f"{_on_data(one, one.sampling, least)}. For all images: {words}"
    return words


def _on_data(one: Assessment, sampling: Sampling, least: float) -> str:
    low, high = one.dataset_interval
    if low >= least:
        return f"on this data set it is reached, {confidence_text(sampling)}"
    if high < least:
        return f"on this data set it is missed, {confidence_text(sampling)}"
    if is_open_by_levels(sampling):
        return f"on this data set {interval(low, high)}, which the levels leave open"
    return "not sure on this data set; more images would tell"


def _adjustments(
    one: Assessment, margins: tuple[float, float], number: int, *, is_met: bool
) -> str:
    """Names the adjustments with which it stays so, does not, or may not."""
    lefts: dict[str, float] = {}
    if number > 1:
        lefts[f"for all {number} at once"] = margins[0]
    # From few images the interval covers the errors of levels and images.
    if one.sampling is None and one.error_bound is None:
        lefts["with the error of the levels"] = math.nan
    elif one.sampling is None and one.error_bound:
        words = f"with the levels' {points(one.error_bound)}"
        lefts[words] = margins[1] - one.error_bound
    said = ""
    for what, left in lefts.items():
        # An end equal to the requirement meets it.
        holds = ", also" if left > 0 or (left == 0 and is_met) else ", but not"
        said += f"{'; not known' if math.isnan(left) else holds} {what}"
    return said


def _scope(report: Report) -> Words:
    if not (number := len(report.warned)):
        return say("no_warnings")
    said = first_names([short(one, 160) for one in report.warned], "; ")
    return say("warnings", number=counted(number, "warning"), said=said)


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    runs = [run for one in report.results for run in one.runs]
    volumes = [one.domain.volume for one in report.results if one.domain]
    images = [_data_set(one.provenance, sizes(one)[1]) for one in report.ones]
    images += [_data_set(one.provenance, one.num_images) for one in volumes]
    good = [accepted(one.measure, one.threshold) for one in volumes]
    ranges = [f"{short(one.alteration)} {span(one)}" for one in report.ones]
    ranges += [
        f"{short(axis.name)} {range_with_unit(axis.lower, axis.upper, axis.unit)}"
        for one in volumes
        for axis in one.axes
    ]
    return (
        ("network", "; ".join(map(_network, report.results, report.names))),
        ("images", _joined(images)),
        ("range", _joined(ranges)),
        ("good enough", _joined([*map(condition, report.ones), *good])),
        ("tested by", _joined(short(run.tester or "", 100) for run in runs)),
        ("tested for", _joined(short(run.organisation or "", 100) for run in runs)),
        ("date of the tests", _joined((run.started or "")[:10] for run in runs)),
    )


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(filter(None, dict.fromkeys(texts))) or "not recorded"


def _network(results: Results, name: str) -> str:
    digests = {one.get("classifier") for one in results.sources}
    known = [str(one) for one in digests if one]
    return f"{short(name)}, digest {known[0]}" if len(known) == 1 else short(name)


def _data_set(provenance: Mapping[str, Any], number: int) -> str:
    source = provenance.get("dataset") or {}
    name = short(str(source.get("name") or "without a name"))
    digest = source.get("fingerprint")
    return f"{name}, {counted(number, 'image')}" + f", digest {digest}" * bool(digest)


def _first(report: Report) -> str:
    networks = dict(zip(report.names, (one.assessments for one in report.results)))
    levels = [one.confidence_level for one in report.ones]
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", RobustnessWarning)
            found = ranks(networks, min(levels, default=0.95))[-1]
    except ValueError as error:
        return f"There are no ranks: {error}."
    said = ", ".join(
        f"{short(name)} {rank_text(low, high)} (mean {percent(value)})"
        for name, low, high, value in zip(
            found.networks, found.low, found.high, found.values
        )
    )
    first = found.could_be_first
    words = line(
        "ranks",
        which="First" if len(first) == 1 else "Any of these could be first",
        measure=in_words(found.measure),
        of=short(found.alteration or "all alterations together"),
        first=", ".join(map(short, first)),
        level=percent(found.confidence_level),
        ranks=said,
    )
    texts = dict.fromkeys(str(one.message) for one in raised)
    return words + "".join(f" Warning: {one}" for one in texts)


def _surely(report: Report) -> str:
    said = []
    for pair in report.between:
        for word in ("more", "less", "better", "worse"):
            rows = [row for row in pair.rows if row.how.startswith(word)]
            to = ", ".join(short(row.alteration) for row in rows)
            for row in rows[:1]:
                how = row.how + f"{row.though}," * bool(row.though)
                said.append(f"{pair.first} is {how} than {pair.second} to {to}")
    if not said:
        return "No difference is beyond what chance explains."
    return f"Beyond what chance explains, {'; '.join(said)}."


def _not_tested(results: Sequence[Results]) -> list[str]:
    names = [each.alteration for one in results for each in one.assessments]
    names += [axis.name for one in results if one.domain for axis in one.domain.axes]
    done = {re.sub(r"\W+|_", " ", name.lower()).strip() for name in names}
    missing = [name for name in _USUAL if name not in done]
    found = [f"of the usual alterations: {', '.join(missing)}"] * bool(missing)
    if any(one.roma is None for one in results):
        found.append("random perturbations near each image (RoMA)")
    if any(one.attack is None for one in results):
        found.append("attacks, which seek perturbations on purpose")
    is_alone = all(one.domain is None for one in results)
    together = "several alterations together, " * is_alone
    return [*found, line("not_listed", together=together)]


def _to_judge(report: Report) -> list[str]:
    every = [each for network in report.networks for each in network.each]
    found = []
    for network in report.networks:
        of = report.of(network) and f" of {short(network.name)}"
        for classes in dict.fromkeys(filter(None, map(_bad_unaltered, network.each))):
            found.append(line("bad_unaltered", of=of, classes=classes))
    if every:
        by = operator.attrgetter("alteration", "lower", "upper", "measure", "threshold")
        reasons = {by(each.one): each.reason for each in every}
        lacking = sum(not each for each in reasons.values())
        of = f"; no reason is given for {lacking} of {len(reasons)}" * bool(lacking)
        found.append(line("which_ranges") + of)
        least = sorted({each.one.threshold for each in every})
        said = " or ".join(percent(each) for each in least)
        found.append(f"whether {said}, the threshold, is good enough for the use")
    if not any(one.requirements for one in report.results):
        found.append("what is required: no requirement was given")
    found.append(line("fair_sample"))
    if number := len(report.warned):
        change = "warning changes" if number == 1 else "warnings change"
        found.append(f"whether the {change} what the numbers mean")
    return found


def _bad_unaltered(tested: Tested) -> str:
    one = tested.one
    at = np.flatnonzero(one.levels == one.identity)
    is_known = one.scores is None and one.sampling is None and one.curve.num_classes
    if not is_known or not len(at):
        return ""
    values, inputs = one.values_per_class[at[0]], one.curve.counts.at(0).inputs
    bad = np.flatnonzero((values < one.threshold) & (inputs > 0)).tolist()
    said = [f"“{short(tested.classes[k], 40)}” ({percent(values[k])})" for k in bad]
    return first_names(said)
