"""Reads the records of a journal, and checks whatever a line may hold.

A line's checksum detects damage, not records written by another program or version.
"""

import base64
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

# NumPy's names of booleans, numbers and strings; never objects.
_DTYPE = re.compile(r"\|[bui]1|<[uif][248]|<U[0-9]{1,6}")


def malformed(path: pathlib.Path, number: int, what: str) -> ValueError:
    """Returns the error for an intact but wrong record; number 0 is the header."""
    name = f"record {number}" if number else "the header"
    return ValueError(f"{path}: {name} is wrong: {what}; move it away to start anew")


def read_records(
    path: pathlib.Path,
    records: list[dict[str, Any]],
    read: Callable[[dict[str, Any]], T],
) -> Iterator[tuple[int, T]]:
    """Yields each record's number, from 1, and the result of `read` on it."""
    for number, record in enumerate(records, 1):
        try:
            found = read(record)
        except ValueError as error:
            raise malformed(path, number, str(error)) from error
        yield number, found


def entry(record: dict[str, Any], name: str, kind: type[T]) -> T:
    """Returns an entry of a record: a text, a whole number, a list or a dictionary."""
    if name not in record:
        raise ValueError(f"{name!r} is missing")
    value = record[name]
    if type(value) is not kind:
        raise ValueError(
            f"{name!r} must be of type {kind.__name__}; got {type(value).__name__}"
        )
    return value


def array_entry(
    record: dict[str, Any], name: str, kinds: str, shape: tuple[int | None, ...]
) -> np.ndarray:
    """Returns an entry of a record that is an array."""
    try:
        array = decoded(entry(record, name, dict))
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
    """Decodes an array from a record's dtype, shape and base64 data."""
    dtype, text = entry(value, "dtype", str), entry(value, "data", str)
    shape = entry(value, "shape", list)
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"dtype {dtype!r} is none of booleans, numbers or strings")
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError(f"shape must hold whole numbers from 0; got {shape}")
    data = base64.b64decode(text, validate=True)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes where the shape {shape} needs {size}")
    return np.frombuffer(data, dtype).reshape(shape)
