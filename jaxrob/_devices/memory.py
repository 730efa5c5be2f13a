"""Memory: the rows that fit in one call of a step, and room for its programs."""

import math
import pathlib
import time
from collections.abc import Hashable
from typing import Any

import jax

from jaxrob._devices.mesh import ImageMesh, platform, smallest

# Rows (altered images) that are classified at once: it is no faster with more. A CPU is
# slow with buffers that its caches do not hold, and a TPU with what its chip does not
# hold of the largest array and the images, altered and not. As many rows as fit, in
# multiples of a vector's length, are the fastest on a v5e, by its compiler's estimate
# of brightness in us an image: IDC CNN 0.75 with 512 rows, 0.68 with 896, 0.80 with
# 1,024; ResNet-50 184 with 16, 209 with 32, 235 with 128.
_MAX_ROWS = 16384
_MAX_ROWS_TPU = 1024
_ON_CHIP_TPU = 128 * 2**20
_VECTOR_TPU = 128
# But not on these kinds of TPU, up to so many pixels of an image's longer side. Forward
# pass / step on a v5p, MNIST CNN at 28 px: brightness 0.91 with 16,000 rows and 0.78
# with 1,000; the IDC CNN at 50 px: 0.70 and 0.80, with 1.4 to 1.7 times the memory.
_MANY_ROWS_UP_TO = {"TPU v5": 34, "TPU v5p": 34}
_MAX_ROWS_CPU = 1024
_MAX_BYTES_CPU = 8 * 2**20
# The share of the free memory that one step may take; what is free where none says.
_MEMORY_SHARE = 0.25
_MEMORY_CPU = 2**32
# The share for images that stay there from level to level. On a CPU, only what saves
# reading a small data set again: its arrays are in memory anyway.
_KEPT_SHARE = 0.25
_KEPT_CPU = 2**28
# The number of arrays as large as the classifier's largest that are live at once.
_LIVE_ARRAYS = 3


def rows_that_fit(
    largest_array: int, image_shape: tuple[int, ...], mesh: ImageMesh
) -> int:
    """The rows of a step on all devices: as many as help and as memory allows."""
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
    """Returns the rows, at least one, whose arrays fit in a device's free memory."""
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
    """Returns the power of `base` whose logarithm is nearest to that of `number`."""
    return base ** round(math.log(max(number, 1), base))


def _whole_vectors(rows: int) -> int:
    """Rounds down to a multiple of a TPU's vector; below, to a power of two."""
    if rows >= _VECTOR_TPU:
        return rows // _VECTOR_TPU * _VECTOR_TPU
    return bucket(rows + 1, 2) // 2


def _free_bytes(device: Any) -> int:
    statistics: dict[str, Any] | None = None
    if device.platform != "cpu":
        try:
            statistics = device.memory_stats()
        except jax.errors.JaxRuntimeError:  # It is not there: a topology's device.
            pass
    if not statistics or "bytes_limit" not in statistics:
        return _MEMORY_CPU
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)


class Kept:
    """Arrays kept on the devices, as long as they fit."""

    def __init__(self, room: int) -> None:
        # The most images of a block, chosen in the run's first round.
        self.rows: int | None = None
        self._room = room
        self._trees: dict[Hashable, Any] = {}

    def find(self, name: Hashable) -> Any:
        return self._trees.get(name)

    def keep(self, name: Hashable, tree: Any) -> bool:
        """Keeps a pytree if it fits; says whether."""
        arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
        size = sum(array.nbytes for array in arrays)
        if size > self._room:
            return False
        self._trees[name] = tree
        self._room -= size
        return True

    def drop(self) -> None:
        self._trees.clear()


# A compiled program takes tens of memory maps on a CPU. Linux allows a process 65,530,
# and ends it when XLA asks for more: after a few hundred classifiers, for instance.
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
