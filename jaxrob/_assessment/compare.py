"""A paired comparison of two classifiers on the same images."""

from typing import Any, NamedTuple, cast

import numpy as np

from jaxrob import metrics
from jaxrob._assessment.assessment import Assessment
from jaxrob._curve import Curve
from jaxrob._runtime.checks import check_type
from jaxrob._runtime.warnings import warn
from jaxrob.metrics import Interval
from jaxrob.metrics._bootstrap import (
    RESAMPLES,
    drawn,
    percentiles,
    resampled_values,
)
from jaxrob.metrics._checks import checked_confidence
from jaxrob.metrics._robustness import accepted_share

_SEED = 0


class Comparison(NamedTuple):
    """How two classifiers' robustness differs.

    Attributes:
      difference: the robustness of the first minus that of the second, in [-1, 1];
        NaN if one of them is.
      confidence_interval: of the difference; where it does not hold 0, one of them is
        more robust on all images of the kind tested, not on the test set alone.
      confidence: the coverage aimed at.
    """

    difference: float
    confidence_interval: Interval
    confidence: float


def compare(
    first: Assessment, second: Assessment, confidence: float = 0.95
) -> Comparison:
    """Which of two classifiers is more robust, on the same images in the same order.

    Example::

        before = jaxrob.assess(classifier, dataset, blur)
        after = jaxrob.assess(improved, dataset, blur)
        difference, interval, _ = jaxrob.compare(after, before)

    The percentile bootstrap over images (Efron and Tibshirani, 1993, chapter 13). Every
    replicate draws one set of images for both, so that what makes an image hard for
    both cancels out: the interval is much narrower than the two assessments' own
    intervals would suggest. The robustness of a replicate is that of the measure joined
    by straight lines (`rule="linear"` of `jaxrob.metrics.heaviside_robustness`), held
    constant beyond the outermost levels.

    The two may have looked at different levels, and differ in alpha. What the choice of
    levels adds is not in the interval. Replicates that leave the measure undefined are
    left out.

    Where noise is drawn, both should be assessed with the same key; otherwise a
    `RobustnessWarning` says so.

    Args:
      first: an assessment with single answers, not reduced.
      second: another, of the same alteration, range, threshold and measure.
      confidence: the coverage aimed at, in (0, 1).

    Returns:
      The `Comparison`, first minus second. Its difference is that of
      `Assessment.robustness`, by the assessments' own rules; where necessary the
      interval is widened to hold it. Where a level of one is accepted though nothing is
      decided there, the difference is NaN and the interval [-1, 1]. The same
      assessments always give the same interval, and its mirror image when they are
      swapped.

    Raises:
      TypeError: if one is not an assessment.
      ValueError: if the labels of two networks are each its own answers, the
        assessments differ in what they must share (alterations are
        told apart by their parameters, the library's version, and what functions of
        yours compute), one keeps only counts, or the confidence lies outside (0, 1).
    """
    confidence = checked_confidence(confidence)
    _check_pair(first, second)
    differences = _resampled_differences(first, second)
    low, high = percentiles(differences, confidence, otherwise=(-1.0, 1.0))
    if first.undecided.any() or second.undecided.any():
        # Where nothing is decided the replicates' accuracies are 1 as well.
        low, high = -1.0, 1.0
    difference = float(first.robustness - second.robustness)
    # fmin and fmax pass over the NaN of a robustness that did not converge.
    interval = Interval(
        float(np.fmin(low, difference)), float(np.fmax(high, difference))
    )
    return Comparison(difference, interval, confidence)


def _resampled_differences(first: Assessment, second: Assessment) -> np.ndarray:
    """`[RESAMPLES]`: the difference on resampled images, NaN where undefined."""
    rng = np.random.default_rng(_SEED)
    num_images = len(_answers_of(first).labels)
    differences = [
        _resampled_robustness(first, weights) - _resampled_robustness(second, weights)
        for weights in drawn(rng, num_images, RESAMPLES)
    ]
    return np.concatenate(differences)


def _resampled_robustness(assessment: Assessment, weights: np.ndarray) -> np.ndarray:
    """`[B]`: the robustness on images that count as often as weights `[N, B]` say."""
    curve = _answers_of(assessment)
    answers = np.where(curve.unknown, curve.num_classes, curve.predicted)
    measure = metrics.measures[assessment.measure]
    values = resampled_values(
        measure, curve.labels, answers, curve.num_classes, weights
    )
    bounds = assessment.lower, assessment.upper
    return _linear_robustness(curve.levels, values, assessment.threshold, bounds)


def _linear_robustness(
    levels: np.ndarray,
    values: np.ndarray,
    threshold: float,
    bounds: tuple[float, float],
) -> np.ndarray:
    """`heaviside_robustness` by the rule "linear", of many curves at once.

    Args:
      levels: `[L]`, ascending.
      values: `[L, B]`, the measure at each level; constant beyond the outermost.
      threshold: the lowest value accepted.
      bounds: the ends of the range.

    Returns:
      `[B]` in [0, 1]; NaN where a value is NaN.
    """
    lower, upper = bounds
    levels = np.concatenate([[lower], levels, [upper]])
    values = np.concatenate([values[:1], values, values[-1:]])
    share = accepted_share(values[:-1], values[1:], threshold)
    robustness = np.diff(levels) @ share / (upper - lower)
    robustness = np.clip(robustness, 0, 1)  # rounding may leave the range
    return np.where(np.isnan(values).any(0), np.nan, robustness)


def _answers_of(assessment: Assessment) -> Curve:
    """The curve with single answers, as `_check_pair` has made sure."""
    return cast(Curve, assessment.curve)


def _check_pair(first: Assessment, second: Assessment) -> None:
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
    curves = _answers_of(first), _answers_of(second)
    _check_same("number of classes", *(curve.num_classes for curve in curves))
    if not np.array_equal(curves[0].labels, curves[1].labels):
        raise ValueError(
            "first and second must have the same labels, in the same order: a paired "
            "comparison is of the same images"
        )
    sources = first.provenance, second.provenance
    for name, source in zip(("first", "second"), sources):
        if source["alteration"] is None:
            raise ValueError(
                f"{name} must be of an alteration that can be told from others; "
                f"{first.alteration} calls a function on the host, which cannot be "
                "looked into"
            )
    _check_same("alteration's parameters", *(one["alteration"] for one in sources))
    _check_same("images", *(one["dataset"]["fingerprint"] for one in sources))
    keys = [one.get("key") for one in sources if one.get("stochastic")]
    if len(keys) == 2 and keys[0] != keys[1]:
        warn(
            f"the two assessments of {first.alteration} drew their noise from other "
            f"keys, {keys[0]} and {keys[1]}, so that a part of the difference is "
            "chance that the interval does not count. Assess both with one key."
        )


def _check_single(name: str, one: Assessment) -> None:
    """Refuses an assessment that cannot be compared with any other."""
    check_type(name, one, Assessment, "a jaxrob.Assessment")
    if one.sampling is not None:
        raise ValueError(
            f"{name} must be assessed on all images: a paired comparison is of the "
            "answers on every image at every level. Assess it without precision, "
            "budget, curtail and required"
        )
    if not isinstance(one.curve, Curve):
        raise ValueError(
            f"{name} must keep the answer on each image; its curve keeps only counts "
            "(reduced)"
        )
    if one.scores is not None:
        raise ValueError(
            f"{name} must be without tolerance, penalization or a distribution of the "
            "levels; compare is of the plain robustness"
        )


def _check_same(name: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        raise ValueError(
            f"first and second must have the same {name}; got {ours!r} and {theirs!r}"
        )
