"""A sharded array's values on the host, one piece after the other."""

import math
from collections.abc import Iterator
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.experimental import multihost_utils

# The most bytes of a piece.
_MOST_BYTES = 2**24


def is_split(array: Any) -> TypeGuard[jax.Array]:
    """Whether devices hold different parts of an array."""
    return isinstance(array, jax.Array) and not array.sharding.is_fully_replicated


def in_pieces(array: jax.Array, most_bytes: int = _MOST_BYTES) -> Iterator[np.ndarray]:
    """Yields an array's values in C order, so that they never lie in one place whole.

    If its devices belong to several processes, all processes must call this: they send
    each other what they hold of each piece.
    """
    # Each value once, even if several devices hold it.
    shards = [one for one in array.addressable_shards if one.replica_id == 0]
    for piece in _slices(array.shape, max(1, most_bytes // array.dtype.itemsize)):
        shape = tuple(one.stop - one.start for one in piece)
        values = np.zeros(shape, array.dtype)
        for shard in shards:
            there = [_overlap(*both) for both in zip(piece, shard.index, array.shape)]
            if any(start >= stop for start, stop, *_ in there):
                continue
            into = tuple(slice(a - p, b - p) for a, b, p, _ in there)
            own = tuple(slice(a - s, b - s) for a, b, _, s in there)
            part = shard.data[own]
            if part is shard.data:
                # JAX would keep the host's copy with the shard.
                part = part.copy()
            values[into] = np.asarray(part)
        yield values if array.is_fully_addressable else _joined(values)


def _slices(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cuts an array of a shape, in C order, into pieces of at most `most` values."""
    if not shape or math.prod(shape) <= most:
        yield tuple(slice(0, length) for length in shape)
        return
    # If a row has more values than that, each row is cut too.
    rows = max(1, most // math.prod(shape[1:]))
    for start in range(0, shape[0], rows):
        for others in _slices(shape[1:], most):
            yield (slice(start, min(start + rows, shape[0])), *others)


def _overlap(piece: slice, shard: slice, length: int) -> tuple[int, int, int, int]:
    """Returns where a piece and a shard overlap along an axis, and where both begin."""
    first, last, _ = shard.indices(length)
    return max(piece.start, first), min(piece.stop, last), piece.start, first


def _joined(values: np.ndarray) -> np.ndarray:
    """Joins the processes' parts of a piece, which are zero elsewhere."""
    own = values.reshape(-1).view(np.uint8)
    every = multihost_utils.process_allgather(own)
    joined = np.bitwise_or.reduce(np.asarray(every), axis=0)
    return joined.view(values.dtype).reshape(values.shape)
