"""Texts and numbers as a report shows them."""

import math
import re

from markupsafe import Markup, escape

from jaxrob._arguments.readable import readable

_UNKNOWN = "not known"
# What may begin something in Markdown other than text. "<", ">" and "&" are entities.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]|~$#!]|(?<=[a-zA-Z]):(?=//)|(?<=[wW]{3})\.)")


def html(value: object) -> object:
    """What a template writes into HTML, which it escapes afterwards."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return readable(value)
    return value


def markdown(value: object) -> object:
    """What a template writes into Markdown: no name is taken for Markdown or HTML."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = _MARKDOWN.sub(r"\\\1", readable(value))
    # Of a name in which someone is mentioned nobody should be told.
    return Markup(str(escape(text)).replace("@", "&#64;").replace("&#39;", "'"))


def short(text: str, most: int = 60) -> str:
    """A text, cut in the middle where it is longer, since names often end alike."""
    text = readable(text)
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent, or that it is not known.

    What is less than all, or more than nothing, does not look like it.
    """
    if math.isnan(share):
        return _UNKNOWN
    if 0 < share < 1:
        while digits < 9 and float(f"{100 * share:.{digits}f}") in (0, 100):
            digits += 1
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """A number in four digits, or that it is not known."""
    # A zero has no sign that means something.
    return _UNKNOWN if math.isnan(value) else f"{value + 0.0:.4g}"


def interval(low: float, high: float, digits: int = 1) -> str:
    """The ends of an interval of shares."""
    if math.isnan(low) or math.isnan(high):
        return _UNKNOWN
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"


def with_unit(value: float, unit: str) -> str:
    """A level with its unit; in brackets where that is more than a word."""
    return _beside(number(value), unit)


def range_with_unit(low: float, high: float, unit: str) -> str:
    """Two levels with their unit."""
    return _beside(f"{number(low)} to {number(high)}", unit)


def _beside(numbers: str, unit: str) -> str:
    if unit == "severity":
        return f"severity {numbers}"
    if " " in unit:
        return f"{numbers} ({unit})"
    return f"{numbers} {unit}".rstrip()


def points(share: float) -> str:
    """A difference of shares, in percentage points."""
    return percent(share).replace(" %", " points")


def counted(number: int, one: str, more: str | None = None) -> str:
    """A number of things, such as "1 image" or "2 images"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"
