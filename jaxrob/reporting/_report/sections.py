"""The sections of a report, each a function of the report. `SECTIONS` has their order.

All say the same in HTML and in Markdown: what is written here is written once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._report import figures
from jaxrob.reporting._report.appendix import glossary, methods, multiplicity
from jaxrob.reporting._report.curve import (
    chosen_by,
    condition,
    details,
    level_bound,
    lowest,
    numbers,
    robustness,
    sampling,
    settings,
    unaltered,
    unit,
)
from jaxrob.reporting._report.first_page import first_page
from jaxrob.reporting._report.parts import (
    Bullets,
    Facts,
    Figure,
    Group,
    Heading,
    Mark,
    Part,
    Section,
    Table,
    Text,
    Words,
    code,
    say,
    strong,
    table,
)
from jaxrob.reporting._report.report import (
    Comparison,
    Network,
    Report,
    Tested,
    differences_table,
)
from jaxrob.reporting._report.tested import (
    about_network,
    data_of,
    plan_of,
    run_of,
    versions_of,
)
from jaxrob.reporting._style import axis_label, common_threshold
from jaxrob.reporting._words import (
    ROUNDED,
    VERSION,
    Corruption,
    corruptions,
    excursions,
    images_at_levels,
    interval,
    level_of,
    means,
    number,
    range_with_unit,
    severity,
    share,
    short,
    with_unit,
)


def results(report: Report) -> Iterator[Section]:
    """The robustness to each alteration, with both errors."""
    seen = excursions(report.ones)
    levels = say("error_of_levels", excursions=f" {seen}" * bool(seen))
    images = say("error_of_images", level=report.level)
    parts: list[Part] = [Text(say("robustness")), Bullets((levels, images))]
    if report.has_few:
        some = "some alterations" if report.has_all else "each alteration"
        classes = ", and the robustness of single classes is not known"
        classes *= report.has_classes
        parts.append(Text(say("few_images", some=some, classes=classes)))
    if report.has_classes:
        see = ": see “By class” in the appendix" * report.has_all
        words = "All classes count together. One class alone may be far less robust"
        parts.append(Text(f"{words}{see}."))
    if any(one.is_stability for one in report.ones):
        parts.append(Text(say("stability"), "warning"))
    parts.append(Figure(_overview(report)))
    for network in report.networks:
        parts += _at_a_glance(report, network)
    bounds = any(one.error_bound is not None for one in report.ones)
    if not bounds and report.has_all and report.ones:
        parts.append(Text(say("no_bound"), "soft"))
    yield Section("Results at a glance", parts, "results")


def _at_a_glance(report: Report, network: Network) -> list[Part]:
    if not network.each:
        return []
    same = len({condition(each.one) for each in network.each}) == 1
    few = report.has_few
    each = table(
        network.each,
        ("alteration", "row", lambda each: Mark(each.label, "link", each.anchor)),
        ("range", "", lambda each: _range(each.one)),
        None if same else ("good enough is", "", lambda each: condition(each.one)),
        ("robustness", "n", lambda each: strong(robustness(each.one))),
        (
            "on this data set" if few else "levels leave open",
            "n",
            lambda each: level_bound(each.one),
        ),
        (
            "on all images of this kind" if few else "images leave open",
            "n",
            lambda each: interval(*each.one.confidence_interval),
        ),
        ("unaltered", "n", lambda each: unaltered(each.one)),
        ("lowest", "n wraps", lambda each: " at ".join(lowest(each.one))),
        caption=report.of(network),
    )
    if not same:
        return [each]
    good = report.of(network, ": good", "Good")
    return [Text(f"{good} enough is: {condition(network.each[0].one)}."), each]


def _range(one: Assessment) -> str:
    return range_with_unit(one.lower, one.upper, one.unit)


def _overview(report: Report) -> str:
    found: dict[str, dict[int, Assessment]] = {}
    for which, one in enumerate(report.results):
        for each in one.assessments:
            found.setdefault(each.alteration, {}).setdefault(which, each)
    if not found:
        return ""
    rows = []
    none = None, np.nan, np.nan, None
    for name, by in found.items():
        every = [by.get(which) for which in range(len(report.results))]
        ends = [
            (one.robustness, *one.confidence_interval, _open(one)) if one else none
            for one in every
        ]
        rows.append(figures.Estimate(name, *zip(*ends)))
    required = {
        each.bound
        for one in report.results
        for each in one.requirements
        if each.quantity in ("robustness", "robustness.low") and each.alteration is None
    }
    return figures.estimates(
        rows,
        report.names,
        alt="the robustness to each alteration, with its interval",
        x_label="robustness, the share of the range that is good enough",
        level=level_of(report.ones),
        opened_by="levels and images not looked at" if report.has_few else "levels",
        required=sorted(required),
    )


def _open(one: Assessment) -> tuple[float, float] | None:
    if one.sampling is None and one.error_bound is None:
        return None
    return one.dataset_interval


def common_corruptions(report: Report) -> Iterator[Section]:
    """The means and errors that benchmarks of common corruptions publish."""
    parts: list[Part] = [Text(say("corruptions"))]
    for network in report.networks:
        some = network.results.assessments
        found = corruptions(some)
        if found is None:
            continue
        relative = any(one.relative_to_alexnet for one in found.rows)
        level = level_of([one for one in some if one.unit == "severity"])
        parts += [Heading(network.name)] * report.many
        parts.append(Text(f"Intervals are of {level}."))
        averages = [
            (name, f"{share(one)}: {one.reason}" if one.reason else share(one))
            for name, one in means(found)
        ]
        parts += [Facts(averages)] * bool(averages)
        each = table(
            found.rows,
            ("corruption", "row", lambda row: row.name),
            ("mean error", "n", lambda row: share(row.error)),
            ("relative to AlexNet", "n", _relative) if relative else None,
            ("fails at severity", "n", lambda row: severity(row.fails_at)),
        )
        parts.append(each)
        if relative:
            parts.append(Text(say("alexnet"), "soft"))
    if len(parts) > 1:
        yield Section("Common corruptions", parts, "corruptions")


def _relative(row: Corruption) -> str:
    return share(row.relative_to_alexnet) if row.relative_to_alexnet else ""


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
    identity = with_unit(one.identity, one.unit)
    no_reason = Mark("no reason was given", "soft")
    reason = f"“{each.reason}”" if each.reason else no_reason
    return each.label, unit(one), span, identity, settings(one), reason


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


def earlier(report: Report) -> Iterator[Section]:
    """The results beside earlier ones."""
    if report.earlier:
        words = Text(say("earlier", level=report.level))
        parts = [words, *_differences(report, report.earlier)]
        yield Section("Beside an earlier result", parts, "earlier")


def side_by_side(report: Report) -> Iterator[Section]:
    """The networks' curves in one figure, and their differences."""
    if report.many:
        sides = Group(_sides(report), "sides")
        parts = [sides, *_differences(report, report.between)]
        yield Section("Networks side by side", parts, "side-by-side")


def _differences(report: Report, found: Iterable[Comparison]) -> Iterator[Part]:
    for one in found:
        yield Heading(f"{one.first} beside {one.second}")
        yield differences_table(one, report.level)


def _sides(report: Report) -> list[Part]:
    found: dict[tuple, list[tuple[str, Assessment]]] = {}
    for network in report.networks:
        for each in network.results.assessments:
            key = each.alteration, each.unit, each.lower, each.upper, each.measure
            found.setdefault(key, []).append((network.name, each))
    drawn: list[Part] = []
    for (title, of, lower, upper, measure), group in found.items():
        if len(group) < 2:
            continue
        said = in_words(measure)
        figure = figures.curves(
            [
                figures.Line(short(name, 40), one.levels, one.values)
                for name, one in group
            ],
            (lower, upper),
            alt=f"{said} of {len(group)} networks over the level of {short(title)}",
            x_label=axis_label(f"level of {short(title)}", of),
            y_label=said,
            threshold=common_threshold([one for _, one in group]),
            identity=group[0][1].identity,
        )
        drawn.append(Group((Heading(title), Figure(figure))))
    return drawn


def warnings(report: Report) -> Iterator[Section]:
    """The warnings by cause."""
    parts = [
        Text(
            (strong(report.of(one, f", {each.of}", each.of)), f": {each.text}"),
            "warning",
        )
        for one in report.networks
        for each in one.warned
    ]
    yield Section("Warnings", parts or [Text("None.")], AFTER_DETAILS)


def limits(report: Report) -> Iterator[Section]:
    """What the report does not say."""
    classes, ones = report.has_classes, report.ones
    counts, good, bad = "against", "good", "bad"
    if classes:
        counts, good, bad = "as an error of", "accurate", "wrong"
    scores = any(one.scores is not None for one in ones)
    asked = "tolerance, penalization or a distribution of the levels was asked for"
    items = [
        say("limit_no_certificate"),
        say("limit_alone"),
        say("limit_kind"),
        say("limit_labels", counts=counts),
        say("limit_training"),
        say("limit_alike", unless=f", unless {asked}" * scores),
        say("limit_led_to", good=good, bad=bad),
        say("limit_proof"),
    ]
    for name, applies in (
        ("limit_bound", any(one.error_bound is not None for one in ones)),
        ("limit_few", report.has_few),
        ("limit_unknown", any(one.curve.alpha is not None for one in ones)),
    ):
        items += [say(name)] * applies
    yield Section("What this report does not say", [Bullets(items)], "limits")


def reading(report: Report) -> Iterator[Section]:
    """How to read the numbers."""
    parts: list[Part] = []
    if any(one.requirements for one in report.results):
        few = " Of few images it says first what is sure on this data set."
        few, number_of = few * report.has_few, len(report.ones)
        words = say("checks", level=report.level, number=number_of, few=few)
        parts.append(Text(words))
    parts += [Text(ROUNDED), Text(say("digests"))]
    found = methods(report.results, report.compared)
    parts += [Facts(found)] * bool(found)
    yield _appendix("how to read the numbers", parts, "reading")


def many_intervals(report: Report) -> Iterator[Section]:
    """What holds for many intervals at once."""
    parts = [Text(one) for one in multiplicity(report.results, report.compared)]
    yield _appendix("many intervals at once", parts, "multiplicity")


def how_sampled(report: Report) -> Iterator[Section]:
    """Which levels were looked at, on how many images."""
    which = "every image"
    if report.has_few:
        part = "a random part of"
        which = f"{part} the images"
        if report.has_all:
            which = f"every image, or {part} them,"
    parts: list[Part] = [Text(say("sampling", which=which))]
    for network in report.networks:
        if not network.each:
            continue
        chosen = {chosen_by(each.one) for each in network.each}
        same = len(chosen) == 1
        if same:
            words = (
                report.of(network, ": levels", "Levels") + " were chosen by ",
                code(*chosen),
                " for the integral over them" * report.has_all + ".",
            )
            parts.append(Text(words))
        heads = ("levels", "widest gap", "seen by half", "near the threshold", "jitter")
        columns = [
            (head, "n" * (at > 0), lambda each, at=at: sampling(each.one)[at])
            for at, head in enumerate(heads)
        ]
        each = table(
            network.each,
            ("alteration", "row", lambda each: each.label),
            None if same else ("levels chosen by", "name", lambda it: it.one.strategy),
            None if same else ("rule", "", lambda each: each.one.rule),
            *columns,
            ("images at each level", "n", lambda each: images_at_levels(each.one)),
            caption=report.of(network),
        )
        parts.append(each)
    yield _appendix("how it was sampled", parts, "sampling")


def words(report: Report) -> Iterator[Section]:
    """Words that not every reader knows."""
    found = glossary(report.results)
    if found:
        items = [(strong(word), f": {meaning}.") for word, meaning in found]
        yield _appendix("words", [Bullets(items)], "words")


def _appendix(title: str, parts: Sequence[Part], anchor: str) -> Section:
    return Section(f"Appendix: {title}", parts, anchor, "appendix")


#: The anchor of the section that a user's own ones stand before.
AFTER_DETAILS = "warnings"
#: All sections, in their order; the first is set before the contents.
SECTIONS: tuple[Callable[[Report], Iterator[Section]], ...] = (
    first_page,
    results,
    common_corruptions,
    tested,
    domain,
    plan,
    earlier,
    side_by_side,
    details,
    warnings,
    limits,
    reading,
    many_intervals,
    how_sampled,
    numbers,
    words,
)
