"""The section on an operating domain: several alterations at once."""

from collections.abc import Iterator

import numpy as np

from jaxrob._arguments.texts import counted
from jaxrob.domains._results import REASONS, DomainResults
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._report.figures import embedded
from jaxrob.reporting._report.parts import (
    Heading,
    Part,
    Pictures,
    Section,
    Shown,
    Table,
    Text,
    line,
    say,
)
from jaxrob.reporting._report.report import Report
from jaxrob.reporting._words import (
    interval,
    percent,
    percent_of,
    range_with_unit,
    with_unit,
)


def together(report: Report) -> Iterator[Section]:
    parts: list[Part] = []
    for network in report.networks:
        if (one := network.results.domain) is not None:
            parts += [Heading(network.name)] * report.many
            parts += [_axes(one), *_volume(one), *_box(one), *_failure(one)]
            parts += _corners(one)
            known = (one.volume, one.box, one.failure)
            warned = [text for each in known if each for text in each.warnings]
            parts += [Text(text, "warning") for text in dict.fromkeys(warned)]
    if parts:
        parts = [Text(say("together")), *parts, Text(say("together_limits"))]
        yield Section("Several alterations at once", parts, "together")


def _axes(one: DomainResults) -> Table:
    rows = [
        (
            f"{place}. {axis.name}",
            range_with_unit(axis.lower, axis.upper, axis.unit),
            with_unit(axis.identity, axis.unit),
        )
        for place, axis in enumerate(one.axes, 1)
    ]
    return Table(("applied in this order", "range", "unaltered at"), rows, ("row",))


def _volume(results: DomainResults) -> Iterator[Part]:
    one, population = results.volume, results.volume.confidence_interval
    kind = line("volume_of_kind", interval=interval(*population)) if population else ""
    words = say(
        "accepted_volume",
        volume=percent(one.accepted_volume),
        measure=in_words(one.measure),
        threshold=percent(one.threshold),
        what=line("by_profile" if one.level_distribution else "by_volume"),
        interval=interval(*one.dataset_interval),
        images=counted(one.num_images, "image"),
        level=percent_of(one.confidence_level),
        kind=kind or line("volume_of_these"),
    )
    yield Text(words)
    status = line(one.status, "volumes") + line(one.guarantee or "unsaid", "volumes")
    tried = counted(len(one.levels), "combination")
    passes = f"{one.evaluations:,}"
    yield Text(status + line("volume_took", tried=tried, passes=passes), "soft")


def _box(results: DomainResults) -> Iterator[Part]:
    if (one := results.box) is None:
        return
    passes = f"{one.evaluations:,}"
    if one.lower is None or one.upper is None:
        yield Text(say("no_box", why=REASONS[one.status], passes=passes))
        return
    words = say(
        "operating_box",
        share=percent(one.accepted_share, 0),
        level=percent_of(one.confidence_level),
        volume=percent(one.volume),
        validated=counted(one.validated, "combination"),
        passes=passes,
    )
    yield Text(words)
    rows = [
        (axis.name, range_with_unit(low, high, axis.unit))
        for axis, low, high in zip(one.axes, one.lower, one.upper)
    ]
    yield Table(("in the box", "range"), rows, ("row",))


def _failure(results: DomainResults) -> Iterator[Part]:
    if (one := results.failure) is None:
        return
    words = say(
        "failure_probability",
        probability=percent(one.probability, 2),
        interval=interval(*one.dataset_interval, 2),
        of_kind=interval(*one.confidence_interval, 2),
        images=counted(one.num_images, "image"),
        level=percent_of(one.confidence_level),
        profile=one.profile,
        passes=f"{one.evaluations:,}",
    )
    yield Text(words)


def _corners(results: DomainResults) -> Iterator[Part]:
    if results.corners is None:
        return
    images, levels = results.corners
    unaltered = (levels == [axis.identity for axis in results.axes]).all(axis=1)
    shown = []
    for image, level, is_first, number in zip(
        images.astype(np.uint8), levels, unaltered, np.cumsum(unaltered) - 1
    ):
        named = zip(results.axes, level)
        at = ", ".join(
            f"{axis.name} {with_unit(one, axis.unit)}" for axis, one in named
        )
        what = "unaltered" if is_first else "corner"
        shown.append(Shown(embedded(image, None), at, what, f"image {number}", False))
    yield Text(say("corners"))
    yield Pictures(shown)
