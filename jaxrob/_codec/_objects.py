"""Writes and reads classes as JSON objects, by their annotations, and their digest."""

import dataclasses
import functools
import hashlib
import inspect
import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from jaxrob._codec._kinds import (
    WRITTEN,
    Array,
    As,
    Codec,
    Integer,
    Layout,
    Number,
    Plain,
    Reading,
    Row,
    Text,
    at,
    must,
    object_at,
)
from jaxrob._files import short

#: How classes that are documents of their own are written and read.
DOCUMENTS: dict[type, Codec] = {}
# Marks that describe a value completely.
_VALUE_MARKS = Number | Integer | Text | Plain | Array
_PLAIN: dict[Any, Any] = {
    float: Number(),
    int: Integer(),
    str: Text("a text", "(?s).*"),
    bool: Plain("true or false", (bool,)),
}


class _Field(NamedTuple):
    """A field of a class, or a written property."""

    name: str  # its name in the class
    codec: Codec  # writes and reads its value
    layout: Layout  # its layout in the document
    key: str  # its name in the document
    is_property: bool  # whether it is a property, which the constructor does not take
    keys: tuple[str, ...]  # all names in the document that belong to it
    has_default: bool  # whether the constructor has a default for it

    def write(self, value: Any, holder: dict[str, Any]) -> None:
        """Writes the value into a JSON object."""
        if self.layout.is_flat:
            holder |= self.codec.write(value)
        elif value is not None or not self.layout.may_lack:
            holder[self.key] = self.codec.write(value)

    def read(self, holder: dict[str, Any], place: str, reading: Reading) -> Any:
        """Reads the value from a JSON object."""
        if self.layout.make is not None:
            return self.layout.make(reading.axes)
        if self.layout.is_flat:
            own = {name: holder[name] for name in self.keys if name in holder}
            return self.codec.read(own, place, reading)
        if self.key not in holder:
            return None
        value = self.codec.read(holder[self.key], at(place, self.key), reading)
        if self.layout.lengths is not None:
            reading.axes |= (lengths := self.layout.lengths(value))
            if min(lengths.values()) < 1:
                raise must(at(place, self.key), "be of one input or more", lengths)
        return value

    def is_needed(self, reading: Reading) -> bool:
        """Whether a document must have the field."""
        may_lack = self.layout.may_lack or self.layout.is_flat or self.layout.make
        return not (may_lack or (reading.is_partial and self.has_default))


def write_object(kind: type, value: Any) -> dict[str, Any]:
    """Writes a dataclass or named tuple as a JSON object."""
    found: dict[str, Any] = {}
    for field in _fields(kind):
        if field.layout.make is None:
            under = field.layout.under
            holder = found.setdefault(under, {}) if under else found
            field.write(getattr(value, field.name), holder)
    return found


def read_object(kind: type, value: Any, place: str, reading: Reading) -> Any:
    """Reads a dataclass or named tuple from a JSON object; see `Codec.read`."""
    given: dict[str, Any] = {}
    for holder, where, fields in _holders(kind, value, place, reading):
        for field in fields:
            if field.key not in holder and field.has_default and reading.is_partial:
                continue
            found = field.read(holder, where, reading)
            if not field.is_property:
                given[field.name] = found
    try:
        made = kind(**given)
        getattr(made, "_check_together", lambda: None)()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from error
    return made


def _holders(
    kind: type, value: Any, place: str, reading: Reading
) -> Iterator[tuple[dict[str, Any], str, list[_Field]]]:
    """Yields the object and its nested objects, each with its path and fields."""
    document = object_at(place or reading.name, value)
    groups: dict[str | None, list[_Field]] = {None: []}
    for field in _fields(kind):
        groups.setdefault(field.layout.under, []).append(field)
    inner = [name for name in groups if name is not None]
    for name, fields in groups.items():
        where = place if name is None else at(place, name)
        holder = document if name is None else object_at(where, document[name])
        more = inner if name is None else []
        needed = [one.key for one in fields if one.is_needed(reading)] + more
        known = [key for one in fields for key in one.keys] + more
        who = where or reading.name
        if missing := [one for one in needed if one not in holder]:
            raise ValueError(f"{who} lacks {', '.join(map(repr, missing))}")
        unknown = sorted(holder.keys() - set(known))
        if unknown and not reading.ignores_unknown:
            raise ValueError(
                f"{who} has unknown parts: {short(unknown)}; it may have {tuple(known)}"
            )
        yield holder, where, fields


@functools.cache
def _fields(kind: type) -> tuple[_Field, ...]:
    """Returns a class's written properties, and its fields."""
    found = []
    for name, one in vars(kind).items():
        if isinstance(one, property | functools.cached_property):
            getter = one.fget if isinstance(one, property) else one.func
            hint = typing.get_type_hints(getter, include_extras=True).get("return")
            if WRITTEN in _split(hint)[1]:
                found.append(_field(name, hint, False))
    hints = typing.get_type_hints(kind, include_extras=True)
    for name, one in inspect.signature(kind).parameters.items():
        found.append(_field(name, hints[name], one.default is not one.empty))
    return tuple(found)


def _field(name: str, hint: Any, has_default: bool) -> _Field:
    layout = _mark(hint, Layout) or Layout()
    key = layout.name or name
    keys = () if layout.make else (key,)
    if layout.is_flat:
        said = _mark(hint, As)
        kinds, *_ = _split(hint if said is None else said.type)
        keys = tuple(dict.fromkeys(k for one in kinds for k in _keys(one)))
    # A computed field is not in the document, so any codec will do.
    codec = codec_of(bool if layout.make else hint, may_be_null=not layout.may_lack)
    return _Field(
        name, codec, layout, key, WRITTEN in _split(hint)[1], keys, has_default
    )


def _keys(kind: type) -> list[str]:
    """Returns the names of an object's entries in the document."""
    return [one.layout.under or key for one in _fields(kind) for key in one.keys]


def _needed_keys(kind: type) -> set[str]:
    """Returns the names of the entries that an object's document must have."""
    needed = [one for one in _fields(kind) if one.is_needed(Reading())]
    return {one.layout.under or one.key for one in needed}


def _split(hint: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """Splits an annotation: its types but None, its marks, and whether None is one."""
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, marks = typing.get_args(hint)[0], typing.get_args(hint)[1:]
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    found = typing.get_args(hint) if is_union else (hint,)
    named = tuple(one for one in found if one is not types.NoneType)
    return named, marks, len(named) < len(found)


def _mark(hint: Any, kind: Any) -> Any:
    """Returns an annotation's mark of a class, or None."""
    return next((one for one in _split(hint)[1] if isinstance(one, kind)), None)


def codec_of(hint: Any, may_be_null: bool = True) -> Codec:
    """Returns the codec of values with this annotation."""
    named, _, is_optional = _split(hint)
    codec = _codec_of_one(hint, named)
    if not (is_optional and may_be_null):
        return codec
    return Codec(
        lambda value: None if value is None else codec.write(value),
        lambda value, *where: None if value is None else codec.read(value, *where),
    )


def _codec_of_one(hint: Any, named: tuple[Any, ...]) -> Codec:
    """Returns the codec of values of one of the types, which exclude None."""
    first, origin = named[0], typing.get_origin(named[0])
    if mark := _mark(hint, _VALUE_MARKS):
        return Codec(mark.write, mark.read)
    if said := _mark(hint, As):
        inner = codec_of(said.type)
        return Codec(
            lambda value: inner.write(said.written(value)),
            lambda value, place, more: said.made(inner.read(value, place, more), place),
        )
    if row := _mark(hint, Row):
        return _row(first, row)
    if origin is tuple and typing.get_args(first)[1:] == (...,):
        return _items(codec_of(typing.get_args(first)[0]))
    if origin is dict and typing.get_args(first)[1] is not Any:
        return _table(codec_of(typing.get_args(first)[1]))
    if origin is dict:
        return Codec(
            lambda value: value, lambda value, place, _: object_at(place, value)
        )
    if set(named) <= _PLAIN.keys():
        mark = _PLAIN[first] if len(named) == 1 else _plain(named)
        return Codec(mark.write, mark.read)
    if not all(
        dataclasses.is_dataclass(one) or hasattr(one, "_fields") for one in named
    ):
        raise TypeError(
            f"{hint} must say what a document holds: see the types and the marks in "
            "jaxrob/_codec/__init__.py"
        )
    if len(named) > 1:
        return _one_of(named)
    return DOCUMENTS.get(first) or Codec(
        functools.partial(write_object, first), functools.partial(read_object, first)
    )


def _plain(named: tuple[type, ...]) -> Plain:
    """Describes a value of one of several plain types."""
    words = {str: "a text", int: "a number", float: "a number", bool: "true or false"}
    wanted = " or ".join(dict.fromkeys(words[one] for one in named))
    # JSON may write the float 1.0 as 1.
    return Plain(wanted, named + (float in named) * (int,))


def _items(codec: Codec) -> Codec:
    """Returns the codec of a tuple of any length, written as a list."""

    def read(value: Any, place: str, reading: Reading) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise must(place, "be a list", value)
        return tuple(
            codec.read(one, f"{place}[{number}]", reading)
            for number, one in enumerate(value)
        )

    return Codec(lambda value: [codec.write(one) for one in value], read)


def _table(codec: Codec) -> Codec:
    """Returns the codec of a dictionary with arbitrary names."""
    return Codec(
        lambda value: {name: codec.write(one) for name, one in value.items()},
        lambda value, place, reading: {
            name: codec.read(one, at(place, name), reading)
            for name, one in object_at(place, value).items()
        },
    )


def _row(kind: type, row: Row) -> Codec:
    """Returns the codec of a named tuple, written as a list."""
    codecs = [row.each or field.codec for field in _fields(kind)]

    def read(value: Any, place: str, reading: Reading) -> Any:
        if not isinstance(value, list) or len(value) != len(codecs):
            raise must(place, f"be a list of {len(codecs)}", value)
        found = [
            each.read(one, f"{place}[{number}]", reading)
            for number, (each, one) in enumerate(zip(codecs, value))
        ]
        if row.ascends and any(one > other for one, other in zip(found, found[1:])):
            raise must(place, "ascend", value)
        return kind(*found)

    return Codec(lambda value: [c.write(one) for c, one in zip(codecs, value)], read)


def _one_of(kinds: tuple[type, ...]) -> Codec:
    """Returns the codec of several classes."""
    # The first class whose needed entries are all present is read, else the last.

    def read(value: Any, place: str, reading: Reading) -> Any:
        there = object_at(place or reading.name, value).keys()
        fitting = [kind for kind in kinds if there >= _needed_keys(kind)]
        return read_object([*fitting, kinds[-1]][0], value, place, reading)

    return Codec(lambda value: write_object(type(value), value), read)


DIGEST = "digest"


def with_digest(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document, JSON values by name, with its digest."""
    return document | {DIGEST: digest_of(document)}


def check_digest(document: dict[str, Any], who: str) -> None:
    """Refuses a document that is not what was written."""
    if DIGEST not in document:
        raise ValueError(f"{who} lacks {DIGEST!r}")
    rest = {name: one for name, one in document.items() if name != DIGEST}
    if document[DIGEST] != digest_of(rest):
        raise ValueError(
            f"{who} is not what was written: it was edited, or damaged, or its digest "
            "was. What it says can only be found out anew"
        )


def digest_of(value: Any) -> str:
    """16 hexadecimal digits."""
    try:
        text = json.dumps(_without_seconds(value), sort_keys=True, allow_nan=False)
    except RecursionError as error:
        raise ValueError(f"it is nested too deep: {error}") from error
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_seconds(one) for k, one in value.items() if k != "seconds"}
    if isinstance(value, list | tuple):
        return [_without_seconds(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
