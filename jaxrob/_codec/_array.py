"""Arrays in documents, as lists or as base64 of zlib."""

import base64
import dataclasses
import itertools
import math
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_array
from jaxrob._codec._kinds import Integer, Number, Plain, Reading, Text, must

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
        for _ in self.shape.split(","):
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
                one.read(each, place + _index(number, lengths), Reading())
                for number, each in enumerate(flat)
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


def _index(flat: int, lengths: list[int]) -> str:
    """Returns the path of an entry, such as "[2][0]"."""
    return "".join(f"[{one}]" for one in np.unravel_index(flat, lengths))
