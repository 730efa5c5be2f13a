"""The queue: levels of several alterations on all images, or on parts of them."""

import contextlib
import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.texts import computing
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import on_host
from jaxrob._classifiers.trace import trace_info
from jaxrob._curve import AnyCurve, ReducedCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.blocks import bucket, rows_in_memory
from jaxrob._devices.mesh import checked_mesh, platform, put, sharded
from jaxrob._domain import AnyAlteration, levels_of
from jaxrob._engine.answers import AnswerCollector, CountCollector
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
    noted,
    rows_for,
    rows_of_a_level,
)
from jaxrob._engine.step import Ask, altered, is_apart, levels_are_sequential, preparing
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob._keys import order_keys
from jaxrob.alterations._recorded import Recorded
from jaxrob.strategies._drive import Span
from jaxrob.strategies._strategy import BLOCK


def everywhere(alteration: AnyAlteration, levels: np.ndarray) -> list[Span]:
    """Returns the spans of all images, even of an unknown number."""
    return [Span(alteration, level, 0, sys.maxsize) for level in levels_of(levels)]


def evaluate_queue(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    queue: Sequence[Sequence[Span]],
    done: Callable[[int, AnyCurve], None] | None = None,
) -> list[AnyCurve]:
    """Evaluates every image at every level of several alterations."""
    # The steps of all alterations share one queue, so that an accelerator does not wait
    # between them. The caller has checked the arguments as `evaluate` does.
    with computing():
        length = len(dataset) if isinstance(dataset, Dataset) else None
        check_same_request(execution, queue, length)
        kind = execution.kind
        has_probabilities = execution.classifier.outputs != "scores"
        collectors = [
            CountCollector(levels, execution.info.num_classes, has_probabilities)
            if execution.reduced
            else AnswerCollector(levels, length, kind)
            for levels in (np.array([one.level for one in spans]) for spans in queue)
        ]
        tasks = [EvaluationTask(some, one.add) for some, one in zip(queue, collectors)]
        number = (length or 0) * sum(map(len, queue))
        size = images_in_block(
            execution.classifier,
            _rows_of_a_block(execution, dataset, queue, number),
            length,
            execution.batch_size,
            execution.mesh,
        )
        placed = placed_blocks(
            dataset, kind.num_classes, size, execution.mesh, execution.kept
        )
        _choose_programs(execution, size, number, len(queue))
    table = dataset._table if isinstance(dataset, Dataset) else None
    curves: dict[int, AnyCurve] = {}
    # Closed at once if the caller fails, so that what is under way is journaled.
    with contextlib.closing(
        run_tasks(execution, tasks, placed, dataset, number)
    ) as finished:
        for place in finished:
            curves[place] = collectors[place].curve()
            if table is not None and not isinstance(curves[place], ReducedCurve):
                curves[place] = dataclasses.replace(curves[place], table=table)
            if done is not None:
                done(place, curves[place])
    return [curves[place] for place in range(len(queue))]


def _choose_programs(
    execution: Execution, images: int, number: int, alterations: int
) -> None:
    """Decides in a run's first round whether the network is a program apart."""
    kept, answerer = execution.kept, execution.answerer
    if kept.is_apart is None:
        each = number / alterations if number else math.inf
        apart = is_apart(execution.info, images, each, execution.mesh)
        kept.is_apart = apart and not answerer.is_on_host


def shared_size(
    classifier: Classifier, dataset: Dataset, batch_size: int | None, levels: int
) -> int | None:
    """Returns the images in a block of a run, if the network is a program apart."""
    # A look at few images before the run, in such a block, then compiles it for both.
    shape, mesh = dataset.images.shape[1:], checked_mesh(None, classifier.variables)
    rows, length = rows_for(classifier, shape, mesh), len(dataset)
    size = images_in_block(classifier, rows, length, batch_size, mesh)
    apart = is_apart(trace_info(classifier, shape), size, length * levels, mesh)
    return size if apart and on_host(classifier.apply_fn) is None else None


def _rows_of_a_block(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    queue: Sequence[Sequence[Span]],
    number: int,
) -> int:
    """Returns the most images of a block, the same in all rounds of a run."""
    # Other sizes would be other programs, and other blocks on the devices.
    kept, cached, mesh = execution.kept, execution.cached, execution.mesh
    if kept.rows is not None:
        return kept.rows
    kept.rows = execution.rows
    if levels_are_sequential(execution.image_shape, mesh):
        # Sizes are tried on CPUs alone: what suits one does not suit a TPU.
        is_cpu = platform(mesh) == "cpu"
        known = cached.rows if cached is not None and is_cpu else None
        kept.rows = known or _tried_rows(execution, dataset, queue[0], number)
        if cached is not None and kept.rows not in (known, execution.rows):
            cached.add_rows(kept.rows)
    elif not execution.answerer.is_on_host:
        levels, shape = [*map(len, queue)], execution.image_shape
        info, rows = execution.info, execution.rows
        kept.rows = rows_of_a_level(rows, info, shape, levels, mesh)
    return kept.rows


@computing()
def answer_parts(
    execution: Execution,
    dataset: Dataset | CountedBatches,
    parts: Sequence[Span],
    order: np.ndarray,
    block: int = BLOCK,
) -> list[Any]:
    """Returns the classifier's answers on parts of the images, in a random order."""
    # Parts are of so many images, or multiples. Noise depends on an image's index, not
    # on its place in the order, so that answers are those of `evaluate_queue`.
    source = dataset if isinstance(dataset, Dataset) else dataset.batches
    check_same_request(execution, parts, order)
    cut, kind = _images_in_block(execution, block), execution.kind
    answers = [kind.empty((part.length,)) for part in parts]

    def new_task(places: list[int]) -> EvaluationTask:
        def add(block: Block, rows: list[int], found: Any) -> None:
            for row, values in zip(rows, zip(*found)):
                start = parts[places[row]].start
                where = slice(block.start - start, block.stop - start)
                for whole, some in zip(answers[places[row]], values):
                    whole[where] = some

        return EvaluationTask([parts[place] for place in places], add, True)

    by_alteration: dict[AnyAlteration, list[int]] = {}
    for place, part in enumerate(parts):
        by_alteration.setdefault(part.alteration, []).append(place)
    tasks = [new_task(places) for places in by_alteration.values()]
    begins = (range(part.start // cut * cut, part.stop, cut) for part in parts)
    starts = sorted(set[int]().union(*begins))
    placed = picked_blocks(
        dataset, order, starts, cut, kind.num_classes, execution.mesh, execution.kept
    )
    number = sum(part.length for part in parts)
    _choose_programs(execution, cut, number, len(tasks))
    for _ in run_tasks(execution, tasks, placed, source, number):
        pass
    return answers


def _images_in_block(execution: Execution, block: int) -> int:
    """Returns the images in a block: a multiple of a host network's batch size."""
    asked = execution.batch_size
    if asked is None:
        fitting = execution.rows // execution.mesh.size
        asked = min(block, 2 ** int(math.log2(max(fitting, 1))))
    batch = batch_size_of(execution.classifier)
    return math.ceil(asked / batch) * batch


def random_order(key: jax.Array | None, length: int) -> np.ndarray:
    # Images are sorted by 64 random bits each, drawn from the key and the image's
    # index. The order is the same in every process and version.
    key = jax.random.key(0) if key is None else key
    index = jnp.arange(length, dtype=jnp.uint32)
    bits = np.asarray(jax.random.key_data(order_keys(key, index)))
    # `lexsort` sorts by its last key first. Ties keep the lower index first.
    return np.lexsort((bits[:, 1], bits[:, 0]))


# Operations of a run of about ten seconds on two cores. To compile a trial's programs
# takes two.
_FEWEST_OPERATIONS = 2**40
# The most answers that the trial may compute, of those of the run.
_LARGEST_SHARE = 0.25
# A step is timed so often, after a first time, which may compile it.
_REPEATS = 2
# Another size must be faster by this, which is more than timings scatter.
_LEAST_GAIN = 0.03
# The most images of a block on each device, whatever the timings say.
_MOST_ON_EACH = 2**14


def _tried_rows(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    spans: Sequence[Span],
    number: int,
) -> int:
    """Returns the most images of a block, from timings of steps of several sizes."""
    # No rule fits caches, XLA's memory and networks: one of 0.4 GMAC takes 2.2 ms an
    # image in blocks of 8, 6.6 ms in blocks of 64; the IDC CNN a fifth less with more.
    rows, mesh, operations = execution.rows, execution.mesh, execution.info.operations
    if (
        not isinstance(dataset, Dataset)
        or platform(mesh) != "cpu"
        or isinstance(spans[0].alteration, Recorded)
        or mesh.is_multi_process
        or execution.answerer.is_on_host
        or execution.batch_size is not None
        or math.isinf(operations)
        or number == 0
        or operations * number < _FEWEST_OPERATIONS
    ):
        return rows
    # A power of two, as the sizes that are tried.
    begin = bucket(min(rows, len(dataset)) // mesh.size // 2 + 1, 2)
    leaves, structure = jax.tree.flatten(execution.classifier)
    kinds = tuple((one.shape, one.dtype) for one in leaves)
    found = noted("rows", structure, kinds, execution.image_shape, begin, mesh)
    if not found:
        device = mesh.local_devices[0]
        on_each = len(dataset) / mesh.size
        # The power of two behind the length stands for all images in one block.
        most = rows_in_memory(execution.info.largest_array, device)
        most = min(most, 2 * on_each - 1, _MOST_ON_EACH)
        left = _LARGEST_SHARE * number / mesh.size

        def seconds(size: int) -> float:
            each = math.ceil(min(size, on_each))
            return _seconds(execution, dataset.images.dtype, spans, each)

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
    execution: Execution, dtype: Any, spans: Sequence[Span], on_each: int
) -> float:
    """Returns a step's seconds for an image of a device's block at one level."""
    shape, mesh, key = execution.image_shape, execution.mesh, execution.key
    size = on_each * mesh.size
    each = levels_in_step(execution.info, shape, execution.rows, size, len(spans), mesh)
    middle = spans[len(spans) // 2]
    levels = np.array([middle.level] * each, np.float32)
    block = np.zeros((size, *shape), dtype), np.arange(size, dtype=np.uint32)
    images, index, labels = put((*block, np.zeros(size, np.int32)), sharded(mesh))
    prepared = preparing(images, index, key, middle.alteration, mesh).run()
    placed = PlacedBlock(Block(np.zeros(size, np.int32), 0), images, index, labels)
    ask = Ask(placed, prepared, middle.alteration, levels, 1)

    def run() -> Any:
        asked = altered(ask, mesh) if apart else ask
        return execution.answerer.dispatch(asked)

    apart = is_apart(execution.info, size, math.inf, mesh)
    jax.block_until_ready(run())
    return min(_timed(run) for _ in range(_REPEATS)) / on_each


def _timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start
