"""The sections about all curves: robustness at a glance, sampling, and numbers."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.counted import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._identity.digest import digest
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._columns import worst
from jaxrob.reporting._report import figures
from jaxrob.reporting._report.parts import (
    Article,
    Bullets,
    Figure,
    Group,
    Mark,
    Part,
    Section,
    Text,
    appendix,
    code,
    say,
    strong,
    table,
)
from jaxrob.reporting._report.report import Network, Report, Tested
from jaxrob.reporting._words import (
    distinct_percent,
    excursions,
    images_at_levels,
    interval,
    level_of,
    number,
    percent,
    points,
    range_with_unit,
    short,
    with_unit,
)

# Classes that fill a page's width; of more, the worst are shown.
_MOST_CLASSES = 40
_WORST_CLASSES = 10
# Levels in the table of the curve's numbers; of more, some are shown.
_MOST_ROWS = 24
_MOST_WORDS = 400  # Letters that describe a level or a setting.


def numbers(report: Report) -> Iterator[Section]:
    """Classes, and the levels of the curves."""
    parts: list[Part] = [Text(say("as_data"), "soft")]
    for network in report.networks:
        for each in network.each:
            title = report.of(network, f": {each.label}", each.label)
            article = _numbers(report, each)
            parts.append(Article(f"{each.anchor}-numbers", title, article))
    title = "Appendix: classes and numbers of the curves"
    yield Section(title, parts, "numbers", "appendix")


def _numbers(report: Report, each: Tested) -> list[Part]:
    one = each.one
    rows = _shown_levels(one)
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    some = f": {len(rows)} of {len(one.levels)} levels" * (len(rows) < len(one.levels))
    inputs = one.curve.counts.inputs.sum(-1)
    levels = table(
        rows,
        ("level", "n", lambda at: number(one.levels[at])),
        (
            in_words(one.measure),
            "n",
            lambda at: distinct_percent(one.values[at], one.threshold),
        ),
        (f"{report.level} band", "n", lambda at: interval(low[at], high[at])),
        ("images", "n", lambda at: f"{int(inputs[at]):,}") if one.sampling else None,
        None
        if one.curve.alpha is None
        else ("decided", "n", lambda at: percent(one.decided_ratio[at])),
        ("accepted", "", lambda at: _is_accepted(one, at)),
        caption=f"Curve{some}",
    )
    parts: list[Part] = [Group((*_by_class(one, each.classes), levels), "beside")]
    provenance = one.provenance.get("alteration")
    if isinstance(provenance, str):
        own = digest([ascii(provenance)])
        parts.append(Text(say("alteration_digest", digest=own), "soft"))
    return parts


def _by_class(one: Assessment, names: Sequence[str]) -> list[Part]:
    per_class, lowest_of, inputs, order = classes_of(one)
    if not order:
        return []
    listed = order[:_WORST_CLASSES] if len(order) > _MOST_CLASSES else order
    spread = "" if len(listed) == len(order) else _spread(one, per_class)
    caption, number_of = "By class", f"{len(listed)} of {len(inputs)} classes"
    if len(listed) < len(inputs):
        caption += f": {number_of} have images"
    if spread:
        caption = f"By class: The {number_of.replace(' of', ' worst of')}"
    what = "stability" if one.is_stability else "robustness"
    at = np.flatnonzero(one.levels == one.identity)
    values = one.values_per_class

    def at_identity(k: int) -> str:
        return percent(values[at[0], k]) if len(at) else "not measured"

    def of_class(k: int) -> str:
        return "not kept with scores" if one.scores else percent(per_class[k])

    each = table(
        listed,
        ("class", "row", lambda k: short(names[k], 120)),
        ("images", "n", lambda k: str(inputs[k])),
        ("unaltered", "n", at_identity),
        ("lowest", "n", lambda k: percent(lowest_of[k])),
        (what, "n", of_class),
        caption=caption,
    )
    return [*[Figure(spread)] * bool(spread), each]


def classes_of(one: Assessment) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Returns robustness (of scored levels: the lowest value), lowest value and images.

    Each is `[K]`. Then come the classes with images, worst first and unknown ones last;
    none where single classes are not known.
    """
    none = np.zeros(0)
    if isinstance(one.curve, ScoreCurve) or one.sampling is not None:
        return none, none, none, []
    inputs = one.curve.counts.at(0).inputs
    lowest = np.where(np.isnan(one.values_per_class), np.inf, one.values_per_class).min(
        0
    )
    lowest = np.where(np.isinf(lowest), np.nan, lowest)
    per_class = lowest if one.scores else one.robustness_per_class
    order = np.lexsort((np.arange(len(inputs)), lowest, per_class))
    return per_class, lowest, inputs, [int(k) for k in order if inputs[k]]


def settings(one: Assessment) -> str:
    found = one.provenance.get("settings")
    if not isinstance(found, dict):
        return ""
    return ", ".join(
        f"{name} {value}{_words(one, name)}" for name, value in found.items()
    )


def unit(one: Assessment) -> str:
    return (short(one.unit, 40) or "none") + _words(one, "level")


def _words(one: Assessment, name: str) -> str:
    found = one.provenance.get("words", {}).get(name)
    return f" ({short(found, _MOST_WORDS)})" if found else ""


def condition(one: Assessment) -> str:
    if one.scores is not None:
        return f"each level counts as much as its {in_words(one.measure)} scores"
    least = percent(one.threshold, 4).replace(".0000", "")
    return f"{in_words(one.measure)} of at least {least}"


def robustness(one: Assessment) -> str:
    if not math.isnan(one.robustness):
        return percent(one.robustness)
    return 'not known: at an accepted level every answer is "unknown"'


def level_bound(one: Assessment) -> str:
    if one.sampling is not None:
        return interval(*one.dataset_interval)
    if one.error_bound is None:
        return "not known"
    return f"± {points(one.error_bound)}"


def unaltered(one: Assessment) -> str:
    at = np.flatnonzero(one.levels == one.identity)
    return value_at(one, int(at[0])) if len(at) else "not measured"


def lowest(one: Assessment) -> tuple[str, str]:
    at = worst(one)
    return value_at(one, at), with_unit(one.levels[at], one.unit)


def value_at(one: Assessment, index: int) -> str:
    value = percent(one.values[index])
    if one.is_of_decided:
        value += f" of the {percent(one.decided_ratio[index])} decided"
    return value


def chosen_by(one: Assessment) -> str:
    return one.strategy if one.sampling else f"{one.strategy}, rule “{one.rule}”"


def sampling(one: Assessment) -> tuple[str, ...]:
    """Returns the levels, the widest gap, what is seen by half, plateau and jitter."""
    found = one.diagnostics
    return (
        f"{found.points} in {counted(found.rounds, 'round')}"
        + f", {len(one.levels)} with those that do the same"
        * (len(one.levels) > found.points),
        percent(found.widest_interval),
        percent(found.half_met),
        percent(found.plateau),
        "not known" if math.isnan(found.jitter) else f"{found.jitter:.2g}",
    )


def _spread(one: Assessment, per_class: np.ndarray) -> str:
    known = per_class[~np.isnan(per_class)]
    if one.scores is not None or not len(known):
        return ""
    counts = np.histogram(known, bins=20, range=(0, 1))[0]
    return figures.bars(
        [int(count) for count in counts],
        alt=f"how many of {len(known)} classes have which robustness",
        x_label="robustness of the class",
        y_label="classes",
    )


def _shown_levels(one: Assessment) -> list[int]:
    """Returns the places of all levels, or of a selection if there are too many."""
    # The selection is evenly spaced, and has both ends, the identity, the lowest value,
    # and both sides of crossings.
    last = len(one.levels) - 1
    picked = set(np.linspace(0, last, min(_MOST_ROWS, last + 1)).round().astype(int))
    picked |= {worst(one), *np.flatnonzero(one.levels == one.identity)}
    crossings = np.flatnonzero(np.diff(one.values >= one.threshold))[:_MOST_ROWS]
    return sorted(map(int, picked | {*crossings, *(crossings + 1)}))


def _is_accepted(one: Assessment, index: int) -> str:
    if one.sampling is None:
        return "yes" if one.values[index] >= one.threshold else "no"
    return {1: "yes", -1: "no"}.get(int(one.sampling.sides[index]), "open")


# Single images' scores.


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
    yield appendix("how it was sampled", parts, "sampling")
