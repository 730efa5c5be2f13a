"""The sections about all curves: robustness at a glance, sampling, and numbers."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.texts import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.slices import OF_GROUPS
from jaxrob._curve import ReducedCurve, ScoreCurve, select
from jaxrob._identity.identity import digest
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
    line,
    say,
    strong,
    table,
)
from jaxrob.reporting._report.report import Network, Report
from jaxrob.reporting._words import (
    at_level,
    distinct_percent,
    excursions,
    images_at_levels,
    interval,
    level_of,
    listed_levels,
    number,
    percent,
    points,
    range_with_unit,
    short,
)

# Classes that fill a page's width; of more, the worst are shown.
_MOST_CLASSES = 40
_WORST_CLASSES = 10
_MOST_CONFUSIONS = 6
# Levels in the table of the curve's numbers; of more, some are shown.
_MOST_ROWS = 24


def results(report: Report) -> Iterator[Section]:
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
        parts.append(Text(say("all_classes", see=see)))
    if any(one.is_stability for one in report.ones):
        parts.append(Text(say("stability"), "warning"))
    if any(one.measure.endswith(OF_GROUPS) for one in report.ones):
        words = "Where a measure is of groups, “image” means one of these."
        parts.append(Text(words, "warning"))
    parts.append(Figure(_overview(report)))
    for network in report.networks:
        parts += _at_a_glance(report, network) if network.each else []
    bounds = any(one.error_bound is not None for one in report.ones)
    if not bounds and report.has_all and report.ones:
        parts.append(Text(say("no_bound"), "soft"))
    yield Section("Results at a glance", parts, "results")


def _at_a_glance(report: Report, network: Network) -> list[Part]:
    same = len({condition(each.one) for each in network.each}) == 1
    of_data, of_all = "levels leave open", "images leave open"
    if report.has_few:
        of_data, of_all = "on this data set", "on all images of this kind"
    each = table(
        network.each,
        ("alteration", "row", lambda each: Mark(each.label, "link", each.anchor)),
        ("range", "", lambda each: span(each.one)),
        None if same else ("good enough is", "", lambda each: condition(each.one)),
        ("robustness", "n", lambda each: strong(robustness(each.one))),
        (of_data, "n", lambda each: level_bound(each.one)),
        (of_all, "n", lambda each: interval(*each.one.confidence_interval)),
        ("unaltered", "n", lambda each: unaltered_value(each.one)),
        ("lowest", "n wraps", lambda each: lowest(each.one)),
        caption=report.of(network),
    )
    good = report.of(network, ": good", "Good")
    words = f"{good} enough is: {condition(network.each[0].one)}."
    return [*[Text(words)] * same, each]


def _overview(report: Report) -> str:
    names = dict.fromkeys(one.alteration for one in report.ones)
    rows = {
        name: [_estimate(one.assessments, name) for one in report.results]
        for name in names
    }
    required = {
        each.bound
        for one in report.results
        for each in one.requirements
        if each.quantity in ("robustness", "robustness.low") and each.alteration is None
    }
    if not rows:
        return ""
    return figures.estimates(
        rows,
        report.names,
        level=level_of(report.ones),
        opened_by="levels and images not looked at" if report.has_few else "levels",
        required=sorted(required),
    )


def _estimate(assessments: Sequence[Assessment], name: str) -> figures.Estimate | None:
    for one in assessments:
        if one.alteration == name:
            known = one.sampling is not None or one.error_bound is not None
            left_open = one.dataset_interval if known else None
            low, high = one.confidence_interval
            return figures.Estimate(one.robustness, low, high, left_open)
    return None


def how_sampled(report: Report) -> Iterator[Section]:
    which = "every image"
    if report.has_few:
        part = "a random part of"
        which = f"every image, or {part} them,"
        which = which if report.has_all else f"{part} the images"
    parts: list[Part] = [Text(say("sampling", which=which))]
    for network in report.networks:
        if not network.each:
            continue
        ones = [each.one for each in network.each]
        chosen = {o.strategy + f", rule “{o.rule}”" * (not o.sampling) for o in ones}
        if same := len(chosen) == 1:
            words = report.of(network, ": levels", "Levels") + " were chosen by "
            integral = " for the integral over them" * report.has_all
            parts.append(Text((words, code(*chosen), f"{integral}.")))
        each = table(
            network.each,
            ("alteration", "row", lambda it: it.label),
            None if same else ("levels chosen by", "name", lambda it: it.one.strategy),
            None if same else ("rule", "", lambda it: it.one.rule),
            ("levels", "", lambda it: _levels(it.one)),
            ("widest gap", "n", lambda it: percent(it.one.diagnostics.widest_interval)),
            ("seen by half", "n", lambda it: percent(it.one.diagnostics.half_met)),
            ("near the threshold", "n", lambda it: percent(it.one.diagnostics.plateau)),
            ("jitter", "n", lambda it: _jitter(it.one.diagnostics.jitter)),
            ("images at each level", "n", lambda it: images_at_levels(it.one)),
            caption=report.of(network),
        )
        parts.append(each)
    yield appendix("how it was sampled", parts, "sampling")


def _levels(one: Assessment) -> str:
    number, every = one.diagnostics.points, len(one.levels)
    more = f", {every} with those that do the same" * (every > number)
    return f"{number} in {counted(one.diagnostics.rounds, 'round')}{more}"


def _jitter(jitter: float) -> str:
    return "not known" if math.isnan(jitter) else f"{jitter:.2g}"


def numbers(report: Report) -> Iterator[Section]:
    parts: list[Part] = [Text(say("as_data"), "soft")]
    for network in report.networks:
        for each in network.each:
            title = report.of(network, f": {each.label}", each.label)
            both = *_by_class(each.one, each.classes), _curve(each.one, report.level)
            of_one: list[Part] = [Group(both, "beside")]
            alteration = each.one.provenance.get("alteration")
            if isinstance(alteration, str):
                own = digest([ascii(alteration)])
                of_one.append(Text(say("alteration_digest", digest=own), "soft"))
            parts.append(Article(f"{each.anchor}-numbers", title, of_one))
    yield appendix("classes and numbers of the curves", parts, "numbers")


def _curve(one: Assessment, level: str) -> Part:
    rows = _shown_levels(one)
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    some = f": {len(rows)} of {len(one.levels)} levels" * (len(rows) < len(one.levels))
    inputs, decided = one.curve.counts.inputs.sum(-1), one.decided_ratio
    few, unknown = one.sampling is not None, one.curve.alpha is not None
    words, listed = in_words(one.measure), listed_levels(one) or {}
    return table(
        rows,
        ("level", "n", lambda at: listed.get(level := one.levels[at]) or number(level)),
        (words, "n", lambda at: distinct_percent(one.values[at], one.threshold)),
        (f"{level} band", "n", lambda at: interval(low[at], high[at])),
        ("images", "n", lambda at: f"{int(inputs[at]):,}") if few else None,
        ("decided", "n", lambda at: percent(decided[at])) if unknown else None,
        ("accepted", "", lambda at: _is_accepted(one, at)),
        caption=f"Curve{some}",
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


def _by_class(one: Assessment, names: Sequence[str]) -> list[Part]:
    per_class, lowest_of, inputs, order = _classes(one)
    if not order:
        return []
    listed = order[:_WORST_CLASSES] if len(order) > _MOST_CLASSES else order
    caption = "By class"
    if len(listed) < len(order):
        half = percent(per_class[order[len(order) // 2]])
        caption += f": The {len(listed)} worst of {len(inputs)} classes"
        caption += f"; half of all are below {half}"
    elif len(order) < len(inputs):
        caption += f": {len(order)} of {len(inputs)} classes have images"
    what = "stability" if one.is_stability else "robustness"
    unaltered = ["not measured"] * len(inputs)
    for values in one.values_per_class[one.levels == one.identity]:
        unaltered = [percent(value) for value in values]
    scored = "not kept with scores" if one.scores else ""
    of_each = table(
        listed,
        ("class", "row", lambda k: short(names[k], 120)),
        ("images", "n", lambda k: str(inputs[k])),
        ("unaltered", "n", lambda k: unaltered[k]),
        ("lowest", "n", lambda k: percent(lowest_of[k])),
        (what, "n", lambda k: scored or percent(per_class[k])),
        caption=caption,
    )
    return [of_each]


def _classes(one: Assessment) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """The classes' robustness or lowest value, lowest values and images, `[K]`."""
    # And the order of those with images, the worst first, unknown ones last.
    none = np.zeros(0)
    if isinstance(one.curve, ScoreCurve) or one.sampling is not None:
        return none, none, none, []
    inputs = one.curve.counts.at(0).inputs
    lowest = np.fmin.reduce(one.values_per_class)  # NaN only where all are.
    robustness = one.robustness_per_class
    per_class = lowest if robustness is None else robustness
    order = np.lexsort((lowest, per_class)).tolist()
    return per_class, lowest, inputs, [k for k in order if inputs[k]]


def worst_class(one: Assessment, names: Sequence[str]) -> str:
    per_class, lowest_of, inputs, order = _classes(one)
    known = [k for k in order if not math.isnan(per_class[k])]
    if not known or one.scores is not None:
        return ""
    first = known[0]
    value = per_class[first]
    equal = int((per_class[known] == value).sum())
    if equal == len(known) > 1:
        return f"All classes have the same: {percent(value)} of the range."
    images = counted(int(inputs[first]), "image")
    name, share = short(names[first]), percent(value)
    text = line("worst_class", name=name, share=share, images=images)
    if equal > 1:
        text += f" ({counted(equal - 1, 'other class', 'other classes')} as low)"
    at = int(np.nanargmin(lowest_of))
    if lowest_of[at] == lowest_of[first]:
        return f"{text}."
    lowest_one = f"{percent(lowest_of[at])}, of “{short(names[at])}”"
    return f"{text}. The lowest {in_words(one.measure)} of a class is {lowest_one}."


def confusions(one: Assessment, names: Sequence[str]) -> str:
    at, curve = worst(one), one.curve
    counts_alone = isinstance(curve, ReducedCurve) and curve.counts.confusion is None
    if isinstance(curve, ScoreCurve) or counts_alone:
        return ""
    (wrong,) = select(curve, np.array([at]), one.levels[[at]]).confusion[..., :-1]
    totals = curve.counts.at(at).inputs
    np.fill_diagonal(wrong := wrong.copy(), 0)
    labels, answers = np.nonzero(wrong)
    most = np.argsort(-wrong[labels, answers], kind="stable")[:_MOST_CONFUSIONS]
    found = "; ".join(
        f"“{short(names[label], 40)}” taken for “{short(names[answer], 40)}” "
        f"({wrong[label, answer]:,} of {totals[label]:,})"
        for label, answer in zip(map(int, labels[most]), map(int, answers[most]))
    )
    where = at_level(one, one.levels[at])
    return found and f"Most frequent wrong answers at {where}: {found}."


def span(one: Assessment) -> str:
    listed = ", ".join((listed_levels(one) or {}).values())
    return listed or range_with_unit(one.lower, one.upper, one.unit)


def condition(one: Assessment) -> str:
    if one.scores is not None:
        return f"each level counts as much as its {in_words(one.measure)} scores"
    return accepted(one.measure, one.threshold)


def accepted(measure: str, least: float) -> str:
    return f"{in_words(measure)} of at least {threshold(least)}"


def threshold(share: float) -> str:
    return percent(share, 4).replace(".0000", "")


def robustness(one: Assessment) -> str:
    if not math.isnan(one.robustness):
        return percent(one.robustness)
    return 'not known: at an accepted level every answer is "unknown"'


def level_bound(one: Assessment) -> str:
    if one.sampling is not None:
        return interval(*one.dataset_interval)
    return "not known" if one.error_bound is None else f"± {points(one.error_bound)}"


def unaltered_value(one: Assessment) -> str:
    at = np.flatnonzero(one.levels == one.identity)
    return value_at(one, int(at[0])) if len(at) else "not measured"


def lowest(one: Assessment) -> str:
    at = worst(one)
    return f"{value_at(one, at)} at {at_level(one, one.levels[at])}"


def value_at(one: Assessment, index: int) -> str:
    value = percent(one.values[index])
    if one.is_of_decided:
        value += f" of the {percent(one.decided_ratio[index])} decided"
    return value
