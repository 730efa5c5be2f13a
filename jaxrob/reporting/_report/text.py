"""Formats texts and numbers for a report."""

import math
from importlib import metadata

from jaxrob._arguments.readable import readable
from jaxrob._assessment.assessment import Assessment
from jaxrob.reporting._unaltered import nearest_level

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
    """Formats a share in per cent; NaN is "not known"."""
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
    """Formats a number in four digits; NaN is "not known"."""
    # Adding 0.0 removes the sign of -0.0.
    return _UNKNOWN if math.isnan(value) else f"{value + 0.0:.4g}"


def interval(low: float, high: float, digits: int = 1) -> str:
    """Formats the ends of an interval of shares."""
    if math.isnan(low) or math.isnan(high):
        return _UNKNOWN
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"


def with_unit(value: float, unit: str) -> str:
    """Formats a level with its unit, in brackets if it is more than a word."""
    return _joined(number(value), unit)


def range_with_unit(low: float, high: float, unit: str) -> str:
    """Formats two levels with their unit."""
    return _joined(f"{number(low)} to {number(high)}", unit)


def _joined(numbers: str, unit: str) -> str:
    if unit == "severity":
        return f"severity {numbers}"
    if " " in unit:
        return f"{numbers} ({unit})"
    return f"{numbers} {unit}".rstrip()


def unaltered_text(one: Assessment) -> str:
    """Says "unaltered", or which level stands for it."""
    level = nearest_level(one)
    if level == one.identity:
        return "unaltered"
    at = with_unit(level, one.unit)
    return f"at {at}, the nearest to unaltered that was looked at"


def points(share: float) -> str:
    """Formats a difference of shares in percentage points."""
    return percent(share).replace(" %", " points")
