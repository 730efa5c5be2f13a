"""The first page: what was not tested, which network is best, what is left to judge."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._arguments.warnings import RobustnessWarning
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._gate import MET, NOT_MET, NOT_SHOWN
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
from jaxrob.reporting._report.report import Comparison, Report
from jaxrob.reporting._report.verdict import Verdict, verdict_of
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import VERSION, percent, short

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
