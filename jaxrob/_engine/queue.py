"""The queue: levels of several alterations on all images, or on parts of them."""

import contextlib
import functools
import math
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._curve import AnyCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.hosts import put
from jaxrob._devices.memory import bucket, rows_in_memory
from jaxrob._devices.mesh import platform, sharded
from jaxrob._engine.answers import AnswerCollector, CountCollector, CurveCollector
from jaxrob._engine.blocks import (
    Block,
    CountedBatches,
    PlacedBlock,
    picked_blocks,
    placed_blocks,
)
from jaxrob._engine.execution import (
    Execution,
    batch_size_of,
    check_same_request,
    images_in_block,
    levels_in_step,
    rows_of_a_level,
)
from jaxrob._engine.step import answering, levels_are_sequential, preparing
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob._keys import checked_key, order_keys
from jaxrob.alterations import Alteration
from jaxrob.strategies._drive import Span
from jaxrob.strategies._strategy import BLOCK

# Stands for all images, even if their number is unknown.
_EVERYWHERE = (0, sys.maxsize)


class Frontier(NamedTuple):
    """Levels `[L]` of an alteration to evaluate, canonical and distinct."""

    alteration: Alteration
    levels: np.ndarray


def evaluate_queue(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
    done: Callable[[int, AnyCurve], None] | None = None,
) -> list[AnyCurve]:
    """Evaluates every image at every level of several alterations."""
    # The data are read once, and the steps of all frontiers share one queue, so that an
    # accelerator does not wait between alterations. The caller has checked the
    # arguments as `evaluate` does.
    with computing():
        length = len(dataset) if isinstance(dataset, Dataset) else None
        check_same_request(execution, frontiers, length)
        collectors = [
            _new_collector(execution, frontier.levels, length) for frontier in frontiers
        ]
        tasks = [
            _new_task(execution, frontier, collector, length)
            for frontier, collector in zip(frontiers, collectors)
        ]
        placed = _placed(execution, dataset, length, frontiers)
    number = (length or 0) * sum(len(frontier.levels) for frontier in frontiers)
    curves: dict[int, AnyCurve] = {}
    # Closed at once if the caller fails, so that what is under way is journaled.
    with contextlib.closing(
        run_tasks(execution, tasks, placed, dataset, number)
    ) as finished:
        for place in finished:
            curves[place] = collectors[place].curve()
            if done is not None:
                done(place, curves[place])
    return [curves[place] for place in range(len(frontiers))]


def _new_collector(
    execution: Execution, levels: np.ndarray, length: int | None
) -> CurveCollector:
    if not execution.reduced:
        return AnswerCollector(levels, length, execution.kind)
    has_probabilities = execution.classifier.outputs != "scores"
    return CountCollector(levels, execution.info.num_classes, has_probabilities)


def _new_task(
    execution: Execution,
    frontier: Frontier,
    collector: CurveCollector,
    length: int | None,
) -> EvaluationTask:
    alteration, levels = frontier
    if execution.cached is not None:
        execution.cached.check(alteration, execution.kind.num_classes, length)
    return EvaluationTask(alteration, levels, [_EVERYWHERE] * len(levels), collector)


def _placed(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    length: int | None,
    frontiers: Sequence[Frontier],
) -> Generator[PlacedBlock, None, None]:
    """Returns the blocks of images, of a size that suits the levels."""
    rows, mesh = _rows_of_a_block(execution, dataset, frontiers), execution.mesh
    asked = execution.batch_size
    size = images_in_block(execution.classifier, rows, length, asked, mesh)
    num_classes = execution.kind.num_classes
    return placed_blocks(dataset, num_classes, size, mesh, execution.kept)


def _rows_of_a_block(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
) -> int:
    """Returns the most images of a block, the same in all rounds of a run."""
    # Other sizes would be other programs, and other blocks on the devices.
    kept, cached = execution.kept, execution.cached
    if kept.rows is None:
        levels = [len(frontier.levels) for frontier in frontiers]
        if levels_are_sequential(execution.image_shape, execution.mesh):
            # Sizes are tried on CPUs alone: what suits one does not suit a TPU.
            is_cpu = platform(execution.mesh) == "cpu"
            known = cached.rows if cached is not None and is_cpu else None
            kept.rows = known or _tried_rows(execution, dataset, frontiers)
            if cached is not None and kept.rows not in (known, execution.rows):
                cached.add_rows(kept.rows)
        elif not execution.answerer.is_on_host:
            info, shape = execution.info, execution.image_shape
            mesh = execution.mesh
            kept.rows = rows_of_a_level(execution.rows, info, shape, levels, mesh)
        else:
            kept.rows = execution.rows
    return kept.rows


def _tried_rows(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
) -> int:
    if not isinstance(dataset, Dataset):
        return execution.rows
    number = len(dataset) * sum(len(frontier.levels) for frontier in frontiers)
    dtype = dataset.images.dtype
    return tried_rows(execution, dtype, *frontiers[0], len(dataset), number)


@computing()
def answer_parts(
    execution: Execution,
    dataset: Dataset | CountedBatches,
    parts: Sequence[Span],
    order: np.ndarray,
) -> list[Any]:
    """Returns the classifier's answers on parts of the images, in a random order."""
    # An image's noise depends on its index in the data set, not on its position in the
    # order. So the answers equal those of `evaluate_queue`, up to rounding. Levels of
    # one alteration that need the same block share steps, and alterations share blocks.
    # The caller has checked the arguments as `evaluate` does.
    source = dataset if isinstance(dataset, Dataset) else dataset.batches
    check_same_request(execution, parts, order)
    cut, num_classes = _images_in_block(execution), execution.kind.num_classes
    answers = [execution.kind.empty((part.length,)) for part in parts]

    def new_task(alteration: Alteration, rows: list[int]) -> EvaluationTask:
        if execution.cached is not None:
            execution.cached.check(alteration, num_classes, len(order))
        levels = np.array([parts[row].level for row in rows])
        spans = [(parts[row].start, parts[row].stop) for row in rows]
        collector = _PartCollector(spans, [answers[row] for row in rows])
        return EvaluationTask(
            alteration, levels, spans, collector, in_random_order=True
        )

    by_alteration: dict[Alteration, list[int]] = {}
    for row, part in enumerate(parts):
        by_alteration.setdefault(part.alteration, []).append(row)
    tasks = [new_task(*item) for item in by_alteration.items()]
    starts = sorted(
        {
            start
            for part in parts
            for start in range(part.start // cut * cut, part.stop, cut)
        }
    )
    blocks = starts, cut, num_classes, execution.mesh, execution.kept
    placed = picked_blocks(dataset, order, *blocks)
    number = sum(part.length for part in parts)
    for _ in run_tasks(execution, tasks, placed, source, number):
        pass
    return answers


def _images_in_block(execution: Execution) -> int:
    """Returns the images in a block: a multiple of a host network's batch size."""
    asked = execution.batch_size
    if asked is None:
        fitting = execution.rows // execution.mesh.size
        asked = min(BLOCK, 2 ** int(math.log2(max(fitting, 1))))
    batch = batch_size_of(execution.classifier)
    return math.ceil(asked / batch) * batch


class _PartCollector:
    """Writes answers into the arrays of their parts."""

    def __init__(
        self, spans: Sequence[tuple[int, int]], answers: Sequence[Any]
    ) -> None:
        """Collects for parts of these spans, into `answers`, empty arrays."""
        self._spans = spans
        self._answers = answers

    def add(self, block: Block, rows: list[int], answers: Any) -> None:
        for row, values in zip(rows, zip(*answers)):
            start, _ = self._spans[row]
            where = slice(block.start - start, block.stop - start)
            for whole, part in zip(self._answers[row], values):
                whole[where] = part


def random_order(key: jax.Array | None, length: int) -> np.ndarray:
    """Returns the indices of a data set's images in the key's random order."""
    # Images are sorted by 64 random bits each, drawn from the key and the image's
    # index. The order is the same in every process and version.
    key = jax.random.key(0) if key is None else checked_key(key)
    index = jnp.arange(length, dtype=jnp.uint32)
    bits = np.asarray(jax.random.key_data(order_keys(key, index)))
    # `lexsort` sorts by its last key first. Ties keep the lower index first.
    return np.lexsort((bits[:, 1], bits[:, 0]))


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
