"""Differences in robustness to earlier assessments."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from jaxrob._arguments.checks import checked_sequence
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import compare
from jaxrob._codec import Number, Row, Text
from jaxrob.metrics import ConfidenceInterval

_Interval = Annotated[
    ConfidenceInterval,
    Row(Number(at_least=-1, at_most=1, may_be_nan=True), ascends=True),
]


class Difference(NamedTuple):
    """How much more robust a network is to an alteration than an earlier one.

    Attributes:
      alteration: the alteration's name.
      value: the difference in robustness, in [-1, 1]; NaN if not known.
      interval: its interval.
      joint_interval: its interval of a simultaneous coverage of all differences, by
        Bonferroni's inequality.
      reason: why it is not known, or "".
    """

    alteration: Annotated[str, Text()]
    value: Annotated[float, Number(at_least=-1, at_most=1, may_be_nan=True)]
    interval: _Interval
    joint_interval: _Interval
    reason: str = ""


_UNKNOWN = ConfidenceInterval(math.nan, math.nan)


def differences(
    new: Sequence[Assessment], old: Sequence[Assessment]
) -> tuple[Difference, ...]:
    """Compares assessments with the earlier ones of the same alterations.

    Each pair is compared by `jaxrob.compare`, at the new one's confidence level.

    Args:
      new: an assessment of each alteration.
      old: earlier ones, of the same images.

    Returns:
      A difference for each alteration that both have. One that cannot be told, because
      thresholds or images differ, is NaN, with the reason.

    Raises:
      TypeError: if an argument has a wrong type.
    """
    for name, some in (("new", new), ("old", old)):
        checked_sequence(name, some, Assessment, "jaxrob.Assessment", min_length=0)
    earlier = {one.alteration: one for one in old}
    pairs = [(one, earlier[one.alteration]) for one in new if one.alteration in earlier]
    return tuple(_difference(now, then, len(pairs)) for now, then in pairs)


def _difference(new: Assessment, old: Assessment, number: int) -> Difference:
    level = new.confidence_level
    try:
        found = compare(new, old, level)
        joint = found if number == 1 else compare(new, old, 1 - (1 - level) / number)
    except ValueError as error:
        return Difference(new.alteration, math.nan, _UNKNOWN, _UNKNOWN, str(error))
    alone, at_once = found.confidence_interval, joint.confidence_interval
    if math.isnan(found.difference):
        return Difference(
            new.alteration, math.nan, _UNKNOWN, _UNKNOWN, "a robustness is not known"
        )
    # Two bootstraps may differ in the last digits.
    at_once = ConfidenceInterval(
        min(alone.low, at_once.low), max(alone.high, at_once.high)
    )
    return Difference(new.alteration, found.difference, alone, at_once)
