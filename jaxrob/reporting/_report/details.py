"""The details: what was found of each alteration, by RoMA and by attacks."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.texts import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import Curve, ScoreCurve
from jaxrob.adversarial import Attack
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._pictures import first_to_fail
from jaxrob.reporting._plot import axis_label, value_label
from jaxrob.reporting._report import figures
from jaxrob.reporting._report.curve import (
    condition,
    confusions,
    lowest,
    robustness,
    span,
    threshold,
    value_at,
    worst_class,
)
from jaxrob.reporting._report.parts import (
    Article,
    Facts,
    Figure,
    Group,
    Heading,
    Part,
    Pictures,
    Section,
    Text,
    line,
    say,
    table,
)
from jaxrob.reporting._report.report import Report, Tested
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import (
    at_level,
    confidence_text,
    ending_text,
    full_evaluations,
    images_at_levels,
    interval,
    is_at_once,
    listed_levels,
    nearest_level,
    number,
    percent,
    percent_of,
    range_with_unit,
    request_text,
    seen,
    short,
    unaltered_text,
)
from jaxrob.roma import RomaResult

_MOST_FAILURES = 10  # And of lowest scores.
# More categories are not compared in pairs; a thousand would take minutes.
_MOST_CATEGORIES = 40
_MOST_INPUTS = 10


def details(report: Report) -> Iterator[Section]:
    rows = [row for one in report.results for row in one.pictures]
    side = figures.side_of([each for row in rows for each in row])
    for at, network in enumerate(report.networks):
        parts: list[Part] = []
        results, names = network.results, network.classes
        if (about := _lacking_pictures(results)) and network.each:
            parts.append(Text(about, "soft"))
        elif network.each and not at:
            kind = "classes" if report.has_classes else "scores"
            reduced = line("reduced", side=side) * (side is not None)
            parts.append(Text(line(f"pictures_of_{kind}", reduced=reduced), "soft"))
        if network.each and not at:
            words = "Images have numbers, from 0 in the order of the data."
            classes = " Names in quotes are classes." * report.has_classes
            parts.append(Text(words + classes, "soft"))
        for each in network.each:
            article = _article(report, each, side)
            parts.append(Article(each.anchor, each.one.alteration, article))
        if results.roma is not None:
            title = "Random perturbations (RoMA)"
            roma = _roma(results.roma, names)
            parts.append(Article(f"{network.anchor}-roma", title, roma))
        if results.attack is not None:
            attacked = _attacked(results.attack, names)
            anchor = f"{network.anchor}-attacks"
            parts.append(Article(anchor, "Adversarial attacks", attacked))
        title = f"Details: {network.name}" if report.many else "Details"
        yield Section(title, parts, network.anchor)


def _lacking_pictures(results: Results) -> str:
    pictures = [each for row in results.pictures for each in row]
    lacking = sum(each.image is None for each in pictures)
    if not pictures:
        return "The results hold no pictures, so none are shown."
    return line("lacking", number=len(pictures), lacking=lacking) * bool(lacking)


def _article(report: Report, each: Tested, side: int | None) -> list[Part]:
    one, names, curve = each.one, each.classes, each.one.curve
    accepted = [range_with_unit(*part, one.unit) for part in _accepted_parts(one)]
    if one.listed is not None:
        accepted = [at_level(one, level) for level, _ in one.accepted]
    words = say(
        "accepted" if one.listed is None else "accepted_levels",
        condition=condition(one),
        robustness=robustness(one),
        range=span(one),
        what="stability" if one.is_stability else "robustness",
        accepted=", ".join(accepted) or "nowhere",
        counted=_counted_as(one),
    )
    both = Group((Figure(_figure(one)), Facts(_errors(report, each))), "beside")
    parts: list[Part] = [Text(words), both]
    if warnings := len(one.warnings) + len(one.diagnostics.warnings):
        are = "A warning is" if warnings == 1 else f"{warnings} warnings are"
        parts.append(Text(say("see_warnings", are=are), "warning"))
    if one.curve.alpha is not None:
        undecided = _undecided(one, one.curve.alpha)
        parts += [Heading("What was left undecided", 4), Text(undecided)]
    if each.pictures:
        shown = [figures.shown(picture, each, side) for picture in each.pictures]
        parts += [Heading("Pictures", 4), Pictures(shown)]
    if isinstance(curve, ScoreCurve):
        title = Heading("Which images have low scores", 4)
        return [*parts, title, Text(_low_scores(one, curve))]
    parts += [Heading("Which images fail", 4), *map(Text, _failures(one, names))]
    parts += [Text(say("no_classes"))] * (one.sampling is not None)
    said = worst_class(one, names), confusions(one, names)
    return parts + [Text(words) for words in said if words]


def _errors(report: Report, each: Tested) -> list[tuple[str, str]]:
    one, measure, number_of = each.one, in_words(each.one.measure), len(report.ones)
    of_all = interval(*one.confidence_interval)
    if one.sampling is not None:
        sampling, whole = one.sampling, full_evaluations(one)
        level = percent_of(one.confidence_level)
        of_data = line(
            "both_errors",
            interval=interval(*one.dataset_interval, 2),
            confidence=confidence_text(sampling),
            asked=request_text(sampling),
        )
        evaluated = line(
            "evaluated",
            number=sampling.evaluations,
            seen=seen(sampling),
            images=sampling.num_images,
            whole=whole,
            share=percent(sampling.evaluations / whole),
        )
        found = [
            ("on this data set", of_data),
            ("on all images of this kind", f"{of_all} ({level} interval)"),
            ("altered images classified", evaluated),
            ("ended because", f"{ending_text(sampling)} ({sampling.status})"),
        ]
    else:
        of_levels = "not known: this choice of levels has no bound"
        if one.error_bound is not None:
            off = percent(one.error_bound).removesuffix(" %")
            of_levels = f"up to {off} percentage points either way"
        of_images = f"{of_all} for all images of this kind ({report.level} interval)"
        found = [
            ("error of the levels", f"{of_levels}, on these images"),
            ("error of the images", of_images),
        ]
        if number_of > 1:
            adjusted = f"the same, adjusted for all {number_of} intervals"
            found.append((adjusted, interval(*each.joint)))
    at_once = value_at(one, one.levels.tolist().index(nearest_level(one)))
    found.append((f"{measure} {unaltered_text(one)}", at_once))
    return [*found, (f"lowest {measure}", lowest(one))]


def _accepted_parts(one: Assessment) -> Sequence[tuple[float, float]]:
    """Returns the parts of the range that are accepted, by the rule if it names any."""
    if one.rule != "right" or one.sampling is not None:
        return one.accepted
    # A step between two levels counts as the one at its upper end.
    steps = (one.values >= one.threshold)[1:]
    ends = np.flatnonzero(np.diff(np.concatenate(([False], steps, [False]))))
    return [
        (float(one.levels[a]), float(one.levels[b])) for a, b in ends.reshape(-1, 2)
    ]


def _counted_as(one: Assessment) -> str:
    """Explains why the named levels add up to another share than the robustness."""
    if one.scores or one.listed or math.isnan(one.robustness):
        return ""
    if one.sampling is not None:
        return line("guess")
    parts = _accepted_parts(one)
    below = one.levels[~(one.values >= one.threshold)]
    if one.rule == "right" and any(low in below for low, _ in parts):
        return line("upper_end")
    named = math.fsum(high - low for low, high in parts)
    share = percent(named / (one.upper - one.lower))
    if share == percent(one.robustness) or one.rule != "count":
        return ""
    return line("another_estimate")


def _undecided(one: Assessment, alpha: float) -> str:
    ratio = one.decided_ratio
    least = int(ratio.argmin())
    text = line(
        "undecided",
        uncertainty=number(1 - alpha),
        alpha=number(alpha),
        share=percent(1 - ratio[least]),
        level=at_level(one, one.levels[least]),
    )
    if not math.isnan(one.lowest_decided_ratio):
        text += line("least_decided", share=percent(one.lowest_decided_ratio))
    if one.is_of_decided:
        text += f" The {in_words(one.measure)} is that of the decided images alone."
    if one.sampling is not None or not isinstance(one.curve, Curve):
        return text
    return f"{text} {_tally(one, one.first_unknown_level, 'unknown', 'others')}"


def _tally(one: Assessment, first: np.ndarray, what: str, others: str) -> str:
    """Counts the images by the level nearest to unaltered at which they are so."""
    ever, at_once = ~np.isnan(first), is_at_once(one, first)
    return (
        f"Of {counted(len(first), 'image')}, {at_once.sum():,} are {what} "
        f"{unaltered_text(one)}, {(ever & ~at_once).sum():,} {others} at some level, "
        f"and {(~ever).sum():,} at none that was looked at."
    )


def _figure(one: Assessment) -> str:
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    known, measure = ~np.isnan(one.values), in_words(one.measure)
    arrays = (array[known] for array in (one.levels, one.values, low, high))
    lines = [figures.Line(measure, *arrays)]
    if one.curve.alpha is not None and not isinstance(one.curve, ScoreCurve):
        lines.append(figures.Line("decided", one.levels, one.decided_ratio))
        if one.measure != "effectiveness":
            values = one.curve.effectiveness
            lines.append(figures.Line("effectiveness", one.levels, values))
    return figures.curves(
        lines,
        (one.lower, one.upper),
        alt=f"{measure} over the level: {robustness(one)} of the range is accepted",
        x_label=f"{axis_label('level', one.unit)}; {images_at_levels(one)} images each",
        y_label=value_label(one),
        level=percent_of(one.confidence_level),
        threshold=one.threshold if one.scores is None else None,
        identity=one.identity,
        accepted=() if one.scores or one.listed else _accepted_parts(one),
        listed=listed_levels(one),
    )


def _failures(one: Assessment, names: Sequence[str]) -> list[str]:
    if one.sampling is not None:
        return [line("not_every_image", which="which images fail")]
    curve = one.curve
    if not isinstance(curve, Curve):
        return ["Only counts were kept, so which images fail is not known."]
    first = one.first_failing_level
    later = first_to_fail(one)
    said = [
        f"image {place} of “{short(names[int(curve.labels[place])], 40)}”, seen at "
        + at_level(one, float(first[place]))
        for place in later[:_MOST_FAILURES]
    ]
    which = "First to fail,"
    if len(said) < len(later):
        which = f"The first {len(said)} of the {len(later)} to fail"
    listed = f"{which} though right {unaltered_text(one)}: {'; '.join(said)}."
    return [_tally(one, first, "wrong", "others fail"), *[listed] * bool(said)]


def _low_scores(one: Assessment, curve: ScoreCurve) -> str:
    least = threshold(one.threshold)
    if one.sampling is not None:
        below = line("not_every_image", which=f"how many are ever below {least}")
    else:
        first = curve.first_level_below(one.threshold, one.identity)
        below = f"The threshold, of the mean, is {least}. "
        below += _tally(one, first, "below it", "others")
    scores, levels = curve.lowest(one.identity)
    order = np.argsort(scores, kind="stable")  # NaN comes last.
    said = [
        f"image {place}, {percent(float(scores[place]))} at "
        f"{at_level(one, float(levels[place]))}"
        for place in order[:_MOST_FAILURES].tolist()
        if not np.isnan(scores[place])
    ]
    return f"{below} The lowest {short(curve.score, 40)}: {'; '.join(said)}."


def _roma(roma: RomaResult, names: Sequence[str]) -> list[Part]:
    answered = int(roma.answered.sum())
    statuses, counts = np.unique(roma.status, return_counts=True)
    how = ", ".join(f"{one} {count:,}" for one, count in zip(statuses, counts))
    facts = [
        ("estimator", roma.estimator),
        ("perturbation", roma.perturbation),
        ("radius (epsilon)", "none" if roma.epsilon is None else number(roma.epsilon)),
        ("an answer is distinct from a confidence of (delta)", number(roma.delta)),
        ("random draws for each image", f"{roma.num_samples:,}"),
    ]
    if roma.budget is not None:
        facts.append(("forward passes for each image at most", f"{roma.budget:,}"))
    images = f"{len(roma.plr):,}, of which {answered:,} have an answer"
    mean = _or_nan(np.mean, roma.plr[roma.answered])
    facts += [("images", images), ("mean plr of those", percent(mean, 3))]
    if roma.half_width is not None:
        looked = line(
            "known_to",
            number=int(roma.seen.sum()),
            half_width=number(roma.half_width),
            level=percent_of(roma.confidence_level),
        )
        mean = f"{percent(roma.mean_plr, 3)}, {interval(*roma.mean_plr_interval)}"
        facts.append(("images looked at, in random order", looked))
        facts.append(("mean plr of all images", mean))
    facts.append(("how answers were found", how))
    warnings = [Text(one, "warning") for one in (*roma.warnings, *roma.caveats)]
    parts = [Text(say("roma")), Facts(facts), *_categories(roma, names)]
    return [*parts, *_least_robust(roma, names), *warnings]


def _categories(roma: RomaResult, names: Sequence[str]) -> list[Part]:
    numbers = roma.excluded if roma.labels is None else roma.labels
    present = len(np.unique(numbers))
    if present > _MOST_CATEGORIES:
        return [Text(f"{present} categories are too many to compare in pairs.")]
    found = roma.categorial(tuple(_name(names, k) for k in range(max(numbers) + 1)))
    pairs = np.triu_indices(present, 1)
    level = percent_of(roma.confidence_level)
    words = line(
        "categories" if roma.groups is None else "categories_in_groups",
        by="predicted class" if roma.labels is None else "right class",
        how="a bound" if roma.half_width is None else "betting",
        level=level,
        pairs=counted(len(pairs[0]), "pair"),
        differ=int((found.welch[pairs] < 0.05).sum()),
    )
    categories = table(
        range(len(found.names)),
        ("category", "row", lambda k: found.names[k]),
        ("images", "n", lambda k: f"{found.inputs[k]:,}"),
        ("with an answer", "n", lambda k: f"{found.answered[k]:,}"),
        ("mean plr", "n", lambda k: percent(found.plr[k], 3)),
        (f"{level} interval", "n", lambda k: interval(*found.interval[k])),
    )
    return [Text(words), categories]


def _least_robust(roma: RomaResult, names: Sequence[str]) -> list[Part]:
    numbers = roma.excluded if roma.labels is None else roma.labels
    order = np.argsort(-roma.log_adversarial_probability, kind="stable")
    order = order[roma.answered[order]][:_MOST_INPUTS]
    level = percent_of(roma.confidence_level)
    lowest = table(
        order.tolist(),
        ("image", "n", str),
        ("class", "name", lambda at: _name(names, int(numbers[at]))),
        ("plr", "n", lambda at: percent(float(roma.plr[at]), 3)),
        (f"{level} interval", "n", lambda at: interval(*roma.confidence_interval[at])),
        ("found by", "", lambda at: str(roma.status[at])),
    )
    return [Heading("The least robust images", 4), lowest] * bool(len(order))


def _attacked(attack: Attack, names: Sequence[str]) -> list[Part]:
    correct, success = np.asarray(attack.correct), np.asarray(attack.success)
    tried = int(correct.sum())
    rate = success.sum() / tried if tried else np.nan
    facts = [
        ("images", f"{len(correct):,}, of which {tried:,} were right and attacked"),
        (
            "with an adversarial example",
            f"{success.sum():,} ({percent(float(rate))} of those attacked)",
        ),
        (
            "median distance of the examples (Euclidean, pixels in [0, 1])",
            number(_or_nan(np.median, attack.distance[success])),
        ),
        (
            "median structural similarity of the examples (1 is the same image)",
            number(_or_nan(np.median, attack.similarity[success])),
        ),
    ]
    if (lost := int(np.sum(attack.vanished))) > 0:
        words = f"{lost:,}, where nothing was found: no sign of robustness"
        facts.append(("without a gradient to follow", words))
    labels = np.asarray(attack.labels)
    rows = []
    for index in np.unique(labels).tolist():
        mine = success[(labels == index) & correct]
        rows.append((_name(names, index), len(mine), float(_or_nan(np.mean, mine))))
    rows.sort(key=lambda row: (np.isnan(row[2]), -row[2]))
    classes = table(
        rows[:_MOST_CATEGORIES],
        ("class", "row", lambda row: row[0]),
        ("attacked", "n", lambda row: f"{row[1]:,}"),
        ("with an adversarial example", "n", lambda row: percent(row[2])),
    )
    return [Text(say("attacks")), Facts(facts), classes]


def _name(names: Sequence[str], index: int) -> str:
    return short(names[index]) if index < len(names) else f"class {index}"


def _or_nan(statistic: Callable[[np.ndarray], Any], values: np.ndarray) -> float:
    return float(statistic(values)) if len(values) else np.nan
