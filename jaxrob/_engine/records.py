"""The records of a journal, read back: whatever a line may hold is checked.

A checksum tells damage. It does not tell what another program, or another version of
this one, has written.
"""

import base64
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

# Booleans, numbers and strings, as NumPy names their types; never objects.
_DTYPE = re.compile(r"\|[bui]1|<[uif][248]|<U[0-9]{1,6}")


def malformed(path: pathlib.Path, number: int, what: str) -> ValueError:
    """The error of a record whose checksum fits; number 0 is the header."""
    name = f"record {number}" if number else "the header"
    return ValueError(f"{path}: {name} is wrong: {what}; move it away to start anew")


def read_records(
    path: pathlib.Path,
    records: list[dict[str, Any]],
    read: Callable[[dict[str, Any]], T],
) -> Iterator[tuple[int, T]]:
    """What `read` makes of each record of a journal, in their order, numbered from 1.

    Args:
      path: the file, for messages.
      records: the records.
      read: raises a ValueError that says what is wrong with a record.

    Raises:
      ValueError: if `read` raises one; the message names the file and the record.
    """
    for number, record in enumerate(records, 1):
        try:
            found = read(record)
        except ValueError as error:
            raise malformed(path, number, str(error)) from error
        yield number, found


def part(record: dict[str, Any], name: str, kind: type[T]) -> T:
    """A part of a record that is a text, a whole number or a dictionary.

    Raises:
      ValueError: if it is missing, or of another type.
    """
    if name not in record:
        raise ValueError(f"{name!r} is missing")
    value = record[name]
    if type(value) is not kind:
        raise ValueError(
            f"{name!r} must be of type {kind.__name__}; got {type(value).__name__}"
        )
    return value


def array_part(
    record: dict[str, Any], name: str, kinds: str, shape: tuple[int | None, ...]
) -> np.ndarray:
    """A part of a record that is an array.

    Args:
      record: the record.
      name: the part's name.
      kinds: the kinds of type allowed, in NumPy's letters.
      shape: the lengths of its axes, None for any.

    Raises:
      ValueError: if it is missing, or not such an array.
    """
    try:
        array = decoded(part(record, name, dict))
    except ValueError as error:
        raise ValueError(f"{name!r}: {error}") from error
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(array.shape, shape)
    )
    if array.dtype.kind not in kinds or not fits:
        raise ValueError(
            f"{name!r} is an array of {array.dtype} of the shape {array.shape}; "
            f"expected the shape {shape} and a type of the kind {kinds!r}"
        )
    return array


def decoded(value: dict[str, Any]) -> np.ndarray:
    """The array that a record holds in this form.

    Raises:
      ValueError: if it is not in this form.
    """
    dtype, text = part(value, "dtype", str), part(value, "data", str)
    shape = part(value, "shape", list)
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"dtype {dtype!r} is none of booleans, numbers or strings")
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError(f"shape must hold whole numbers from 0; got {shape}")
    data = base64.b64decode(text, validate=True)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes where the shape {shape} needs {size}")
    return np.frombuffer(data, dtype).reshape(shape)
