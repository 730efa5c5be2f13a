"""The content of a report about one assessment."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from jaxrob import metrics
from jaxrob._arguments.counted import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._identity.digest import digest
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._measures import in_words
from jaxrob.reporting._few import (
    confidence_text,
    ending_text,
    full_evaluations,
    images_at_levels,
    request_text,
    seen,
)
from jaxrob.reporting._level import percent_of
from jaxrob.reporting._report import svg
from jaxrob.reporting._report.images import Shown, shown
from jaxrob.reporting._report.low_scores import low_scores, score_of
from jaxrob.reporting._report.text import (
    distinct_percent,
    interval,
    number,
    percent,
    points,
    range_with_unit,
    short,
    unaltered_text,
    with_unit,
)
from jaxrob.reporting._results import Picture
from jaxrob.reporting._style import axis_label, value_label
from jaxrob.reporting._unaltered import is_at_once, nearest_level

# Classes that fill a page's width; of more, the worst are shown.
_MOST_CLASSES = 40
_WORST_CLASSES = 10
_MOST_CONFUSIONS = 6
_MOST_FAILURES = 10
_MOST_NAMES = 5  # Names of classes in a sentence.
# Levels in the table of the curve's numbers; of more, some are shown.
_MOST_ROWS = 24
_MOST_WORDS = 400  # Letters that describe a level or a setting.


class OfClass(NamedTuple):
    """A class: its images, the measure unaltered and at its worst, and robustness."""

    name: str
    images: int
    unaltered: str
    lowest: str
    robustness: str


class Level(NamedTuple):
    """A level of the curve, as text; `images` is how many were looked at."""

    level: str
    value: str
    band: str
    decided: str
    accepted: str
    images: str


class Failure(NamedTuple):
    """An image that fails early: its number, class, and where that is first seen."""

    image: int
    name: str
    level: str
    not_yet: str


class Confusion(NamedTuple):
    """How many images of one class were taken for another."""

    label: str
    answer: str
    images: str


class Alteration(NamedTuple):
    """The content about one alteration: texts and figures.

    Attributes:
      anchor: the id of its section in the page.
      name: the alteration's name.
      label: the same, cut where it is long.
      unit: the unit of its levels ("none" without one), and the meaning of a level.
      range: the levels that are plausible, with the unit.
      span: the same without it.
      identity: the level that alters nothing.
      reason: why the range is plausible; empty where nobody said.
      settings: the alteration's settings other than its range.
      digest: identifies the alteration.
      condition: when a level is accepted.
      measure: the measure's name.
      what: "robustness" or "stability".
      score: the score's name; empty of classes.
      robustness: the share of the range that is accepted, or why it is not known.
      level_error: how far it may be off because few levels were looked at.
      level_bound: the same in a cell of a table.
      few: pairs of a name and what is to be said of few images; empty of all.
      image_error: its interval because few images were.
      joint_error: that interval, adjusted so that all of the report hold at once.
      unaltered: the measure where nothing is altered.
      lowest: the measure where it is lowest.
      lowest_at: the level of the lowest value.
      accepted: the intervals of levels that are accepted.
      counted_as: why these may add up to another share; empty where they do not.
      undecided: sentences about answers "unknown".
      figure: the curve.
      pictures: the images shown.
      images: how many were tested at each level.
      sampling: how they were chosen: the strategy, levels and rounds, the rule, the
        widest gap, the width of an excursion that has an even chance to be seen, the
        part of the range near the threshold, and the jitter.
      classes: the classes shown, worst first.
      num_classes: the number of classes.
      spread: a figure of all classes' robustness, where not all are in the table.
      worst_class: the worst classes in a sentence or two.
      bad_unaltered: the classes that are not good enough unaltered; empty without any.
      confusions: the most frequent confusions at the lowest level.
      failures: in a sentence, how many images fail.
      at_once: how near to unaltered images were looked at: "unaltered", or a level.
      value_at_once: the measure there.
      first_failures: the images that fail first, though right at once.
      num_failures: how many fail though they are right unaltered.
      rows: levels of the curve.
      num_levels: the number of levels.
      may_be_unknown: whether answers may be "unknown".
      warnings: the assessment's warnings, and those of its diagnostics.
    """

    anchor: str
    name: str
    label: str
    unit: str
    range: str
    span: str
    identity: str
    reason: str
    settings: str
    digest: str
    condition: str
    measure: str
    what: str
    score: str
    robustness: str
    level_error: str
    level_bound: str
    few: tuple[tuple[str, str], ...]
    image_error: str
    joint_error: str
    unaltered: str
    lowest: str
    lowest_at: str
    accepted: str
    counted_as: str
    undecided: str
    figure: Markup
    pictures: tuple[Shown, ...]
    images: str
    sampling: tuple[str, ...]
    classes: tuple[OfClass, ...]
    num_classes: int
    spread: Markup
    worst_class: str
    bad_unaltered: str
    confusions: tuple[Confusion, ...]
    failures: str
    at_once: str
    value_at_once: str
    first_failures: tuple[Failure, ...]
    num_failures: int
    rows: tuple[Level, ...]
    num_levels: int
    may_be_unknown: bool
    warnings: tuple[str, ...]


def alteration(
    one: Assessment,
    names: Sequence[str],
    *,
    anchor: str,
    reason: str | None,
    pictures: Sequence[Picture],
    side: int | None,
    joint: tuple[float, float],
) -> Alteration:
    """Returns the content about an assessment."""
    inputs = one.curve.counts.at(0).inputs
    score = one.curve.score if isinstance(one.curve, ScoreCurve) else ""
    if score:
        inputs = np.zeros(0, int)  # There are no classes.
    if one.sampling is not None:
        inputs[:] = 0  # Of single classes nothing is known.
    worst = int(np.nanargmin(np.where(np.isnan(one.values), np.inf, one.values)))
    per_class = _per_class(one, inputs)
    classes = _classes(one, names, inputs, per_class)
    failures, first, num_failures = _failures(one, names)
    provenance = one.provenance.get("alteration")
    return Alteration(
        anchor=anchor,
        name=one.alteration,
        label=short(one.alteration, 80),
        unit=_unit(one),
        range=range_with_unit(one.lower, one.upper, one.unit),
        span=f"{number(one.lower)} to {number(one.upper)}",
        identity=with_unit(one.identity, one.unit),
        reason=reason or "",
        settings=_settings(one),
        digest=digest([ascii(provenance)]) if isinstance(provenance, str) else "",
        condition=_condition(one),
        measure=in_words(one.measure),
        what="stability" if one.is_stability else "robustness",
        score=score,
        robustness=_robustness(one),
        level_error=_level_error(one),
        level_bound=_level_bound(one),
        few=_few(one),
        image_error=interval(*one.confidence_interval),
        joint_error=interval(*joint),
        unaltered=_unaltered(one),
        lowest=_value(one, worst),
        lowest_at=with_unit(one.levels[worst], one.unit),
        accepted=_accepted(one),
        counted_as=_counted_as(one),
        undecided=_undecided(one),
        figure=_figure(one),
        pictures=tuple(
            shown(each, names, one.unit, side, score_of(one, each)) for each in pictures
        ),
        images=images_at_levels(one),
        sampling=_sampling(one),
        classes=classes,
        num_classes=len(inputs),
        spread=_spread(one, per_class, len(classes) < (inputs > 0).sum()),
        worst_class=_worst_class(one, names, inputs, per_class),
        bad_unaltered=_bad_unaltered(one, names, inputs),
        confusions=_confusions(one, worst, names),
        failures=failures,
        at_once=unaltered_text(one),
        value_at_once=_value(one, one.levels.tolist().index(nearest_level(one))),
        first_failures=first,
        num_failures=num_failures,
        rows=_rows(one),
        num_levels=len(one.levels),
        may_be_unknown=one.curve.alpha is not None,
        warnings=(*one.warnings, *one.diagnostics.warnings),
    )


def _settings(one: Assessment) -> str:
    found = one.provenance.get("settings")
    if not isinstance(found, dict):
        return ""
    return ", ".join(
        f"{name} {value}{_words(one, name)}" for name, value in found.items()
    )


def _unit(one: Assessment) -> str:
    """Returns the unit, and the meaning of a level."""
    return (short(one.unit, 40) or "none") + _words(one, "level")


def _words(one: Assessment, name: str) -> str:
    """Returns the alteration's words about a level or a setting, in parentheses."""
    found = one.provenance.get("words", {}).get(name)
    return f" ({short(found, _MOST_WORDS)})" if found else ""


def _condition(one: Assessment) -> str:
    if one.scores is not None:
        return f"each level counts as much as its {in_words(one.measure)} scores"
    least = percent(one.threshold, 4).replace(".0000", "")
    return f"{in_words(one.measure)} of at least {least}"


def _robustness(one: Assessment) -> str:
    if not math.isnan(one.robustness):
        return percent(one.robustness)
    return 'not known: at an accepted level every answer is "unknown"'


def _level_error(one: Assessment) -> str:
    if one.error_bound is None:
        return "not known: this choice of levels has no bound"
    off = percent(one.error_bound).removesuffix(" %")
    return f"up to {off} percentage points either way"


def _level_bound(one: Assessment) -> str:
    if one.sampling is not None:
        return interval(*one.dataset_interval)
    if one.error_bound is None:
        return "not known"
    return f"± {points(one.error_bound)}"


def _few(one: Assessment) -> tuple[tuple[str, str], ...]:
    """Returns both intervals and their cost, where few images were looked at."""
    if one.sampling is None:
        return ()
    sampling, whole = one.sampling, full_evaluations(one)
    spent = percent(sampling.evaluations / whole)
    return (
        (
            "on this data set",
            f"{interval(*one.dataset_interval, 2)}, levels and images together, "
            f"{confidence_text(sampling)} (asked: {request_text(sampling)})",
        ),
        (
            "on all images of this kind",
            f"{interval(*one.confidence_interval)} "
            f"({percent_of(one.confidence_level)} interval)",
        ),
        (
            "altered images classified",
            f"{sampling.evaluations:,}, {seen(sampling)} at a level; all "
            f"{sampling.num_images:,} at these levels would have been {whole:,} "
            f"({spent} of that)",
        ),
        ("ended because", f"{ending_text(sampling)} ({sampling.status})"),
    )


def _unaltered(one: Assessment) -> str:
    at = np.flatnonzero(one.levels == one.identity)
    return _value(one, int(at[0])) if len(at) else "not measured"


def _value(one: Assessment, index: int) -> str:
    """Returns the measure at a level, and the share of images that it counts."""
    value = percent(one.values[index])
    if one.is_of_decided:
        value += f" of the {percent(one.decided_ratio[index])} decided"
    return value


def _accepted(one: Assessment) -> str:
    parts = [range_with_unit(*part, one.unit) for part in _accepted_parts(one)]
    return ", ".join(parts) or "nowhere"


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
    if one.scores is not None or math.isnan(one.robustness):
        return ""
    if one.sampling is not None:
        return (
            "The share is the best guess for all images of the data set. The levels "
            "named are where straight lines between levels cross the threshold, by the "
            "images looked at."
        )
    parts = _accepted_parts(one)
    if one.rule == "right" and any(_is_below(one, low) for low, _ in parts):
        return (
            "Each step between two levels counts as the level at its upper end does; "
            "the level at its lower end need not be good enough itself."
        )
    named = math.fsum(high - low for low, high in parts)
    share = percent(named / (one.upper - one.lower))
    if share == percent(one.robustness):
        return ""
    if one.rule != "count":
        return ""
    return (
        "The share is that of the levels looked at. The levels named are another "
        "estimate, from straight lines between levels: they say where, and the share "
        "says how much."
    )


def _is_below(one: Assessment, level: float) -> bool:
    """Whether one of the levels looked at is not accepted."""
    return not (one.values[one.levels == level] >= one.threshold).all()


def _undecided(one: Assessment) -> str:
    if one.curve.alpha is None:
        return ""
    ratio = one.decided_ratio
    least = int(ratio.argmin())
    text = (
        f'An answer is "unknown" where its uncertainty exceeds '
        f"{number(1 - one.curve.alpha)} (alpha {number(one.curve.alpha)}). "
        f'The network answers "unknown" to {percent(1 - ratio[least])} of the images '
        f"at {with_unit(one.levels[least], one.unit)}, more than anywhere else."
    )
    if not math.isnan(one.lowest_decided_ratio):
        text += (
            f" Where levels are accepted, at least {percent(one.lowest_decided_ratio)} "
            "of the images are decided."
        )
    if one.is_of_decided:
        text += f" The {in_words(one.measure)} is that of the decided images alone."
    return text + _first_unknown(one)


def _first_unknown(one: Assessment) -> str:
    """Counts the images that become "unknown"; of one image, names the level."""
    if one.sampling is not None or not isinstance(one.curve, Curve):
        return ""
    first = one.first_unknown_level
    becomes = ~np.isnan(first)
    if len(first) > 1:
        at_once = int(is_at_once(one, first).sum())
        return (
            f" Of {counted(len(first), 'image')}, {at_once:,} are unknown "
            f"{unaltered_text(one)}, {int(becomes.sum()) - at_once:,} others at some "
            f"level, and {int((~becomes).sum()):,} at none that was looked at."
        )
    if not becomes[0]:
        return " The image is unknown at no level that was looked at."
    level, not_yet = float(first[0]), _not_yet(one, float(first[0]))
    if level == one.identity:
        return " The image is unknown unaltered."
    before = f" (not yet at {not_yet})" if not_yet else ""
    return f" The image is unknown first at {with_unit(level, one.unit)}{before}."


def _figure(one: Assessment) -> Markup:
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    known = ~np.isnan(one.values)
    lines = [
        svg.Line(
            in_words(one.measure),
            one.levels[known],
            one.values[known],
            low[known],
            high[known],
        )
    ]
    if one.curve.alpha is not None and not isinstance(one.curve, ScoreCurve):
        lines.append(svg.Line("decided", one.levels, one.decided_ratio))
        if one.measure != "effectiveness":
            lines.append(svg.Line("effectiveness", one.levels, one.curve.effectiveness))
    return svg.curves(
        lines,
        (one.lower, one.upper),
        alt=f"{in_words(one.measure)} over the level of {short(one.alteration)}: "
        f"{_robustness(one)} of the range is accepted",
        x_label=axis_label(f"level of {short(one.alteration)}", one.unit)
        + f"; {images_at_levels(one)} images each",
        y_label=value_label(one),
        level=percent_of(one.confidence_level),
        threshold=one.threshold if one.scores is None else None,
        identity=one.identity,
        accepted=_accepted_parts(one) if one.scores is None else (),
    )


def _sampling(one: Assessment) -> tuple[str, ...]:
    found = one.diagnostics
    return (
        one.strategy,
        f"{found.points} in {counted(found.rounds, 'round')}"
        + f", {len(one.levels)} with those that do the same"
        * (len(one.levels) > found.points),
        one.rule,
        percent(found.widest_interval),
        percent(found.half_met),
        percent(found.plateau),
        "not known" if math.isnan(found.jitter) else f"{found.jitter:.2g}",
    )


def _per_class(one: Assessment, inputs: np.ndarray) -> np.ndarray:
    """Returns what classes are ordered by, `[K]`: robustness, or the lowest value."""
    if one.sampling is not None:
        return np.full(len(inputs), np.nan)
    if one.scores is None:
        return one.robustness_per_class
    lowest = np.where(np.isnan(one.values_per_class), np.inf, one.values_per_class)
    return np.where(inputs > 0, lowest.min(0), np.nan)


def _lowest_of_classes(one: Assessment) -> np.ndarray:
    values = np.where(np.isnan(one.values_per_class), np.inf, one.values_per_class)
    lowest = values.min(0)
    return np.where(np.isinf(lowest), np.nan, lowest)


def _order(per_class: np.ndarray, lowest: np.ndarray, inputs: np.ndarray) -> list[int]:
    """Returns the classes with images, worst first and unknown ones last."""
    order = np.lexsort((np.arange(len(inputs)), lowest, per_class))
    return [int(index) for index in order if inputs[index]]


def _classes(
    one: Assessment, names: Sequence[str], inputs: np.ndarray, per_class: np.ndarray
) -> tuple[OfClass, ...]:
    lowest = _lowest_of_classes(one)
    order = _order(per_class, lowest, inputs)
    if len(order) > _MOST_CLASSES:
        order = order[:_WORST_CLASSES]
    at = np.flatnonzero(one.levels == one.identity)
    return tuple(
        OfClass(
            short(names[index], 120),
            int(inputs[index]),
            percent(one.values_per_class[at[0], index]) if len(at) else "not measured",
            percent(lowest[index]),
            percent(per_class[index]) if one.scores is None else "not kept with scores",
        )
        for index in order
    )


def _spread(one: Assessment, per_class: np.ndarray, is_cut: bool) -> Markup:
    """Draws the spread of the classes' robustness, where the table is cut."""
    known = per_class[~np.isnan(per_class)]
    if not is_cut or one.scores is not None or not len(known):
        return Markup("")
    counts = np.histogram(known, bins=20, range=(0, 1))[0]
    return svg.bars(
        [int(count) for count in counts],
        alt=f"how many of {len(known)} classes have which robustness",
        x_label="robustness of the class",
        y_label="classes",
    )


def _worst_class(
    one: Assessment, names: Sequence[str], inputs: np.ndarray, per_class: np.ndarray
) -> str:
    order = _order(per_class, _lowest_of_classes(one), inputs)
    known = [index for index in order if not math.isnan(per_class[index])]
    if not known or one.scores is not None:
        return ""
    worst = known[0]
    value = per_class[worst]
    equal = int((per_class[known] == value).sum())
    if equal == len(known) > 1:
        return f"All classes have the same: {percent(value)} of the range."
    text = (
        f"Worst class: “{short(names[worst])}”, good enough over {percent(value)} of "
        f"the range, from {counted(int(inputs[worst]), 'image')}"
    )
    if equal > 1:
        text += f" ({counted(equal - 1, 'other class', 'other classes')} as low)"
    return f"{text}. {_lowest_class(one, names, worst)}".strip()


def _lowest_class(one: Assessment, names: Sequence[str], worst: int) -> str:
    """Names the class of the lowest value, if it is another than the worst class."""
    lowest = _lowest_of_classes(one)
    at = int(np.nanargmin(lowest))
    if lowest[at] == lowest[worst]:
        return ""
    value = percent(lowest[at])
    measure = in_words(one.measure)
    return f"The lowest {measure} of a class is {value}, of “{short(names[at])}”."


def _bad_unaltered(one: Assessment, names: Sequence[str], inputs: np.ndarray) -> str:
    """Names the classes that are not good enough even unaltered."""
    at = np.flatnonzero(one.levels == one.identity)
    if one.scores is not None or not len(at):
        return ""
    values = one.values_per_class[at[0]]
    bad = np.flatnonzero((values < one.threshold) & (inputs > 0)).tolist()
    if not bad:
        return ""
    said = [f"“{short(names[k], 40)}” ({percent(values[k])})" for k in bad]
    more = len(said) - _MOST_NAMES
    said[_MOST_NAMES:] = [f"{more} more"] * (more > 0)
    return ", ".join(said)


def _confusions(
    one: Assessment, index: int, names: Sequence[str]
) -> tuple[Confusion, ...]:
    """Returns the most frequent wrong answers at a level; none where not known."""
    if isinstance(one.curve, ScoreCurve):
        return ()
    labels, answers, images = _wrong_answers(one.curve, index)
    totals = one.curve.counts.at(index).inputs
    return tuple(
        Confusion(
            short(names[int(labels[place])], 40),
            short(names[int(answers[place])], 40),
            f"{images[place]:,} of {totals[labels[place]]:,}",
        )
        for place in np.argsort(-images, kind="stable")[:_MOST_CONFUSIONS].tolist()
    )


def _wrong_answers(
    curve: Curve | ReducedCurve, index: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the labels, answers and numbers of wrong answers at a level, `[C]`."""
    if curve.counts.confusion is not None:
        wrong = curve.counts.confusion[index, :, :-1].copy()
        np.fill_diagonal(wrong, 0)
        labels, answers = np.nonzero(wrong)
        return labels, answers, wrong[labels, answers]
    if isinstance(curve, ReducedCurve):
        none = np.zeros(0, int)
        return none, none, none
    answers = curve.predicted[index]
    wrong = (answers != curve.labels) & ~curve.unknown[index]
    pairs = curve.labels[wrong].astype(np.int64) * curve.num_classes + answers[wrong]
    pairs, images = np.unique(pairs, return_counts=True)
    return *np.divmod(pairs, curve.num_classes), images


def _failures(
    one: Assessment, names: Sequence[str]
) -> tuple[str, tuple[Failure, ...], int]:
    """Counts the images that fail, and lists the first that do not fail at once."""
    curve = one.curve
    if isinstance(curve, ScoreCurve):
        return low_scores(one, curve), (), 0
    if one.sampling is not None:
        return (
            "Not every image was looked at at every level, so which images fail is not "
            "known.",
            (),
            0,
        )
    if not isinstance(curve, Curve):
        return "Only counts were kept, so which images fail is not known.", (), 0
    first = one.first_failing_level
    fails = ~np.isnan(first)
    at_once = is_at_once(one, first)
    later = np.flatnonzero(fails & ~at_once)
    text = (
        f"Of {counted(len(first), 'image')}, {at_once.sum():,} are wrong "
        f"{unaltered_text(one)}, {len(later):,} others fail at some level, and "
        f"{(~fails).sum():,} at none that was looked at."
    )
    order = np.argsort(np.abs(first[later] - one.identity), kind="stable")
    found = []
    for place in later[order][:_MOST_FAILURES].tolist():
        level = with_unit(float(first[place]), one.unit)
        name = short(names[int(curve.labels[place])], 40)
        found.append(Failure(place, name, level, _not_yet(one, float(first[place]))))
    return text, tuple(found), len(later)


def _not_yet(one: Assessment, failing: float) -> str:
    """Returns the level before the first failing one; empty if it is the nearest."""
    nearer = np.abs(one.levels - one.identity) < abs(failing - one.identity)
    same = (one.levels - one.identity) * (failing - one.identity) >= 0
    before = one.levels[nearer & same]
    last = before[np.abs(before - failing).argmin()] if len(before) else one.identity
    # That it is not so at once is said of all.
    return "" if is_at_once(one, np.asarray(last)) else number(float(last))


def _rows(one: Assessment) -> tuple[Level, ...]:
    """Returns rows for all levels, or for a selection if there are too many."""
    # The selection is evenly spaced, and has both ends, the identity, the lowest value,
    # and both sides of crossings.
    low, high = metrics.bands(one.counts, one.measure, one.confidence_level)
    last = len(one.levels) - 1
    picked = set(np.linspace(0, last, min(_MOST_ROWS, last + 1)).round().astype(int))
    picked |= set(np.flatnonzero(one.levels == one.identity))
    picked.add(np.where(np.isnan(one.values), np.inf, one.values).argmin())
    crossings = np.flatnonzero(np.diff(one.values >= one.threshold))[:_MOST_ROWS]
    picked |= {*crossings, *(crossings + 1)}
    return tuple(
        Level(
            number(one.levels[index]),
            distinct_percent(one.values[index], one.threshold),
            interval(low[index], high[index]),
            percent(one.decided_ratio[index]),
            _is_accepted(one, index),
            f"{int(one.curve.counts.at(index).inputs.sum()):,}",
        )
        for index in sorted(int(index) for index in picked)
    )


def _is_accepted(one: Assessment, index: int) -> str:
    """Says whether a level is accepted, or open, as it may be from few images."""
    if one.sampling is None:
        return "yes" if one.values[index] >= one.threshold else "no"
    return {1: "yes", -1: "no"}.get(int(one.sampling.sides[index]), "open")
