"""The number of images in a block, by a short trial of the step itself."""

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._devices.hosts import put
from jaxrob._devices.memory import bucket, rows_in_memory
from jaxrob._devices.mesh import platform, sharded
from jaxrob._engine.execution import Execution
from jaxrob._engine.sizes import levels_in_step
from jaxrob._engine.step import answering, preparing
from jaxrob.alterations import Alteration

# Operations of a run of about a second on two cores. Shorter ones gain nothing.
_FEWEST_OPERATIONS = 2**37
# The most answers that the trial may compute, of those of the run.
_LARGEST_SHARE = 0.25
# A step is timed so often, after a first time, which may compile it.
_REPEATS = 2
# Another size must be faster by this, which is more than timings scatter.
_LEAST_GAIN = 0.03
# The most images of a block on each device, whatever the timings say. A journal takes
# no more than these on a thousand devices.
_MOST_ON_EACH = 2**14


def tried_rows(
    execution: Execution,
    dtype: Any,
    alteration: Alteration,
    levels: np.ndarray,
    length: int,
    number: int,
) -> int:
    """Returns the most images of a block, from timings of steps of several sizes."""
    # How many images suit a CPU depends on its caches, on how the system gives memory
    # to XLA and on the network: one of 0.4 GMAC takes 2.2 ms an image of 224 px with
    # blocks of 8, and 6.6 ms with 64; the IDC CNN of 50 px takes a fifth less with 500
    # than with 250. So a long run tries half and twice the usual number, and goes on in
    # the better direction. Accelerators keep to the memory's rule.
    rows, mesh, operations = execution.rows, execution.mesh, execution.info.operations
    if (
        platform(mesh) != "cpu"
        or mesh.is_multi_process
        or execution.answerer.is_on_host
        or execution.batch_size is not None
        or math.isinf(operations)
        or number == 0
        or operations * number < _FEWEST_OPERATIONS
    ):
        return rows
    classifier = execution.classifier
    # A power of two, as the sizes that are tried.
    begin = bucket(min(rows, length) // mesh.size // 2 + 1, 2)
    kinds = tuple((one.shape, one.dtype) for one in jax.tree.leaves(classifier))
    about = jax.tree.structure(classifier), kinds, execution.image_shape, begin, mesh
    found = _found(*about)
    if not found:
        device = mesh.local_devices[0]
        most = rows_in_memory(execution.info.largest_array, device)
        on_each = length / mesh.size

        def seconds(size: int) -> float:
            each = math.ceil(min(size, on_each))
            return _seconds(execution, dtype, alteration, levels, each)

        # The power of two behind the length stands for all images in one block.
        most = min(most, 2 * on_each - 1, _MOST_ON_EACH)
        left = _LARGEST_SHARE * number / mesh.size
        with computing(), jax.set_mesh(mesh.mesh):
            found.append(_best(seconds, begin, most, left) * mesh.size)
    return found[0] or rows


def _best(seconds: Callable[[int], float], begin: int, most: float, left: float) -> int:
    """Returns the fastest of a size, its halves and its doubles; 0 if untried."""
    tried: dict[int, float] = {}

    def cost(size: int) -> float:
        nonlocal left
        if size not in tried:
            left -= size * (1 + _REPEATS)
            tried[size] = seconds(size) if 1 <= size <= most and left >= 0 else math.inf
        return tried[size]

    best = max(begin, 1)
    for factor in (0.5, 2.0):
        while cost(int(best * factor)) < (1 - _LEAST_GAIN) * cost(best):
            best = int(best * factor)
        if best != begin:
            break
    return best if sum(map(math.isfinite, tried.values())) > 1 else 0


def _seconds(
    execution: Execution,
    dtype: Any,
    alteration: Alteration,
    levels: np.ndarray,
    on_each: int,
) -> float:
    """Returns a step's seconds for an image of a device's block at one level."""
    shape, mesh = execution.image_shape, execution.mesh
    size = on_each * mesh.size
    info, rows = execution.info, execution.rows
    each = levels_in_step(info, shape, rows, size, len(levels), mesh)
    at = np.full(each, levels[len(levels) // 2])
    block = np.zeros((size, *shape), dtype), np.arange(size, dtype=np.uint32)
    images, index, labels = put((*block, np.zeros(size, np.int32)), sharded(mesh))
    classifier, key = execution.classifier, execution.key
    prepared = preparing(images, index, key, alteration, mesh).run()
    call = answering(classifier, prepared, index, labels, key, at, 1, alteration, mesh)
    jax.block_until_ready(call.run())
    return min(_timed(call.run) for _ in range(_REPEATS)) / on_each


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


@functools.lru_cache(maxsize=512)
def _found(*about: Any) -> list[int]:
    """Returns what was found for such classifiers, if anything."""
    del about
    return []
