"""The sections of a report, each a function of it. `SECTIONS` has their order."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from jaxrob._arguments.texts import counted, readable
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.paired import most_swaps
from jaxrob._curve import ScoreCurve
from jaxrob.metrics._bands import num_resamples
from jaxrob.metrics._measures import MeanScore, any_measure, in_words, top_k
from jaxrob.metrics._testing import num_rank_resamples
from jaxrob.reporting._plot import axis_label, common_threshold
from jaxrob.reporting._report import figures
from jaxrob.reporting._report.curve import (
    how_sampled,
    level_bound,
    numbers,
    results,
    unaltered_value,
)
from jaxrob.reporting._report.details import details
from jaxrob.reporting._report.domain import together
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
    appendix,
    explained,
    line,
    say,
    sentences,
    strong,
    table,
)
from jaxrob.reporting._report.report import Comparison, Difference, Report
from jaxrob.reporting._report.tested import domain, plan, tested
from jaxrob.reporting._report.verdict import first_page
from jaxrob.reporting._requirements import sliced_by
from jaxrob.reporting._results import p_value_text
from jaxrob.reporting._words import (
    ROUNDED,
    corruption_means,
    corruptions,
    error_text,
    interval,
    level_of,
    listed_levels,
    percent,
    percent_of,
    severity_text,
    short,
)

# The least robust ones of a column with more.
_MOST_SLICES = 20


def common_corruptions(report: Report) -> Iterator[Section]:
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
        averages = corruption_means(found)
        parts += [Facts(averages)] * bool(averages)
        each = table(
            found.rows,
            ("corruption", "row", lambda row: row.name),
            ("mean error", "n", lambda row: error_text(row.error)),
            ("relative to AlexNet", "n", lambda it: error_text(it.relative_to_alexnet))
            if relative
            else None,
            ("fails at severity", "n", lambda row: severity_text(row.fails_at)),
        )
        parts.append(each)
        if relative:
            parts.append(Text(say("alexnet"), "soft"))
    if len(parts) > 1:
        yield Section("Common corruptions", parts, "corruptions")


def slices(report: Report) -> Iterator[Section]:
    parts: list[Part] = []
    for network in report.networks:
        every = network.results.assessments
        found = [_slices(one, name) for one in every for name in sliced_by(one)]
        parts += [Heading(network.name)] * (report.many and bool(found)) + found
    if parts:
        yield Section("By slices", [Text(say("slices")), *parts], "slices")


def _slices(one: Assessment, name: str) -> Table:
    found = one.by(name)
    worst = f"{found.worst.value} is worse than all others"
    if not found.is_told_apart:
        worst = "which is worst cannot be told apart from chance"
    if len(found.slices) > _MOST_SLICES:
        worst += f"; the first {_MOST_SLICES} of {len(found.slices):,}"
    return table(
        found.slices[:_MOST_SLICES],
        (name, "row", lambda it: it.value),
        ("images", "n", lambda it: f"{int(it.assessment.counts.inputs[0].sum()):,}"),
        ("unaltered", "n", lambda it: unaltered_value(it.assessment)),
        ("good enough over", "n", lambda it: percent(it.assessment.robustness)),
        ("levels' error", "n", lambda it: level_bound(it.assessment)),
        ("joint interval", "n", lambda it: interval(*it.joint_interval)),
        caption=f"{readable(one.alteration)}: {worst}",
    )


def earlier(report: Report) -> Iterator[Section]:
    if report.earlier:
        words = Text(say("earlier", level=report.level))
        parts = [words, *_differences(report, report.earlier)]
        yield Section("Beside an earlier result", parts, "earlier")


def side_by_side(report: Report) -> Iterator[Section]:
    if report.many:
        sides = Group(_sides(report), "sides")
        parts = [sides, *_differences(report, report.between)]
        yield Section("Networks side by side", parts, "side-by-side")


def _differences(report: Report, found: Iterable[Comparison]) -> Iterator[Part]:
    for one in found:
        yield Heading(f"{one.first} beside {one.second}")
        yield differences_table(one, report.level)


def differences_table(one: Comparison, level: str) -> Table:
    between = f"{level} interval"
    heads = ["alteration", one.first, one.second, "difference", between, "p-value"]
    heads += ["mean difference", between, "p-value", "what it means"]
    looks = ["row", "n", "n", "n", "n", "n wraps", "n", "n", "n wraps", ""]
    rows = [
        (row.alteration, *_numbers(row), _meaning(row, one.first)) for row in one.rows
    ]
    return Table(heads, rows, looks, look="differences")


def _numbers(row: Difference) -> Sequence[str]:
    if row.found is None or row.adjusted is None:
        return [""] * 8
    found, one = row.found, row.adjusted
    return [
        *(f"{100 * value:.1f} %" for value in row.robustness),
        f"{100 * found.difference:+.1f} points",
        "{:+.1f} to {:+.1f}".format(*(100 * end for end in found.confidence_interval)),
        p_value_text(found.p_value, one.p_value),
        f"{100 * found.mean_difference:+.1f} points",
        "{:+.1f} to {:+.1f}".format(*(100 * end for end in found.mean_interval)),
        p_value_text(found.mean_p_value, one.mean_p_value),
    ]


def _meaning(row: Difference, name: str) -> Words:
    one = row.adjusted
    if one is None:
        return readable(row.why)
    words = "no difference that these images can show"
    least = min(one.found.p_value, one.found.mean_p_value)
    if row.how:
        words = f"{name} is {row.how}, beyond what chance explains{row.though}"
    elif least <= 1 - one.found.confidence_level:
        words = line("one_of_many")
    return Mark(words, "unmet") if one.is_worse else words


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
        lines = [
            figures.Line(short(name, 40), one.levels, one.values) for name, one in group
        ]
        figure = figures.curves(
            lines,
            (lower, upper),
            alt=f"{said} of {len(group)} networks over the level of {short(title)}",
            x_label=axis_label("level", of),
            y_label=said,
            threshold=common_threshold([one for _, one in group]),
            identity=group[0][1].identity,
            listed=listed_levels(group[0][1]),
        )
        drawn.append(Group((Heading(title), Figure(figure))))
    return drawn


def warnings(report: Report) -> Iterator[Section]:
    parts: list[Part] = []
    for network in report.networks:
        for of, text in network.warned:
            about = strong(report.of(network, f", {of}", of))
            parts.append(Text((about, f": {text}"), "warning"))
    yield Section("Warnings", parts or [Text("None.")], AFTER_DETAILS)


def limits(report: Report) -> Iterator[Section]:
    ones = report.ones
    scored = any(one.scores is not None for one in ones)
    items = [
        say("limit_no_certificate"),
        say(
            "limit_listed"
            if any(one.domain for one in report.results)
            else "limit_alone"
        ),
        say("limit_kind"),
        say("limit_labels"),
        say("limit_training"),
        say("limit_alike", unless=line("unless_scored") * scored),
        say("limit_led_to"),
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
    parts: list[Part] = []
    if any(one.requirements for one in report.results):
        few = " Of few images it says first what is sure on this data set."
        few, number_of = few * report.has_few, len(report.ones)
        parts.append(Text(say("checks", level=report.level, number=number_of, few=few)))
    parts += [Text(ROUNDED), Text(say("digests"))]
    bands = {in_words(one.measure): one for one in report.ones if not one.sampling}
    methods = [(f"band of {key} at a level", _band(one)) for key, one in bands.items()]
    names = ["interval of a robustness"] * report.has_all
    methods += explained("methods", *names, *["few images"] * report.has_few)
    if report.compared:
        level = max(one.confidence_level for one in report.ones)
        swaps, number = most_swaps(level), num_resamples(level)
        names = "interval of a difference", "p-value of a difference"
        values = {"number": number, "swaps": swaps, "least": 1 / (swaps + 1)}
        methods += explained("methods", *names, **values)
    if report.many and report.ones:
        level = min(one.confidence_level for one in report.ones)
        # Beyond that there are no ranks, as the first page says.
        with contextlib.suppress(ValueError):
            methods += explained("methods", "ranks", number=num_rank_resamples(level))
    parts += [Facts(methods)] * bool(methods)
    yield appendix("how to read the numbers", parts, "reading")


def _band(one: Assessment) -> str:
    measure = any_measure(one.measure)
    if isinstance(measure, MeanScore) or isinstance(one.curve, ScoreCurve):
        return "Gaffke's interval for the mean of bounded scores (2005)"
    if measure.is_proportion and measure.single_ratio(one.curve.counts) is not None:
        return "Wilson's score interval (1927)"
    number = num_resamples(one.confidence_level)
    return f"percentile bootstrap over images (Efron, 1979), {number:,} resamples"


def many_intervals(report: Report) -> Iterator[Section]:
    ones, compared = report.ones, report.compared
    romas = [one.roma for one in report.results if one.roma is not None]
    number, level = len(ones), report.level
    # The lowest of several confidence levels.
    error = 1 - min((one.confidence_level for one in ones or romas), default=0.95)
    intervals = counted(number, "interval")
    words = [line("number_of_intervals", intervals=intervals, level=level)]
    if number > 1:
        adjusted = line(
            "adjusted",
            number=number,
            miss=f"{error * number:.3g}",
            chance=f"{100 * min(1, error * number):.3g}",
            # 100 % less an error, in as many digits as that takes.
            each=f"{100 - float(f'{100 * error / number:.3g}'):.10g}",
            all=percent_of(1 - error),
        )
        words.append(adjusted)
    of_classes = not ones or any(one.curve.num_classes for one in ones)
    more = line("bands_of_classes") * of_classes
    words.append(line("bands", level=level, of_classes=more))
    if compared:
        comparisons = line(
            "comparisons",
            comparisons=counted(compared, "comparison"),
            level=level,
            number=2 * compared,
            error=percent_of(error),
        )
        words.append(comparisons)
    if romas:
        inputs = counted(sum(len(one.plr) for one in romas), "interval")
        words.append(line("intervals_of_roma", intervals=inputs, level=level_of(romas)))
    words.append(line("verdicts", level=level))
    yield appendix("many intervals at once", list(map(Text, words)), "multiplicity")


def words(report: Report) -> Iterator[Section]:
    found = glossary(report)
    if found:
        items = [(strong(word), f": {meaning}.") for word, meaning in found]
        yield appendix("words", [Bullets(items)], "words")


def glossary(report: Report) -> list[tuple[str, str]]:
    ones, level = report.ones, report.level
    roma = ["RoMA"] * any(one.roma is not None for one in report.results)
    if not ones:
        return explained("words", *roma)
    accuracy = ["accuracy"] * any(one.measure == "accuracy" for one in ones)
    found = explained("words", "level", "accepted, good enough", *accuracy)
    for one in {one.measure: one for one in ones}.values():
        if isinstance(one.curve, ScoreCurve):
            found.append((one.measure, line("score", "words", score=one.curve.score)))
    for k in sorted({top_k(one.measure) or 0 for one in ones} - {0}):
        found.append((f"top-{k} accuracy", line("top_k", "words", k=k)))
    meaning = line("interval", "words", level=level)
    found.append((f"{level} interval, {level} band", meaning))
    asap = ["ASAP"] * any("ASAP(" in one.strategy for one in ones)
    found += explained("words", "points", "digest", *asap, *["p-value"] * report.many)
    for rule in dict.fromkeys(one.rule for one in ones):
        if rule in sentences()["rules"]:
            found.append((f"rule “{rule}”", line(rule, "rules")))
    decided = ["decided"] * any(one.curve.alpha is not None for one in ones)
    return found + explained("words", "seen by half", "jitter", *decided, *roma)


#: The anchor of the section that a user's own ones stand before.
AFTER_DETAILS = "warnings"
#: All sections, in their order; the first is set before the contents.
SECTIONS: tuple[Callable[[Report], Iterator[Section]], ...] = (
    first_page,
    results,
    common_corruptions,
    slices,
    together,
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
