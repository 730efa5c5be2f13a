"""The settings of an alteration that a report tells."""

from collections.abc import Callable
from typing import Any

from jaxrob._runtime.bound import Bound
from jaxrob._runtime.pinned import Pinned
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._followed_by import name_of_fixed
from jaxrob.alterations.common._parameters import Table, size_for

# What the library's alterations take beside a range.
_NAMES = ("fill", "clip")


def settings(
    alteration: Alteration, image_shape: tuple[int, ...]
) -> dict[str, str | bool | int]:
    """How an alteration was made, beside its range: `fill` and `clip` by name.

    Of a corruption of a benchmark, the "size" of which it takes the parameters for
    images of this shape.

    Of one with a fixed function behind it, that function's name as "followed by".

    Those of a composition's members have the member's name in front, "rotation: fill"
    for instance. Of functions of others nothing is known.
    """
    keywords = _keywords(alteration.fn)
    found = {name: keywords[name] for name in _NAMES if name in keywords}
    if isinstance(table := keywords.get("table"), Table):
        found["size"] = size_for(table.corruption, image_shape, keywords["size"])
    if isinstance(inner := keywords.get("alteration"), Alteration):
        found |= settings(inner, image_shape)
    if isinstance(inner := keywords.get("corruption"), Alteration):
        found |= settings(inner, image_shape)
    if isinstance(fixed := keywords.get("fixed"), Callable):
        found["followed by"] = name_of_fixed(fixed)
    for member in keywords.get("members", ()):
        if isinstance(member, Alteration):
            found |= {
                f"{member.name}: {name}": value
                for name, value in settings(member, image_shape).items()
            }
    return found


def _keywords(function: Any) -> dict[str, Any]:
    function = function.function if isinstance(function, Pinned) else function
    return dict(function.keywords) if isinstance(function, Bound) else {}
