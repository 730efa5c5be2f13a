"""Differences to earlier results, and regressions."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_sequence
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.compare import Comparison, compare
from jaxrob._codec import Number, Row, Text
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._bootstrap import holm


class Adjusted(NamedTuple):
    """A comparison with p-values adjusted by Holm's method, NaN where not known."""

    found: Comparison
    p_value: float
    mean_p_value: float

    @property
    def side(self) -> int:
        """1 if the first is significantly more robust, -1 if less, 0 if neither."""
        one = self.found
        return _side(one.confidence_interval, self.p_value, one.confidence_level)

    @property
    def mean_side(self) -> int:
        return _side(
            self.found.mean_interval, self.mean_p_value, self.found.confidence_level
        )

    @property
    def is_worse(self) -> bool:
        return min(self.side, self.mean_side) < 0


def adjusted(comparisons: Sequence[Comparison]) -> list[Adjusted]:
    """Adjusts the comparisons' p-values, two each, for one another."""
    # Between equally robust networks, the chance of any significant difference is then
    # at most one less the comparisons' confidence level, by default 5 %.
    pairs = np.array([(one.p_value, one.mean_p_value) for one in comparisons])
    values = holm(pairs.ravel()).reshape(-1, 2).tolist()
    return [
        Adjusted(one, p_value, mean_p_value)
        for one, (p_value, mean_p_value) in zip(comparisons, values)
    ]


def difference_text(one: Adjusted) -> str:
    found = one.found
    low, high = found.confidence_interval
    mean_low, mean_high = found.mean_interval
    level = f"{100 * found.confidence_level:g} %"
    return (
        f"difference {found.difference:+.4f}, {level} interval {low:+.4f} to "
        f"{high:+.4f}, p = {p_value_text(found.p_value, one.p_value)}; "
        f"mean over the range {found.mean_difference:+.4f}, {mean_low:+.4f} to "
        f"{mean_high:+.4f}, p = {p_value_text(found.mean_p_value, one.mean_p_value)}"
    )


def p_value_text(p_value: float, adjusted: float) -> str:
    if math.isnan(p_value):
        return "-"
    return f"{p_value:.2g} (adjusted {adjusted:.2g})"


def _side(interval: ConfidenceInterval, p_value: float, confidence_level: float) -> int:
    # The tolerance admits p-values that equal the error up to rounding.
    if math.isnan(p_value) or p_value > 1 - confidence_level + 1e-12:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)


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


def regressions(
    new: Assessment | Sequence[Assessment], old: Assessment | Sequence[Assessment]
) -> list[str]:
    """Returns a sentence for each regression against earlier assessments.

    Assessments of one alteration are compared by `jaxrob.compare`, at the new one's
    confidence level. The new one is a regression if the interval of the difference in
    robustness lies below 0, or that of the difference in the measure's mean over the
    range, which distinguishes networks that are accepted everywhere. In addition the
    p-value, adjusted for all comparisons (Holm 1979), must be significant: between
    equally robust networks, the chance of any regression is at most one minus the
    confidence level.

    Args:
      new: an assessment, or one for each alteration.
      old: earlier assessments, of the same network or another, on the same images.

    Returns:
      A sentence for each earlier assessment that is better, has no counterpart, or
      cannot be compared, with the reason. Empty if there is no regression.

    Raises:
      TypeError: if `new` or `old` holds anything but assessments.
      ValueError: if two of them are of one alteration, range, measure and alpha.
    """
    by_subject = _by_subject("new", new, 1)
    pairs, found = [], []
    for subject, before in _by_subject("old", old, 0).items():
        # Another range or measure than before: the comparison says which.
        alike = [one for one in by_subject.values() if one.alteration == subject[0]]
        now = by_subject.get(subject, alike[0] if alike else None)
        if now is None:
            found.append(f"{before.alteration}: it is not assessed any more")
            continue
        try:
            pairs.append((now, before, compare(now, before, now.confidence_level)))
        except ValueError as error:
            found.append(f"{before.alteration}: no comparison is possible, {error}")
    return _regressions(pairs) + found


def _by_subject(
    name: str, given: Assessment | Sequence[Assessment], min_length: int
) -> dict[tuple[Any, ...], Assessment]:
    if isinstance(given, Assessment):
        given = (given,)
    checked_sequence(
        name, given, Assessment, "jaxrob.Assessment", min_length=min_length
    )
    found: dict[tuple[Any, ...], Assessment] = {}
    for one in given:
        subject = one.alteration, one.lower, one.upper, one.measure, one.curve.alpha
        if subject in found:
            raise ValueError(
                f"{name} must have one assessment of each alteration, range, measure "
                f"and alpha; got two of {one.alteration!r}"
            )
        found[subject] = one
    return found


def _regressions(
    pairs: Sequence[tuple[Assessment, Assessment, Comparison]],
) -> list[str]:
    return [
        f"{new.alteration}: robustness is {new.robustness:.6g}, it was "
        f"{old.robustness:.6g} ({difference_text(one)})"
        for (new, old, found), one in zip(pairs, adjusted([row[2] for row in pairs]))
        # NaN counts as worse, because it is not known to be as good.
        if one.is_worse or math.isnan(found.difference)
    ]
