"""Annotations of plain values, with their limits, and of a field's layout."""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_integer, checked_number
from jaxrob._files.strict_json import short


@dataclasses.dataclass
class Reading:
    """The state while a document is read."""

    bytes_left: int = 0  # the bytes that packed arrays may still unpack to
    name: str = "the text"  # the document's name in messages
    is_partial: bool = False  # whether entries with a default may be missing
    ignores_unknown: bool = False  # whether unknown entries are ignored
    # The length of each letter in arrays' shapes
    axes: dict[str, int] = dataclasses.field(default_factory=dict)


class Codec(NamedTuple):
    """How a value is written and read."""

    write: Callable[[Any], Any]  # returns JSON for a value
    # Returns the value from JSON, its path in the document, and the state. Its
    # ValueError or TypeError begins with the path.
    read: Callable[[Any, str, Reading], Any]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number within limits; NaN is null and infinity "inf", where allowed."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    may_be_nan: bool = False
    may_be_infinite: bool = False

    def write(self, value: Any) -> float | str | None:
        number = float(value)
        if math.isfinite(number):
            return number
        return None if math.isnan(number) else str(number)

    def read(self, value: Any, place: str, reading: Reading) -> float:
        if value is None and self.may_be_nan:
            return math.nan
        if self.may_be_infinite and value in ("inf", "-inf"):
            return float(value)
        limits = dataclasses.asdict(self)
        del limits["may_be_nan"], limits["may_be_infinite"]
        return checked_number(place, value, **limits)


@dataclasses.dataclass(frozen=True)
class Integer:
    """A whole number within limits; below 2**31 if `at_most` is None."""

    at_least: int | None = None
    at_most: int | None = None

    def write(self, value: Any) -> int:
        return operator.index(value)

    def read(self, value: Any, place: str, reading: Reading) -> int:
        limits = {"at_least": self.at_least, "at_most": self.at_most}
        return checked_integer(place, value, **limits)


@dataclasses.dataclass(frozen=True)
class Text:
    """A text.

    Attributes:
      wanted: its description in messages.
      pattern: a regular expression that the whole text must match.
      allowed: the texts allowed; empty if `pattern` decides.
    """

    wanted: str = "a text that is not empty"
    pattern: str = "(?s).+"
    allowed: Collection[str] = ()

    def write(self, value: Any) -> str:
        return str(value)

    def read(self, value: Any, place: str, reading: Reading) -> str:
        fits = isinstance(value, str) and (
            value in self.allowed if self.allowed else re.fullmatch(self.pattern, value)
        )
        if not fits:
            one_of = f"one of {tuple(self.allowed)}"
            raise must(place, f"be {one_of if self.allowed else self.wanted}", value)
        return value


@dataclasses.dataclass(frozen=True)
class Plain:
    """A JSON value of one of these types, kept as it is."""

    wanted: str  # its description in messages
    types: tuple[type, ...]  # the types

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        if type(value) not in self.types:
            raise must(place, f"be {self.wanted}", value)
        if type(value) in (int, float):
            checked_number(place, value)  # TOML has infinity and NaN.
        return value


@dataclasses.dataclass(frozen=True)
class Row:
    """A named tuple written as a list."""

    # The limits of every entry; None if its fields' annotations decide
    each: Number | None = None
    ascends: bool = False  # whether no entry may be below the one before


@dataclasses.dataclass(frozen=True)
class As:
    """A value written as another type."""

    type: Any  # the annotation of the written value
    written: Callable[[Any], Any]  # converts the value for writing
    # Converts it back, from the written value and its path in the document
    made: Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a field is laid out in its document, if not as one entry of its own name."""

    name: str | None = None  # its name in the document
    under: str | None = None  # the name of the object that it is nested in
    # Whether its own entries are merged into the enclosing object
    is_flat: bool = False
    may_lack: bool = False  # whether None is written as a missing entry, not as null
    # Computes a field that is not written, from the lengths of arrays
    make: Callable[[dict[str, int]], Any] | None = None
    # Returns other arrays' lengths, by their letters, from its value
    lengths: Callable[[Any], dict[str, int]] | None = None


@dataclasses.dataclass(frozen=True)
class _Written:
    """Marks a property that is written for readers without jaxrob, and not taken."""


WRITTEN = _Written()


def must(place: str, rule: str, value: Any) -> ValueError:
    """Returns the error for a value that breaks a rule."""
    return ValueError(f"{place} must {rule}; got {short(value)}")


def refuse(is_wrong: Any, message: str) -> None:
    """Raises a ValueError with a message if `is_wrong`, or any entry of it."""
    if np.any(is_wrong):
        raise ValueError(message)


def at(place: str, name: str) -> str:
    """Returns the path of an entry, such as "sampling.seen"."""
    said = name if name.isidentifier() and len(name) <= 80 else short(name)
    return f"{place}.{said}" if place else said


def object_at(place: str, value: Any) -> dict[str, Any]:
    """Returns a value that is a JSON object, or raises a ValueError."""
    if not isinstance(value, dict):
        raise must(place, "be an object", value)
    return value
