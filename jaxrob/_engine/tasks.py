"""Runs tasks on blocks of images as one sequence of steps, so that no device waits."""

import collections
import contextlib
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._arguments.texts import computing
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.mesh import platform, put, put_whole, sharded
from jaxrob._domain import AnyAlteration
from jaxrob._engine.blocks import Block, PlacedBlock, beside
from jaxrob._engine.execution import Execution, levels_in_step, noted
from jaxrob._engine.mistakes import CHECKED, are_doubtful, check_logits, check_network
from jaxrob._engine.step import UNALTERED, Ask, altered, preparing
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._recorded import Recorded
from jaxrob.strategies._drive import Span

# Steps dispatched before the answers of an earlier step are awaited. On a CPU one keeps
# the cores busy while the host processes answers; more would compete for them.
_AHEAD = 8
_AHEAD_CPU = 1

T = TypeVar("T")


class EvaluationTask(NamedTuple):
    """Spans of one alteration, at distinct levels, and what takes their answers."""

    spans: Sequence[Span]
    # Takes a block, which of the spans, and answers `[l, n]` on the block's images.
    add: Callable[[Block, list[int], Any], None]
    # Whether the images arrive in the random order, not the data's
    in_random_order: bool = False

    @property
    def alteration(self) -> AnyAlteration:
        return self.spans[0].alteration

    def levels(self, rows: list[int]) -> np.ndarray:
        return np.array([self.spans[row].level for row in rows])


def run_tasks(
    execution: Execution,
    tasks: Sequence[EvaluationTask],
    placed: Generator[PlacedBlock, None, None],
    dataset: Dataset | BatchedDataset,
    number: int,
) -> Generator[int, None, None]:
    """Computes the tasks' answers block by block; yields each that is done."""
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
            for place, task in enumerate(tasks)
            for step in _dispatched(
                place,
                task,
                block,
                execution,
                dataset,
                number,
                f"{place + 1} of {len(tasks)}",
            )
        )
        if execution.answerer.is_on_host:
            # While the host works on one level, the devices compute the next.
            finish = execution.answerer.finish
            steps = (
                step._replace(answers=finish(step.answers))
                for step in _delayed(steps, 1)
            )
        waiting = collections.deque[_Step]()
        for step in steps:
            waiting.append(step)
            if len(waiting) > ahead:
                _finish(waiting.popleft(), execution)
    # The caller's own code runs in between, outside the mesh.
    yield from _finished(waiting, len(tasks), execution)
    is_checked = "outputs" in execution.checked or execution.kind.num_classes is None
    if classifier.outputs in CHECKED and not is_checked:
        # Probabilities taken as logits would explain all confidences.
        execution.checked.add("outputs")
        with computing(), own_errors(), jax.set_mesh(execution.mesh.mesh):
            check_logits(classifier, dataset, execution.key, execution.mesh, number)


class _Step(NamedTuple):
    """A dispatched step, without its images, which are freed before it is finished."""

    place: int  # the task's index
    task: EvaluationTask
    block: Block
    rows: list[int]  # which spans of the task
    answers: Any  # [l, B], with padding levels; or what the host has yet to work on
    indices: jax.Array  # [B], of the images in the data set


def _dispatched(
    place: int,
    task: EvaluationTask,
    placed: PlacedBlock,
    execution: Execution,
    dataset: Dataset | BatchedDataset,
    number: int,
    which: str,
) -> Iterator[_Step]:
    """Dispatches the steps on a block, one by one, except for journaled answers."""
    block, images, index, _ = placed
    wanted = [row for row, one in enumerate(task.spans) if block.part(one).labels.size]
    missing = [
        row for row in wanted if not _collect_if_journaled(task, block, row, execution)
    ]
    if not missing:
        return
    mesh, answerer, alteration = execution.mesh, execution.answerer, task.alteration
    if alteration not in execution.checked:
        execution.checked.add(alteration)
        execution.bar.compile(which)
    # Recorded pictures are altered already, and are read a level at a time.
    recorded = alteration if isinstance(alteration, Recorded) else None
    each, alteration = 1, UNALTERED if recorded else alteration
    if not answerer.is_on_host and not recorded:
        # Journaled answers do not change a step's shape, and so not its rounding.
        info, shape, rows = execution.info, execution.image_shape, execution.rows
        each = levels_in_step(info, shape, rows, len(images), len(wanted), mesh)
    levels = task.levels([*range(len(task.spans))]).astype(np.float32)
    width = np.subtract(task.alteration.upper, task.alteration.lower)
    away = (levels - task.alteration.identity) / width
    mildest = np.abs(away).reshape(len(levels), -1).sum(axis=1).argmin()
    there = np.repeat(levels[[mildest]], each, axis=0)
    check_network(execution, alteration, there, placed, dataset, number)
    prepared = preparing(images, index, execution.key, alteration, mesh).run()
    for first in range(0, len(missing), each):
        rows = missing[first : first + each]
        if recorded is not None:
            other = recorded.pictures.at[task.spans[rows[0]].level]
            there = images if other is None else beside(placed, other, mesh)
            prepared = preparing(there, index, execution.key, alteration, mesh).run()
        # Padded with the last level, so that every step has the same shape.
        filled = rows + rows[-1:] * (each - len(rows))
        ask = Ask(placed, prepared, alteration, levels[filled], len(rows))
        if execution.kept.is_apart:
            _programs(alteration, images).append((len(images), mesh))
            ask = altered(ask, mesh)
        answers = answerer.dispatch(ask)
        if platform(mesh) != "cpu" and not answerer.is_on_host:
            jax.copy_to_host_async(answers)
        yield _Step(place, task, block, rows, answers, index)


def alter(
    images: np.ndarray,
    levels: np.ndarray,
    index: np.ndarray,
    key: jax.Array,
    alteration: Alteration,
) -> np.ndarray | None:
    """Alters each image at its level as a run did; None without a run's program."""
    # It is there already, and takes longer to compile than some copies to alter.
    programs = _programs(alteration, images)
    if not programs:
        return None
    size, mesh = programs[0]
    if size < len(images) or mesh.is_multi_process:
        return None
    rows, wanted = np.arange(size) % len(images), np.unique(levels)
    pixels, numbers = put((images[rows], index[rows]), sharded(mesh))
    prepared = preparing(pixels, numbers, put_whole(key, mesh), alteration, mesh).run()
    block = PlacedBlock(Block(index, 0), pixels, numbers, numbers)
    ask = Ask(block, prepared, alteration, wanted, len(wanted))
    found = np.empty(images.shape, np.float32)
    for level, those in zip(wanted, altered(ask, mesh).prepared):
        chosen = levels == level
        found[chosen] = np.asarray(those)[: len(images)][chosen]
    return found


def _programs(alteration: AnyAlteration, images: Any) -> collections.deque[Any]:
    """Returns the size of blocks, and mesh, for which a run compiled an alteration."""
    return noted("altered", alteration, images.shape[1:], images.dtype)


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
    span = task.spans[row]
    part, order = block.part(span), task.in_random_order
    known = cached.find(span.alteration, span.level, part.start, part.stop, order)
    if known is None:
        return False
    answers = jax.tree.map(lambda one: one[None], known)
    _collect(task, part, [row], answers, execution, is_known=True)
    return True


def _finish(step: _Step, execution: Execution) -> None:
    _, task, block, rows, found, indices = step
    whole = jax.tree.map(np.asarray, found)
    # Spans that share the same part of the block are journaled together.
    alike: dict[tuple[int, int], list[int]] = {}
    for at, row in enumerate(rows):
        part = block.part(task.spans[row])
        alike.setdefault((part.start, part.stop), []).append(at)
    for (start, stop), those in alike.items():
        images = slice(start - block.start, stop - block.start)
        answers = jax.tree.map(operator.itemgetter((those, images)), whole)
        some = [rows[at] for at in those]
        levels, place = task.levels(some), (indices, images.start)
        answers = execution.kind.checked(answers, place, levels, task.alteration)
        if execution.cached is not None:
            order = task.in_random_order
            execution.cached.add(task.alteration, levels, start, answers, order)
        part = block.part(task.spans[some[0]])
        _collect(task, part, some, answers, execution)


def _finished(
    waiting: collections.deque[_Step], num_tasks: int, execution: Execution
) -> Iterator[int]:
    """Finishes the last steps, and yields each task's index as soon as it is done."""
    under_way = collections.Counter(step.place for step in waiting)

    def finish_next() -> int:
        step = waiting.popleft()
        with computing(), own_errors():
            _finish(step, execution)
        return step.place

    try:
        yield from (place for place in range(num_tasks) if not under_way[place])
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
    task.add(block, rows, answers)
    bar = execution.bar
    (bar.skip if is_known else bar.update)(answers[0].size)
