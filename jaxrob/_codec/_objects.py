"""Classes as objects of JSON, by their annotations."""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._codec._array import Array
from jaxrob._codec._kinds import (
    As,
    Integer,
    Kind,
    Number,
    Part,
    Plain,
    Reading,
    Row,
    Stated,
    Text,
    at,
    must,
    object_at,
)
from jaxrob._files.strict_json import short

#: Classes that are documents of their own, and how those are written and read.
DOCUMENTS: dict[type, Kind] = {}
# Marks of annotations that say all of the value.
_SAYING = Number | Integer | Text | Plain | Array
_PLAIN: dict[Any, Any] = {
    float: Number(),
    int: Integer(),
    str: Text("a text", "(?s).*"),
    bool: Plain("true or false", (bool,)),
}


class _Field(NamedTuple):
    """A field of a class, or a property that is stated.

    Attributes:
      name: its name in the class.
      kind: what it holds.
      part: how it stands in the document.
      key: its name there.
      stated: of a property.
      keys: the names in the document that are its own.
      has_default: whether the constructor has one.
    """

    name: str
    kind: Kind
    part: Part
    key: str
    stated: Stated | None
    keys: tuple[str, ...]
    has_default: bool

    def write(self, value: Any, holder: dict[str, Any]) -> None:
        """Enters it into an object of JSON."""
        if self.part.is_flat:
            holder |= self.kind.write(value)
        elif value is not None or not self.part.may_lack:
            holder[self.key] = self.kind.write(value)

    def read(self, holder: dict[str, Any], place: str, reading: Reading) -> Any:
        """The value, from an object of JSON."""
        if self.part.make is not None:
            return self.part.make(reading.axes)
        if self.part.is_flat:
            own = {name: holder[name] for name in self.keys if name in holder}
            return self.kind.read(own, place, reading)
        if self.key not in holder:
            return None
        value = self.kind.read(holder[self.key], at(place, self.key), reading)
        if self.part.lengths is not None:
            reading.axes |= (lengths := self.part.lengths(value))
            if min(lengths.values()) < 1:
                raise must(at(place, self.key), "be of one input or more", lengths)
        return value

    def is_needed(self, reading: Reading) -> bool:
        """Whether a document must have it."""
        may_lack = self.part.may_lack or self.part.is_flat or self.part.make
        return not (may_lack or (reading.is_partial and self.has_default))


def write_object(kind: type, value: Any) -> dict[str, Any]:
    """A dataclass or named tuple as an object of JSON."""
    found: dict[str, Any] = {}
    for field in _fields(kind):
        if field.part.make is None:
            under = field.part.under
            holder = found.setdefault(under, {}) if under else found
            field.write(getattr(value, field.name), holder)
    return found


def read_object(kind: type, value: Any, place: str, reading: Reading) -> Any:
    """A dataclass or named tuple from an object of JSON; see `Kind.read`."""
    given: dict[str, Any] = {}
    stated: list[tuple[_Field, Any]] = []
    for holder, where, fields in _holders(kind, value, place, reading):
        for field in fields:
            if field.key not in holder and field.has_default and reading.is_partial:
                continue
            found = field.read(holder, where, reading)
            if field.stated is not None:
                stated.append((field, found))
            else:
                given[field.name] = found
    try:
        made = kind(**given)
        getattr(made, "_check_together", lambda: None)()
        again = [getattr(made, field.name) for field, _ in stated]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from error
    for (field, found), now in zip(stated, again):
        _check_stated(field, found, now, place)
    return made


def _holders(
    kind: type, value: Any, place: str, reading: Reading
) -> Iterator[tuple[dict[str, Any], str, list[_Field]]]:
    """The object, and those within it that fields stand under, with their fields."""
    document = object_at(place or reading.name, value)
    groups: dict[str | None, list[_Field]] = {None: []}
    for field in _fields(kind):
        groups.setdefault(field.part.under, []).append(field)
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
        if unknown and not reading.is_open:
            raise ValueError(
                f"{who} has unknown parts: {short(unknown)}; it may have {tuple(known)}"
            )
        yield holder, where, fields


def _check_stated(field: _Field, found: Any, again: Any, place: str) -> None:
    if field.stated is None or field.stated.within is None:
        return
    if found is None or again is None:
        is_near = found is again
    else:
        is_near = np.shape(found) == np.shape(again) and np.allclose(
            found, again, 0, field.stated.within, equal_nan=True
        )
    if not is_near:
        shown, other = (short(field.kind.write(one)) for one in (found, again))
        raise ValueError(
            f"the {at(place, field.key)} stated, {shown}, is not that of the other "
            f"parts, {other}"
        )


@functools.cache
def _fields(kind: type) -> tuple[_Field, ...]:
    """What a class states, and its fields."""
    found = []
    for name, one in vars(kind).items():
        if isinstance(one, property | functools.cached_property):
            getter = one.fget if isinstance(one, property) else one.func
            hint = typing.get_type_hints(getter, include_extras=True).get("return")
            if _mark(hint, Stated):
                found.append(_field(name, hint, False))
    hints = typing.get_type_hints(kind, include_extras=True)
    for name, one in inspect.signature(kind).parameters.items():
        found.append(_field(name, hints[name], one.default is not one.empty))
    return tuple(found)


def _field(name: str, hint: Any, has_default: bool) -> _Field:
    part = _mark(hint, Part) or Part()
    key = part.name or name
    keys = () if part.make else (key,)
    if part.is_flat:
        keys = tuple(dict.fromkeys(k for one in _split(hint)[0] for k in _keys(one)))
    # What is made is not in the document, whatever it is.
    kind = kind_of(bool if part.make else hint, may_be_null=not part.may_lack)
    return _Field(name, kind, part, key, _mark(hint, Stated), keys, has_default)


def _keys(kind: type) -> list[str]:
    """The names of an object's parts in the document."""
    return [one.part.under or key for one in _fields(kind) for key in one.keys]


def _split(hint: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
    """The types that an annotation names, its marks, and whether None is one."""
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, marks = typing.get_args(hint)[0], typing.get_args(hint)[1:]
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    found = typing.get_args(hint) if is_union else (hint,)
    named = tuple(one for one in found if one is not types.NoneType)
    return named, marks, len(named) < len(found)


def _mark(hint: Any, kind: Any) -> Any:
    """The mark of an annotation that is of a kind, or None."""
    return next((one for one in _split(hint)[1] if isinstance(one, kind)), None)


def kind_of(hint: Any, may_be_null: bool = True) -> Kind:
    """What an annotation says that a value is."""
    named, _, is_optional = _split(hint)
    kind = _kind_of_one(hint, named)
    if not (is_optional and may_be_null):
        return kind
    return Kind(
        lambda value: None if value is None else kind.write(value),
        lambda value, *where: None if value is None else kind.read(value, *where),
    )


def _kind_of_one(hint: Any, named: tuple[Any, ...]) -> Kind:
    """What a value is that is of one of the types named."""
    first, origin = named[0], typing.get_origin(named[0])
    if says := _mark(hint, _SAYING):
        return Kind(says.write, says.read)
    if said := _mark(hint, As):
        inner = kind_of(said.type)
        return Kind(
            lambda value: inner.write(said.written(value)),
            lambda value, place, more: said.made(inner.read(value, place, more), place),
        )
    if row := _mark(hint, Row):
        return _row(first, row)
    if origin is tuple and typing.get_args(first)[1:] == (...,):
        return _items(kind_of(typing.get_args(first)[0]))
    if origin is dict and typing.get_args(first)[1] is not Any:
        return _table(kind_of(typing.get_args(first)[1]))
    if origin is dict:
        return Kind(
            lambda value: value, lambda value, place, _: object_at(place, value)
        )
    if set(named) <= _PLAIN.keys():
        says = _PLAIN[first] if len(named) == 1 else _plain(named)
        return Kind(says.write, says.read)
    if not all(dataclasses.is_dataclass(one) or _is_named_tuple(one) for one in named):
        raise TypeError(
            f"{hint} must say what a document holds: see the types and the marks in "
            "jaxrob/_codec/__init__.py"
        )
    if len(named) > 1:
        return _one_of(named)
    return DOCUMENTS.get(first) or Kind(
        functools.partial(write_object, first), functools.partial(read_object, first)
    )


def _is_named_tuple(kind: Any) -> bool:
    return (
        isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    )


def _plain(named: tuple[type, ...]) -> Plain:
    """One of several plain types."""
    words = {str: "a text", int: "a number", float: "a number", bool: "true or false"}
    wanted = " or ".join(dict.fromkeys(words[one] for one in named))
    # JSON may write the float 1.0 as 1.
    return Plain(wanted, named + (float in named) * (int,))


def _items(kind: Kind) -> Kind:
    """A tuple of any length, as a list."""

    def read(value: Any, place: str, reading: Reading) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise must(place, "be a list", value)
        return tuple(
            kind.read(one, f"{place}[{number}]", reading)
            for number, one in enumerate(value)
        )

    return Kind(lambda value: [kind.write(one) for one in value], read)


def _table(kind: Kind) -> Kind:
    """Values of one kind by any names."""
    return Kind(
        lambda value: {name: kind.write(one) for name, one in value.items()},
        lambda value, place, reading: {
            name: kind.read(one, at(place, name), reading)
            for name, one in object_at(place, value).items()
        },
    )


def _row(kind: type, row: Row) -> Kind:
    """A named tuple as a list."""
    kinds = [row.each or field.kind for field in _fields(kind)]

    def read(value: Any, place: str, reading: Reading) -> Any:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise must(place, f"be a list of {len(kinds)}", value)
        found = [
            each.read(one, f"{place}[{number}]", reading)
            for number, (each, one) in enumerate(zip(kinds, value))
        ]
        if row.ascends and any(one > other for one, other in zip(found, found[1:])):
            raise must(place, "ascend", value)
        return kind(*found)

    return Kind(lambda value: [k.write(one) for k, one in zip(kinds, value)], read)


def _one_of(kinds: tuple[type, ...]) -> Kind:
    """An object of one of several classes, the first whose parts are all there."""

    def read(value: Any, place: str, reading: Reading) -> Any:
        there = object_at(place or reading.name, value).keys()
        fitting = [kind for kind in kinds if there >= set(_keys(kind))]
        return read_object([*fitting, kinds[-1]][0], value, place, reading)

    return Kind(lambda value: write_object(type(value), value), read)
