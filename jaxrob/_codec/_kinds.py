"""Kinds of plain values: how each is written, and checked when it is read."""

import dataclasses
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from jaxrob._runtime.naming import range_text
from jaxrob._runtime.strict_json import short

#: Infinities as a document writes them.
INFINITIES = {"inf": math.inf, "-inf": -math.inf}
LARGEST_INT32 = 2**31 - 1
_LARGE = 2**30


@dataclasses.dataclass
class Reading:
    """What is known while a document is read.

    Attributes:
      room: how many bytes packed arrays may still unpack to.
      name: what messages call the whole.
      is_partial: whether parts that have a default may be missing.
      is_open: whether parts that are not known are passed over.
      axes: the lengths that letters of arrays' shapes stand for.
    """

    room: int = 0
    name: str = "the text"
    is_partial: bool = False
    is_open: bool = False
    axes: dict[str, int] = dataclasses.field(default_factory=dict)


class Kind(Protocol):
    """What a value may be.

    `write` gives a value of JSON. `read` gives the value back, or raises a ValueError
    that begins with the place in the document.
    """

    def write(self, value: Any) -> Any:
        """A value of JSON."""
        ...

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        """The value from JSON, checked."""
        ...


def must(place: str, rule: str, value: Any) -> ValueError:
    """The error of a value that breaks a rule."""
    return ValueError(f"{place} must {rule}; got {short(value)}")


def at(place: str, name: str) -> str:
    """The place of a part, such as "sampling.seen"."""
    return f"{place}.{name}" if place else name


@dataclasses.dataclass(frozen=True)
class Number:
    """A number within its limits, finite unless it may be else."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    may_be_nan: bool = False
    may_be_infinite: bool = False

    def write(self, value: Any) -> float | str | None:
        """The number; null for NaN."""
        number = float(value)
        if math.isfinite(number):
            return number
        return None if math.isnan(number) else str(number)

    def read(self, value: Any, place: str, reading: Reading) -> float:
        """The number, or NaN for null."""
        if value is None and self.may_be_nan:
            return math.nan
        if self.may_be_infinite and isinstance(value, str) and value in INFINITIES:
            return INFINITIES[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise must(place, f"be a number{self.may_be_nan * ' or null'}", value)
        try:
            number = float(value)
        except OverflowError:
            raise must(place, "be finite", value) from None
        if not math.isfinite(number) or not _is_within(number, self):
            raise must(place, limits_text(self, number), value)
        return number


@dataclasses.dataclass(frozen=True)
class Integer:
    """A whole number within its limits."""

    at_least: int | None = None
    at_most: int = LARGEST_INT32
    above = below = None

    def write(self, value: Any) -> int:
        """The number."""
        return int(value)

    def read(self, value: Any, place: str, reading: Reading) -> int:
        """The number."""
        if type(value) is not int:
            raise must(place, "be an integer", value)
        if not _is_within(value, self):
            raise must(place, limits_text(self, value), value)
        return value


@dataclasses.dataclass(frozen=True)
class Text:
    """A text.

    Attributes:
      pattern: what all of it must match, a regular expression; None for any text.
      wanted: what that is, in words.
    """

    pattern: str | None = r"(?s).+"
    wanted: str = "a text that is not empty"

    def write(self, value: Any) -> str:
        """The text."""
        return str(value)

    def read(self, value: Any, place: str, reading: Reading) -> str:
        """The text."""
        fits = isinstance(value, str)
        if not fits or (self.pattern and not re.fullmatch(self.pattern, value)):
            raise must(place, f"be {self.wanted}", value)
        return value


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of the texts allowed."""

    allowed: Collection[str]

    def write(self, value: Any) -> str:
        """The text."""
        return str(value)

    def read(self, value: Any, place: str, reading: Reading) -> str:
        """The text."""
        if not isinstance(value, str) or value not in self.allowed:
            raise must(place, f"be one of {tuple(self.allowed)}", value)
        return value


@dataclasses.dataclass(frozen=True)
class Flag:
    """True or false."""

    def write(self, value: Any) -> bool:
        """The flag."""
        return bool(value)

    def read(self, value: Any, place: str, reading: Reading) -> bool:
        """The flag."""
        if type(value) is not bool:
            raise must(place, "be true or false", value)
        return value


@dataclasses.dataclass(frozen=True)
class Plain:
    """A value of JSON, kept as it is; of some of its types, if they are given."""

    types: tuple[type, ...] = ()

    def write(self, value: Any) -> Any:
        """The value."""
        return value

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        """The value."""
        if self.types and type(value) not in self.types:
            wanted = dict.fromkeys(_WORDS[one] for one in self.types)
            raise must(place, f"be {' or '.join(wanted)}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise must(place, "be finite", value)
        return value


_WORDS = {str: "a text", int: "a number", float: "a number"} | {
    bool: "true or false",
    dict: "an object",
}


@dataclasses.dataclass(frozen=True)
class Maybe:
    """A value, or null for None."""

    kind: Kind

    def write(self, value: Any) -> Any:
        """The value, or null."""
        return None if value is None else self.kind.write(value)

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        """The value, or None."""
        return None if value is None else self.kind.read(value, place, reading)


@dataclasses.dataclass(frozen=True)
class Items:
    """A tuple of any length, at least `fewest`."""

    kind: Kind
    fewest: int = 0

    def write(self, value: Any) -> list[Any]:
        """A list."""
        return [self.kind.write(one) for one in value]

    def read(self, value: Any, place: str, reading: Reading) -> tuple[Any, ...]:
        """The tuple."""
        if not isinstance(value, list) or len(value) < self.fewest:
            few = f" of at least {self.fewest}" if self.fewest else ""
            raise must(place, f"be a list{few}", value)
        return tuple(
            self.kind.read(one, f"{place}[{number}]", reading)
            for number, one in enumerate(value)
        )


@dataclasses.dataclass(frozen=True)
class Table:
    """Values of one kind by any names."""

    kind: Kind

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """An object."""
        return {name: self.kind.write(one) for name, one in value.items()}

    def read(self, value: Any, place: str, reading: Reading) -> dict[str, Any]:
        """The dictionary."""
        found = object_at(place, value)
        return {
            name: self.kind.read(one, at(place, _said(name)), reading)
            for name, one in found.items()
        }


def _said(name: str) -> str:
    """Any name in a place."""
    return name if name.isidentifier() and len(name) <= 80 else short(name)


def object_at(place: str, value: Any) -> dict[str, Any]:
    """An object of JSON.

    Raises:
      ValueError: if it is none.
    """
    if not isinstance(value, dict):
        raise must(place, "be an object", value)
    return value


def limits_text(limits: Any, value: Any) -> str:
    """What limits ask of a number, such as "lie in [0, 1)"."""
    most = limits.at_most
    # A limit far above is of no interest.
    if most is not None and most >= _LARGE and not value > most:
        most = None
    text = range_text(limits.at_least, limits.above, most, limits.below)
    return text or "be finite"


def _is_within(number: float, limits: Any) -> bool:
    return (
        (limits.at_least is None or number >= limits.at_least)
        and (limits.above is None or number > limits.above)
        and (limits.at_most is None or number <= limits.at_most)
        and (limits.below is None or number < limits.below)
    )
