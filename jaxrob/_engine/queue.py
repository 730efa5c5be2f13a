"""The queue: all levels of several alterations, on all images."""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._curve import AnyCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.mesh import platform
from jaxrob._engine.blocks import PlacedBlock, placed_blocks
from jaxrob._engine.collect import AnswerCollector, CountCollector, CurveCollector
from jaxrob._engine.execution import Execution, check_same_request
from jaxrob._engine.sizes import (
    images_in_block,
    levels_are_sequential,
    rows_of_a_level,
)
from jaxrob._engine.tasks import EvaluationTask, run_tasks
from jaxrob._engine.trial import tried_rows
from jaxrob.alterations import Alteration

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
