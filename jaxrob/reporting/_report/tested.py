"""The sections on what was tested: networks, data, versions, domain and plan."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._plan import Plan, PlannedAlteration, planned_requirements
from jaxrob.reporting._report.parts import (
    Bullets,
    Facts,
    Heading,
    Mark,
    Part,
    Section,
    Table,
    Text,
    Words,
    say,
)
from jaxrob.reporting._report.report import Report, Tested, has_classes
from jaxrob.reporting._results import Results, Run
from jaxrob.reporting._words import (
    VERSION,
    number,
    percent,
    short,
    with_unit,
)

_MOST_CLASSES = 60
_MOST_WORDS = 400  # Letters that describe a level or a setting.
_UNKNOWN = "not known"
_OF_DEVICES = ("count", "kind", "platform")


Pairs = tuple[tuple[str, str], ...]


def about_network(results: Results, names: Sequence[str]) -> Pairs:
    sources = [one.provenance for one in results.assessments]
    versions = [_entry_text(one, "network", "version") for one in sources]
    classes = ("classes", f"{len(names):,}" if names else _UNKNOWN)
    return (
        ("network", results.network or "without a name"),
        ("network's digest", _entries(sources, "classifier")),
        *[("network's file or weights", _same(versions))] * any(versions),
        *[classes] * has_classes(results),
        *_scores(sources),
    )


def data_of(results: Results, names: Sequence[str]) -> tuple[Pairs, str, Pairs]:
    """The images: facts, a sentence about their number, and how many of each class."""
    counts = [
        one.curve.counts.at(0).inputs
        for one in results.assessments
        if one.sampling is None
    ]
    classes, words = _images(counts, names) if counts else ((), "")
    return _data(results), _few_images(results.assessments, words), classes


def _data(results: Results) -> Pairs:
    sources = [one.provenance for one in results.assessments]
    size = _size(results)
    return (
        ("data", _entries(sources, "dataset", "name")),
        ("data's digest", _entries(sources, "dataset", "fingerprint")),
        *[("size of the images", size)] * bool(size),
        ("right answers", _labels(results.assessments)),
        *_reading(sources),
    )


def run_of(one: Run) -> Pairs:
    return (
        ("command line", one.command or "not recorded"),
        ("begun (UTC)", one.started or "not recorded"),
        ("machine", one.machine or "not recorded"),
        *(
            (
                f"{each.role}: {short(each.name, 120)}",
                f"SHA-256 digest {each.digest}"
                if each.digest
                else "a folder; the data's digest is of what was read",
            )
            for each in one.files
        ),
    )


def plan_of(
    results: Results,
) -> tuple[Pairs, tuple[tuple[str, ...], ...], tuple[str, ...]] | None:
    """The plan: facts, its alterations, and the results' differences from it.

    The alterations are left out where the operating domain says the same.
    """
    plan = results.plan
    if plan is None:
        return None
    least = percent(plan.threshold, 4).replace(".0000", "")
    required = planned_text(results)
    few = [("number of images", _planned_few(plan))] if plan.wants_few else []
    differences = tuple(_differences(results, plan))
    return (
        (
            ("plan's digest (SHA-256)", plan.digest),
            ("plan's name", plan.name),
            ("date written in the plan", str(plan.date)),
            ("accepted", f"{in_words(plan.measure)} of at least {least}"),
            ("required", required),
            *few,
        ),
        tuple(
            (
                one.name,
                f"{number(one.lower)} to {number(one.upper)}",
                ", ".join(f"{key}={value}" for key, value in one.settings.items()),
                one.reason or "no reason was given",
            )
            for one in plan.alterations
            if differences or not _is_domain(results, plan)
        ),
        differences,
    )


def _is_domain(results: Results, plan: Plan) -> bool:
    done = {
        _normalised(one.alteration): (_entry(one.provenance, "settings"), reason)
        for one, reason in zip(results.assessments, results.reasons)
    }
    for planned in plan.alterations:
        settings, reason = done.get(_normalised(planned.name), (None, None))
        if reason != planned.reason or any(
            str(_entry(settings, name)) != str(value)
            for name, value in planned.settings.items()
        ):
            return False
    return True


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


def _images(counts: Sequence[np.ndarray], names: Sequence[str]) -> tuple[Pairs, str]:
    # Of scores only the number of images is known.
    by_class = [one for one in counts if len(one) > 1] or counts[:1]
    first = by_class[0]
    if any(
        not np.array_equal(one, first) and (len(one) > 1 or one.sum() != first.sum())
        for one in counts
    ):
        return (), "The alterations were assessed on different images."
    words = (
        f"{counted(int(first.sum()), 'image')}, the same for every alteration and "
        "level. "
    )
    if len(first) == 1:
        return (), words.strip()
    fewest, most = int(first.argmin()), int(first.argmax())
    if first.min() == first.max():
        words += f"Each class has {counted(int(first[0]), 'image')}."
    else:
        words += (
            f"The classes have from {first[fewest]:,} (“{short(names[fewest])}”) to "
            f"{first[most]:,} images (“{short(names[most])}”)."
        )
    empty = int((first == 0).sum())
    if empty:
        words += f" {counted(empty, 'class', 'classes')} without images say nothing."
    if len(first) > _MOST_CLASSES:
        return (), words
    return tuple((name, f"{count:,}") for name, count in zip(names, first)), words


def _few_images(assessments: Sequence[Assessment], words: str) -> str:
    few = [one for one in assessments if one.sampling is not None]
    if not few:
        return words or "No alteration was assessed."
    count = {one.sampling.num_images for one in few if one.sampling is not None}
    said = " or ".join(counted(one, "image") for one in sorted(count))
    which = ", ".join(short(one.alteration, 40) for one in few)
    if len(few) == len(assessments):
        of_classes = any(one.curve.num_classes for one in assessments)
        return (
            f"{said} count. At each level a random part of them was looked at, in one "
            "order for all levels and alterations."
            + " How many are of which class was not kept."
            * of_classes
        )
    return f"{words} Of {which} at each level a random part of {said} was looked at."


def _size(results: Results) -> str:
    shown = [each.image for row in results.pictures for each in row]
    shapes = {image.shape for image in shown if image is not None}
    if len(shapes) != 1:
        return ""
    height, width, channels = shapes.pop()
    return f"{height} x {width} pixels (height x width), {counted(channels, 'channel')}"


def _labels(assessments: Sequence[Assessment]) -> str:
    own = [one.is_stability for one in assessments]
    if own and all(own):
        return (
            "the network's own on the unaltered images: all numbers are of stability, "
            "and say nothing about how often it is right"
        )
    return "in part the network's own" if any(own) else "the labels of the data"


def _scores(sources: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    texts = [
        f"{_entry_text(one, 'score', 'name')}, "
        f"version {_entry_text(one, 'score', 'version') or 'not given'}"
        for one in sources
        if _entry(one, "score")
    ]
    return [("score", "; ".join(dict.fromkeys(texts)))] if texts else []


def versions_of(results: Results) -> Pairs:
    """The versions of packages; then the devices and the key."""
    sources = [one.provenance for one in results.assessments]
    versions = [_entry(one, "versions") for one in sources]
    names = sorted({key for one in versions if isinstance(one, dict) for key in one})
    devices = (
        "{} x {} (platform {})".format(
            *(_entry_text(one, "devices", part) for part in _OF_DEVICES)
        )
        if isinstance(_entry(one, "devices"), dict)
        else ""
        for one in sources
    )
    return (
        *((name, _entries(sources, "versions", name)) for name in names),
        ("devices", _same(devices) or _UNKNOWN),
        ("random key (seed)", _entries(sources, "key")),
    )


def _differences(results: Results, plan: Plan) -> list[str]:
    found = []
    done = {_normalised(one.alteration): one for one in results.assessments}
    wanted = {_normalised(one.name): one for one in plan.alterations}
    for key, planned in wanted.items():
        if key not in done:
            found.append(f"{planned.name} was planned but is not among the results.")
        else:
            found += _range_difference(planned, done[key])
    for key, one in done.items():
        if key not in wanted:
            found.append(f"{one.alteration} was assessed but is not in the plan.")
        if one.threshold != plan.threshold or one.measure != plan.measure:
            ours, planned = (
                f"{in_words(each.measure)} of at least {number(each.threshold)}"
                for each in (one, plan)
            )
            found.append(
                f"{one.alteration}: accepted was {ours}, the plan says {planned}."
            )
        if plan.wants_few and not _is_few_as_planned(plan, one):
            found.append(
                f"{one.alteration}: the number of images was not chosen as the plan "
                f"says, {_planned_few(plan)}."
            )
    if not is_as_planned(results):
        found.append("What was required is not what the plan requires.")
    return found


def _planned_few(plan: Plan) -> str:
    said = [] if plan.half_width is None else [f"half width {plan.half_width:g}"]
    said += [] if plan.budget is None else [f"budget {plan.budget:,}"]
    return ", ".join(said + ["curtailed"] * plan.curtail)


def _is_few_as_planned(plan: Plan, one: Assessment) -> bool:
    if one.sampling is None:
        return False
    asked = one.sampling
    if (asked.budget, asked.curtail) != (plan.budget, plan.curtail):
        return False
    # With curtail alone, the answer of all images is wanted: half width 0, or None if a
    # requirement ends sampling.
    alone = plan.half_width is None and plan.budget is None
    return asked.half_width == plan.half_width or (alone and asked.half_width == 0)


def _range_difference(planned: PlannedAlteration, one: Assessment) -> list[str]:
    if (planned.lower, planned.upper) == (one.lower, one.upper):
        return []
    return [
        f"{planned.name}: the range was {number(one.lower)} to {number(one.upper)}, "
        f"the plan says {number(planned.lower)} to {number(planned.upper)}."
    ]


def _reading(sources: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
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
        if any(texts):
            found.append((name, _same(text or "none" for text in texts)))
    return found


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


def _normalised(name: str) -> str:
    """Normalises an alteration's name, from a plan or an assessment."""
    # "rain.py:rain", of a user's file, becomes "rain"; "corruptions.fog", a benchmark's
    # corruption in a plan, becomes "fog".
    return re.sub(r"\W+", "_", name.rpartition(":")[2].removeprefix("corruptions."))


def _entry_text(source: dict[str, Any], *path: str) -> str:
    found = _entry(source, *path)
    return "" if found is None else str(found)


def _entry(source: Any, *path: str) -> Any:
    """Returns an entry of a provenance of any structure; None if it is missing."""
    for name in path:
        source = source.get(name) if isinstance(source, dict) else None
    return source


def _entries(sources: Sequence[dict[str, Any]], *path: str) -> str:
    return _same(_entry_text(one, *path) for one in sources)


def _same(texts: Any) -> str:
    found = list(dict.fromkeys(texts))
    if len(found) <= 1:
        return found[0] if found and found[0] else _UNKNOWN if found else ""
    return "not the same for all alterations: " + "; ".join(
        text or _UNKNOWN for text in found
    )


def tested(report: Report) -> Iterator[Section]:
    """The networks, the images, the runs of the command and the versions."""
    parts: list[Part] = [
        Facts(about_network(one.results, one.classes)) for one in report.networks
    ]
    level = 4 if report.many else 3
    images = [data_of(one.results, one.classes) for one in report.networks]
    for of, content in report.grouped(images):
        facts, words, classes = content
        parts += [Heading(f"Images of {of}")] * bool(of)
        parts += [Facts(facts), Text(words)]
        if classes:
            listed = [f"{name}: {count}" for name, count in classes]
            parts += [Heading("Images by class", level), Bullets(listed, "columns")]
    parts += [Text(say("not_held")), Text(say("how_to_check"))]
    parts.append(Heading("How to repeat it"))
    for network in report.networks:
        parts += [Heading(network.name, 4)] * report.many
        parts += [Facts(run_of(run)) for run in network.results.runs]
        if not network.results.runs:
            parts.append(Text(say("no_runs")))
    for of, facts in report.grouped([versions_of(one) for one in report.results]):
        parts += [Heading(f"Versions of {of}", 4)] * bool(of)
        parts.append(Facts(facts))
    parts.append(Text(say("repeat", version=VERSION), "soft"))
    yield Section("What was tested, and how to repeat it", parts, "tested")


def _settings(one: Assessment) -> str:
    found = one.provenance.get("settings")
    pairs = found.items() if isinstance(found, dict) else ()
    return ", ".join(f"{name} {value}{_words(one, name)}" for name, value in pairs)


def _words(one: Assessment, name: str) -> str:
    found = one.provenance.get("words", {}).get(name)
    return f" ({short(found, _MOST_WORDS)})" if found else ""


def domain(report: Report) -> Iterator[Section]:
    """The alterations' ranges, and the reasons for them."""
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
    span = f"{number(one.lower)} to {number(one.upper)}"
    unit = (short(one.unit, 40) or "none") + _words(one, "level")
    identity = with_unit(one.identity, one.unit)
    no_reason = Mark("no reason was given", "soft")
    reason = f"“{each.reason}”" if each.reason else no_reason
    return each.label, unit, span, identity, _settings(one), reason


def plan(report: Report) -> Iterator[Section]:
    """The plan, and where the results differ from it."""
    if all(one.plan is None for one in report.results):
        yield Section("Plan", [Text(say("no_plan"))], "plan")
        return
    parts: list[Part] = []
    level = 4 if report.many else 3
    for of, content in report.grouped([plan_of(one) for one in report.results]):
        parts += [Heading(of)] * bool(of)
        if content is None:
            parts.append(Text("There was no plan."))
            continue
        facts, rows, differences = content
        parts += [Facts(facts), Text(say("plan_digest"), "soft")]
        if rows:
            heads = ("planned", "range", "settings", "reason")
            parts.append(Table(heads, rows, ("row", "", "name", "name")))
        if differences:
            parts.append(Heading("Where the results differ from the plan", level))
            parts += [Text(one, "warning") for one in differences]
        else:
            own = "" if rows else ", and its settings and reasons"
            parts.append(Text(say("as_planned", own=own)))
    yield Section("Plan", parts, "plan")
