"""Arrays in documents: as lists, or packed as base64 of zlib."""

import base64
import dataclasses
import itertools
import math
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from jaxrob._codec._kinds import (
    INFINITIES,
    LARGEST_INT32,
    Integer,
    Number,
    Reading,
    limits_text,
    must,
)
from jaxrob._runtime.shapes import fits, lengths_text

# By the kind of NumPy's type: what a list may hold, and one of it in words.
_HELD = {
    "f": ({int, float}, "numbers", "a number"),
    "i": ({int}, "whole numbers", "a whole number"),
    "b": ({bool}, "true and false", "true or false"),
    "U": ({str}, "texts", "a text"),
}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of a shape and a type, its values within limits.

    Attributes:
      shape: the axes as `checks.checked_array` takes them: "L, K, K + 1". Letters stand
        for the same lengths, at least 1, in all arrays of a document.
      dtype: the type by its name; of packed arrays any of several.
      at_least: the lowest value allowed.
      at_most: the highest; of integers 2**31 - 1 unless it is given.
      may_be_nan: whether null may stand for NaN.
      may_be_infinite: whether "inf" and "-inf" may.
      choices: the texts allowed.
      is_packed: whether it is base64 of zlib, beside its type.
    """

    shape: str
    dtype: str | tuple[str, ...] = "float64"
    at_least: float | None = None
    at_most: float | None = None
    may_be_nan: bool = False
    may_be_infinite: bool = False
    choices: Collection[str] = ()
    is_packed: bool = False
    above = below = None

    @property
    def _types(self) -> tuple[str, ...]:
        return (self.dtype,) if isinstance(self.dtype, str) else self.dtype

    def write(self, value: Any) -> Any:
        """Lists, or an object if it is packed."""
        array = np.asarray(value)
        if self.is_packed:
            return _packed(array)
        if array.dtype.kind != "f" or np.isfinite(array).all():
            return array.tolist()
        return _written(array.tolist())

    def read(self, value: Any, place: str, reading: Reading) -> np.ndarray:
        """The array."""
        if self.is_packed:
            array = self._unpacked(value, place, reading)
        else:
            array = self._listed(value, place)
        before = dict(reading.axes)
        if not fits(array.shape, self.shape, reading.axes, fewest=1):
            raise ValueError(
                f"{place} must have the shape [{self.shape}]"
                f"{lengths_text(self.shape, before)}; got {array.shape}"
            )
        self._check_values(array, place)
        return array

    def _listed(self, value: Any, place: str) -> np.ndarray:
        dtype: np.dtype[Any] = np.dtype(self._types[0])
        allowed, words, one_word = _HELD[dtype.kind]
        flat, lengths = [value], []
        for _ in self.shape.split(","):
            sizes = {len(one) if type(one) is list else -1 for one in flat}
            if len(sizes) > 1 or -1 in sizes:
                kind = "lists" if "," in self.shape else "a list"
                raise must(place, f"be {kind} [{self.shape}] of {words}", value)
            lengths.append(sizes.pop() if sizes else 0)
            flat = list(itertools.chain.from_iterable(flat))
        if not set(map(type, flat)) <= allowed:
            flat = [self._number(one) for one in flat]
            for index, one in enumerate(flat):
                if type(one) not in allowed:
                    wanted = one_word + " or null" * self.may_be_nan
                    where = f"{place}{_index(index, lengths)}"
                    raise must(where, f"be {wanted}", one)
        if dtype.kind == "i":
            self._check_integers(flat, place, lengths)
        try:
            return np.array(flat, dtype).reshape(lengths)
        except OverflowError:
            raise ValueError(f"{place} must hold numbers below 1e308") from None

    def _number(self, value: Any) -> Any:
        """NaN for null, and an infinity for its name, where they may be."""
        if value is None and self.may_be_nan:
            return math.nan
        if isinstance(value, str) and self.may_be_infinite:
            return INFINITIES.get(value, value)
        return value

    def _check_integers(self, flat: list[int], place: str, lengths: list[int]) -> None:
        """Before they become an array, since none holds all of Python's integers."""
        least = -LARGEST_INT32 - 1 if self.at_least is None else int(self.at_least)
        most = LARGEST_INT32 if self.at_most is None else int(self.at_most)
        if flat and not least <= min(flat) <= max(flat) <= most:
            for index, one in enumerate(flat):
                where = f"{place}{_index(index, lengths)}"
                Integer(least, most).read(one, where, Reading())

    def _check_values(self, array: np.ndarray, place: str) -> None:
        bad = np.zeros(array.shape, bool)
        if self.choices:
            bad |= ~np.isin(array, list(self.choices))
        if array.dtype.kind == "f" and not self.may_be_nan:
            bad |= np.isnan(array)
        if array.dtype.kind == "f" and not self.may_be_infinite:
            bad |= np.isinf(array)
        if self.at_least is not None:
            bad |= array < self.at_least
        if self.at_most is not None:
            bad |= array > self.at_most
        if bad.any():
            index = int(bad.argmax())
            found = array.reshape(-1)[index]
            one_of = f"be one of {tuple(self.choices)}"
            rule = one_of if self.choices else limits_text(self, found)
            raise must(f"{place}{_index(index, array.shape)}", rule, found)

    def _unpacked(self, packed: Any, place: str, reading: Reading) -> np.ndarray:
        parts = {"dtype", "base64_zlib"}
        if not isinstance(packed, dict) or packed.keys() != parts:
            raise must(place, "have a dtype and base64_zlib, no more", packed)
        if packed["dtype"] not in self._types:
            wanted = " or ".join(self._types)
            raise must(f"{place}.dtype", f"be {wanted}", packed["dtype"])
        dtype = np.dtype(packed["dtype"])
        shape = [reading.axes[axis.strip()] for axis in self.shape.split(",")]
        size = math.prod(shape) * dtype.itemsize
        if size > reading.room:
            raise ValueError(
                f"{place} takes {size} bytes for the shape {tuple(shape)}; what a text "
                f"of this length may unpack to is at most {reading.room} more"
            )
        reading.room -= size
        stream = zlib.decompressobj()
        try:
            # One byte more than wanted shows a text that holds too many.
            text = base64.b64decode(packed["base64_zlib"], validate=True)
            data = stream.decompress(text, size + 1)
        except (TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"{place} is not base64 of zlib: {error}") from error
        if len(data) != size or not stream.eof:
            raise ValueError(
                f"{place} must hold {size} bytes for the shape {tuple(shape)}"
            )
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _written(value: Any) -> Any:
    """Numbers in lists, as `Number` writes them."""
    if isinstance(value, list):
        return [_written(one) for one in value]
    return Number().write(value)


def _packed(array: np.ndarray) -> dict[str, str]:
    data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    text = base64.b64encode(zlib.compress(data.tobytes(), 6)).decode()
    return {"dtype": array.dtype.name, "base64_zlib": text}


def _index(flat: int, lengths: Any) -> str:
    """The place of an entry, such as "[2][0]"."""
    return "".join(f"[{one}]" for one in np.unravel_index(flat, tuple(lengths)))
