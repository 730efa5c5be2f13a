"""Values as texts and digests, the same in every process."""

import hashlib
import re
import weakref
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from jaxrob._keys import is_key


def stable_repr(value: Any) -> str:
    """The `repr` of a value without the addresses in it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest(parts: Iterable[str | np.ndarray]) -> str:
    """A hexadecimal digest of texts and arrays, of 128 bits."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode() + b"\0")
        else:
            found.update(f"{part.dtype}{part.shape}".encode() + b"\0")
            found.update(contiguous(part))
    return found.hexdigest()


def array_text(array: Any) -> str:
    """The type and shape of an array, and a digest of its values.

    An array of JAX's, whose values stay, is digested once.
    """
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
    return np.ascontiguousarray(array)


def host_array(leaf: Any) -> np.ndarray:
    """A leaf of a pytree as a NumPy array. Random keys become their data."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)
