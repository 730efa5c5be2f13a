"""A paired comparison of two classifiers on the same images."""

import dataclasses
import math
from typing import Annotated, Any

import numpy as np
import scipy

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.texts import warn
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.paired import (
    Answers,
    Question,
    freedom,
    observed,
    randomisation_p_values,
    resampled,
    shared_levels,
)
from jaxrob._codec import Array, Document, Number, Row, document
from jaxrob._curve import Curve, ScoreCurve
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._bands import num_resamples, percentiles
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.metrics._groups import stretch
from jaxrob.metrics._measures import any_measure, top_k

_ABOVE_0 = float(np.nextafter(0, 1))
# Sums of differences may exceed 1 by an ulp.
_ROUNDING = 1e-9
_MOST = 1 + _ROUNDING
_Interval = Annotated[
    ConfidenceInterval, Row(Number(at_least=-1, at_most=1), ascends=True)
]
_Difference = Annotated[float, Number(at_least=-_MOST, at_most=_MOST, may_be_nan=True)]
_PValue = Annotated[float, Number(at_least=0, at_most=1, may_be_nan=True)]


@document("jaxrob comparison 1")
@dataclasses.dataclass(frozen=True, eq=False)
class Comparison(Document):
    """The differences between two classifiers, the first less the second.

    Robustness says over which part of the range each is good enough. If both are
    everywhere, or nowhere, it does not distinguish them; the mean of the measure does.

    Attributes:
      difference: the difference in robustness, in [-1, 1]; NaN if one of them is NaN.
      confidence_interval: the interval of the difference. If it excludes 0, one
        classifier is more robust on all images of the kind tested, not on the test set
        alone.
      p_value: the probability of at least as large a difference between classifiers
        that are alike, by swapping their answers; NaN where a measure is undefined.
      mean_difference: the difference in the measure's mean over the range, in [-1, 1],
        with the measure joined by straight lines between shared levels.
      mean_interval: the interval of the mean difference.
      mean_p_value: the p-value of the mean difference, as `p_value`.
      levels: `[S]`, the shared levels, at which both were assessed, ascending.
      level_difference: `[S]`, the difference in the measure at each level.
      level_band: `[S, 2]`, its interval at each level. They have simultaneous coverage
        at the confidence level, so that any of the levels may be picked out.
      confidence_level: the coverage aimed at.
    """

    difference: _Difference
    confidence_interval: _Interval
    p_value: _PValue
    mean_difference: _Difference
    mean_interval: _Interval
    mean_p_value: _PValue
    levels: Annotated[np.ndarray, Array("S")] = dataclasses.field(repr=False)
    level_difference: Annotated[
        np.ndarray, Array("S", at_least=-1, at_most=1, may_be_nan=True)
    ] = dataclasses.field(repr=False)
    level_band: Annotated[
        np.ndarray, Array("S, 2", at_least=-1, at_most=1, may_be_nan=True)
    ] = dataclasses.field(repr=False)
    confidence_level: Annotated[float, Number(above=0, below=1)]


def compare(
    first: Assessment, second: Assessment, confidence_level: float = 0.95
) -> Comparison:
    """Compares the robustness of two classifiers on the same images, in the same order.

    Example::

        before = jaxrob.assess(classifier, dataset, blur)
        after = jaxrob.assess(improved, dataset, blur)
        found = jaxrob.compare(after, before)
        print(found.difference, found.confidence_interval, found.p_value)
        print(found.mean_difference, found.mean_interval, found.mean_p_value)

    The intervals come from the bootstrap over images (Efron and Tibshirani, 1993,
    chapter 13). Every replicate draws one set of images for both classifiers, so that
    the difficulty of an image cancels out: the interval is much narrower than those of
    the two assessments suggest. Two images are added, of which each classifier alone
    gets one right (Agresti and Min 2005), because a few images say little about what
    never happened on them. The interval of the robustness is a percentile interval;
    those of the mean and of the band use the replicates' spread and Student's t. In
    replicates the measure is joined by straight lines (`rule="linear"` of
    `jaxrob.metrics.heaviside_robustness`), and constant beyond the outermost levels.

    The p-values come from Fisher's randomisation test: each image's answers are swapped
    or not. For classifiers that are alike they are exact; with fewer than six images
    none is below 5 %. If a p-value is above 1 less the confidence level, the interval
    contains 0. Otherwise the interval of the mean excludes 0; that of the robustness
    may contain it, because classifiers of the same robustness need not be alike.

    Images in groups (`jaxrob.Dataset`) are drawn and swapped a group at a time, and no
    p-value is below 5 % with fewer than six groups.

    Scores (`jaxrob.Score`) are compared alike; the two images added have the scores 0
    and 1, so that on few images the intervals are wide where scores differ little.

    The two may have looked at different levels, and differ in alpha. The difference in
    robustness and its interval use all levels of each, without the error due to their
    choice. All else is of the levels that both have looked at; if these are few, or
    noise was drawn with two keys, a `RobustnessWarning` says so. Replicates that leave
    the measure undefined are left out.

    Args:
      first: an assessment with single answers, not reduced, or of a score.
      second: another, of the same alteration, range, threshold and measure; of a score
        with the same name, version and labels.
      confidence_level: the coverage aimed at, in (0, 1).

    Returns:
      The `Comparison`, first minus second. Its difference is that of
      `Assessment.robustness`; where necessary the interval is widened to contain it. If
      a level of one is accepted though nothing is decided there, the difference is NaN
      and the interval [-1, 1]. Swapped, the assessments give the mirror image.

    Raises:
      TypeError: if one is not an assessment.
      ValueError: if each network has its own answers as labels, the assessments differ
        in what they must share (alterations are distinguished by their parameters, the
        library's version, and what your functions compute), they have no level in
        common, one keeps only counts, or the confidence level lies outside (0, 1).
    """
    confidence_level = checked_confidence_level(confidence_level)
    check_pair(first, second)
    # The draws must be the same in either order.
    ours, theirs = _in_bytes(answers_of(first)), _in_bytes(answers_of(second))
    if ours > theirs:
        return _mirrored(_compared(second, first, confidence_level))
    found = _compared(first, second, confidence_level)
    return _symmetrized(found) if ours == theirs else found


def _compared(
    first: Assessment, second: Assessment, confidence_level: float
) -> Comparison:
    question, ours, theirs = question_of(first), answers_of(first), answers_of(second)
    levels, _ = shared_levels(ours.levels, theirs.levels)
    replicates = resampled(question, ours, theirs, num_resamples(confidence_level))
    p_value, mean_p_value = randomisation_p_values(
        question, ours, theirs, confidence_level
    )
    found = observed(question, ours, theirs)
    degrees = freedom(question, [ours, theirs])
    interval = percentiles(
        replicates.robustness, confidence_level, otherwise=(-1.0, 1.0)
    )
    if question.groups is not None:
        # A bootstrap of few groups is too narrow.
        times, middle = stretch(degrees, confidence_level), float(found.robustness[0])
        low, high = (middle + times * (end - middle) for end in interval)
        interval = max(low, -1.0), min(high, 1.0)
    if first.undecided.any() or second.undecided.any():
        # If nothing is decided, the replicates' accuracies are 1 as well.
        interval, p_value = (-1.0, 1.0), math.nan
    difference = float(first.robustness - second.robustness)
    mean = float(found.mean[0])
    (low, high), *_ = _simultaneous_bands(
        replicates.mean[None], degrees, confidence_level
    )
    if mean_p_value <= 1 - confidence_level:
        # The exact test decides the side of 0. The interval may not, because it allows
        # for images unlike those seen.
        low, high = (
            (max(low, _ABOVE_0), high) if mean > 0 else (low, min(high, -_ABOVE_0))
        )
    values = found.values
    band = _simultaneous_bands(replicates.values, degrees, confidence_level)
    # The added images shift the replicates slightly towards 0.
    band = np.stack([np.fmin(band[:, :1], values), np.fmax(band[:, 1:], values)], -1)
    return Comparison(
        difference,
        _widened(interval, difference, p_value, confidence_level),
        p_value,
        mean,
        _widened((low, high), mean, mean_p_value, confidence_level),
        mean_p_value,
        levels,
        values[:, 0],
        np.clip(band[:, 0], -1, 1),
        confidence_level,
    )


def _simultaneous_bands(
    replicates: np.ndarray, degrees: float, confidence_level: float
) -> np.ndarray:
    """Returns simultaneous intervals, `[U, 2]`, from replicates `[U, B]`."""
    # Student's t for the normal, because the standard deviations are estimated.
    replicates = replicates[:, ~np.isnan(replicates).any(0)]
    if replicates.shape[1] < 2:
        return np.full((len(replicates), 2), [-1.0, 1.0])
    centre = replicates.mean(axis=1, keepdims=True)
    deviation = replicates.std(axis=1, ddof=1, keepdims=True)
    off = np.abs(replicates - centre)
    largest = np.divide(off, deviation, where=deviation > 0, out=0 * off).max(axis=0)
    tail = scipy.special.ndtr(-np.quantile(largest, confidence_level))
    times = scipy.stats.t.isf(tail, degrees)
    return centre + times * deviation * [-1, 1]


def _widened(
    interval: tuple[float, float],
    difference: float,
    p_value: float,
    confidence_level: float,
) -> ConfidenceInterval:
    """Widens the interval to contain the difference, and 0 if that is likely."""
    # fmin and fmax ignore an unknown NaN.
    low, high = np.fmin(interval[0], difference), np.fmax(interval[1], difference)
    if not p_value <= 1 - confidence_level:
        low, high = np.fmin(low, 0.0), np.fmax(high, 0.0)
    low, high = np.nan_to_num(low, nan=-1.0), np.nan_to_num(high, nan=1.0)
    return ConfidenceInterval(max(float(low), -1.0), min(float(high), 1.0))


def _mirrored(one: Comparison) -> Comparison:
    def turned(interval: ConfidenceInterval) -> ConfidenceInterval:
        return ConfidenceInterval(0.0 - interval.high, 0.0 - interval.low)

    return dataclasses.replace(
        one,
        difference=0.0 - one.difference,
        confidence_interval=turned(one.confidence_interval),
        mean_difference=0.0 - one.mean_difference,
        mean_interval=turned(one.mean_interval),
        level_difference=0.0 - one.level_difference,
        level_band=0.0 - one.level_band[:, ::-1],
    )


def _symmetrized(one: Comparison) -> Comparison:
    """Makes the intervals symmetric, for classifiers with the same answers."""
    # They are not symmetric by themselves, because the two added images are not drawn
    # equally often.

    def widened(interval: ConfidenceInterval) -> ConfidenceInterval:
        end = max(interval.high, -interval.low)
        return ConfidenceInterval(0.0 - end, end)

    ends = np.fmax(one.level_band[:, 1], -one.level_band[:, 0])
    return dataclasses.replace(
        one,
        confidence_interval=widened(one.confidence_interval),
        mean_interval=widened(one.mean_interval),
        level_band=np.stack([0.0 - ends, ends], axis=-1),
    )


def question_of(one: Assessment) -> Question:
    curve: Any = one.curve
    # Of top-k accuracy, the answers are right or wrong already.
    is_top_k = top_k(one.measure) is not None
    measure = any_measure("accuracy" if is_top_k else one.measure)
    return Question(
        curve.labels,
        curve.num_classes,
        measure,
        one.threshold,
        one.lower,
        one.upper,
        curve.table and curve.table.groups,
        one.listed and one.listed.weights / one.listed.weights.sum(),
    )


def answers_of(one: Assessment) -> Answers:
    curve: Any = one.curve
    k = top_k(one.measure)
    if k is None:
        return Answers(curve.levels, curve._answers)
    # Within the first k ranks the right class is as good as predicted.
    predicted = np.where(curve.rank < k, curve.labels, curve.predicted)
    return Answers(curve.levels, np.where(curve.unknown, curve.num_classes, predicted))


def _in_bytes(one: Answers) -> tuple[bytes, bytes]:
    return one.levels.tobytes(), one.answers.tobytes()


def check_pair(first: Assessment, second: Assessment) -> None:
    _check_single("first", first)
    _check_single("second", second)
    if first.is_stability and second.is_stability:
        networks = [one.provenance.get("classifier") for one in (first, second)]
        if networks[0] is None or networks[0] != networks[1]:
            raise ValueError(
                "first and second are each of a network's own answers as labels, which "
                "say how stable it is and not which one is better; give both the same "
                "labels"
            )
    for name in ("alteration", "lower", "upper", "threshold", "measure"):
        _check_same(name, getattr(first, name), getattr(second, name))
    curves: Any = first.curve, second.curve
    _check_same("number of classes", *(curve.num_classes for curve in curves))
    if not np.array_equal(*(curve.labels for curve in curves)):
        raise ValueError(
            "first and second must have the same labels, in the same order: a paired "
            "comparison is of the same images"
        )
    groups = [one.table and one.table.groups for one in curves]
    if not np.array_equal(*groups):
        raise ValueError(
            "first and second must have the same groups of images; give both data sets "
            "the same metadata and groups"
        )
    sources = first.provenance, second.provenance
    _check_same("score", *(one.get("score") for one in sources))
    for name, source in zip(("first", "second"), sources):
        for entry in ("alteration", "dataset"):
            if entry not in source:
                raise ValueError(
                    f"{name} must have a provenance with {entry!r}, which tells if "
                    f"both are alike; got {sorted(source)}"
                )
        if source["alteration"] is None:
            raise ValueError(
                f"{name} must be of an alteration that can be told from others; "
                f"{first.alteration} calls a function on the host, which cannot be "
                "looked into"
            )
    _check_same("alteration's parameters", *(one["alteration"] for one in sources))
    _check_same("images", *(one["dataset"]["fingerprint"] for one in sources))
    _check_levels(*(curve.levels for curve in curves))
    keys = [one.get("key") for one in sources if one.get("stochastic")]
    if len(keys) == 2 and keys[0] != keys[1]:
        warn(
            f"the two assessments of {first.alteration} drew their noise from other "
            f"keys, {keys[0]} and {keys[1]}, so that a part of the difference is "
            "chance that the interval does not count. Assess both with one key."
        )


def _check_levels(first: np.ndarray, second: np.ndarray) -> None:
    shared, each = len(shared_levels(first, second).levels), (len(first), len(second))
    how = (
        "Assess both with the same levels, for instance "
        f"strategy=jaxrob.strategies.Uniform({max(each)})"
    )
    if not shared:
        raise ValueError(
            f"first and second have no level in common, of {each[0]} and {each[1]}. "
            f"{how}"
        )
    if shared < max(each) / 2:
        warn(
            f"only {shared} of {each[0]} and {each[1]} levels are shared. The "
            "p-values, the mean and the differences at levels are of these alone, and "
            f"say nothing of a difference elsewhere. {how}."
        )


def _check_single(name: str, one: Assessment) -> None:
    several = isinstance(one, list | tuple)
    wanted = "a jaxrob.Assessment" + several * " (of several, compare one with one)"
    check_type(name, one, Assessment, wanted)
    if one.sampling is not None:
        raise ValueError(
            f"{name} must be assessed on all images: a paired comparison is of the "
            "answers on every image at every level. Assess it without FewImages"
        )
    if not isinstance(one.curve, Curve | ScoreCurve):
        raise ValueError(
            f"{name} must keep the answer on each image; its curve keeps only counts "
            "(reduced)"
        )
    if isinstance(one.curve, ScoreCurve):
        _check_score(name, one, one.curve)
    if one.scores is not None:
        raise ValueError(
            f"{name} must be without tolerance; compare is of the plain robustness"
        )


def _check_score(name: str, one: Assessment, curve: ScoreCurve) -> None:
    """Rejects scores that cannot be told from others, or that some images lack."""
    if (one.provenance.get("score") or {}).get("version") is None:
        raise ValueError(
            f"{name} must be of a score with a version, or another score may have the "
            f'same name: jaxrob.Score(function, name={curve.score!r}, version="1")'
        )
    if np.isnan(curve.scores).any():
        raise ValueError(f"{name} must have a score of every image at every level")


def _check_same(name: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        raise ValueError(
            f"first and second must have the same {name}; got {ours!r} and {theirs!r}"
        )
