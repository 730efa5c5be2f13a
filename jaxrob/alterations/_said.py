"""Readings of an alteration's `about` by reports, warnings and the command."""

from typing import Any

from jaxrob._arguments.checks import check_type
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._checks import check_parameter


def doubts(alteration: Alteration, image_shape: tuple[int, ...]) -> list[str]:
    """Returns the likely mistakes in the range of an alteration, or in its members'."""
    # Members' ranges are in their own units.
    about = alteration.about
    if about.members:
        return [one for member in about.members for one in doubts(member, image_shape)]
    if about.doubt is None or len(image_shape) != 3:
        return []
    found = about.doubt(alteration.lower, alteration.upper, image_shape)
    check_type(f"{alteration.name}: a doubt", found, str | None, "a text or None")
    return [f"{alteration.name}: {found}"] if found else []


def settings(alteration: Alteration, image_shape: tuple[int, ...]) -> dict[str, Any]:
    """Returns an alteration's parameters beside its range, for images of a shape."""
    found = {}
    for name, value in alteration.about.parameters.items():
        found[name] = value(image_shape) if callable(value) else value
        check_parameter(f"{alteration.name}: {name}", found[name])
    return found


def words(alteration: Alteration) -> dict[str, str]:
    """Returns the meaning of "level" and of each parameter, by name."""
    about = alteration.about
    size = "what it does depends on the images' size" if about.size_matters else ""
    level = "; ".join(filter(None, (about.level, size)))
    return ({"level": level} if level else {}) | dict(about.words)


def range_in_words(alteration: Alteration) -> str:
    """Returns the range with its unit in brackets, for instance "1 to 2 [factor]"."""
    unit = f" [{alteration.unit}]" if alteration.unit else ""
    return f"{alteration.lower:.4g} to {alteration.upper:.4g}{unit}"
