"""The grammar of alterations on the command line: calls as Python writes them.

    alteration = name [ "(" [ part { "," part } ] ")" ]
    name       = word [ "." word ] | path ".py:" word
    part       = number | word "=" ( number | word )

The first two parts are the ends of the range; named ones follow. Nothing written is
ever executed.
"""

import ast
import math
import re
from typing import NamedTuple

from jaxrob._command.refused import Refused

Value = str | float | bool

# Allows hyphens, so that a message can suggest the name with underscores.
_NAME = re.compile(
    r"\s*(.+?\.py:[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)?)\s*", re.ASCII
)
# No alteration needs more; a longer text is a mistake.
_LONGEST = 1000


class Written(NamedTuple):
    """An alteration as it is written."""

    name: str  # The name of a library alteration, or a Python file and a name in it
    # The lower and the upper end of the range; None for the default
    ends: tuple[float, float] | None
    settings: dict[str, Value]  # The other settings, by name
    text: str  # The whole text
    reason: str | None = None  # Why the range is plausible; None where nobody says


def read(text: str) -> Written:
    """Reads an alteration, such as "gaussian_blur(0,4)" or "rotation"."""
    if len(text) > _LONGEST:
        raise Refused(f"an alteration has {_LONGEST} characters at most: {len(text)}")
    found = _NAME.match(text)
    if found is None:
        raise Refused(f"{text!r}: expected an alteration's name")
    name, rest = found[1], text[found.end() :].strip()
    if not rest:
        return Written(name, None, {}, text)
    if rest[0] != "(":
        what = "one alteration for each flag" if rest[0] == "," else '"("'
        raise Refused(f"{text!r}: expected {what} after {name}; got {rest[:20]!r}")
    try:
        call = ast.parse(f"_{rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError('expected nothing after ")"')
        ends = [_value(one) for one in call.args]
        settings = {str(one.arg): _value(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise Refused(
            f"{text!r}: {reason}; write it as {name}(lower,upper,setting=value)"
        ) from error
    if len(settings) < len(call.keywords) or "None" in settings:
        raise Refused(f"{text!r}: a setting has no name, or stands there twice")
    return Written(name, _range(text, name, ends), settings, text)


def _value(node: ast.expr) -> Value:
    """Returns a number or a word."""
    if isinstance(node, ast.Name):
        return {"true": True, "false": False}.get(node.id.lower(), node.id)
    found = ast.literal_eval(node)
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"expected a finite number or a word; got {found!r}")
    return found if isinstance(found, bool) else float(found)


def _range(text: str, name: str, values: list[Value]) -> tuple[float, float] | None:
    if not values:
        return None
    ends = [one for one in values if not isinstance(one, bool | str)]
    if len(ends) < len(values):
        raise Refused(f"{text!r}: expected numbers as the ends of the range")
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
