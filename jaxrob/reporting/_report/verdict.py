"""The first page: verdicts, what was not tested, and what is left to judge."""

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._arguments.readable import readable
from jaxrob._arguments.warnings import RobustnessWarning
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.document import Sampling
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._gate import (
    MET,
    NOT_MET,
    NOT_SHOWN,
    Outcome,
    is_doubted,
    placed_of,
)
from jaxrob.reporting._plan import AT_LEAST, Requirement
from jaxrob.reporting._quantities import QUANTITIES
from jaxrob.reporting._ranks import rank_text, ranks
from jaxrob.reporting._report.curve import condition
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
    table,
)
from jaxrob.reporting._report.report import Comparison, Network, Report, Tested
from jaxrob.reporting._report.tested import is_as_planned, planned_text
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import (
    VERSION,
    confidence_text,
    distinct_percent,
    interval,
    is_open_by_levels,
    percent,
    points,
    short,
)

_MOST_ALTERATIONS = 5  # Names of alterations in a sentence.


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
    said = _checks_text(every, failed)
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


def _checks_text(every: Sequence[Outcome], failed: Sequence[Outcome]) -> list[str]:
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
    names[_MOST_ALTERATIONS:] = ["..."] * (len(names) > _MOST_ALTERATIONS)
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


_MOST_NAMES = 5  # Names of classes in a sentence.
_MOST_WARNED = 5  # Alterations with warnings that are named.
# The alterations of the papers, which an assessor may look for.
_USUAL = (
    "gaussian noise",
    "gaussian blur",
    "brightness",
    "horizontal translation",
    "vertical translation",
    "rotation",
    "zoom",
    "jpeg compression",
)


def first_page(report: Report) -> Iterator[Section]:
    """The verdict on each network, what was not tested, and what is left to judge."""
    verdicts = [(one, verdict_of(one, report)) for one in report.networks]
    parts: list[Part] = [_box(report.of(one), verdict) for one, verdict in verdicts]
    parts.append(Facts(_facts(report)))
    for network, verdict in verdicts:
        if verdict.checks:
            of = report.of(network)
            label = f"Requirements of {of}" if of else "Requirements"
            how_sure = f"how sure ({report.level} interval)"
            parts.append(checks_table(verdict, how_sure, of, label, _STATES))
    asked = [each for _, verdict in verdicts for each in verdict.meanings]
    meanings = [
        part
        for quantity, meaning in dict.fromkeys(asked)
        for part in (code(quantity), f" {meaning}. ")
    ]
    parts += [Text(meanings, "soft")] * bool(meanings)
    if report.many:
        parts.append(Text((strong("Which network is best."), f" {_best(report)}")))
    for title, said in (
        ("Not tested:", _not_tested(report.results)),
        ("To be judged by people:", _to_judge(report)),
    ):
        parts.append(Text((strong(title), f" {'; '.join(said)}.")))
    parts.append(Text(_scope(report)))
    rows = [("tested by", "", "", ""), ("checked by", "", "", "")]
    heads = ("Signatures", "name", "date", "signature")
    looks = ("row", "", "", "")
    parts.append(Table(heads, rows, looks, "", "signatures", "Signatures"))
    yield Section("Verdict", parts, "verdict")


def _box(name: str, one: Verdict) -> Group:
    look = {None: "", True: " good", False: " open" if one.is_open else " bad"}
    worse = [Text((Mark("worse", "unmet"), f" {text}")) for text in one.regressions]
    named = [Text(strong(name))] * bool(name)
    said = Text(one.words, "said")
    return Group((*named, said, *worse), f"verdict{look[one.passed]}")


def checks_table(
    one: Verdict, how_sure: str, caption: str, label: str, states: Mapping[str, Words]
) -> Table:
    return table(
        one.checks,
        ("alteration", "row", lambda check: check.of),
        ("verdict", "", lambda check: states[check.verdict]),
        ("required", "", lambda check: Mark(check.requirement, "whole")),
        ("value", "n", lambda check: check.found),
        (how_sure, "", lambda check: check.certainty),
        caption=caption,
        look="checks",
        label=label,
    )


# Three looks, by word and shape: what is not known is not shown either.
_STATES = {
    MET: Mark("✓ met", "state met"),
    NOT_MET: Mark("✗ not met", "state unmet"),
    NOT_SHOWN: Mark("? not shown", "state unshown"),
}


def about(report: Report) -> Words:
    are = "image classifiers" if report.many else "an image classifier"
    name = "of_classifiers" if report.has_classes else "of_networks"
    words = line(name, are=are, version=VERSION)
    known = report.ones or any(one.roma for one in report.results)
    return [words, *say("words_explained") * bool(known)]


def _scope(report: Report) -> Words:
    number = len(report.warned)
    if not number:
        return say("no_warnings")
    said = "; ".join(short(one, 160) for one in report.warned[:_MOST_WARNED])
    said += "; ..." * (number > _MOST_WARNED)
    return say("warnings", number=counted(number, "warning"), said=said)


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    runs = [run for one in report.results for run in one.runs]
    ones = report.ones
    enough = dict.fromkeys(map(condition, ones))
    return (
        ("network", "; ".join(map(_network, report.results, report.names))),
        ("images", "; ".join(dict.fromkeys(map(_images, ones))) or "not recorded"),
        ("good enough", "; ".join(enough) or "not recorded"),
        ("tested by", _said(run.tester for run in runs)),
        ("tested for", _said(run.organisation for run in runs)),
        ("date of the tests", _said((run.started or "")[:10] for run in runs)),
    )


def _network(results: Results, name: str) -> str:
    digests = {one.provenance.get("classifier") for one in results.assessments}
    known = [str(one) for one in digests if one]
    return f"{short(name)}, digest {known[0]}" if len(known) == 1 else short(name)


def _images(one: Assessment) -> str:
    source = one.provenance.get("dataset") or {}
    if one.sampling is None:
        number = int(one.curve.counts.at(0).inputs.sum())
    else:
        number = one.sampling.num_images
    name = short(str(source.get("name") or "without a name"))
    digest = source.get("fingerprint")
    return f"{name}, {counted(number, 'image')}" + f", digest {digest}" * bool(digest)


def _said(texts: Iterable[str | None]) -> str:
    found = dict.fromkeys(short(one, 100) for one in texts if one)
    return "; ".join(found) or "not recorded"


def _best(report: Report) -> str:
    first = _first(report.results, report.names)
    highest = _highest(report.results, report.names)
    return f"{first} {highest} {_surely(report.between)}"


def _first(results: Sequence[Results], names: Sequence[str]) -> str:
    networks = dict(zip(names, (one.assessments for one in results)))
    levels = [each.confidence_level for one in results for each in one.assessments]
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
    of = found.alteration or "all alterations together"
    first = found.could_be_first
    which = "First" if len(first) == 1 else "Any of these could be first"
    return (
        f"{which}, by the mean {in_words(found.measure)} over the range, of "
        f"{short(of)}: {', '.join(map(short, first))}. Ranks, all at "
        f"once with a confidence of {percent(found.confidence_level)}: {said}."
        + "".join(f" Warning: {one}" for one in dict.fromkeys(_texts(raised)))
    )


def _texts(raised: Sequence[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in raised]


def _highest(results: Sequence[Results], names: Sequence[str]) -> str:
    rows = [{_key(each): each for each in one.assessments} for one in results]
    shared = [
        robustness
        for key in rows[0]
        if all(key in row for row in rows)
        and not np.isnan(robustness := [row[key].robustness for row in rows]).any()
    ]
    if not shared:
        return "No alteration was assessed alike for all networks."
    said = ", ".join(
        f"{short(name)} for {sum(one[which] == max(one) for one in shared)}"
        for which, name in enumerate(names)
    )
    return (
        f"The highest robustness of {counted(len(shared), 'alteration')} that all "
        f"share, where equal ones all count: {said}."
    )


def _surely(between: Sequence[Comparison]) -> str:
    mean = "on average over the range, though the robustness does not show it,"
    said = []
    for pair in between:
        found = [(row.alteration, row.adjusted) for row in pair.rows if row.adjusted]
        for how, side, mean_side in (
            ("more robust", 1, None),
            ("less robust", -1, None),
            (f"better {mean}", 0, 1),
            (f"worse {mean}", 0, -1),
        ):
            to = [
                short(name)
                for name, one in found
                if one.side == side and mean_side in (None, one.mean_side)
            ]
            if to:
                words = f"{pair.first} is {how} than {pair.second} to {', '.join(to)}"
                said.append(words)
    if not said:
        return "No difference is beyond what chance explains."
    return f"Beyond what chance explains, {'; '.join(said)}."


def _key(one: Assessment) -> tuple:
    return one.alteration, one.lower, one.upper, one.measure, one.threshold


def _not_tested(results: Sequence[Results]) -> list[str]:
    done = {
        re.sub(r"\W+|_", " ", each.alteration.lower()).strip()
        for one in results
        for each in one.assessments
    }
    missing = [name for name in _USUAL if name not in done]
    found = [f"of the usual alterations: {', '.join(missing)}"] if missing else []
    if any(one.roma is None for one in results):
        found.append("random perturbations near each image (RoMA)")
    if any(one.attack is None for one in results):
        found.append("attacks, which seek perturbations on purpose")
    return [*found, line("some_together")]


def _to_judge(report: Report) -> list[str]:
    ones, number = report.ones, len(report.warned)
    reasons = {
        _key(each.one): each.reason for one in report.networks for each in one.each
    }
    lacking = sum(not each for each in reasons.values())
    found = []
    for network in report.networks:
        bad = (_bad_unaltered(each.one, each.classes) for each in network.each)
        for classes in dict.fromkeys(filter(None, bad)):
            of = f" of {short(network.name)}" if report.many else ""
            found.append(
                f"whether classes{of} that are not good enough even unaltered may be: "
                f"{classes}"
            )
    if ones:
        of = f"; no reason is given for {lacking} of {len(reasons)}" if lacking else ""
        found.append(
            "whether each range is the one that occurs in use, and its reason, under "
            f"“Operating domain”, is a reason for all of it{of}"
        )
        least = sorted({each.threshold for each in ones})
        said = " or ".join(percent(each) for each in least)
        found.append(f"whether {said}, the threshold, is good enough for the use")
    if not any(one.requirements for one in report.results):
        found.append("what is required: no requirement was given")
    found.append(line("fair_sample"))
    if number:
        change = "warning changes" if number == 1 else "warnings change"
        found.append(f"whether the {change} what the numbers mean")
    return found


def _bad_unaltered(one: Assessment, names: Sequence[str]) -> str:
    at = np.flatnonzero(one.levels == one.identity)
    known = one.scores is None and one.sampling is None and one.curve.num_classes
    if not known or not len(at):
        return ""
    inputs = one.curve.counts.at(0).inputs
    values = one.values_per_class[at[0]]
    bad = np.flatnonzero((values < one.threshold) & (inputs > 0)).tolist()
    if not bad:
        return ""
    said = [f"“{short(names[k], 40)}” ({percent(values[k])})" for k in bad]
    more = len(said) - _MOST_NAMES
    said[_MOST_NAMES:] = [f"{more} more"] * (more > 0)
    return ", ".join(said)
