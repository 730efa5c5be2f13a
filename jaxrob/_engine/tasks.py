"""Runs tasks on blocks of images as one sequence of steps, so that no device waits."""

import collections
import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.hosts import fetch, gathered
from jaxrob._devices.mesh import platform
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.blocks import Block, PlacedBlock
from jaxrob._engine.checks import check_valid
from jaxrob._engine.collect import Collector
from jaxrob._engine.execution import Execution
from jaxrob._engine.mistakes import (
    MAX_CHECKED,
    Rerun,
    check_batch_invariance,
    check_logits,
    check_scale,
    is_flat,
    is_worthwhile,
    row_of,
    scale_check,
)
from jaxrob._engine.on_host import Altered, alter, ask
from jaxrob._engine.scores import Scored, Unscored, checked_scores, score_block
from jaxrob._engine.sizes import levels_are_sequential, levels_in_step
from jaxrob._engine.step import answering, outputs_at_level, preparing
from jaxrob.alterations import Alteration

# Steps dispatched before the answers of an earlier step are awaited. On a CPU one keeps
# the cores busy while the host processes answers; more would compete for them.
_AHEAD = 8
_AHEAD_CPU = 1

T = TypeVar("T")
# Answers, or what the host has yet to work on.
_Found = Answers[jax.Array] | Scored[jax.Array] | Altered | Unscored


class EvaluationTask(NamedTuple):
    """The images requested at some levels of an alteration, and their collector.

    Attributes:
      alteration: the alteration.
      levels: `[L]`, canonical.
      spans: each level's images: positions from a start to before a stop, in the order
        in which the images arrive.
      collector: takes the answers.
      in_random_order: whether the images arrive in the random order, not the data's.
    """

    alteration: Alteration
    levels: np.ndarray
    spans: Sequence[tuple[int, int]]
    collector: Collector
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
            for step in _dispatched(task, block, execution, number)
        )
        if execution.network is not None or execution.score is not None:
            # While the host works on one level, the devices compute the next.
            steps = (_asked(step, execution) for step in _delayed(steps, 1))
        waiting = collections.deque[_Step]()
        for step in steps:
            waiting.append(step)
            if len(waiting) > ahead:
                _finish(waiting.popleft(), execution)
    # The caller's own code runs in between, outside the mesh.
    yield from _finished(waiting, tasks, execution)
    is_checked = "outputs" in execution.checked or execution.score is not None
    if classifier.outputs == "logits" and not is_checked:
        # Probabilities taken as logits would explain all confidences.
        execution.checked.add("outputs")
        with computing(), own_errors(), jax.set_mesh(execution.mesh.mesh):
            about = execution.key, execution.mesh, number
            check_logits(classifier, dataset, *about)


class _Step(NamedTuple):
    """A dispatched step, without its images, which are freed before it is finished."""

    task: EvaluationTask
    block: Block
    rows: list[int]  # which levels of the task
    # [l, B], with padding levels; or what the host has yet to work on.
    answers: _Found
    indices: jax.Array  # [B], of the images in the data set


def _dispatched(
    task: EvaluationTask, placed: PlacedBlock, execution: Execution, number: int
) -> Iterator[_Step]:
    """Dispatches the steps on a block, one by one, except for journaled answers."""
    block, images, index, labels = placed
    wanted = [
        row for row, span in enumerate(task.spans) if block.part(*span).labels.size
    ]
    missing = [
        row for row in wanted if not _collect_if_journaled(task, block, row, execution)
    ]
    if not missing:
        return
    mesh = execution.mesh
    static = {"alteration": task.alteration, "mesh": mesh}

    def answer(
        images: Any, at: np.ndarray, num_levels: int, scale: float = 1.0
    ) -> _Found:
        if execution.network is not None:
            given = {"preprocessing": execution.network.preprocessing, **static}
            altered = alter(images, at[0], np.float32(scale), **given)
            if execution.score is None:
                return Altered(altered, labels)
            return Unscored(altered, block.labels, task.alteration, at[0])
        if execution.score is not None:
            given = execution.classifier, images, index, execution.key, at[0]
            outputs = outputs_at_level(*given, **static)
            return Unscored(outputs, block.labels, task.alteration, at[0])
        given = execution.classifier, images, index, labels, execution.key
        call = answering(*given, at, num_levels, **static, scale=scale)
        return gathered(call.run())

    def prepare(images: Any) -> Any:
        return preparing(images, index, execution.key, **static).run()

    prepared = prepare(images)
    # Journaled answers do not change a step's shape, and so not its rounding.
    each = _levels_a_step(execution, len(images), len(wanted))
    mildest = missing[_mildest(task.levels[missing], task.alteration)]
    for first in range(0, len(missing), each):
        rows = missing[first : first + each]
        # Padded with the last level, so that every step has the same shape.
        filled = rows + rows[-1:] * (each - len(rows))
        at = task.levels[filled].astype(np.float32)
        step = _Step(task, block, rows, answer(prepared, at, len(rows)), index)
        due = _checks_due(execution, placed, each, number, mildest in rows)
        if due:
            answers = _answered(step.answers, execution)
            step = step._replace(answers=answers)
            rerun = _rerun(execution, task.alteration, index, at, prepare, answer)
            stochastic = task.alteration.stochastic
            _run_checks(due, execution, placed, answers, rerun, stochastic)
        if platform(mesh) != "cpu" and isinstance(step.answers, Answers):
            jax.copy_to_host_async(step.answers)
        yield step


def _run_checks(
    due: set[str],
    execution: Execution,
    placed: PlacedBlock,
    answers: Answers | Scored,
    rerun: Rerun,
    stochastic: bool,
) -> None:
    """Runs the due checks, which run the classifier again."""
    classifier, labels = execution.classifier, placed.block.labels
    if "batch invariance" in due:
        score = None if execution.score is None else execution.score.score
        about = answers, rerun, stochastic, score
        if not check_batch_invariance(classifier, placed, *about):
            # Other answers of such a classifier prove nothing.
            execution.checked.add("scale")
            return
    if "scale" in due:
        row, as_bytes = rerun.as_bytes(placed.images)
        if check_scale(classifier, row_of(answers, row), row_of(as_bytes, 0), labels):
            execution.checked.add("outputs")


def _rerun(
    execution: Execution,
    alteration: Alteration,
    index: jax.Array,
    at: np.ndarray,
    prepare: Callable[[Any], Any],
    answer: Callable[..., _Found],
) -> Rerun:
    """Returns functions that classify other images in a block, at a step's levels."""

    def answers(images: jax.Array) -> Answers | Scored:
        return _answered(answer(prepare(images), at, 1), execution)

    def outputs(images: jax.Array) -> jax.Array:
        given = execution.classifier, prepare(images), index, execution.key, at[0]
        static = {"alteration": alteration, "mesh": execution.mesh}
        return fetch(outputs_at_level(*given, **static))

    def as_bytes(images: jax.Array) -> tuple[int, Answers | Scored]:
        row = _mildest(at, alteration)
        found = answer(prepare(images), np.full_like(at, at[row]), 1, 255.0)
        return row, _answered(found, execution, MAX_CHECKED)

    return Rerun(answers, outputs, as_bytes)


def _mildest(levels: np.ndarray, alteration: Alteration) -> int:
    """Returns the index of the level nearest to the identity."""
    return int(np.abs(levels - alteration.identity).argmin())


def _levels_a_step(execution: Execution, images: int, num_levels: int) -> int:
    if execution.network is not None or execution.score is not None:
        return 1
    mesh = execution.mesh
    return levels_in_step(
        execution.info, execution.image_shape, execution.rows, images, num_levels, mesh
    )


def _checks_due(
    execution: Execution,
    placed: PlacedBlock,
    levels: int,
    number: int,
    is_mildest: bool,
) -> set[str]:
    """Names the checks to run at a step: each once in a call, if it is worth it."""
    mesh, checked = execution.mesh, execution.checked
    if mesh.is_multi_process:
        return set()
    sequential = levels_are_sequential(execution.image_shape, mesh)
    one_more = len(placed.images) * (1 if sequential else levels)
    few = (
        one_more if execution.network is None else min(len(placed.images), MAX_CHECKED)
    )
    scale = score = None
    if execution.score is None:
        scale = scale_check(execution.classifier, placed.block.labels)
    else:
        score = execution.score.score
    checks = [("batch invariance", "batch invariance", one_more)]
    if is_mildest and scale is not None and len(execution.image_shape) == 3:
        checks.append(("scale", scale, few))
    due = set()
    for name, what, cost in checks:
        if name not in checked:
            checked.add(name)
            if is_worthwhile(what, execution.classifier, cost, number, score):
                due.add(name)
    return due


def _asked(step: _Step, execution: Execution) -> _Step:
    """Returns the step with its answers, running what runs on the host."""
    return step._replace(answers=_answered(step.answers, execution))


def _answered(
    found: _Found, execution: Execution, number: int | None = None
) -> Answers | Scored:
    """Returns the answers; runs a network on the host on at least `number` images."""
    network, classifier = execution.network, execution.classifier
    if isinstance(found, Unscored):
        assert execution.score is not None
        return score_block(execution.score, network, classifier, found)
    if isinstance(found, Altered):
        assert network is not None
        return ask(classifier, network, found, number)
    return found


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
    if isinstance(whole, Scored):
        whole = Scored(_checked_scores(step, whole.score, execution))
    parts = [block.part(*task.spans[row]) for row in rows]
    for span in dict.fromkeys((part.start, part.stop) for part in parts):
        part = block.part(*span)
        at = [i for i, one in enumerate(parts) if (one.start, one.stop) == span]
        images = slice(part.start - block.start, part.stop - block.start)
        answers = jax.tree.map(lambda one: one[at, images], whole)  # noqa: B023
        alike = [rows[i] for i in at]
        levels = task.levels[alike]
        if isinstance(answers, Answers):
            about = levels, execution.classifier, task.alteration
            check_valid(answers.predicted, *about)
        if execution.cached is not None:
            order = task.in_random_order
            execution.cached.add(task.alteration, levels, part.start, answers, order)
        _collect(task, part, alike, answers, execution)


def _checked_scores(
    step: _Step, scores: np.ndarray, execution: Execution
) -> np.ndarray:
    """Returns the scores `[1, n]` of a step, without those of padding."""
    assert execution.score is not None
    number, (row,) = len(step.block.labels), step.rows
    indices = np.asarray(step.indices)[:number]
    level = float(step.task.levels[row])
    about = indices, level, execution.score, step.task.alteration
    return checked_scores(scores[:, :number], *about)


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
    answers: HostAnswers | Scored,
    execution: Execution,
    is_known: bool = False,
) -> None:
    if isinstance(answers, Answers) and "outputs" not in execution.checked:
        if not is_flat(answers.confidence, execution.info.num_classes):
            execution.checked.add("outputs")
    task.collector.add(block, rows, answers)
    bar = execution.bar
    (bar.skip if is_known else bar.update)(answers[0].size)
