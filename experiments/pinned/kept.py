"""The kept form of a value: exact to the bit, and by public names alone."""

import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

#: Fields that differ from run to run by their nature.
LEFT_OUT = frozenset({"seconds"})
#: Arrays up to this size are kept whole, larger ones by this many values.
MOST_VALUES = 64

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def kept(value: Any) -> Any:
    """Converts a value to JSON: floats with all digits, of objects what is public."""
    if value is None or isinstance(value, bool | str):
        return without_addresses(value) if isinstance(value, str) else value
    if isinstance(value, np.generic) and not isinstance(value, np.float64):
        return f"{value.dtype} {value.item()!r}"
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "digest": _digest(value)}
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(
        value.dtype, jax.dtypes.prng_key
    ):
        return {"key": kept(np.asarray(jax.random.key_data(value)))}
    if isinstance(value, np.ndarray | jax.Array):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        return {str(name): kept(one) for name, one in value.items() if _said(name)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _attributes(value)
    if isinstance(value, list | tuple):
        return [kept(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if dataclasses.is_dataclass(value) or type(value).__module__.startswith("jaxrob"):
        return _attributes(value)
    if callable(value):
        return "a function"
    return without_addresses(f"{type(value).__name__} {value}")


def without_addresses(text: str) -> str:
    """Removes memory addresses from a text."""
    return _ADDRESS.sub("0x...", text)


def _said(name: Any) -> bool:
    return name not in LEFT_OUT and not str(name).startswith("_")


def _attributes(value: Any) -> dict[str, Any]:
    names = dict.fromkeys(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value):
        names |= dict.fromkeys(field.name for field in dataclasses.fields(value))
    for base in type(value).__mro__[:-1]:
        names |= {
            name: None
            for name, one in vars(base).items()
            if isinstance(one, property | functools.cached_property)
        }
    found = {name: _attribute(value, name) for name in names if _said(name)}
    if hasattr(value, "to_json"):
        found["to_json"] = kept(json.loads(value.to_json()))
    return found


def _attribute(value: Any, name: str) -> Any:
    # A property that is not known here raises an error with a message.
    try:
        return kept(getattr(value, name))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def _array(array: np.ndarray) -> Any:
    if array.dtype == object:
        return [kept(one) for one in array.tolist()]
    array = np.ascontiguousarray(array).reshape(array.shape)
    flat = array.reshape(-1)
    places = np.arange(flat.size)
    if flat.size > MOST_VALUES:
        places = np.unique(np.linspace(0, flat.size - 1, MOST_VALUES // 4).astype(int))
    return {
        "array": f"{array.dtype} {list(array.shape)}",
        "digest": _digest(array.tobytes()),
        "values": {str(place): _number(flat[place].item()) for place in places},
    }


def _number(value: Any) -> Any:
    """A float32's item, too, needs enough digits to differ from its neighbours'."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value if isinstance(value, int | float | str) else str(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def is_same(one: Any, other: Any) -> bool:
    """Whether two kept leaves are equal: NaN equals NaN, and -0.0 differs from 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one.hex() == other.hex()
    return type(one) is type(other) and one == other
