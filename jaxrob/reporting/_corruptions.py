"""What benchmarks of common corruptions say of a network, beside its robustness."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jaxrob import metrics
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics import ALEXNET, CorruptionError, FailingLevel, ReferenceErrors

# Dividing by 1 leaves the mean error.
_ITSELF = ReferenceErrors(1.0, 1.0)


class Corruption(NamedTuple):
    """What is known of one corruption.

    Attributes:
      name: the corruption's name.
      error: the mean error over severities 1 to 5.
      relative_to_alexnet: the corruption error; None of other than 1,000 classes at
        224 px.
      fails_at: the severity from which on the network is not good enough; None where
        the unaltered images were not evaluated, or not all images were.
    """

    name: str
    error: CorruptionError
    relative_to_alexnet: CorruptionError | None
    fails_at: FailingLevel | None


class Corruptions(NamedTuple):
    """What is known of all common corruptions that were assessed.

    Attributes:
      rows: of each.
      mean: the mean error over the fifteen of the benchmark.
      mce: mCE, relative to AlexNet's errors; None of other than 1,000 classes at 224
        px.
    """

    rows: tuple[Corruption, ...]
    mean: CorruptionError
    mce: CorruptionError | None


def corruptions(assessments: Sequence[Assessment]) -> Corruptions | None:
    """What is known of the corruptions by severity among the assessments, if any.

    What cannot be known is NaN, with the reason.
    """
    found = {one.alteration: one for one in assessments if one.unit == "severity"}
    if not found:
        return None
    like_alexnet = all(_is_like_alexnet(one) for one in found.values())
    rows = tuple(
        Corruption(
            name,
            _known(
                lambda one=one: metrics.corruption_error(
                    _all(one), _ITSELF, one.confidence_level
                )
            ),
            _known(
                lambda one=one, name=name: metrics.corruption_error(
                    _all(one), ALEXNET[name], one.confidence_level
                )
            )
            if like_alexnet and name in ALEXNET
            else None,
            _fails_at(one),
        )
        for name, one in found.items()
    )
    mce = None
    if like_alexnet:
        mce = _known(lambda: _mean(found, ALEXNET))
    mean = _known(lambda: _mean(found, None))
    return Corruptions(rows, mean, mce)


def lines(found: Corruptions) -> list[str]:
    """The means, a line each."""
    return [
        f"{name}: {share(one)}" + (f" ({one.reason})" if one.reason else "")
        for name, one in means(found)
    ]


def means(found: Corruptions) -> list[tuple[str, CorruptionError]]:
    """The means by what they are called."""
    pairs = [("mean error over 15 corruptions, severities 1 to 5", found.mean)]
    if found.mce is not None:
        pairs.append(("mCE, relative to AlexNet's errors on ImageNet-C", found.mce))
    return pairs


def share(one: CorruptionError) -> str:
    """An error with its interval, as text."""
    if math.isnan(one.value):
        return "not known"
    low, high = one.confidence_interval
    interval = "" if math.isnan(low) else f", {100 * low:.1f} to {100 * high:.1f} %"
    return f"{100 * one.value:.1f} %{interval}"


def severity(one: FailingLevel | None) -> str:
    """The severity at which a network fails with its interval, as text."""
    if one is None:
        return "not known"
    if math.isinf(one.confidence_interval.low):
        return _severity(math.inf)
    low, high = map(_severity, one.confidence_interval)
    return f"{_severity(one.level)}, {low} to {high}"


def _severity(level: float) -> str:
    return "beyond 5" if math.isinf(level) else f"{level:.2f}"


def _fails_at(one: Assessment) -> FailingLevel | None:
    if one.identity not in one.levels or len(one.levels) < 2 or one.sampling:
        return None
    return metrics.failing_level(
        one.levels,
        one.curve.confusion,
        one.measure,
        one.threshold,
        one.identity,
        one.confidence_level,
    )


def _mean(
    found: Mapping[str, Assessment], reference: Mapping[str, ReferenceErrors] | None
) -> CorruptionError:
    level = min(one.confidence_level for one in found.values())
    every = {name: _all(one) for name, one in found.items()}
    return metrics.mean_corruption_error(every, reference, confidence_level=level)


def _all(one: Assessment) -> Assessment:
    """The assessment.

    Raises:
      ValueError: if it is from few images: benchmarks' means are of all.
    """
    if one.sampling is not None:
        raise ValueError("few images were looked at, and means are of all of them")
    return one


def _is_like_alexnet(one: Assessment) -> bool:
    """Whether it is of as many classes, and as far as that is known of one size."""
    alexnet = next(iter(ALEXNET.values()))
    size = one.provenance.get("settings", {}).get("size", alexnet.size)
    return one.curve.confusion.shape[1] == alexnet.num_classes and size == alexnet.size


def _known(measured: Callable[[], CorruptionError]) -> CorruptionError:
    """What was measured, or why it cannot be."""
    try:
        return measured()
    except ValueError as error:
        unknown = metrics.ConfidenceInterval(math.nan, math.nan)
        return CorruptionError(math.nan, unknown, str(error))
