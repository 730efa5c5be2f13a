"""An alteration's description of itself, apart from its computation."""

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
    """An alteration's description of itself, read by reports, warnings and the command.

    It does not affect the computation. Alterations that differ only in it are equal.

    Example::

        about = jaxrob.alterations.About(
            "how many columns are black, from the left",
            doubt=lambda lower, upper, shape: (
                "all of the image is black" if upper >= shape[1] else None
            ),
        )
        bar = jaxrob.Alteration("bar", cover, 0.0, 28.0, unit="px", about=about)

    Attributes:
      level: the meaning of a level in words; its unit is a field of the alteration.
      parameters: the parameters beside the range, by name: texts, numbers and booleans.
        A parameter that depends on the images is a function of their shape `(H, W, C)`.
      words: the meaning of each parameter, by its name.
      default_range: `default_range(height, width)` returns plausible ends of the range
        for pictures of that size; None if the ends are the same for all sizes. Where a
        function without required arguments makes the alteration and no range is
        written, the command calls it again with these ends.
      range_from: the source of the default range.
      doubt: `doubt(lower, upper, image_shape)` returns a text that says what looks like
        a mistake in a range for images of the shape `(H, W, C)` and what may be meant,
        or None if nothing does. The text becomes a warning, after the alteration's
        name. Arrays that are not images raise no doubts, because their values may have
        any unit.
      size_matters: whether the effect of a level depends on the image's size.
      leaves_range: whether the altered image leaves [0, 1] on purpose.
      jump: why the curve jumps beside the identity, and the remedy.
      members: the alterations it is made of, in the order in which they are applied. If
        there are any, their doubts replace its own.

    Raises:
      TypeError: if a field has a wrong type.
      ValueError: if a number is not finite, or `words` explain the level.
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
