"""How many rows one call of a compiled step takes."""

import math

from jax.sharding import Mesh

from jaxrob._runtime.hosts import smallest
from jaxrob._runtime.mesh import platform

# Rows (altered images) in one call of the compiled step, memory permitting: more gain
# nothing. A CPU is busy with few, and buffers that leave its caches are slow.
_MAX_ROWS = 16384
_MAX_ROWS_CPU = 1024
_MAX_BYTES_CPU = 8 * 2**20
# The share of the free memory (bytes on a CPU) that one step may take.
_MEMORY_SHARE = 0.25
_MEMORY_CPU = 2**32
# Arrays of the classifier's largest size that are alive at once.
_LIVE_ARRAYS = 3


def rows_that_fit(largest_array: int, image_shape: tuple[int, ...], mesh: Mesh) -> int:
    """Rows in a step for all devices: the most that help and that memory allows."""
    device = mesh.local_devices[0]
    most = _MAX_ROWS
    if platform(mesh) == "cpu":
        in_cache = _MAX_BYTES_CPU // (4 * math.prod(image_shape))
        most = min(_MAX_ROWS_CPU, max(in_cache, 1))
    free = _MEMORY_CPU
    statistics = device.memory_stats() if platform(mesh) != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        free = statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)
    fitting = int(_MEMORY_SHARE * free / (_LIVE_ARRAYS * largest_array))
    # Blocks must be the same in all processes.
    return smallest(max(1, min(most, fitting)), mesh) * mesh.size


def bucket(number: int, base: int) -> int:
    """The smallest power of `base` that is at least `number`."""
    size = 1
    while size < number:
        size *= base
    return size
