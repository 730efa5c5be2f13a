"""Writes results as JSON and reads them back, driven by the classes' annotations.

A class declares each field's contents once. The declaration decides how the field is
written, and what is checked when it is read::

    @document("jaxrob score 1")
    class Score(NamedTuple):
        network: str
        level: Annotated[float, Number(at_least=0, below=1)]
        counts: Annotated[np.ndarray, Array("N", "int64", at_least=0)]
        note: str | None = None

    text = to_json(Score("net", 0.5, np.array([3, 4])))
    assert from_json(text, Score).network == "net"

Plain types need no annotation: `float`, `int` (below 2**31), `str`, `bool`, `T | None`,
`tuple[T, ...]`, `dict[str, T]`, `dict[str, Any]` for any JSON, dataclasses and named
tuples. A property with `WRITTEN` in its annotation is written too, for readers without
jaxrob. Rules between fields are checked by the class's method `_check_together`, with
`refuse`. Limits are checked when a document is read, not when it is written. Each
document has a digest, by which what was changed is refused.

Documents are strict JSON: NaN is null, infinities are "inf" and "-inf". Errors are
ValueErrors that name the path in the document, what was found and what is allowed.
"""

import json
from collections.abc import Callable
from typing import Any, Self, TypeVar

from jaxrob._arguments.checks import check_type
from jaxrob._codec._kinds import (
    WRITTEN,
    Array,
    As,
    Codec,
    Integer,
    Layout,
    Number,
    Reading,
    Row,
    Text,
    at,
    must,
    object_at,
    refuse,
)
from jaxrob._codec._objects import (
    DIGEST,
    DOCUMENTS,
    check_digest,
    codec_of,
    digest_of,
    read_object,
    with_digest,
    write_object,
)
from jaxrob._files import most_unpacked, parsed

__all__ = (
    "WRITTEN",
    "Array",
    "As",
    "Document",
    "Integer",
    "Layout",
    "Number",
    "Row",
    "Text",
    "digest_of",
    "document",
    "from_json",
    "read",
    "refuse",
    "to_json",
)

T = TypeVar("T")


class Document:
    """A dataclass that `document` declares."""

    def to_json(self) -> str:
        """The whole as strict JSON text: NaN is null, large arrays base64 of zlib."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads the text that `to_json` gave.

        Nothing is executed. Answers are unpacked to at most 256 MiB and 100 times the
        text's length.

        Raises:
          TypeError: if it is no text.
          ValueError: if the text is not strict JSON, not of this format, a part is
            missing, unknown, outside its range or of a wrong type or shape, or it is
            not what was written, by its digest.
        """
        return from_json(text, cls)


def document(form: str) -> Callable[[type[T]], type[T]]:
    """Declares a dataclass or named tuple a document of its own."""

    def decorate(kind: type[T]) -> type[T]:
        def write(value: Any) -> dict[str, Any]:
            return with_digest({"format": form} | write_object(kind, value))

        def read(value: Any, place: str, reading: Reading) -> Any:
            who = place or reading.name
            found = object_at(who, value).get("format")
            if found != form:
                raise must(at(place, "format"), f"be {form!r}", found)
            parts = {k: one for k, one in value.items() if k not in ("format", DIGEST)}
            outer, reading.axes = reading.axes, {}
            made = read_object(kind, parts, place, reading)
            reading.axes = outer
            check_digest(value, who)
            return made

        DOCUMENTS[kind] = Codec(write, read)
        return kind

    return decorate


def to_json(value: Any, indent: int | None = None) -> str:
    """Writes a document as strict JSON."""
    written = DOCUMENTS[type(value)].write(value)
    return json.dumps(written, indent=indent, allow_nan=False)


def from_json(text: str | bytes, kind: type[T]) -> T:
    """Reads a document of a class from the output of `to_json`."""
    # Nothing is executed. Packed arrays take at most 256 MiB, or 100 times the text.
    check_type("text", text, str | bytes, "the text that to_json gave")
    return read(kind, parsed(text), bytes_left=most_unpacked(len(text)))


def read(kind: Any, value: Any, place: str = "", **settings: Any) -> Any:
    """Reads a value from parsed JSON, or from a like structure such as parsed TOML."""
    try:
        return codec_of(kind).read(value, place, Reading(**settings))
    except TypeError as error:  # From the checks of arguments.
        raise ValueError(str(error)) from error
