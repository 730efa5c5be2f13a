"""Annotations of plain values and arrays, with their limits and layout."""

import base64
import dataclasses
import itertools
import math
import operator
import re
import zlib
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_integer, checked_number
from jaxrob._files import short


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


# By NumPy's kind of dtype: the types in a list, their name, and how one is read.
_LIST_TYPES = {
    "f": ({int, float}, "numbers", Number()),
    "i": ({int}, "integers", Integer()),
    "b": ({bool}, "booleans", Plain("true or false", (bool,))),
    "U": ({str}, "texts", Text("a text", "(?s).*")),
}


@dataclasses.dataclass(frozen=True)
class Array:
    """Declares an array's shape, dtype and limits."""

    # The axes as `checks.checked_array` takes them: "L, K, K + 1". A letter means the
    # same length, at least 1, in all arrays of a document.
    shape: str
    # The dtype's name; for packed arrays one or several
    dtype: str | tuple[str, ...] = "float64"
    at_least: float | None = None  # the lowest value allowed
    at_most: float | None = None  # the highest; 2**31 - 1 by default for integers
    may_be_nan: bool = False  # whether null is allowed for NaN
    may_be_infinite: bool = False  # whether "inf" and "-inf" are allowed
    allowed: Collection[str] = ()  # the texts allowed
    is_packed: bool = False  # whether it is written as base64 of zlib, with its dtype

    @property
    def _types(self) -> tuple[str, ...]:
        return (self.dtype,) if isinstance(self.dtype, str) else self.dtype

    def write(self, value: Any) -> Any:
        array = np.asarray(value)
        if not self.is_packed:
            is_json = array.dtype.kind != "f" or np.isfinite(array).all()
            return array.tolist() if is_json else _written(array.tolist())
        data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
        text = base64.b64encode(zlib.compress(data.tobytes(), 6)).decode()
        return {"dtype": array.dtype.name, "base64_zlib": text}

    def read(self, value: Any, place: str, reading: Reading) -> np.ndarray:
        if self.is_packed:
            array = self._unpacked(value, place, reading)
        else:
            array = self._listed(value, place)
        is_text, is_integer = array.dtype.kind == "U", array.dtype.kind == "i"
        at_most = 2**31 - 1 if is_integer and self.at_most is None else self.at_most
        checked_array(
            place,
            np.zeros(array.shape) if is_text else array,
            self.shape,
            "numbers or booleans",
            at_least=self.at_least,
            at_most=at_most,
            may_be_nan=self.may_be_nan,
            may_be_infinite=self.may_be_infinite,
            axes=reading.axes,
        )
        return array if self.is_packed else array.astype(self._types[0])

    def _listed(self, value: Any, place: str) -> np.ndarray:
        allowed, words, one = _LIST_TYPES[np.dtype(self._types[0]).kind]
        flat, lengths = [value], []
        axes, more, _ = self.shape.partition(", ...")
        known = axes.count(",") + 1
        while len(lengths) < known or (more and flat and isinstance(flat[0], list)):
            sizes = {len(one) if isinstance(one, list) else -1 for one in flat}
            if len(sizes) > 1 or -1 in sizes:
                raise must(place, f"be an array [{self.shape}] of {words}", value)
            lengths.append(sizes.pop() if sizes else 0)
            flat = list(itertools.chain.from_iterable(flat))
        if self.allowed:
            one = Text(allowed=self.allowed)
        if self.may_be_nan or self.may_be_infinite:
            one = Number(None, None, None, None, self.may_be_nan, self.may_be_infinite)
        # Lists of plain numbers need no check of each entry.
        if self.allowed or not set(map(type, flat)) <= allowed:
            flat = [
                one.read(each, "".join([place, *(f"[{i}]" for i in index)]), Reading())
                for index, each in zip(np.ndindex(*lengths), flat)
            ]
        wide = {"f": np.float64, "i": np.int64}.get(np.dtype(self._types[0]).kind)
        try:
            return np.array(flat, wide or self._types[0]).reshape(lengths)
        except OverflowError:
            raise ValueError(f"{place} must hold smaller numbers") from None

    def _unpacked(self, packed: Any, place: str, reading: Reading) -> np.ndarray:
        if not isinstance(packed, dict) or packed.keys() != {"dtype", "base64_zlib"}:
            raise must(place, "have a dtype and base64_zlib, no more", packed)
        dtype = np.dtype(
            Text(allowed=self._types).read(packed["dtype"], f"{place}.dtype", reading)
        )
        shape = tuple(reading.axes[axis.strip()] for axis in self.shape.split(","))
        size = math.prod(shape) * dtype.itemsize
        if size > reading.bytes_left:
            raise ValueError(
                f"{place} takes {size} bytes for the shape {shape}; a text of this "
                f"length may unpack to at most {reading.bytes_left} more"
            )
        reading.bytes_left -= size
        stream = zlib.decompressobj()
        try:
            # One byte more than expected reveals a surplus.
            text = base64.b64decode(packed["base64_zlib"], validate=True)
            data = stream.decompress(text, size + 1)
        except (TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"{place} is not base64 of zlib: {error}") from error
        if len(data) != size or not stream.eof:
            raise ValueError(f"{place} must hold {size} bytes for the shape {shape}")
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _written(value: Any) -> Any:
    """Writes numbers in nested lists as `Number` does."""
    if isinstance(value, list):
        return [_written(one) for one in value]
    return Number().write(value)
