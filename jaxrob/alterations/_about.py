"""What an alteration says about itself, beside what it computes."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxrob._arguments.checks import (
    check_type,
    checked_flag,
    checked_text,
)
from jaxrob.alterations._checks import check_parameter


@dataclasses.dataclass(frozen=True)
class About:
    """What an alteration says about itself: reports, warnings and the command read it.

    It changes nothing that is computed. Alterations that differ in it alone are equal.

    Example::

        about = jaxrob.alterations.About(
            "how many columns are black, from the left",
            doubt=lambda lower, upper, shape: (
                "all of the image is black" if upper >= shape[1] else None
            ),
        )
        bar = jaxrob.Alteration("bar", cover, 0.0, 28.0, unit="px", about=about)

    Attributes:
      level: what a level is, in words, beside its unit.
      parameters: how it was made beside its range, by name: texts, numbers and
        booleans. What depends on the images is a function of their shape
        `(H, W, C)`.
      words: what a parameter means, by its name.
      default_range: `default_range(height, width)`, the plausible ends of the range
        for pictures of that size; None where they are the same for all. A function
        without required arguments that makes the alteration is called again with
        these by the command, if no range is written.
      range_from: where the default range is from.
      doubt: `doubt(lower, upper, image_shape)`, what looks like a mistake in a range
        for images of the shape `(H, W, C)`, and what may be meant; None if nothing
        does. It becomes a warning, behind the alteration's name. Of what is no image
        nothing is doubted, because its values may have any unit.
      size_matters: whether a level does something else to images of another size.
      leaves_range: whether the altered image leaves [0, 1] on purpose.
      jump: why it jumps beside the identity, and what to do about it.
      members: the alterations it is made of, in the order in which they are applied.
        Where there are some, their doubts are taken.

    Raises:
      TypeError: if a field has a wrong type.
      ValueError: if a number is not finite, or `words` say what a level is.
    """

    level: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_range: Callable[[int, int], tuple[float, float]] | None = None
    range_from: str = ""
    doubt: Callable[[float, float, tuple[int, ...]], str | None] | None = None
    size_matters: bool = False
    leaves_range: bool = False
    jump: str = ""
    members: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name in ("level", "range_from", "jump"):
            checked_text(f"about: {name}", getattr(self, name), may_be_empty=True)
        for name in ("parameters", "words"):
            check_type(f"about: {name}", getattr(self, name), Mapping, "a mapping")
        for name, value in self.parameters.items():
            checked_text("about: parameters: names", name)
            if not callable(value):
                check_parameter(f"about: parameters: {name}", value)
        for name, value in self.words.items():
            checked_text("about: words: names", name)
            checked_text(f"about: words: {name}", value, may_be_empty=True)
        if "level" in self.words:
            raise ValueError("about: words: what a level is belongs into `level`")
        check_type("about: members", self.members, tuple, "a tuple of alterations")
        for name in ("default_range", "doubt"):
            if (value := getattr(self, name)) is not None:
                check_type(f"about: {name}", value, Callable, "a function or None")
        checked_flag("about: size_matters", self.size_matters)
        checked_flag("about: leaves_range", self.leaves_range)
