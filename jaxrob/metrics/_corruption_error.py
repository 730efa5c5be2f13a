"""Errors under the common corruptions, relative to those of a reference classifier."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_flag,
    checked_integer,
    checked_share,
    checked_text,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob.metrics._bands import (
    ConfidenceInterval,
    num_resamples,
    percentiles,
    resample_counts,
)
from jaxrob.metrics._counts import ImageScores, checked_confidence_level, checked_counts
from jaxrob.metrics._groups import effective_groups, stretch

_SEVERITIES = (1.0, 2.0, 3.0, 4.0, 5.0)
_SEED = 0
_UNKNOWN = ConfidenceInterval(math.nan, math.nan)


class ReferenceErrors(NamedTuple):
    """Error rates of the classifier that others are compared with.

    Attributes:
      unaltered: the share of wrong answers on unaltered images.
      corrupted: its mean over severities 1 to 5 of a corruption.
      num_classes: the number of classes; curves with another number are rejected. None
        allows any.
      size: the image size, in pixels, of the corruption's parameters; curves with
        parameters for another size are rejected. None allows any.
    """

    unaltered: float
    corrupted: float
    num_classes: int | None = None
    size: int | None = None


class CorruptionError(NamedTuple):
    """A corruption error, or a mean of them.

    Attributes:
      value: 1 where the classifier errs as often as the reference; papers give it in
        percent. NaN where the reference's sum, the denominator, is not positive.
      confidence_interval: of the value, for all images of the kind tested; NaN at both
        ends where it is unknown.
      reason: why a number is unknown; empty if all are known.
    """

    value: float
    confidence_interval: ConfidenceInterval
    reason: str


#: AlexNet's errors on ImageNet-C by the name of the corruption, for 1,000 classes and
#: the corruptions' parameters for 224 px. Other curves are rejected.
#: Source: appendix C of Hendrycks and Dietterich, Benchmarking neural network
#: robustness to common corruptions and surface variations, 2018, as in the package
#: robustness_metrics of google-research.
ALEXNET: Mapping[str, ReferenceErrors] = MappingProxyType(
    {
        name: ReferenceErrors(0.4348, corrupted, 1000, 224)
        for name, corrupted in (
            ("gaussian noise", 0.886),
            ("shot noise", 0.894),
            ("impulse noise", 0.923),
            ("defocus blur", 0.820),
            ("glass blur", 0.826),
            ("motion blur", 0.786),
            ("zoom blur", 0.798),
            ("snow", 0.867),
            ("frost", 0.827),
            ("fog", 0.819),
            ("brightness", 0.565),
            ("contrast", 0.853),
            ("elastic transform", 0.646),
            ("pixelate", 0.718),
            ("jpeg compression", 0.607),
        )
    }
)


def corruption_error(
    curve: Any, reference: Any, confidence_level: float = 0.95
) -> CorruptionError:
    """The error rate under a corruption, divided by that of a reference.

    `sum(E_s) / sum(E_s of the reference)` over severities s = 1 to 5, where E is the
    share of wrong answers (Hendrycks and Dietterich, 2019, section 4.2).

    The interval is a percentile bootstrap over images, or over their groups. If the
    reference is a curve of the same images in the same order, both are resampled
    together; published numbers are taken as exact.

    Args:
      curve: a `jaxrob.Curve`, `ReducedCurve` or `Assessment` of the corruption, with
        the levels 1 to 5 and given labels, not the network's own answers.
      reference: another one, or `ReferenceErrors`. `ALEXNET` holds for 1,000 classes
        and 224 px.
      confidence_level: the coverage aimed at, in (0, 1).

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a level is missing, answers may be "unknown" (alpha), an assessment
        has an alteration without severities or the network's own answers as labels, the
        numbers of classes or the known sizes of the corruption's parameters differ, or
        the confidence level lies outside (0, 1).
    """
    both = ("curve", curve), ("reference", reference)
    return _mean([[_errors_of(*one, False)] for one in both], False, confidence_level)


def relative_corruption_error(
    curve: Any, reference: Any, confidence_level: float = 0.95
) -> CorruptionError:
    """The increase of the error rate by a corruption, divided by a reference's.

    `sum(E_s - E_0) / sum(E_s - E_0 of the reference)` over severities s = 1 to 5, where
    E_0 is the error rate on unaltered images (Hendrycks and Dietterich, 2019, section
    4.2). A classifier that is better everywhere may well lose more. Arguments, with
    curves of level 0 too, result and errors are as for `corruption_error`.
    """
    both = ("curve", curve), ("reference", reference)
    return _mean([[_errors_of(*one, True)] for one in both], True, confidence_level)


def mean_corruption_error(
    curves: Mapping[str, Any] | Sequence[Any],
    reference: Mapping[str, Any] | Sequence[Any] | None,
    relative: bool = False,
    confidence_level: float = 0.95,
) -> CorruptionError:
    """The mean over the fifteen corruptions of the benchmark, mCE.

    With `reference=None` nothing is divided: the result is the mean share of wrong
    answers over 15 corruptions and 5 severities, as for CIFAR-10-C, that is 1 minus
    RobustBench's accuracy under corruptions.

    Args:
      curves: curves or assessments by the corruption's name, such as "gaussian noise",
        all fifteen of `ALEXNET`; others are ignored. Or a sequence of assessments,
        whose corruptions are known.
      reference: the reference's curves or assessments in the same form, or
        `ReferenceErrors` by name, such as `ALEXNET`, whose errors hold for ImageNet-C
        only; or None.
      relative: whether to average `relative_corruption_error` instead.
      confidence_level: as for `corruption_error`, for the mean: all corruptions are
        resampled together.

    Raises:
      ValueError: if a corruption is missing, since the mean over the others is another
        number; if one stands under another's name, or a curve under two; if relative
        errors are asked for without a reference; or, with TypeError, as
        `corruption_error`.
    """
    relative = checked_flag("relative", relative)
    if relative and reference is None:
        raise ValueError("relative needs a reference; got reference=None")
    both = [_benchmark_errors("curves", curves, relative)]
    if reference is not None:
        both.append(_benchmark_errors("reference", reference, relative))
    return _mean(both, relative, confidence_level)


class _Errors(NamedTuple):
    # Float64 `[2]`, the share of wrong answers at level 0, NaN if it is not needed, and
    # its mean over the severities.
    rates: np.ndarray
    # `[2, N]`, both for each image; None without single answers.
    wrong: np.ndarray | None = None
    labels: Any = None  # `[N]`; None without single answers
    fingerprint: str | None = None  # the data set's; None if unknown
    num_classes: int | None = None  # K; None if unknown
    size: int | None = None  # of the corruption's parameters, in pixels
    exact: bool = False  # whether the numbers are published ones
    groups: Any = None  # `[N]`, equal where images belong together


def _benchmark_errors(name: str, curves: Any, relative: bool) -> list[_Errors]:
    wanted = "a mapping from names to curves, or a sequence of jaxrob.Assessment"
    check_type(name, curves, Mapping | Sequence, wanted)
    if isinstance(curves, Mapping):
        pairs = [*curves.items()]
    else:
        for one in curves:
            if not hasattr(one, "alteration"):
                raise TypeError(f"{name} must be {wanted}; got {named(one)} among them")
        pairs = [(one.alteration, one) for one in curves]
    by_name: dict[str, Any] = {}
    for key, one in pairs:
        key = checked_text(f"{name}: name", key).replace("_", " ")
        if key in by_name:
            raise ValueError(f"{name} must hold a corruption once; got {key!r} twice")
        by_name[key] = one
    missing = [key for key in ALEXNET if key not in by_name]
    if missing:
        others = [key for key in by_name if key not in ALEXNET]
        got = f"{len(by_name)}" + f", {', '.join(others)} not of it" * bool(others)
        raise ValueError(
            f"{name} must hold all {len(ALEXNET)} corruptions of the benchmark, or the "
            f"mean is another number; got {got}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    errors = [_errors_of(f"{name}: {key}", by_name[key], relative) for key in ALEXNET]
    stands_for: dict[int, str] = {}
    for key in ALEXNET:
        one = by_name[key]
        own = getattr(one, "alteration", None)
        if own is not None:
            if own.replace("_", " ").partition(" followed by ")[0] != key:
                raise ValueError(
                    f"{name} must hold each corruption by its own name; got an "
                    f"assessment of {own!r} as {key!r}"
                )
        elif not isinstance(one, ReferenceErrors):
            # Curves do not name their corruption, so identity is compared: answers of
            # two corruptions may be equal by chance, or for an insensitive network.
            answers = one.predicted if hasattr(one, "predicted") else one.counts
            first = stands_for.setdefault(id(answers), key)
            if first != key:
                raise ValueError(
                    f"{name} must hold a curve of each corruption; got the same one as "
                    f"{first!r} and {key!r}"
                )
    return errors


def _errors_of(name: str, one: Any, relative: bool) -> _Errors:
    if isinstance(one, ReferenceErrors):
        for part, at_least in (("num_classes", 2), ("size", 1)):
            if (value := getattr(one, part)) is not None:
                checked_integer(f"{name}: {part}", value, at_least=at_least)
        unaltered = checked_share(f"{name}: unaltered", one.unaltered)
        corrupted = checked_share(f"{name}: corrupted", one.corrupted)
        return _Errors(
            np.array([unaltered, corrupted]),
            num_classes=one.num_classes,
            size=one.size,
            exact=True,
        )
    curve = getattr(one, "curve", one)
    if not hasattr(curve, "levels") or not hasattr(curve, "counts"):
        kinds = "a jaxrob.Curve, a jaxrob.ReducedCurve, a jaxrob.Assessment"
        raise wrong_type(name, f"{kinds} or metrics.ReferenceErrors", one)
    _check_comparable(name, one, curve)
    rows = _rows(name, np.asarray(curve.levels), (0.0,) * relative + _SEVERITIES)
    counts = checked_counts(curve.counts, min_inputs=1)
    total = counts.at(rows).summed()
    errors = 1 - total.correct / (total.decided + total.unknown)
    wrong = None
    if hasattr(curve, "predicted"):
        each = np.asarray(curve.predicted)[rows] != curve.labels
        at_first = each[:1] if relative else np.full((1, each.shape[1]), math.nan)
        wrong = np.concatenate([at_first, each[-5:].mean(0, keepdims=True)])
    provenance = getattr(one, "provenance", None) or {}
    return _Errors(
        np.array([errors[0] if relative else math.nan, errors[-5:].mean()]),
        wrong,
        getattr(curve, "labels", None),
        provenance.get("dataset", {}).get("fingerprint"),
        counts.num_classes,
        provenance.get("settings", {}).get("size"),
        groups=getattr(getattr(curve, "table", None), "groups", None),
    )


def _check_comparable(name: str, one: Any, curve: Any) -> None:
    if isinstance(curve.counts, ImageScores):
        raise ValueError(
            f"{name} must be of a classifier's answers, right or wrong; a score "
            f"({curve.measure}) has no errors"
        )
    if getattr(one, "unit", "severity") != "severity":
        raise ValueError(
            f"{name} must be of a corruption by severity, one of "
            f"jaxrob.alterations.corruptions; {one.alteration} has levels in "
            f"{one.unit or 'no unit'}"
        )
    if getattr(one, "is_stability", False):
        raise ValueError(
            f"{name} must be of labels that are given; got the network's own answers"
        )
    if curve.alpha is not None:
        raise ValueError(
            f"{name} must be of a classifier that always decides, with alpha=None "
            f"(curve.with_unknown(None)); got alpha={curve.alpha:g}"
        )


def _rows(name: str, levels: np.ndarray, wanted: Sequence[float]) -> list[int]:
    rows = [np.flatnonzero(np.abs(levels - level) <= 1e-9) for level in wanted]
    missing = [f"{level:g}" for level, at in zip(wanted, rows) if not len(at)]
    if missing:
        raise ValueError(
            f"{name} must have the levels {', '.join(f'{one:g}' for one in wanted)}; "
            f"missing: {', '.join(missing)}. Evaluate alterations.presets.SEVERITIES, "
            "or assess with strategies.Uniform(6) (--levels=6 of the command) or "
            "strategies.Including(ASAP(), SEVERITIES) (its default)"
        )
    return [int(at[0]) for at in rows]


def _mean(
    both: Sequence[Sequence[_Errors]], relative: bool, confidence_level: float
) -> CorruptionError:
    confidence_level = checked_confidence_level(confidence_level)
    every = [one for some in both for one in some]
    _check_same_kind(every)
    rates = [np.stack([one.rates for one in some], axis=1) for some in both]
    value = float(_ratios([one[..., None] for one in rates], relative)[0])
    if math.isnan(value):
        reason = _nothing_to_divide_by(rates[-1], relative)
        return CorruptionError(value, _UNKNOWN, reason)
    if reason := _why_no_interval(every):
        return CorruptionError(value, _UNKNOWN, reason)
    values = _resampled(both, relative, num_resamples(confidence_level))
    low, high = percentiles(values, confidence_level, otherwise=(math.nan, math.nan))
    if (groups := _groups(every)) is not None:
        times = stretch(max(effective_groups(groups) - 1, 1), confidence_level)
        low, high = (max(value + times * (end - value), 0.0) for end in (low, high))
    low, high = float(np.fmin(low, value)), float(np.fmax(high, value))
    return CorruptionError(value, ConfidenceInterval(low, high), "")


def _check_same_kind(some: Sequence[_Errors]) -> None:
    hint = ""
    if any(one.exact and one.num_classes for one in some):
        hint = (
            ". AlexNet's published errors are of 1,000 classes and 224 px; for others "
            "give errors of a network of your own, or reference=None of a mean"
        )
    for part, unit in (("num_classes", "classes"), ("size", "px")):
        kinds = sorted({getattr(one, part) for one in some if getattr(one, part)})
        if len(kinds) > 1:
            raise ValueError(
                "all curves, those of the reference too, must be of as many classes, "
                "and parameters of one size; got some of "
                f"{' and of '.join(map(str, kinds))} {unit}{hint}"
            )


def _ratios(errors: Sequence[np.ndarray], relative: bool) -> np.ndarray:
    """Returns `[B]`, the mean ratio of our errors `[2, C, B]` to the reference's."""
    added = [_added(one, relative) for one in errors]
    if len(added) == 1:
        return added[0].mean(0)
    below = np.where(added[1] > 0, added[1], math.nan)
    return (added[0] / below).mean(0)


def _added(errors: np.ndarray, relative: bool) -> np.ndarray:
    """Returns `[C, B]`, the errors `[2, C, B]` under corruptions that count."""
    return errors[1] - errors[0] if relative else errors[1]


def _nothing_to_divide_by(reference: np.ndarray, relative: bool) -> str:
    why = "the reference does not err" + (" more when corrupted" if relative else "")
    is_zero = ~(_added(reference, relative) > 0)
    # Of a mean it may be one of fifteen.
    which = [name for name, one in zip(ALEXNET, is_zero) if one]
    of = f" ({', '.join(which)})" if len(is_zero) > 1 else ""
    return f"{why}{of}: nothing to divide by"


def _why_no_interval(some: Sequence[_Errors]) -> str:
    some = [one for one in some if not one.exact]
    if not some:
        return "all are published numbers: there are no images to resample"
    if any(one.wrong is None for one in some):
        return "a curve keeps only counts (reduced): there are no images to resample"
    first = some[0]
    for one in some[1:]:
        if not np.array_equal(one.groups, first.groups):
            return "the curves are not all of the same groups of images"
        prints = {one.fingerprint, first.fingerprint} - {None}
        if len(prints) > 1 or not np.array_equal(one.labels, first.labels):
            return "the curves are not all of the same images, in the same order"
    return ""


def _groups(every: Sequence[_Errors]) -> np.ndarray | None:
    return next((one.groups for one in every if one.groups is not None), None)


def _resampled(
    both: Sequence[Sequence[_Errors]], relative: bool, number: int
) -> np.ndarray:
    every = [one.wrong for some in both for one in some if one.wrong is not None]
    num_images = every[0].shape[1]
    groups = _groups([one for some in both for one in some])
    units = num_images if groups is None else int(groups.max()) + 1
    rng = np.random.default_rng(_SEED)
    values = []
    for weights in resample_counts(rng, units, number, num_images):
        weights = weights if groups is None else weights[groups]
        shares = weights / weights.sum(0)
        exact = np.ones(shares.shape[1])
        errors = [
            [
                np.outer(one.rates, exact) if one.wrong is None else one.wrong @ shares
                for one in some
            ]
            for some in both
        ]
        values.append(_ratios([np.stack(some, axis=1) for some in errors], relative))
    return np.concatenate(values)
