"""The settings of an alteration that a report tells."""

from typing import Any

from jaxrob._runtime.bound import Bound
from jaxrob.alterations._alteration import Alteration

# What the library's alterations take beside a range.
_NAMES = ("fill", "clip")


def settings(alteration: Alteration) -> dict[str, str | bool]:
    """How an alteration was made, beside its range: `fill` and `clip` by name.

    Those of a composition's members have the member's name in front, "rotation: fill"
    for instance. Of functions of others nothing is known.
    """
    keywords = _keywords(alteration.fn)
    found = {name: keywords[name] for name in _NAMES if name in keywords}
    if isinstance(inner := keywords.get("alteration"), Alteration):
        found |= settings(inner)
    for member in keywords.get("members", ()):
        if isinstance(member, Alteration):
            found |= {
                f"{member.name}: {name}": value
                for name, value in settings(member).items()
            }
    return found


def _keywords(function: Any) -> dict[str, Any]:
    return dict(function.keywords) if isinstance(function, Bound) else {}
