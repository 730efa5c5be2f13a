"""Runs tasks on blocks of images as one sequence of steps, so that no device waits."""

import collections
import contextlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.mesh import platform
from jaxrob._engine.answers import Collector
from jaxrob._engine.blocks import Block, PlacedBlock
from jaxrob._engine.execution import Execution, levels_in_step
from jaxrob._engine.preflight import are_doubtful, check_logits, check_network
from jaxrob._engine.step import Ask, preparing
from jaxrob.alterations import Alteration

# Steps dispatched before the answers of an earlier step are awaited. On a CPU one keeps
# the cores busy while the host processes answers; more would compete for them.
_AHEAD = 8
_AHEAD_CPU = 1

T = TypeVar("T")


class EvaluationTask(NamedTuple):
    """The images requested at some levels of an alteration, and their collector."""

    alteration: Alteration  # the alteration
    levels: np.ndarray  # `[L]`, canonical
    # Each level's images: positions from a start to before a stop, in the order in
    # which the images arrive
    spans: Sequence[tuple[int, int]]
    collector: Collector  # takes the answers
    # Whether the images arrive in the random order, not the data's
    in_random_order: bool = False


def run_tasks(
    execution: Execution,
    tasks: Sequence[EvaluationTask],
    placed: Generator[PlacedBlock, None, None],
    dataset: Dataset | BatchedDataset,
    number: int,
) -> Generator[int, None, None]:
    """Computes the tasks' answers block by block, for their collectors."""
    # If the caller ends early, answers that are under way are still journaled.
    classifier = execution.classifier
    execution.bar.ask(number)
    ahead = _AHEAD_CPU if platform(execution.mesh) == "cpu" else _AHEAD
    # A block is uploaded before the steps of the one before: to dispatch a step takes
    # an H100 1.2 ms longer while its images are on their way.
    next_blocks = 0 if ahead == _AHEAD_CPU else 1
    # The steps run on this mesh, even if the caller has set another one.
    with (
        computing(),
        own_errors(),
        jax.set_mesh(execution.mesh.mesh),
        contextlib.closing(placed) as blocks,
    ):
        steps = (
            step
            for block in _delayed(blocks, next_blocks)
            for task in tasks
            for step in _dispatched(task, block, execution, dataset, number)
        )
        if execution.answerer.is_on_host:
            # While the host works on one level, the devices compute the next.
            steps = (_answered(step, execution) for step in _delayed(steps, 1))
        waiting = collections.deque[_Step]()
        for step in steps:
            waiting.append(step)
            if len(waiting) > ahead:
                _finish(waiting.popleft(), execution)
    # The caller's own code runs in between, outside the mesh.
    yield from _finished(waiting, tasks, execution)
    is_scored = execution.kind.num_classes is None
    is_checked = "outputs" in execution.checked or is_scored
    if classifier.outputs == "logits" and not is_checked:
        # Probabilities taken as logits would explain all confidences.
        execution.checked.add("outputs")
        with computing(), own_errors(), jax.set_mesh(execution.mesh.mesh):
            check_logits(classifier, dataset, execution.key, execution.mesh, number)


class _Step(NamedTuple):
    """A dispatched step, without its images, which are freed before it is finished."""

    task: EvaluationTask
    block: Block
    rows: list[int]  # which levels of the task
    answers: Any  # [l, B], with padding levels; or what the host has yet to work on
    indices: jax.Array  # [B], of the images in the data set


def _dispatched(
    task: EvaluationTask,
    placed: PlacedBlock,
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    number: int,
) -> Iterator[_Step]:
    """Dispatches the steps on a block, one by one, except for journaled answers."""
    block, images, index, _ = placed
    wanted = [
        row for row, span in enumerate(task.spans) if block.part(*span).labels.size
    ]
    missing = [
        row for row in wanted if not _collect_if_journaled(task, block, row, execution)
    ]
    if not missing:
        return
    mesh, answerer, alteration = execution.mesh, execution.answerer, task.alteration
    # Journaled answers do not change a step's shape, and so not its rounding.
    each = _levels_a_step(execution, len(images), len(wanted))
    levels = task.levels.astype(np.float32)
    mildest = np.abs(levels - alteration.identity).argmin()
    there = np.full(each, levels[mildest])
    check_network(execution, alteration, there, placed, dataset, number)
    prepared = preparing(images, index, execution.key, alteration, mesh).run()
    for first in range(0, len(missing), each):
        rows = missing[first : first + each]
        # Padded with the last level, so that every step has the same shape.
        filled = rows + rows[-1:] * (each - len(rows))
        ask = Ask(placed, prepared, alteration, levels[filled], len(rows))
        answers = answerer.dispatch(ask)
        if platform(mesh) != "cpu" and not answerer.is_on_host:
            jax.copy_to_host_async(answers)
        yield _Step(task, block, rows, answers, index)


def _levels_a_step(execution: Execution, images: int, num_levels: int) -> int:
    if execution.answerer.is_on_host:
        return 1
    mesh = execution.mesh
    return levels_in_step(
        execution.info, execution.image_shape, execution.rows, images, num_levels, mesh
    )


def _answered(step: _Step, execution: Execution) -> _Step:
    """Returns the step with its answers, running what runs on the host."""
    return step._replace(answers=execution.answerer.finish(step.answers))


def _delayed(items: Iterable[T], number: int) -> Iterator[T]:
    """Yields the items in order, each after `number` further ones were computed."""
    waiting = collections.deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > number:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _collect_if_journaled(
    task: EvaluationTask, block: Block, row: int, execution: Execution
) -> bool:
    """Collects a level's answers on a block if the journal has them; says whether."""
    cached = execution.cached
    if cached is None:
        return False
    part = block.part(*task.spans[row])
    order = task.in_random_order
    level = task.levels[row]
    known = cached.find(task.alteration, level, part.start, part.stop, order)
    if known is None:
        return False
    answers = jax.tree.map(lambda one: one[None], known)
    _collect(task, part, [row], answers, execution, is_known=True)
    return True


def _finish(step: _Step, execution: Execution) -> None:
    """Awaits a step's answers, checks, journals and collects them."""
    task, block, rows, found, _ = step
    whole = jax.tree.map(np.asarray, found)
    parts = [block.part(*task.spans[row]) for row in rows]
    for span in dict.fromkeys((part.start, part.stop) for part in parts):
        part = block.part(*span)
        at = [i for i, one in enumerate(parts) if (one.start, one.stop) == span]
        images = slice(part.start - block.start, part.stop - block.start)
        answers = jax.tree.map(lambda one: one[at, images], whole)  # noqa: B023
        alike = [rows[i] for i in at]
        levels = task.levels[alike]
        place = step.indices, images.start
        answers = execution.kind.checked(answers, place, levels, task.alteration)
        if execution.cached is not None:
            order = task.in_random_order
            execution.cached.add(task.alteration, levels, part.start, answers, order)
        _collect(task, part, alike, answers, execution)


def _finished(
    waiting: collections.deque[_Step],
    tasks: Sequence[EvaluationTask],
    execution: Execution,
) -> Iterator[int]:
    """Finishes the last steps, and yields each task's index as soon as it is done."""
    place_of = {id(task): place for place, task in enumerate(tasks)}
    under_way = collections.Counter(place_of[id(step.task)] for step in waiting)

    def finish_next() -> int:
        step = waiting.popleft()
        with computing(), own_errors():
            _finish(step, execution)
        return place_of[id(step.task)]

    try:
        yield from (place for place in range(len(tasks)) if not under_way[place])
        while waiting:
            place = finish_next()
            under_way[place] -= 1
            if not under_way[place]:
                yield place
    except GeneratorExit:
        while waiting:
            finish_next()
        raise


def _collect(
    task: EvaluationTask,
    block: Block,
    rows: list[int],
    answers: Any,
    execution: Execution,
    is_known: bool = False,
) -> None:
    num_classes = execution.kind.num_classes
    if num_classes is not None and "outputs" not in execution.checked:
        if not are_doubtful(answers, num_classes):
            execution.checked.add("outputs")
    task.collector.add(block, rows, answers)
    bar = execution.bar
    (bar.skip if is_known else bar.update)(answers[0].size)
