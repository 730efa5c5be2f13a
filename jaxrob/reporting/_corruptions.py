"""Summaries over common corruptions, as benchmarks publish them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jaxrob import metrics
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics import ALEXNET, CorruptionError, FailingLevel, ReferenceErrors

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
    found = {
        one.alteration: one
        for one in assessments
        if one.unit == "severity" and one.curve.num_classes
    }
    if not found:
        return None
    like_alexnet = all(_is_like_alexnet(one) for one in found.values())
    rows = tuple(
        Corruption(
            name,
            _error(one, _NO_REFERENCE),
            _error(one, ALEXNET[name]) if like_alexnet and name in ALEXNET else None,
            _fails_at(one),
        )
        for name, one in found.items()
    )
    if not ALEXNET.keys() - {_FROST} <= found.keys():
        return Corruptions(rows, None, None)
    mce = None
    if like_alexnet:
        mce = _or_unknown(lambda: _mean(found, ALEXNET))
    mean = _or_unknown(lambda: _mean(found, None))
    return Corruptions(rows, mean, mce)


def lines(found: Corruptions) -> list[str]:
    return [
        f"{name}: {share(one)}" + (f" ({one.reason})" if one.reason else "")
        for name, one in means(found)
    ]


def means(found: Corruptions) -> list[tuple[str, CorruptionError]]:
    pairs = (
        ("mean error over 15 corruptions, severities 1 to 5", found.mean),
        ("mCE, relative to AlexNet's errors on ImageNet-C", found.mce),
    )
    return [(name, one) for name, one in pairs if one is not None]


def share(one: CorruptionError) -> str:
    if math.isnan(one.value):
        return "not known"
    low, high = one.confidence_interval
    interval = "" if math.isnan(low) else f", {100 * low:.1f} to {100 * high:.1f} %"
    return f"{100 * one.value:.1f} %{interval}"


def severity(one: FailingLevel | None) -> str:
    if one is None:
        return "not known"
    if math.isinf(one.confidence_interval.low):
        return _severity(math.inf)
    low, high = map(_severity, one.confidence_interval)
    return f"{_severity(one.level)}, {low} to {high}"


def _severity(level: float) -> str:
    return "beyond 5" if math.isinf(level) else f"{level:.2f}"


def _error(one: Assessment, reference: ReferenceErrors) -> CorruptionError:
    return _or_unknown(
        lambda: metrics.corruption_error(
            _complete(one), reference, one.confidence_level
        )
    )


def _fails_at(one: Assessment) -> FailingLevel | None:
    if one.identity not in one.levels or len(one.levels) < 2 or one.sampling:
        return None
    return metrics.failing_level(
        one.levels,
        one.counts,
        one.measure,
        one.threshold,
        one.identity,
        one.confidence_level,
    )


def _mean(
    found: Mapping[str, Assessment], reference: Mapping[str, ReferenceErrors] | None
) -> CorruptionError:
    level = min(one.confidence_level for one in found.values())
    every = {name: _complete(one) for name, one in found.items()}
    return metrics.mean_corruption_error(every, reference, confidence_level=level)


def _complete(one: Assessment) -> Assessment:
    """Returns an assessment on all images, as benchmarks' means require."""
    if one.sampling is not None:
        raise ValueError("few images were looked at, and means are of all of them")
    return one


def _is_like_alexnet(one: Assessment) -> bool:
    alexnet = next(iter(ALEXNET.values()))
    size = one.provenance.get("settings", {}).get("size", alexnet.size)
    return one.curve.num_classes == alexnet.num_classes and size == alexnet.size


def _or_unknown(measured: Callable[[], CorruptionError]) -> CorruptionError:
    try:
        return measured()
    except ValueError as error:
        unknown = metrics.ConfidenceInterval(math.nan, math.nan)
        return CorruptionError(math.nan, unknown, str(error))
