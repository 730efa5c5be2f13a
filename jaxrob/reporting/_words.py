"""Words and summaries of results, for tables, plots and reports."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.texts import cause_of, readable
from jaxrob._assessment.assessment import Assessment, Sampling
from jaxrob._assessment.diagnostics import SIGNS, severity
from jaxrob.metrics import ALEXNET, CorruptionError, FailingLevel, ReferenceErrors
from jaxrob.metrics._measures import MeanScore, any_measure
from jaxrob.roma import RomaResult

_ENDED = {
    "precise": "it is as precise as was asked for",
    "certain": "it was certain whether what is required is reached",
    "compared": "the comparison that it is part of was decided",
    "budget": "the budget was spent",
    "resolution": "the levels lie as close as the choice of levels allows",
}


def full_evaluations(one: Assessment) -> int:
    assert one.sampling is not None
    return one.diagnostics.points * one.sampling.num_images


def request_text(sampling: Sampling) -> str:
    said = []
    if sampling.half_width:
        said.append(f"within {sampling.half_width:g}")
    elif sampling.curtail or sampling.half_width == 0:
        said.append("the answer of all images")
    if sampling.budget is not None:
        said.append(f"at most {sampling.budget:,} altered images in all")
    if sampling.error is None:
        return "nothing, the strategy decides"
    return ", ".join(said) or "whether what is required is reached"


def confidence_text(sampling: Sampling) -> str:
    if sampling.error is None:
        return "as its strategy says"
    if not sampling.error:
        return "for certain"
    return f"with {100 * (1 - sampling.error):g} % confidence"


def ending_text(sampling: Sampling) -> str:
    if sampling.error is None and sampling.status == "precise":
        return "its strategy found it precise enough"
    return _ENDED[sampling.status]


def is_open_by_levels(sampling: Sampling) -> bool:
    """Whether only the choice of levels leaves an error, as with all images."""
    # It does if the answer of all images was requested and found, or if no finer levels
    # exist.
    is_found = sampling.status == "precise" and not sampling.half_width
    return (is_found and sampling.error is not None) or sampling.status == "resolution"


def seen(sampling: Sampling) -> str:
    fewest, most = int(sampling.seen.min()), int(sampling.seen.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def images_at_levels(one: Assessment) -> str:
    if one.sampling is None:
        return f"{int(one.curve.counts.at(0).inputs.sum()):,}"
    return f"{seen(one.sampling)} of {one.sampling.num_images:,}"


def percent_of(confidence_level: float) -> str:
    return f"{100 * confidence_level:.8g} %"


def level_of(results: Sequence[Assessment | RomaResult]) -> str:
    levels = sorted({one.confidence_level for one in results} or {0.95})
    return " or ".join(map(percent_of, levels))


def nearest_level(one: Assessment) -> float:
    return float(one.levels[np.abs(one.levels - one.identity).argmin()])


def is_at_once(one: Assessment, first: np.ndarray) -> np.ndarray:
    """Tells for which images something is seen as near to the identity as can be."""
    # Where the identity itself was not looked at, it may be so there already.
    nearest = abs(nearest_level(one) - one.identity)
    return np.abs(first - one.identity) <= nearest


def excursions(assessments: Sequence[Assessment]) -> str:
    plain = [one for one in assessments if one.scores is None and one.listed is None]
    found = [one.diagnostics for one in plain]
    if not found:
        return ""
    worst = found[0]._replace(
        widest_interval=max(one.widest_interval for one in found),
        half_met=max(one.half_met for one in found),
    )
    return worst.excursions


#: Explains intervals and errors that look like certainty.
ROUNDED = (
    "Numbers are rounded. An interval whose ends are equal means that at no level "
    "seen the band holds the threshold, however near it comes; a levels' error of "
    "± 0.0, that all levels that may be told apart were looked at, or that none of "
    "those between may cross the threshold. Neither means certainty."
)


def joint_interval(one: Assessment, number: int) -> tuple[float, float]:
    """Returns one of `number` intervals with simultaneous coverage, by Bonferroni."""
    # NaN for a bootstrap's intervals, because a thousand resamples are too few for it,
    # and from few images, whose number was chosen for one confidence level.
    if number == 1:
        return one.confidence_interval.low, one.confidence_interval.high
    measure = any_measure(one.measure)
    is_exact = isinstance(measure, MeanScore) or (
        measure.is_proportion and measure.single_ratio(one.counts) is not None
    )
    of_part = one.sampling is not None or one.scores is not None
    if of_part or not is_exact or math.isnan(one.robustness):
        return math.nan, math.nan
    level = 1 - (1 - one.confidence_level) / number
    low, high = dataclasses.replace(one, confidence_level=level).confidence_interval
    return min(low, one.confidence_interval[0]), max(high, one.confidence_interval[1])


_MOST_NAMES = 5  # Names of alterations in a sentence.


class Warned(NamedTuple):
    """What a warning concerns, and its text: the finding and the remedy."""

    of: str
    text: str


def by_cause(
    assessments: Sequence[Assessment], roma: RomaResult | None = None
) -> tuple[Warned, ...]:
    # Likely mistakes come first: the numbers may be meaningless. Warnings that differ
    # only in numbers have one cause.
    found: dict[str, list[tuple[str, str]]] = {}
    worst: dict[str, int] = {}
    for one in assessments:
        for text in one.warnings:
            # Some begin with the alteration's name, because they also appear alone.
            own = text.removeprefix(f"{one.alteration}: ")
            cause = cause_of(own.replace(one.alteration, "it"))
            found.setdefault(cause, []).append((one.alteration, own))
    if roma is not None:
        for text in roma.warnings:
            found.setdefault(cause_of(text), []).append(("RoMA", text))
    for sign in SIGNS:
        those = [one for one in assessments if sign in one.diagnostics.signs]
        if those:
            found[sign] = [
                (one.alteration, one.diagnostics.signs[sign]) for one in those
            ]
            severities = [severity(one.diagnostics, sign) for one in those]
            worst[sign] = int(np.argmax(severities))
    if roma is not None:
        found |= {text: [("RoMA", text)] for text in roma.caveats}
    return tuple(
        _warned(pairs, len(assessments), worst.get(cause))
        for cause, pairs in found.items()
    )


def _warned(pairs: Sequence[tuple[str, str]], number: int, worst: int | None) -> Warned:
    names, texts = zip(*pairs)
    if len(names) == 1:
        return Warned(names[0], texts[0])
    shown = worst or 0
    # Of other warnings nothing says whether high numbers are grave or low ones.
    which = "those of others differ" if worst is None else "the worst"
    numbers = "" if len(set(texts)) == 1 else f" (Numbers of {names[shown]}, {which}.)"
    text = texts[shown] + numbers
    return Warned(f"{len(names)} of {number} ({first_names(names)})", text)


def first_names(texts: Iterable[str], between: str = ", ") -> str:
    some = list(dict.fromkeys(texts))
    return between.join([*some[:_MOST_NAMES], *["..."] * (len(some) > _MOST_NAMES)])


_UNKNOWN = "not known"
VERSION = metadata.version("jaxrob")


def short(text: str, most: int = 60) -> str:
    """Cuts a long text in the middle, which keeps both ends of a name."""
    text = readable(text)
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def percent(share: float, digits: int = 1) -> str:
    # A share inside (0, 1) gets enough digits not to look like 0 or 100 %.
    if math.isnan(share):
        return _UNKNOWN
    if 0 < share < 1:
        while digits < 9 and float(f"{100 * share:.{digits}f}") in (0, 100):
            digits += 1
    return f"{100 * share:.{digits}f} %"


def distinct_percent(value: float, bound: float) -> str:
    """Formats a share in as few digits as distinguish it from a bound."""
    for digits in range(1, 14):
        text = percent(value, digits)
        if value == bound or text != percent(bound, digits):
            return text
    return repr(value)


def number(value: float) -> str:
    # Adding 0.0 removes the sign of -0.0.
    return _UNKNOWN if math.isnan(value) else f"{value + 0.0:.4g}"


def interval(low: float, high: float, digits: int = 1) -> str:
    if math.isnan(low) or math.isnan(high):
        return _UNKNOWN
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"


def with_unit(value: float, unit: str) -> str:
    return _joined(number(value), unit)


def at_level(one: Assessment, level: float) -> str:
    """Names a level, by its name if it has one."""
    names = listed_levels(one) if one.listed and one.listed.names else {}
    return names[level] if names else with_unit(level, one.unit)


def listed_levels(one: Assessment) -> dict[float, str] | None:
    """Returns the names of levels that alone exist, by level."""
    if one.listed is None:
        return None
    levels = one.levels.tolist()
    return dict(zip(levels, one.listed.names or map(number, levels)))


def range_with_unit(low: float, high: float, unit: str) -> str:
    return _joined(f"{number(low)} to {number(high)}", unit)


def _joined(numbers: str, unit: str) -> str:
    if unit == "severity":
        return f"severity {numbers}"
    return f"{numbers} ({unit})" if " " in unit else f"{numbers} {unit}".rstrip()


def unaltered_text(one: Assessment) -> str:
    level = nearest_level(one)
    if level == one.identity:
        return "unaltered"
    at = with_unit(level, one.unit)
    return f"at {at}, the nearest to unaltered that was looked at"


def points(share: float) -> str:
    return percent(share).replace(" %", " points")


# Division by errors of 1 gives the mean error itself.
_NO_REFERENCE = ReferenceErrors(1.0, 1.0)
# A benchmark's corruption that is left out where its pictures are missing.
_FROST = "frost"


class Corruption(NamedTuple):
    """A corruption: its mean error over severities 1 to 5, that relative to AlexNet's.

    The latter is None unless there are 1,000 classes at 224 px, and the severity at
    which the network fails unless the unaltered images, and others, were looked at.
    """

    name: str
    error: CorruptionError
    relative_to_alexnet: CorruptionError | None
    fails_at: FailingLevel | None


class Corruptions(NamedTuple):
    """All corruptions assessed; means over the benchmark's fifteen, or None.

    Frost, whose pictures may be missing, gives a reason; mCE is of 1,000 classes.
    """

    rows: tuple[Corruption, ...]
    mean: CorruptionError | None
    mce: CorruptionError | None


def corruptions(assessments: Sequence[Assessment]) -> Corruptions | None:
    """Summarises the assessments of corruptions by severity; None if there are none.

    Scores are left out, because benchmarks publish errors of classifiers. Values that
    cannot be computed are NaN, with the reason.
    """
    found = [o for o in assessments if o.unit == "severity" and o.curve.num_classes]
    if not found:
        return None
    names = [one.alteration for one in found]
    like_alexnet = all(map(_is_like_alexnet, found))
    rows = tuple(
        Corruption(
            name,
            _measured(metrics.corruption_error, [one], one, _NO_REFERENCE),
            _measured(metrics.corruption_error, [one], one, ALEXNET[name])
            if like_alexnet and name in ALEXNET
            else None,
            _fails_at(one),
        )
        for name, one in zip(names, found)
    )
    if not ALEXNET.keys() - {_FROST} <= {*names}:
        return Corruptions(rows, None, None)
    mce = None
    if like_alexnet:
        mce = _measured(metrics.mean_corruption_error, found, found, ALEXNET)
    mean = _measured(metrics.mean_corruption_error, found, found, None)
    return Corruptions(rows, mean, mce)


def corruption_means(found: Corruptions) -> list[tuple[str, str]]:
    pairs = (
        ("mean error over 15 corruptions, severities 1 to 5", found.mean),
        ("mCE, relative to AlexNet's errors on ImageNet-C", found.mce),
    )
    return [
        (name, error_text(one) + f" ({one.reason})" * bool(one.reason))
        for name, one in pairs
        if one is not None
    ]


def error_text(one: CorruptionError | None) -> str:
    if one is None or math.isnan(one.value):
        return _UNKNOWN
    low, high = one.confidence_interval
    beside = "" if math.isnan(low) else f", {interval(low, high)}"
    return f"{100 * one.value:.1f} %{beside}"


def severity_text(one: FailingLevel | None) -> str:
    if one is None:
        return _UNKNOWN
    level, low, high = (
        "beyond 5" if math.isinf(level) else f"{level:.2f}"
        for level in (one.level, *one.confidence_interval)
    )
    is_beyond = math.isinf(one.confidence_interval.low)
    return low if is_beyond else f"{level}, {low} to {high}"


def _fails_at(one: Assessment) -> FailingLevel | None:
    of_some = one.sampling or one.listed
    if one.identity not in one.levels or len(one.levels) < 2 or of_some:
        return None
    return metrics.failing_level(
        one.levels,
        one.counts,
        one.measure,
        one.threshold,
        one.identity,
        one.confidence_level,
    )


def _is_like_alexnet(one: Assessment) -> bool:
    alexnet = next(iter(ALEXNET.values()))
    size = one.provenance.get("settings", {}).get("size", alexnet.size)
    return one.curve.num_classes == alexnet.num_classes and size == alexnet.size


def _measured(
    measure: Callable[..., CorruptionError],
    of: Sequence[Assessment],
    curves: Any,
    reference: Any,
) -> CorruptionError:
    level = min(one.confidence_level for one in of)
    try:
        if any(one.sampling is not None for one in of):
            raise ValueError("few images were looked at, and means are of all of them")
        return measure(curves, reference, confidence_level=level)
    except ValueError as error:
        unknown = metrics.ConfidenceInterval(math.nan, math.nan)
        return CorruptionError(math.nan, unknown, str(error))
