"""The sections on what was tested: networks, data, versions, domain and plan."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.texts import counted, readable
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._report.curve import accepted
from jaxrob.reporting._report.parts import (
    Facts,
    Heading,
    Mark,
    Part,
    Section,
    Table,
    Text,
    Words,
    line,
    say,
)
from jaxrob.reporting._report.report import Network, Report, Tested, has_classes
from jaxrob.reporting._requirements import Plan, PlannedAlteration, planned_requirements
from jaxrob.reporting._results import Results, Run
from jaxrob.reporting._words import VERSION, number, short, with_unit

_MOST_WORDS = 400  # Letters that describe a level or a setting.
_UNKNOWN = "not known"

Pairs = tuple[tuple[str, str], ...]


def tested(report: Report) -> Iterator[Section]:
    parts: list[Part] = [Facts(_network(one)) for one in report.networks]
    images = [_images(one) for one in report.networks]
    for of, some in report.grouped(images):
        parts += [Heading(f"Images of {of}")] * bool(of)
        parts += some
    parts += [Text(say("not_held")), Text(say("how_to_check"))]
    parts.append(Heading("How to repeat it"))
    for network in report.networks:
        parts += [Heading(network.name, 4)] * report.many
        parts += [Facts(_run(run)) for run in network.results.runs]
        parts += [Text(say("no_runs"))] * (not network.results.runs)
    for of, facts in report.grouped([_versions(one) for one in report.results]):
        parts += [Heading(f"Versions of {of}", 4)] * bool(of)
        parts.append(Facts(facts))
    parts.append(Text(say("repeat", version=VERSION), "soft"))
    yield Section("What was tested, and how to repeat it", parts, "tested")


def _network(network: Network) -> Pairs:
    results, names = network.results, network.classes
    sources = results.sources
    facts = [
        ("network", results.network or "without a name"),
        ("network's digest", _entries(sources, "classifier")),
    ]
    versions = [_entry_text(one, "network", "version") for one in sources]
    facts += [("network's file or weights", _same(versions))] * any(versions)
    seen = [_arguments(_entry(one, "network", "preprocessing")) for one in sources]
    facts += [("it sees (scale * pixels - mean) / std", _same(seen))] * any(seen)
    if has_classes(results):
        facts.append(("classes", f"{len(names):,}" if names else _UNKNOWN))
    scores = [
        f"{_entry_text(one, 'score', 'name')}, "
        f"version {_entry_text(one, 'score', 'version') or 'not given'}"
        for one in sources
        if _entry(one, "score")
    ]
    facts += [("score", "; ".join(dict.fromkeys(scores)))] * bool(scores)
    return tuple(facts)


def _images(network: Network) -> tuple[Part, ...]:
    assessments = network.results.assessments
    counts = [
        one.curve.counts.at(0).inputs for one in assessments if one.sampling is None
    ]
    words = _counts(counts, network.classes) if counts else ""
    if (domain := network.results.domain) is not None and not words:
        words = f"{counted(domain.volume.num_images, 'image')} count."
    return Facts(_data(network.results)), Text(_few_images(assessments, words))


def _data(results: Results) -> Pairs:
    sources = results.sources
    facts = [
        ("data", _entries(sources, "dataset", "name")),
        ("data's digest", _entries(sources, "dataset", "fingerprint")),
    ]
    shown = [each.image for row in results.pictures for each in row]
    shapes = {image.shape for image in shown if image is not None}
    if len(shapes) == 1:
        height, width, channels = shapes.pop()
        size = f"{height} x {width} pixels (height x width)"
        facts.append(("size of the images", f"{size}, {counted(channels, 'channel')}"))
    own = [_entry(one, "dataset", "labels") == "own answers" for one in sources]
    labels = "in part the network's own" if any(own) else "the labels of the data"
    if own and all(own):
        labels = line("own_labels")
    facts.append(("right answers", labels))
    groups = [_groups(_entry(one, "dataset", "groups")) for one in sources]
    if any(groups):
        facts.append(("images in groups", _same(one or "none" for one in groups)))
    for name, describe in (
        ("pictures left out", _left_out),
        ("files skipped", _skipped),
        ("decoding", lambda one: _entry_text(one, "decoding")),
        ("slices", lambda one: _arguments(_entry(one, "slices"))),
        ("preparation", lambda one: _arguments(_entry(one, "preparation"))),
        ("window of the files", lambda one: short(_entry_text(one, "window"), 150)),
        ("rescaled by", lambda one: short(_entry_text(one, "rescale"), 150)),
    ):
        texts = [describe(_entry(one, "dataset", "reading")) for one in sources]
        facts += [(name, _same(text or "none" for text in texts))] * any(texts)
    return tuple(facts)


def _groups(facts: Any) -> str:
    if not isinstance(facts, dict):
        return ""
    return (
        f"{facts['number']:,} by {facts['column']}, the largest "
        f"{100 * facts['largest']:.1f} % of the images; worth "
        f"{facts['effective']:.4g} groups of one size"
    )


def _counts(counts: Sequence[np.ndarray], names: Sequence[str]) -> str:
    # Of scores only the number of images is known.
    by_class = [one for one in counts if len(one) > 1] or counts[:1]
    first = by_class[0]
    differ = any(not np.array_equal(one, first) for one in by_class)
    if differ or len({int(one.sum()) for one in counts}) > 1:
        return "The alterations were assessed on different images."
    number = counted(int(first.sum()), "image")
    words = f"{number}, the same for every alteration and level."
    if len(first) == 1:
        return words
    fewest, most = int(first.argmin()), int(first.argmax())
    if first.min() == first.max():
        words += f" Each class has {counted(int(first[0]), 'image')}."
    else:
        words += (
            f" The classes have from {first[fewest]:,} (“{short(names[fewest])}”) to "
            f"{first[most]:,} images (“{short(names[most])}”)."
        )
    empty = int((first == 0).sum())
    if empty:
        words += f" {counted(empty, 'class', 'classes')} without images say nothing."
    return words


def _few_images(assessments: Sequence[Assessment], words: str) -> str:
    few = [one for one in assessments if one.sampling is not None]
    if not few:
        return words or "No alteration was assessed."
    count = {one.sampling.num_images for one in few if one.sampling is not None}
    said = " or ".join(counted(one, "image") for one in sorted(count))
    which = ", ".join(short(one.alteration, 40) for one in few)
    if len(few) < len(assessments):
        return f"{words} {line('part_of_some', which=which, images=said)}"
    of_classes = any(one.curve.num_classes for one in assessments)
    lacking = " How many are of which class was not kept." * of_classes
    return line("random_part", images=said, lacking=lacking)


def _run(one: Run) -> Pairs:
    facts = [
        ("command line", one.command or "not recorded"),
        ("begun (UTC)", one.started or "not recorded"),
        ("machine", one.machine or "not recorded"),
    ]
    for file in one.files:
        digest = f"SHA-256 digest {file.digest}"
        whole = "a folder; the data's digest is of what was read"
        name = f"{file.role}: {short(file.name, 120)}"
        facts.append((name, digest if file.digest else whole))
    return tuple(facts)


def _versions(results: Results) -> Pairs:
    """The versions of packages; then the devices and the key."""
    sources = results.sources
    names = sorted({name for one in sources for name in _entry(one, "versions") or ()})
    of_devices = ("count", "kind", "platform")
    devices = [
        line("devices", **{part: _entry_text(found, part) for part in of_devices})
        if isinstance(found := _entry(one, "devices"), dict)
        else ""
        for one in sources
    ]
    return (
        *((name, _entries(sources, "versions", name)) for name in names),
        ("devices", _same(devices) or _UNKNOWN),
        ("random key", _entries(sources, "key")),
    )


def domain(report: Report) -> Iterator[Section]:
    if not report.ones:
        return
    parts: list[Part] = [Text(say("domain"))]
    heads = ("alteration", "unit of the level", "range", "unaltered at", "settings")
    looks = ("row", "name", "", "", "name", "name")
    rows = [tuple(map(_domain, one.each)) for one in report.networks]
    for of, some in report.grouped(rows):
        if some:
            parts.append(Table((*heads, "why this range"), some, looks, of))
    title = "Operating domain: what may happen to the images"
    yield Section(title, parts, "domain")


def _domain(each: Tested) -> tuple[Words, ...]:
    one = each.one
    words = one.provenance.get("words", {})
    words = {name: f" ({short(text, _MOST_WORDS)})" for name, text in words.items()}
    found = _entry(one.provenance, "settings") or {}
    settings = [f"{key} {value}{words.get(key, '')}" for key, value in found.items()]
    unit = (short(one.unit, 40) or "none") + words.get("level", "")
    identity = with_unit(one.identity, one.unit)
    no_reason = Mark("no reason was given", "soft")
    reason = f"“{each.reason}”" if each.reason else no_reason
    return each.label, unit, _span(one), identity, ", ".join(settings), reason


def plan(report: Report) -> Iterator[Section]:
    parts: list[Part] = []
    if all(one.plan is None for one in report.results):
        parts.append(Text(say("no_plan")))
    else:
        level = 4 if report.many else 3
        plans = [_plan(one, level) for one in report.results]
        for of, some in report.grouped(plans):
            parts += [Heading(of)] * bool(of)
            parts += some
    yield Section("Plan", parts, "plan")


def _plan(results: Results, level: int) -> tuple[Part, ...]:
    if (plan := results.plan) is None:
        return (Text("There was no plan."),)
    few = [("number of images", _planned_few(plan))] if plan.wants_few else []
    facts = (
        ("plan's digest (SHA-256)", plan.digest),
        ("plan's name", plan.name),
        ("date written in the plan", str(plan.date)),
        ("accepted", accepted(plan.measure, plan.threshold)),
        ("required", planned_text(results)),
        *few,
    )
    differences = _differences(results, plan)
    rows = tuple(
        (
            one.name,
            _span(one),
            ", ".join(f"{key}={value}" for key, value in one.settings.items()),
            one.reason or "no reason was given",
        )
        for one in plan.alterations
    )
    parts: list[Part] = [Facts(facts), Text(say("plan_digest"), "soft")]
    heads = ("planned", "range", "settings", "reason")
    parts.append(Table(heads, rows, ("row", "", "name", "name")))
    if differences:
        parts.append(Heading("Where the results differ from the plan", level))
    else:
        parts.append(Text(say("as_planned")))
    return *parts, *(Text(one, "warning") for one in differences)


def is_as_planned(results: Results) -> bool:
    # Those of alterations that are not assessed yet cannot be told.
    if results.plan is None:
        return True
    names = [one.alteration for one in results.assessments]
    planned = set(planned_requirements(results.plan, names))
    stripped = {name.strip() for name in names}
    asked = {
        one
        for one in results.requirements
        if one.alteration is None or one.alteration in stripped or one in planned
    }
    return asked == planned


def planned_text(results: Results) -> str:
    assert results.plan is not None
    names = [one.alteration for one in results.assessments]
    planned = planned_requirements(results.plan, names)
    return ", ".join(readable(one.said) for one in planned) or "nothing"


def _differences(results: Results, plan: Plan) -> list[str]:
    found = []
    done = {_normalised(one.alteration): one for one in results.assessments}
    axes = results.domain.axes if results.domain else ()
    spans: dict[str, Any] = {_normalised(one.name): one for one in axes} | done
    wanted = {_normalised(one.name): one for one in plan.alterations}
    for key, planned in wanted.items():
        if key not in spans:
            found.append(f"{planned.name} was planned but is not among the results.")
        elif _ends(planned) != _ends(spans[key]):
            was, says = _span(spans[key]), _span(planned)
            found.append(f"{planned.name}: the range was {was}, the plan says {says}.")
    for key, one in done.items():
        name = one.alteration
        if key not in wanted:
            found.append(f"{name} was assessed but is not in the plan.")
        if one.threshold != plan.threshold or one.measure != plan.measure:
            ours, planned = (
                f"{in_words(each.measure)} of at least {number(each.threshold)}"
                for each in (one, plan)
            )
            found.append(f"{name}: accepted was {ours}, the plan says {planned}.")
        if plan.wants_few and not _is_few_as_planned(plan, one):
            few = _planned_few(plan)
            found.append(line("other_number", alteration=name, planned=few))
    if not is_as_planned(results):
        found.append("What was required is not what the plan requires.")
    return found


def _ends(one: Assessment | PlannedAlteration) -> tuple[float, float]:
    return one.lower, one.upper


def _span(one: Assessment | PlannedAlteration) -> str:
    return f"{number(one.lower)} to {number(one.upper)}"


def _planned_few(plan: Plan) -> str:
    said = [] if plan.half_width is None else [f"half width {plan.half_width:g}"]
    said += [] if plan.budget is None else [f"budget {plan.budget:,}"]
    return ", ".join(said + ["curtailed"] * plan.curtail)


def _is_few_as_planned(plan: Plan, one: Assessment) -> bool:
    asked = one.sampling
    if asked is None or (asked.budget, asked.curtail) != (plan.budget, plan.curtail):
        return False
    # With curtail alone, the answer of all images is wanted: half width 0, or None if a
    # requirement ends sampling.
    alone = plan.half_width is None and plan.budget is None
    return asked.half_width == plan.half_width or (alone and asked.half_width == 0)


def _normalised(name: str) -> str:
    """Normalises an alteration's name, from a plan or an assessment."""
    # "rain.py:rain", of a user's file, becomes "rain"; "corruptions.fog", a benchmark's
    # corruption in a plan, becomes "fog".
    return re.sub(r"\W+", "_", name.rpartition(":")[2].removeprefix("corruptions."))


def _arguments(given: Any) -> str:
    pairs = given.items() if isinstance(given, dict) else ()
    return ", ".join(f"{name}={short(_argument(value))}" for name, value in pairs)


def _argument(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(_argument, value))})"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _left_out(reading: Any) -> str:
    number, of = (_entry(reading, "left_out", name) for name in ("number", "of"))
    if not number:
        return ""
    names = _entry(reading, "left_out", "names")
    shown = [str(one) for one in names[:3]] if isinstance(names, list) else []
    which = f": {', '.join(shown)}{', ...' * (number != len(shown))}" * bool(shown)
    return f"{number} of {of}, which are unreadable{which}"


def _skipped(reading: Any) -> str:
    number = _entry(reading, "skipped_files")
    return f"{number}, hidden or of the system" if number else ""


def _entry(source: Any, *path: str) -> Any:
    """Returns an entry of a provenance of any structure; None if it is missing."""
    for name in path:
        source = source.get(name) if isinstance(source, dict) else None
    return source


def _entry_text(source: Any, *path: str) -> str:
    found = _entry(source, *path)
    return "" if found is None else str(found)


def _entries(sources: Iterable[Any], *path: str) -> str:
    return _same(_entry_text(one, *path) for one in sources)


def _same(texts: Iterable[str]) -> str:
    found = [text or _UNKNOWN for text in dict.fromkeys(texts)]
    several = "not the same for all alterations: " * (len(found) > 1)
    return several + "; ".join(found)
