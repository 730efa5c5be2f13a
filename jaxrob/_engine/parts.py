"""Parts: some of the images, in a random order, at levels of several alterations."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._dataset import Dataset
from jaxrob._engine.answers import HostAnswers
from jaxrob._engine.blocks import Block, picked_blocks
from jaxrob._engine.collect import empty_answers
from jaxrob._engine.execution import Execution, check_alike
from jaxrob._engine.picked import CountedBatches
from jaxrob._engine.sizes import batch_size_of
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob.alterations import Alteration
from jaxrob.strategies._strategy import BLOCK


class Part(NamedTuple):
    """Images, in the random order, that are wanted at a level of an alteration.

    Attributes:
      alteration: the alteration.
      level: the level, canonical.
      start: the place of the first image in the order.
      stop: the place after that of the last one.
    """

    alteration: Alteration
    level: float
    start: int
    stop: int


@computing()
def answer_parts(
    execution: Execution,
    dataset: Dataset | CountedBatches,
    parts: Sequence[Part],
    order: np.ndarray,
) -> list[HostAnswers]:
    """The answers on parts of the images, in a random order.

    An image's noise comes from its index in the data set, wherever it stands in the
    order. So the answers are those of `evaluate_queue` on these images, up to rounding.
    Levels of an alteration that want the same block share steps, and alterations share
    blocks. What `evaluate` checks of the arguments must have been checked.

    Args:
      execution: the classifier, and how levels are evaluated. A batch size is that of
        the blocks.
      dataset: the images, see `counted`.
      parts: which images, at which levels of which alterations.
      order: `[N]`, the images' indices in a random order, see `random_order`.

    Returns:
      Answers `[stop - start]` for each part, in the random order.

    Raises:
      ValueError: as `evaluate_queue`.
      OSError: likewise.
    """
    source = dataset if isinstance(dataset, Dataset) else dataset.batches
    check_alike(execution, parts, order)
    cut, num_classes = _images_in_block(execution), execution.info.num_classes
    answers = [empty_answers((part.stop - part.start,), num_classes) for part in parts]

    def new_task(alteration: Alteration, rows: list[int]) -> EvaluationTask:
        if execution.kept is not None:
            execution.kept.check(alteration, num_classes, len(order))
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
    placed = picked_blocks(dataset, order, starts, cut, num_classes, execution.mesh)
    number = sum(part.stop - part.start for part in parts)
    run_tasks(execution, tasks, placed, source, number)
    return answers


def _images_in_block(execution: Execution) -> int:
    """Images in a block: as many as fit, in full batches of a network on the host."""
    asked = execution.batch_size
    if asked is None:
        fitting = execution.rows // execution.mesh.size
        asked = min(BLOCK, 2 ** int(math.log2(max(fitting, 1))))
    batch = batch_size_of(execution.classifier)
    return math.ceil(asked / batch) * batch


class _PartCollector:
    """Puts answers where they belong in those of their parts."""

    def __init__(
        self, spans: Sequence[tuple[int, int]], answers: Sequence[HostAnswers]
    ) -> None:
        """A collector for parts of these spans, with room for their answers."""
        self._spans = spans
        self._answers = answers

    def add(self, block: Block, rows: list[int], answers: HostAnswers) -> None:
        for row, values in zip(rows, zip(*answers)):
            start, _ = self._spans[row]
            where = slice(block.start - start, block.stop - start)
            for whole, part in zip(self._answers[row], values):
                whole[where] = part
