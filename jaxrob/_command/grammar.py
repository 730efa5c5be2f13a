"""The grammar of alterations on the command line.

    alteration = name [ "(" [ part { "," part } ] ")" ]
    name       = word [ "." word ] | path ".py:" word
    part       = number | word "=" ( number | word )

The first two parts are the ends of the range; named ones follow. Nothing written is
ever executed.
"""

import math
import re
from typing import NamedTuple

from jaxrob._command.refused import Refused

Value = str | float | bool

# Allows hyphens, so that a message can suggest the name with underscores.
_NAME = re.compile(
    r"\s*(.+?\.py:[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)?)\s*", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\S+)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# No alteration needs more; a longer text is a mistake.
_LONGEST = 1000


class Written(NamedTuple):
    """An alteration as it is written.

    Attributes:
      name: the name of a library alteration, or a Python file and a name in it.
      ends: the lower and the upper end of the range; None for the default.
      settings: the other settings, by name.
      text: the whole text.
      reason: why the range is plausible; None where nobody says.
    """

    name: str
    ends: tuple[float, float] | None
    settings: dict[str, Value]
    text: str
    reason: str | None = None


def read(text: str) -> Written:
    """Reads an alteration, such as "gaussian_blur(0,4)" or "rotation".

    Raises:
      Refused: if it does not have this form; the message says where, and what was
        expected.
    """
    if len(text) > _LONGEST:
        raise Refused(
            f"an alteration is written in {_LONGEST} characters at most; got "
            f"{len(text)}"
        )
    found = _NAME.match(text)
    if found is None:
        raise _unexpected(text, 0, "an alteration's name")
    name, rest = found[1], text[found.end() :].rstrip()
    if not rest:
        return Written(name, None, {}, text)
    if rest[0] != "(":
        what = '"("' if rest[0] != "," else "one alteration for each flag"
        raise _unexpected(text, found.end(), what)
    close = rest.find(")")
    if close < 0:
        raise _unexpected(text, len(text.rstrip()), '")"')
    if close + 1 < len(rest):
        raise _unexpected(text, found.end() + close + 1, "nothing more")
    ends, settings = _parts(text, found.end() + 1, rest[1:close])
    return Written(name, _range(text, name, ends), settings, text)


def _parts(text: str, at: int, inner: str) -> tuple[list[float], dict[str, Value]]:
    """Parses the numbers and named values in the parentheses, which begin at `at`."""
    numbers: list[float] = []
    settings: dict[str, Value] = {}
    if not inner.strip():
        return numbers, settings
    for part in inner.split(","):
        start = at + len(part) - len(part.lstrip())
        at += len(part) + 1
        part = part.strip()
        named = _NAMED.fullmatch(part)
        if _NUMBER.fullmatch(part):
            if settings:
                raise _unexpected(text, start, "the range before what is named")
            numbers.append(_number(text, part))
        elif named is None:
            what = "a number, or a name and its value such as fill=edge"
            raise _unexpected(text, start, what)
        elif named[1] in settings:
            raise Refused(f"{text!r}: {named[1]} stands there twice")
        else:
            settings[named[1]] = _value(text, start + named.start(2), named[2])
    return numbers, settings


def _value(text: str, at: int, value: str) -> Value:
    if _NUMBER.fullmatch(value):
        return _number(text, value)
    if not _WORD.fullmatch(value):
        raise _unexpected(text, at, "a number or a word")
    return {"true": True, "false": False}.get(value.lower(), value)


def _range(text: str, name: str, ends: list[float]) -> tuple[float, float] | None:
    if not ends:
        return None
    if len(ends) == 1:
        low, high = min(ends[0], 0.0), max(ends[0], 0.0)
        raise Refused(
            f"{text!r}: a range has two ends, such as {name}({low:g},{high:g})"
        )
    if len(ends) > 2:
        raise Refused(f"{text!r}: a range has two ends; got {len(ends)} numbers")
    lower, upper = ends
    if not lower < upper:
        raise Refused(
            f"{text!r}: the lower end must be below the upper one; got {lower:g} and "
            f"{upper:g}"
        )
    return lower, upper


def _number(text: str, number: str) -> float:
    found = float(number)
    if not math.isfinite(found):
        raise Refused(f"{text!r}: {number} is too large a number")
    return found


def _unexpected(text: str, at: int, expected: str) -> Refused:
    """Returns the error at a character, counted from 1."""
    rest = text[at : at + 20]
    got = f"got {rest!r}" if rest else "the text ends"
    return Refused(f"{text!r}: expected {expected} at character {at + 1}; {got}")
