"""Describes a value in full, as text that is the same in every process.

What is this package's is identified by name and parameters, other functions by what
they compute, once they are `Fingerprinted`.
"""

import dataclasses
import enum
import functools
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from jaxrob._identity.digest import HashablePartial, array_text, digest, host_array
from jaxrob._identity.program import Fingerprinted, fingerprint_of

_PACKAGE = __name__.partition(".")[0]
# Longer sequences of numbers are described by a digest.
_MOST_NUMBERS = 16
#: The metadata of a dataclass's field that says nothing new as long as it holds the
#: library's own functions: they follow from the other fields.
FOLLOWS = {"follows": True}

T = TypeVar("T")


def text(value: Any) -> str:
    """Describes a value in full. Digests stand for arrays; no text is shortened."""
    head, children, _ = _node(value)
    if children is None:
        return head
    return f"{head}({', '.join(name + text(child) for name, child in children)})"


def is_identifiable(value: Any) -> bool:
    """Tests whether equal texts, of one library version, mean equal values."""
    _, children, identifiable = _node(value)
    return identifiable and all(is_identifiable(child) for _, child in children or ())


def name_of(value: Any) -> str:
    """The name of a function or a callable's class; its module too if it is ours."""
    if isinstance(value, functools.partial | Fingerprinted | HashablePartial):
        return name_of(
            value.func if isinstance(value, functools.partial) else value.function
        )
    if not hasattr(value, "__qualname__"):
        value = type(value)
    return (
        f"{value.__module__}.{value.__qualname__}"
        if _is_ours(value)
        else value.__qualname__
    )


def fingerprinted_parts(value: T, names: Sequence[str], program: ClosedJaxpr) -> T:
    """Gives functions of a dataclass, unless identifiable, their fingerprint."""
    functions = {name: getattr(value, name) for name in names}
    found = fingerprint_of(program)
    pins = {
        name: Fingerprinted(found.digest, function, found.on_host)
        for name, function in functions.items()
        if not is_identifiable(function)
    }
    return dataclasses.replace(cast(Any, value), **pins)


@functools.cache
def library() -> str:
    return f"{_PACKAGE} {metadata.version(_PACKAGE)}"


class _Node(NamedTuple):
    """A value's own text, its parts with their prefixes, and if it is identifiable."""

    head: str
    children: list[tuple[str, Any]] | None = None
    identifiable: bool = True


def _node(value: Any) -> _Node:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _Node(_array_text(value))
    if isinstance(value, enum.Enum):
        return _Node(f"{name_of(type(value))}.{value.name}")
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _Node(repr(value))
    if isinstance(value, np.dtype):
        return _Node(str(value))
    if isinstance(value, Fingerprinted):
        return _Node(
            f"{name_of(value.function)} {value.token}",
            identifiable=value.is_identifiable,
        )
    if isinstance(value, HashablePartial):
        children = [(f"{key}=", part) for key, part in value.keywords]
        return _Node(name_of(value.function), children, _is_own(value.function))
    if isinstance(value, functools.partial):
        children = [("", value.func), ("", value.args), ("", value.keywords)]
        return _Node("partial", children)
    if isinstance(value, tuple | list):
        if len(value) > _MOST_NUMBERS and all(
            type(one) in (int, float) for one in value
        ):
            return _Node(f"{len(value)} numbers {digest(map(repr, value))}")
        head = "" if type(value) in (tuple, list) else name_of(type(value))
        return _Node(head, [("", part) for part in value])
    if isinstance(value, dict):
        return _Node("", [(f"{key!r}: ", part) for key, part in value.items()])
    if isinstance(value, set | frozenset):
        return _Node("", [("", part) for part in sorted(value, key=text)])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _Node(name_of(type(value)), list(_fields(value)), _is_own(type(value)))
    if callable(value) and hasattr(value, "__qualname__"):
        return _Node(name_of(value), identifiable=_is_own(value))
    return _Node(name_of(type(value)), identifiable=False)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        # Fields that are not compared distinguish no values.
        if field.compare and not ("follows" in field.metadata and _is_known(part)):
            yield f"{field.name}=", part


def _is_known(part: Any) -> bool:
    """Tests whether a field that `FOLLOWS` holds nothing of the user's."""
    return not isinstance(part, Fingerprinted) and is_identifiable(part)


def _array_text(value: Any) -> str:
    array = value if np.shape(value) else host_array(value)
    return array_text(value) if array.shape else f"{array.dtype} {array.item()!r}"


def _is_own(value: Any) -> bool:
    """Tests whether a function or class is the library's and has no closure."""
    return _is_ours(value) and getattr(value, "__closure__", None) is None


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
