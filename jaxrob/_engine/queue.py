"""The queue: all levels of several alterations, on all images."""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.blocks import placed_blocks
from jaxrob._engine.collect import AnswerCollector, CountCollector, CurveCollector
from jaxrob._engine.execution import Execution, check_same_request
from jaxrob._engine.sizes import images_in_block, rows_of_a_level
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob.alterations import Alteration

# Stands for all images, even if their number is unknown.
_EVERYWHERE = (0, sys.maxsize)


class Frontier(NamedTuple):
    """Levels `[L]` of an alteration to evaluate, canonical and distinct."""

    alteration: Alteration
    levels: np.ndarray


@computing()
def evaluate_queue(
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
    done: Callable[[int, Curve | ReducedCurve], None] | None = None,
) -> list[Curve | ReducedCurve]:
    """Evaluates every image at every level of several alterations.

    The data are read once, and the steps of all frontiers share one queue, so that an
    accelerator does not wait between alterations. The caller has checked the arguments
    as `evaluate` does.

    Args:
      execution: the classifier, and how levels are evaluated.
      dataset: the images.
      frontiers: which levels of which alterations.
      done: called with a frontier's index and curve as soon as it is known, while the
        devices may still compute those of others.

    Returns:
      A curve for each frontier.

    Raises:
      ValueError: if the batch size is below 1, a label is no class of the classifier,
        the classifier returned NaN or rows that are no probabilities, or the journal
        holds impossible answers.
      OSError: if the journal cannot be written.
    """
    classifier, mesh = execution.classifier, execution.mesh
    length = len(dataset) if isinstance(dataset, Dataset) else None
    check_same_request(execution, frontiers, length)
    rows, num_classes = execution.rows, execution.info.num_classes
    if execution.network is None:
        levels = [len(frontier.levels) for frontier in frontiers]
        rows = rows_of_a_level(rows, execution.image_shape, levels, mesh)
    size = images_in_block(classifier, rows, length, execution.batch_size, mesh)

    def new_collector(levels: np.ndarray) -> CurveCollector:
        if execution.reduced:
            return CountCollector(levels, num_classes)
        has_probabilities = classifier.outputs != "scores"
        return AnswerCollector(levels, num_classes, length, has_probabilities)

    def new_task(frontier: Frontier, collector: CurveCollector) -> EvaluationTask:
        alteration, levels = frontier
        if execution.cached is not None:
            execution.cached.check(alteration, num_classes, length)
        return EvaluationTask(
            alteration, levels, [_EVERYWHERE] * len(levels), collector
        )

    collectors = [new_collector(frontier.levels) for frontier in frontiers]
    tasks = list(map(new_task, frontiers, collectors))
    number = (length or 0) * sum(len(frontier.levels) for frontier in frontiers)
    placed = placed_blocks(dataset, num_classes, size, mesh, execution.kept)
    curves: dict[int, Curve | ReducedCurve] = {}

    def collected(place: int) -> None:
        curves[place] = collectors[place].curve()
        if done is not None:
            done(place, curves[place])

    run_tasks(execution, tasks, placed, dataset, number, collected)
    return [curves[place] for place in range(len(frontiers))]
