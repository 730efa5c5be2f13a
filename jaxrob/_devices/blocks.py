"""Blocks of rows on the devices: compiled steps on them, and how many rows fit."""

import collections
import contextlib
import itertools
import math
import pathlib
import time
from collections.abc import Callable, Generator, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, Sharding

from jaxrob._devices.mesh import (
    ImageMesh,
    fetch,
    own_sharding,
    platform,
    put,
    replicated,
    sharded,
    smallest,
)


def in_blocks(
    step: Callable[..., Any],
    take: Callable[[np.ndarray], tuple[Any, ...]],
    rows: np.ndarray,
    size: int,
    mesh: ImageMesh,
) -> Iterator[tuple[np.ndarray, Any]]:
    """Runs a step on blocks of rows of one size, each split over the devices."""
    # One size compiles once, filled by the last row. Devices work one block ahead.
    before = None
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        placed = put(take(filled(block, size)), sharded(mesh))
        # The caller may have set another mesh.
        with jax.set_mesh(mesh.mesh):
            found = step(*placed)
        if before is not None:
            yield _fetched(*before)
        before = block, found
    if before is not None:
        yield _fetched(*before)


def _fetched(block: np.ndarray, found: Any) -> tuple[np.ndarray, Any]:
    return block, first_of(fetch(found), len(block))


class Call(NamedTuple):
    """A call of a compiled function; with shapes for arrays it can only be lowered."""

    function: Any  # what `jax.jit` returned
    args: tuple[Any, ...]  # its arguments
    static: dict[str, Any] = {}  # its static arguments, by name
    mesh: ImageMesh | None = None  # the mesh that is set where it runs, None if none is

    def run(self) -> Any:
        with self._mesh_set():
            return self.function(*self.args, **self.static)

    def lower(self) -> jax.stages.Lowered:
        """The program for the devices of the arguments, which need not be there."""
        with self._mesh_set():
            return self.function.lower(*self.args, **self.static)

    def _mesh_set(self) -> contextlib.AbstractContextManager[Any]:
        return jax.set_mesh(self.mesh.mesh) if self.mesh else contextlib.nullcontext()


def shapes_whole(tree: Any, mesh: ImageMesh) -> Any:
    """The shapes and types of the arrays that `hosts.put_whole` puts on a mesh."""
    whole = None if len(mesh.devices) == 1 else replicated(mesh)
    return jax.tree.map(
        lambda leaf: _shape_of(leaf, own_sharding(leaf, mesh) or whole), tree
    )


def shapes_of(tree: Any, sharding: Sharding) -> Any:
    return jax.tree.map(lambda leaf: _shape_of(leaf, sharding), tree)


def _shape_of(leaf: Any, sharding: Sharding | None) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(
        kind.shape, kind.dtype, weak_type=kind.weak_type, sharding=sharding
    )


Tree = TypeVar("Tree")


def first_of(tree: Tree, number: int) -> Tree:
    return jax.tree.map(lambda array: array[:number], tree)


def taken(tree: Tree, chosen: np.ndarray | slice | int) -> Tree:
    """The rows chosen (by position) of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[chosen], tree)


def put_at(tree: Tree, chosen: np.ndarray, part: Tree) -> Tree:
    """A copy of a pytree of NumPy arrays with other rows at the positions chosen."""

    def one(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = np.array(array)
        array[chosen] = new
        return array

    return jax.tree.map(one, tree, part)


def joined(parts: list[Any]) -> Any:
    return jax.tree.map(lambda *some: np.concatenate(some), *parts)


def filled(rows: np.ndarray, size: int) -> np.ndarray:
    """A copy of at most `size` rows, the last one repeated up to `size`."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, padded with zeros to a size."""
    if len(rows) == size:
        return rows
    return np.pad(rows, [(0, size - len(rows))] + [(0, 0)] * (rows.ndim - 1))


def is_on_devices(rows: Any) -> TypeGuard[jax.Array]:
    """Whether it is a JAX array in its devices' own memory, not in the host's."""
    if not isinstance(rows, jax.Array):
        return False
    (device, *_) = rows.devices()
    return rows.sharding.memory_kind in (None, device.default_memory().kind)


def is_on(rows: Any, mesh: ImageMesh) -> bool:
    """Whether it is a JAX array in the memory of a mesh's devices alone."""
    return is_on_devices(rows) and rows.devices() == {*mesh.devices}


def taken_on_devices(rows: jax.Array, indices: np.ndarray, size: int) -> jax.Array:
    """The rows at these positions, padded with zeros to a size, without the host."""
    if len(rows) == size and np.array_equal(indices, np.arange(size)):
        return rows
    mesh: Any = getattr(rows.sharding, "mesh", None)
    if mesh is None:
        mesh = Mesh(np.array([*rows.devices()]), ("rows",))
    places = np.full(size, len(rows))
    places[: len(indices)] = indices
    # The caller may have set a mesh of other devices.
    with jax.set_mesh(mesh):
        return _taken_or_zero(rows, places)


@jax.jit
def _taken_or_zero(rows: jax.Array, indices: np.ndarray) -> jax.Array:
    return jnp.take(rows, indices, axis=0, mode="fill", fill_value=0)


_MOST_BYTES = 2**24


def is_split(array: Any) -> TypeGuard[jax.Array]:
    """Whether devices hold different parts of an array."""
    return isinstance(array, jax.Array) and not array.sharding.is_fully_replicated


def in_pieces(array: jax.Array, most_bytes: int = _MOST_BYTES) -> Iterator[np.ndarray]:
    """Yields an array's values in C order, never all in one place.

    All processes that hold parts must call this: they send each other each piece.
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


T = TypeVar("T")


def prefetched(
    items: Iterator[T], ahead: int = 2, stop: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """Yields an iterator's items, which a thread makes while earlier ones are used."""

    def taken() -> list[T]:
        return list(itertools.islice(items, 1))

    with ThreadPoolExecutor(1, "jaxrob-prefetch") as thread:
        waiting = collections.deque(thread.submit(taken) for _ in range(ahead))
        try:
            while item := waiting.popleft().result():
                waiting.append(thread.submit(taken))
                # Popped, so that its memory is free while the next item is awaited.
                yield item.pop()
        finally:
            stop()
            thread.shutdown(cancel_futures=True)
            if isinstance(items, Generator):
                items.close()


# Rows classified at once: as many as a CPU's caches or a TPU's chip hold are fastest. A
# v5e's us an image, estimated: IDC CNN 0.75 with 512, 0.68 with 896, 0.80 with 1,024.
_MAX_ROWS = 16384
_MAX_ROWS_TPU = 1024
_ON_CHIP_TPU = 128 * 2**20
_VECTOR_TPU = 128
# But up to so many pixels of the longer side on these. Forward pass / step on a v5p:
# MNIST CNN 0.91 with 16,000 rows, 0.78 with 1,000; IDC CNN at 50 px 0.70 and 0.80.
_MANY_ROWS_UP_TO = {"TPU v5": 34, "TPU v5p": 34}
_MAX_ROWS_CPU = 1024
_MAX_BYTES_CPU = 8 * 2**20
# The share of the free memory that one step may take; what is free where none says.
_MEMORY_SHARE = 0.25
_MEMORY_CPU = 2**32
# The share for images that stay; a CPU has its arrays in memory anyway.
_KEPT_SHARE = 0.25
_KEPT_CPU = 2**28
# The number of arrays as large as the classifier's largest that are live at once.
_LIVE_ARRAYS = 3


def rows_that_fit(
    largest_array: int, image_shape: tuple[int, ...], mesh: ImageMesh
) -> int:
    device = mesh.local_devices[0]
    most = _MAX_ROWS
    if platform(mesh) == "tpu" and is_best_with_few_rows(image_shape, mesh):
        held = _ON_CHIP_TPU // (largest_array + 2 * 4 * math.prod(image_shape))
        most = min(_MAX_ROWS_TPU, _whole_vectors(held))
    if platform(mesh) == "cpu":
        in_cache = _MAX_BYTES_CPU // (4 * math.prod(image_shape))
        most = min(_MAX_ROWS_CPU, max(in_cache, 1))
    most = max(1, min(most, rows_in_memory(largest_array, device)))
    # Blocks must be the same in all processes.
    return smallest(most, mesh) * mesh.size


def rows_in_memory(largest_array: int, device: Any) -> int:
    fitting = _MEMORY_SHARE * _free_bytes(device) / (_LIVE_ARRAYS * largest_array)
    return max(1, int(fitting))


def bytes_to_keep(mesh: ImageMesh) -> int:
    """Returns the bytes, on all devices, that images may take for a whole run."""
    # They are the same in all processes.
    if platform(mesh) == "cpu":
        return _KEPT_CPU
    # In MiB, because processes exchange numbers of 32 bits.
    free = int(_KEPT_SHARE * _free_bytes(mesh.local_devices[0])) >> 20
    return (smallest(free, mesh) << 20) * mesh.size


def is_best_with_few_rows(image_shape: tuple[int, ...], mesh: ImageMesh) -> bool:
    """Tests whether a step is faster with the images of one level than of many."""
    if platform(mesh) == "tpu":
        kind = mesh.devices[0].device_kind
        return max(image_shape[:2]) > _MANY_ROWS_UP_TO.get(kind, 0)
    return platform(mesh) == "cpu"


def bucket(number: int, base: int) -> int:
    """Returns the smallest power of `base` that is at least `number`."""
    size = 1
    while size < number:
        size *= base
    return size


def nearest_bucket(number: int, base: int) -> int:
    return base ** round(math.log(max(number, 1), base))


def _whole_vectors(rows: int) -> int:
    """Rounds down to a multiple of a TPU's vector; below, to a power of two."""
    if rows >= _VECTOR_TPU:
        return rows // _VECTOR_TPU * _VECTOR_TPU
    return bucket(rows + 1, 2) // 2


def _free_bytes(device: Any) -> int:
    statistics: dict[str, Any] | None = None
    if device.platform != "cpu":
        # It is not there: a topology's device.
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            statistics = device.memory_stats()
    if not statistics or "bytes_limit" not in statistics:
        return _MEMORY_CPU
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)


class Kept:
    def __init__(self, room: int) -> None:
        # The most images of a block, chosen in the run's first round.
        self.rows: int | None = None
        # Whether the network is a program apart, chosen there too.
        self.is_apart: bool | None = None
        self._room = room
        self._trees: dict[Hashable, Any] = {}

    def find(self, name: Hashable) -> Any:
        return self._trees.get(name)

    def keep(self, name: Hashable, tree: Any) -> bool:
        arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
        size = sum(array.nbytes for array in arrays)
        if size > self._room:
            return False
        self._trees[name] = tree
        self._room -= size
        return True

    def drop(self) -> None:
        self._trees.clear()


# A program takes tens of maps on a CPU; at 65,530 Linux ends a process.
_MAPS = pathlib.Path("/proc/self/maps")
_LIMIT = pathlib.Path("/proc/sys/vm/max_map_count")
_LARGEST_SHARE = 0.4
# Counting takes up to 30 ms, and no process can fill the rest within a second.
_SECONDS = 1.0
_counted_at = -_SECONDS


def make_room() -> None:
    """Drops all compiled programs if the process holds many memory maps."""
    # The next call of a program recompiles it. It does nothing except on Linux.
    global _counted_at
    if time.monotonic() - _counted_at < _SECONDS:
        return
    _counted_at = time.monotonic()
    try:
        with _MAPS.open("rb") as maps:
            number = sum(1 for _ in maps)
        limit = int(_LIMIT.read_text())
    except OSError:
        return
    if number > _LARGEST_SHARE * limit:
        jax.clear_caches()
