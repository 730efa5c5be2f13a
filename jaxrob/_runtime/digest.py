"""Values as texts and digests that every process finds the same."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np


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
            found.update(np.ascontiguousarray(part))
    return found.hexdigest()


def host_array(leaf: Any) -> np.ndarray:
    """A leaf of a pytree as a NumPy array; of random keys, their data."""
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    ):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)
