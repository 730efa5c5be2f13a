"""Values as texts and digests, the same in every process."""

import dataclasses
import hashlib
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from jaxrob._devices.blocks import in_pieces, is_split
from jaxrob._keys import is_key


def stable_repr(value: Any) -> str:
    """The `repr` of a value without the addresses in it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest(parts: Iterable[str | np.ndarray | jax.Array]) -> str:
    """A hexadecimal digest of texts and arrays, of 128 bits."""
    # A sharded array has the digest of the whole one, and is read piece by piece.
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode() + b"\0")
            continue
        found.update(f"{part.dtype}{part.shape}".encode() + b"\0")
        for piece in in_pieces(part) if is_split(part) else [part]:
            found.update(contiguous(piece))
    return found.hexdigest()


def array_text(array: Any) -> str:
    """The type and shape of an array, and a digest of its values."""
    # An array of JAX's, whose values stay, is digested once.
    known = _texts.get(id(array))
    if known is not None:
        return known[1]
    on_host = host_array(array)
    text = f"{on_host.dtype}{on_host.shape} {digest([contiguous(on_host)])}"
    if isinstance(array, jax.Array):
        at = id(array)
        forget = weakref.ref(array, lambda _: _texts.pop(at, None))
        _texts[at] = forget, text
    return text


# By identity, as long as the array lives: the reference that ends it, and its text.
_texts: dict[int, tuple[weakref.ref[Any], str]] = {}


def contiguous(array: Any) -> Any:
    """An array on the host whose memory a hash takes as it is."""
    # Of an array of objects, their `object_bytes`.
    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        return b"".join(map(object_bytes, array))
    return np.ascontiguousarray(array)


def object_bytes(value: Any) -> bytes:
    """Bytes that identify a label: array, text, number, or a list or dict of them."""
    if isinstance(value, Mapping):
        parts = [part for one in sorted(value.items(), key=str) for part in one]
        kind = "dict"
    elif isinstance(value, list | tuple):
        parts, kind = [*value], "list"
    elif value is None or isinstance(value, str | bytes):
        return f"{len(repr(value))} {value!r}".encode()
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "biufUS":
            raise TypeError(
                "must be an array, a text or a number, or lists and dicts of these; "
                f"got {type(value).__name__}"
            )
        return f"{array.dtype}{array.shape} ".encode() + array.tobytes()
    return f"{kind} {len(parts)} ".encode() + b"".join(map(object_bytes, parts))


def host_array(leaf: Any) -> np.ndarray:
    """A leaf of a pytree as a NumPy array. Random keys become their data."""
    return np.asarray(_data(leaf))


def host_or_sharded(leaf: Any) -> np.ndarray | jax.Array:
    """A leaf as `host_array` returns it, but one that is sharded over devices stays."""
    data = _data(leaf)
    return data if is_split(data) else np.asarray(data)


def _data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


@dataclasses.dataclass(frozen=True)
class HashablePartial:
    """A `functools.partial` that equals one of the same parts, for `jax.jit`."""

    function: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...]  # sorted by name

    def __call__(self, *args: Any) -> Any:
        return self.function(*args, **dict(self.keywords))


def hashable_partial(
    function: Callable[..., Any], /, **keywords: Any
) -> HashablePartial:
    """`function` with `keywords` (hashable values) fixed."""
    return HashablePartial(function, tuple(sorted(keywords.items())))
