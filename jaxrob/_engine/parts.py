"""Answers on parts of the images, in a random order, at levels of alterations."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._dataset import Dataset
from jaxrob._engine.blocks import Block, picked_blocks
from jaxrob._engine.execution import Execution, check_same_request
from jaxrob._engine.picked import CountedBatches
from jaxrob._engine.sizes import batch_size_of
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob._keys import checked_key, order_keys
from jaxrob.alterations import Alteration
from jaxrob.strategies._drive import Span
from jaxrob.strategies._strategy import BLOCK


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
