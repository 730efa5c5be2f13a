"""Kinds of plain values, with their limits, and how a field stands in its document."""

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


class Kind(NamedTuple):
    """What a value may be.

    Attributes:
      write: gives a value of JSON.
      read: gives the value back from JSON, its place in the document and what is known.
        It raises a ValueError or TypeError that begins with the place.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any, str, Reading], Any]


@dataclasses.dataclass(frozen=True)
class Number:
    """A number within its limits; NaN is null, and infinity "inf", if they may be."""

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
    """A whole number within its limits; below 2**31 if there is none above."""

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
      wanted: what it is, in words.
      pattern: what all of it must match, a regular expression.
      allowed: all texts allowed, if they are few.
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
    """A value of JSON that is kept as it is, of one of these types.

    Attributes:
      wanted: what it is, in words.
      types: the types.
    """

    wanted: str
    types: tuple[type, ...]

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        if type(value) not in self.types:
            raise must(place, f"be {self.wanted}", value)
        if type(value) in (int, float):
            checked_number(place, value)  # TOML knows infinity and NaN.
        return value


@dataclasses.dataclass(frozen=True)
class Row:
    """A named tuple that is written as a list.

    Attributes:
      each: what its entries are; None for what its fields say.
      ascends: whether no entry is below the one before.
    """

    each: Number | None = None
    ascends: bool = False


@dataclasses.dataclass(frozen=True)
class As:
    """A value that is written as one of another type.

    Attributes:
      type: the annotation of what is written.
      written: makes that from the value.
      made: makes the value from that and its place in the document, or raises.
    """

    type: Any
    written: Callable[[Any], Any]
    made: Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Part:
    """How a field stands in its document, if not by its own name.

    Attributes:
      name: its name there.
      under: the name of an object that it stands in, with others.
      is_flat: whether it is an object whose parts stand beside its neighbours.
      may_lack: whether None is told by its absence, not by null.
      make: of a field that is not there: its value, from the lengths of arrays.
      lengths: what its value says of the lengths of other arrays, by their letters.
    """

    name: str | None = None
    under: str | None = None
    is_flat: bool = False
    may_lack: bool = False
    make: Callable[[dict[str, int]], Any] | None = None
    lengths: Callable[[Any], dict[str, int]] | None = None


@dataclasses.dataclass(frozen=True)
class Stated:
    """A property that is written for readers without jaxrob.

    Attributes:
      within: how near it must be to what is computed again from the fields that were
        read; None if the two are not compared.
    """

    within: float | None = 0.0


def must(place: str, rule: str, value: Any) -> ValueError:
    """The error of a value that breaks a rule."""
    return ValueError(f"{place} must {rule}; got {short(value)}")


def refuse(is_wrong: Any, message: str) -> None:
    """Raises a ValueError with a message if anything is wrong, at any place."""
    if np.any(is_wrong):
        raise ValueError(message)


def at(place: str, name: str) -> str:
    """The place of a part, such as "sampling.seen"."""
    said = name if name.isidentifier() and len(name) <= 80 else short(name)
    return f"{place}.{said}" if place else said


def object_at(place: str, value: Any) -> dict[str, Any]:
    """An object of JSON, or a ValueError."""
    if not isinstance(value, dict):
        raise must(place, "be an object", value)
    return value
