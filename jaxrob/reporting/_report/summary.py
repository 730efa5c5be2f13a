"""The first page: what was not tested, which network is best, what is left to judge."""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._arguments.warnings import RobustnessWarning
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._rank_table import rank_text
from jaxrob.reporting._ranks import ranks
from jaxrob.reporting._report.comparison import Comparison
from jaxrob.reporting._report.curve import Alteration
from jaxrob.reporting._report.text import percent, short
from jaxrob.reporting._results import Results

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


class Summary(NamedTuple):
    """The sentences of the first page.

    Attributes:
      facts: pairs of a name and a text: who tested, when, what.
      best: which network is best; empty of one network.
      not_tested: what was not tested.
      to_judge: what the tester must still judge.
    """

    facts: tuple[tuple[str, str], ...]
    best: str
    not_tested: tuple[str, ...]
    to_judge: tuple[str, ...]


def summary(
    results: Sequence[Results],
    names: Sequence[str],
    alterations: Sequence[Sequence[Alteration]],
    between: Sequence[Comparison],
    num_warnings: int,
) -> Summary:
    """Returns the sentences of the first page."""
    return Summary(
        _facts(results, names, alterations),
        _best(results, names, between) if len(results) > 1 else "",
        tuple(_not_tested(results)),
        tuple(_to_judge(results, names, alterations, num_warnings)),
    )


def _facts(
    results: Sequence[Results],
    names: Sequence[str],
    alterations: Sequence[Sequence[Alteration]],
) -> tuple[tuple[str, str], ...]:
    runs = [run for one in results for run in one.runs]
    ones = [each for one in results for each in one.assessments]
    enough = dict.fromkeys(each.condition for row in alterations for each in row)
    return (
        ("network", "; ".join(map(_network, results, names))),
        ("images", "; ".join(dict.fromkeys(map(_images, ones))) or "not recorded"),
        ("good enough", "; ".join(enough) or "not recorded"),
        ("tested by", _said(run.tester for run in runs)),
        ("tested for", _said(run.organisation for run in runs)),
        (
            "date of the tests",
            _said((run.started or "")[:10] for run in runs),
        ),
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


def _best(
    results: Sequence[Results], names: Sequence[str], between: Sequence[Comparison]
) -> str:
    """Says which networks could be the best, and which are more robust to what."""
    said = _first(results, names), _highest(results, names), _surely(between)
    return " ".join(said)


def _first(results: Sequence[Results], names: Sequence[str]) -> str:
    """Says which networks could be first by their ranks, or why there are no ranks."""
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
    """Says how often each has the highest robustness, of alterations that all share."""
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
    """Says who is more robust to what than the first, beyond what chance explains."""
    mean = "on average over the range, though the robustness does not show it,"
    ways = (
        ("more robust", "side", 1),
        ("less robust", "side", -1),
        (f"better {mean}", "mean_side", 1),
        (f"worse {mean}", "mean_side", -1),
    )
    said = []
    for pair in between:
        for how, of, side in ways:
            which = [one.alteration for one in pair.rows if getattr(one, of) == side]
            if which:
                to = ", ".join(map(short, which))
                said.append(f"{pair.first} is {how} than {pair.second} to {to}")
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
    found.append(
        "several alterations together, other ranges, and all that is not listed"
    )
    return found


def _to_judge(
    results: Sequence[Results],
    names: Sequence[str],
    alterations: Sequence[Sequence[Alteration]],
    num_warnings: int,
) -> list[str]:
    ones = [each for one in results for each in one.assessments]
    reasons = {
        _key(each): reason
        for one in results
        for each, reason in zip(one.assessments, one.reasons)
    }
    lacking = sum(not each for each in reasons.values())
    found = []
    for name, row in zip(names, alterations):
        bad = dict.fromkeys(each.bad_unaltered for each in row if each.bad_unaltered)
        for classes in bad:
            of = f" of {short(name)}" if len(names) > 1 else ""
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
    if not any(one.requirements for one in results):
        found.append("what is required: no requirement was given")
    found.append(
        "whether the images are a fair sample of those in use, with right labels, and "
        "were not used in training"
    )
    if num_warnings:
        change = "warning changes" if num_warnings == 1 else "warnings change"
        found.append(f"whether the {change} what the numbers mean")
    return found
