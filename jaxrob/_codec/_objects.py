"""Classes as objects of JSON, by their annotations."""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np

from jaxrob._codec import _marks as marks
from jaxrob._codec._array import Array
from jaxrob._codec._kinds import (
    Choice,
    Flag,
    Integer,
    Items,
    Kind,
    Maybe,
    Number,
    Plain,
    Reading,
    Table,
    Text,
    at,
    must,
    object_at,
)
from jaxrob._codec._seal import SEAL, check_seal, sealed
from jaxrob._runtime.checks import check_type
from jaxrob._runtime.files import most_unpacked
from jaxrob._runtime.strict_json import parsed, short

T = TypeVar("T")

_PLAIN: dict[Any, Kind] = {
    float: Number(),
    int: Integer(),
    str: Text(None, "a text"),
    bool: Flag(),
    Any: Plain(),
}


def document(
    form: str, *, sealed: Callable[[Any], bool] = lambda one: True
) -> Callable[[type[T]], type[T]]:
    """Makes a dataclass or named tuple a document of its own.

    Args:
      form: its format, which the document names.
      sealed: of an object, whether its document holds a digest of each part, because
        nothing else tells that one was changed.
    """

    def decorate(kind: type[T]) -> type[T]:
        _DOCUMENTS[kind] = _Document(form, _Object(kind), sealed)
        return kind

    return decorate


def to_json(value: Any, indent: int | None = None) -> str:
    """A document as strict JSON: no NaN."""
    written = _DOCUMENTS[type(value)].write(value)
    return json.dumps(written, indent=indent, allow_nan=False)


def from_json(text: str | bytes, kind: type[T]) -> T:
    """The document of a class from the text that `to_json` gave.

    Nothing is executed. Packed arrays take at most 256 MiB, and 100 times the text.

    Raises:
      TypeError: if it is no text.
      ValueError: if the text is not strict JSON, not of the class's format, or a part
        is missing, unknown, outside its range, of a wrong type or shape, does not go
        with the others, or is not what was written. The message names it.
    """
    check_type("text", text, str | bytes, "the text that to_json gave")
    reading = Reading(room=most_unpacked(len(text)))
    return _DOCUMENTS[kind].read(parsed(text), "", reading)


def read(kind: Any, value: Any, place: str = "", **settings: Any) -> Any:
    """A part from values of JSON, or of what is like them.

    Args:
      kind: a class, or an annotation.
      value: the values.
      place: what messages call it.
      **settings: of `Reading`.

    Raises:
      ValueError: as `from_json`.
    """
    return _kind_of(kind).read(value, place, Reading(**settings))


@dataclasses.dataclass(frozen=True)
class _Document:
    """An object with a format, and perhaps digests; its arrays' axes are its own."""

    form: str
    object: "_Object"
    is_sealed: Callable[[Any], bool]

    def write(self, value: Any) -> dict[str, Any]:
        found = {"format": self.form} | self.object.write(value)
        return sealed(found) if self.is_sealed(value) else found

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        form = value.get("format") if isinstance(value, dict) else None
        if form != self.form:
            raise must(at(place, "format"), f"be {self.form!r}", form)
        parts = {name: one for name, one in value.items() if name != "format"}
        seal = parts.pop(SEAL, None)
        outer, reading.axes = reading.axes, {}
        made = self.object.read(parts, place, reading)
        reading.axes = outer
        if self.is_sealed(made):
            check_seal(value, place)
        elif seal is not None:
            raise ValueError(f"{place or reading.name} has unknown parts: {[SEAL]}")
        return made


_DOCUMENTS: dict[type, _Document] = {}


class _Part(NamedTuple):
    """A field of a class, or a property that is stated.

    Attributes:
      name: of the field.
      kind: what it holds.
      marks: the marks of its annotation, by their types.
      has_default: whether the constructor has one.
    """

    name: str
    kind: Kind
    marks: dict[type, Any]
    has_default: bool

    @property
    def key(self) -> str:
        """Its name in the document."""
        named = self.marks.get(marks.Named)
        return named.name if named else self.name

    @property
    def under(self) -> str | None:
        """The name of the object that it stands in; None for the class's own."""
        under = self.marks.get(marks.Under)
        return under.name if under else None

    @property
    def is_written(self) -> bool:
        """Whether it is in the document."""
        return not self.marks.keys() & {marks.Unwritten, marks.Axis}

    @property
    def may_lack(self) -> bool:
        """Whether it may be missing."""
        return bool(self.marks.keys() & {marks.MayLack, marks.Flat})

    def keys(self) -> list[str]:
        """The names in the document that are its own."""
        return _keys(self.kind) if marks.Flat in self.marks else [self.key]

    def write(self, value: Any, holder: dict[str, Any]) -> None:
        """Enters it into an object of JSON."""
        if marks.Flat in self.marks:
            holder |= self.kind.write(value)
        elif value is not None or marks.MayLack not in self.marks:
            holder[self.key] = self.kind.write(value)

    def read(self, holder: dict[str, Any], place: str, reading: Reading) -> Any:
        """The value, from an object of JSON."""
        if marks.Unwritten in self.marks:
            return self.marks[marks.Unwritten].make()
        if marks.Axis in self.marks:
            return reading.axes[self.marks[marks.Axis].letter]
        if marks.Flat in self.marks:
            own = {name: holder[name] for name in self.keys() if name in holder}
            return self.kind.read(own, place, reading)
        if self.key not in holder:
            return None
        value = self.kind.read(holder[self.key], at(place, self.key), reading)
        if marks.Lengths in self.marks:
            lengths = self.marks[marks.Lengths].of(value)
            if min(lengths.values()) < 1:
                raise must(at(place, self.key), "be of inputs, at least one", lengths)
            reading.axes |= lengths
        return value


@dataclasses.dataclass(frozen=True)
class _Object:
    """A dataclass or named tuple."""

    type: type

    def write(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in filter(lambda one: one.is_written, _parts(self.type)):
            holder = found.setdefault(part.under, {}) if part.under else found
            part.write(getattr(value, part.name), holder)
        return found

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        fields: dict[str, Any] = {}
        stated: dict[str, Any] = {}
        for holder, where, parts in self._holders(value, place, reading):
            for part in parts:
                if reading.is_partial and part.has_default and part.key not in holder:
                    continue
                values = stated if marks.Stated in part.marks else fields
                values[part.name] = part.read(holder, where, reading)
        try:
            made = self.type(**fields)
            if check := getattr(made, "_check_together", None):
                check()
            again = {name: getattr(made, name) for name in stated}
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place}: {error}" if place else str(error)) from error
        for part in _parts(self.type):
            if part.name in stated:
                _check_stated(part, stated[part.name], again[part.name], place)
        return made

    def _holders(
        self, value: Any, place: str, reading: Reading
    ) -> Iterator[tuple[dict[str, Any], str, list[_Part]]]:
        """The object, and those within it that parts stand under, with their parts."""
        document = object_at(place or reading.name, value)
        parts = _parts(self.type)
        groups = dict.fromkeys(one.under for one in parts if one.under)
        own = [one for one in parts if not one.under]
        _check_names(document, place, own, [*groups], reading)
        yield document, place, own
        for group in groups:
            where = at(place, group)
            holder = object_at(where, document[group])
            members = [one for one in parts if one.under == group]
            _check_names(holder, where, members, [], reading)
            yield holder, where, members


def _check_names(
    holder: dict[str, Any],
    place: str,
    parts: list[_Part],
    groups: list[str],
    reading: Reading,
) -> None:
    """Refuses an object that lacks parts, or has others."""
    written = [one for one in parts if one.is_written]
    known = [*(name for one in written for name in one.keys()), *groups]
    needed = groups + [
        one.key
        for one in written
        if not (one.may_lack or (reading.is_partial and one.has_default))
    ]
    place = place or reading.name
    if missing := [name for name in needed if name not in holder]:
        raise ValueError(f"{place} lacks {', '.join(map(repr, missing))}")
    unknown = sorted(holder.keys() - set(known))
    if unknown and not reading.is_open:
        raise ValueError(
            f"{place} has unknown parts: {short(unknown)}; it may have {tuple(known)}"
        )


def _check_stated(part: _Part, stated: Any, again: Any, place: str) -> None:
    within = part.marks[marks.Stated].within
    if within is None or _is_near(stated, again, within):
        return
    shown = (short(part.kind.write(one)) for one in (stated, again))
    raise ValueError(
        "the {} stated, {}, is not that of the other parts, {}".format(
            at(place, part.key), *shown
        )
    )


def _is_near(one: Any, other: Any, within: float) -> bool:
    if one is None or other is None:
        return one is other
    if np.shape(one) != np.shape(other):
        return False
    return np.allclose(one, other, rtol=0, atol=within, equal_nan=True)


@dataclasses.dataclass(frozen=True)
class _OneOf:
    """An object of one of several classes, the first whose parts are all there."""

    kinds: tuple[_Object, ...]

    def write(self, value: Any) -> dict[str, Any]:
        kind = next(one for one in self.kinds if isinstance(value, one.type))
        return kind.write(value)

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        found = object_at(place or reading.name, value)
        fitting = [one for one in self.kinds if found.keys() >= set(_keys(one))]
        return [*fitting, self.kinds[-1]][0].read(value, place, reading)


@dataclasses.dataclass(frozen=True)
class _Row:
    """A named tuple as a list."""

    type: type
    kinds: tuple[Kind, ...]
    ascends: bool

    def write(self, value: Any) -> list[Any]:
        return [kind.write(one) for kind, one in zip(self.kinds, value)]

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        if not isinstance(value, list) or len(value) != len(self.kinds):
            raise must(place, f"be a list of {len(self.kinds)}", value)
        found = [
            kind.read(one, f"{place}[{number}]", reading)
            for number, (kind, one) in enumerate(zip(self.kinds, value))
        ]
        if self.ascends and any(one > other for one, other in zip(found, found[1:])):
            raise must(place, "ascend", value)
        return self.type(*found)


@dataclasses.dataclass(frozen=True)
class _Converted:
    """A value that is written as one of another kind."""

    kind: Kind
    mark: marks.As

    def write(self, value: Any) -> Any:
        return self.kind.write(self.mark.written(value))

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        return self.mark.made(self.kind.read(value, place, reading), place)


@dataclasses.dataclass(frozen=True)
class _Holding:
    """A plain object in which the parts of a class are checked."""

    kind: Kind

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: Any, place: str, reading: Reading) -> Any:
        self.kind.read(value, place, Reading(is_partial=True, is_open=True))
        return value


def _keys(kind: Any) -> list[str]:
    """The names of an object's parts in the document."""
    if isinstance(kind, _OneOf):
        return [*dict.fromkeys(name for one in kind.kinds for name in _keys(one))]
    written = [one for one in _parts(kind.type) if one.is_written]
    return [*dict.fromkeys(one.under or one.key for one in written)]


@functools.cache
def _parts(kind: type) -> tuple[_Part, ...]:
    """What is stated of a class, and its fields."""
    stated = []
    for name, one in vars(kind).items():
        if isinstance(one, property | functools.cached_property):
            getter = one.fget if isinstance(one, property) else one.func
            hint = typing.get_type_hints(getter, include_extras=True).get("return")
            if any(isinstance(mark, marks.Stated) for mark in _given(hint)):
                stated.append(_part(name, hint, False))
    hints = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        defaults = [
            one.name
            for one in dataclasses.fields(kind)
            if not one.default is one.default_factory is dataclasses.MISSING
        ]
        names = [one.name for one in dataclasses.fields(kind)]
    else:
        names, defaults = kind._fields, kind._field_defaults  # type: ignore
    return (*stated, *(_part(name, hints[name], name in defaults) for name in names))


def _part(name: str, hint: Any, has_default: bool) -> _Part:
    kind, found = _kind_of(hint), {type(one): one for one in _given(hint)}
    if marks.MayLack in found and isinstance(kind, Maybe):
        kind = kind.kind
    return _Part(name, kind, found, has_default)


def _given(hint: Any) -> tuple[Any, ...]:
    """The marks of an annotation."""
    return typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()


def _kind_of(hint: Any) -> Kind:
    """What an annotation says that a value is."""
    given = _given(hint)
    if given:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [one for one in typing.get_args(hint) if one is not type(None)]
        kind = _kind_of_member(members, given)
        return kind if len(members) == len(typing.get_args(hint)) else Maybe(kind)
    return _kind_of_member([hint], given)


def _kind_of_member(members: list[Any], given: tuple[Any, ...]) -> Kind:
    """What one of some types is, with the marks given."""
    hint = members[0]
    for mark in given:
        if isinstance(mark, Number | Integer | Text | Choice | Array):
            return mark
        if isinstance(mark, marks.As):
            return _Converted(_kind_of(mark.type), mark)
        if isinstance(mark, marks.Holding):
            return _Holding(_Object(mark.type))
        if isinstance(mark, marks.Row):
            kinds = [mark.each or one.kind for one in _parts(hint)]
            return _Row(hint, tuple(kinds), mark.ascends)
    if len(members) > 1:
        if set(members) <= {str, int, float, bool}:
            # JSON may write the float 1.0 as 1.
            return Plain((*members, *(float in members) * (int,)))
        return _OneOf(tuple(_Object(one) for one in members))
    if typing.get_origin(hint) is tuple:
        fewest = next((one.number for one in given if isinstance(one, marks.Fewest)), 0)
        return Items(_kind_of(typing.get_args(hint)[0]), fewest)
    if typing.get_origin(hint) is dict:
        value = typing.get_args(hint)[1]
        return Plain((dict,)) if value is Any else Table(_kind_of(value))
    if hint in _PLAIN:
        return _PLAIN[hint]
    return _DOCUMENTS.get(hint) or _Object(hint)
