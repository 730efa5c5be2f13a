"""Tasks on blocks of images: their steps in one row, so that no device waits."""

import collections
import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._adapters.on_host import on_host
from jaxrob._classifier import Classifier
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
    MANY,
    Again,
    check_batch_invariance,
    check_logits,
    check_scale,
    is_flat,
    row_of,
    scale_check,
    worth_asking,
)
from jaxrob._engine.on_host import Altered, alter, ask
from jaxrob._engine.sizes import levels_are_sequential, levels_in_step
from jaxrob._engine.step import answering, outputs_at_level, preparing
from jaxrob.alterations import Alteration

# Steps that are dispatched before the answers of an earlier one are awaited. On a CPU
# one keeps the cores busy while the host looks at answers; more would only compete.
_AHEAD = 8
_AHEAD_CPU = 1

T = TypeVar("T")


class EvaluationTask(NamedTuple):
    """What is wanted at some levels of an alteration, and where its answers go.

    Attributes:
      alteration: the alteration.
      levels: `[L]`, canonical.
      spans: the images wanted at each level, all from a first place to before a last
        one in the order in which the images come.
      collector: takes the answers.
      in_random_order: whether the images come in the random order, not the data's own.
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
) -> None:
    """Computes what the tasks want on each block, and hands it to their collectors.

    Args:
      execution: what the steps share.
      tasks: the tasks.
      placed: the blocks.
      dataset: the data that they are cut from; a few images are looked at.
      number: answers in all; 0 if it is not known.

    Raises:
      ValueError: if the classifier returned NaN or rows that are no probabilities, or
        the journal holds answers that cannot be.
      OSError: if the journal cannot be written.
    """
    classifier = execution.classifier
    execution.bar.total += number
    execution.bar.refresh()
    ahead = _AHEAD_CPU if platform(execution.mesh) == "cpu" else _AHEAD
    # The steps run on this mesh, even if the caller has set another one.
    with (
        own_errors(),
        jax.set_mesh(execution.mesh),
        contextlib.closing(placed) as blocks,
    ):
        steps = (
            step
            for block in blocks
            for task in tasks
            for step in _dispatched(task, block, execution, number)
        )
        if execution.network is not None:
            # While the host works on one level, the devices alter to the next.
            steps = (_asked(step, classifier) for step in _held_back(steps, 1))
        for step in _held_back(steps, ahead):
            _finish(step, execution)
        if classifier.outputs == "logits" and "outputs" not in execution.looked:
            # No answer was more certain than that of distributions taken as logits.
            execution.looked.add("outputs")
            check_logits(classifier, dataset, execution.key, execution.mesh)


class _Step(NamedTuple):
    """A step that was dispatched.

    It does not hold the images: they are freed while its answers are awaited.
    """

    task: EvaluationTask
    block: Block
    rows: list[int]  # which levels of the task
    # [l, B], with what fills up the step; or what a network on the host is asked.
    answers: Answers[jax.Array] | Altered


def _dispatched(
    task: EvaluationTask, placed: PlacedBlock, execution: Execution, number: int
) -> Iterator[_Step]:
    """Dispatches the steps on a block, one by one; answers that are known need none."""
    block, images, index = placed
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
    ) -> Answers | Altered:
        if execution.network is not None:
            given = {"preprocessing": execution.network.preprocessing, **static}
            return alter(images, at[0], np.float32(scale), **given)
        block = execution.classifier, images, index, execution.key
        call = answering(*block, at, num_levels, **static, scale=scale)
        return gathered(call.run())

    prepared = preparing(images, index, execution.key, **static).run()
    # What is known already leaves a step's shape as it is, and so its rounding.
    each = _levels_a_step(execution, len(images), len(wanted))
    least = missing[_least(task.levels[missing], task.alteration)]
    for first in range(0, len(missing), each):
        rows = missing[first : first + each]
        # Filled up with the last level: every step has the same shape.
        filled = rows + rows[-1:] * (each - len(rows))
        at = task.levels[filled].astype(np.float32)
        step = _Step(task, block, rows, answer(prepared, at, len(rows)))
        due = _checks_due(execution, placed, each, number, least in rows)
        if due:
            answers = _answered(step.answers, execution.classifier)
            step = step._replace(answers=answers)
            again = _again(execution, task.alteration, index, at, answer)
            stochastic = task.alteration.stochastic
            _look_closer(due, execution, placed, answers, again, stochastic)
        if platform(mesh) != "cpu":
            jax.copy_to_host_async(step.answers)
        yield step


def _look_closer(
    due: set[str],
    execution: Execution,
    placed: PlacedBlock,
    answers: Answers,
    again: Again,
    stochastic: bool,
) -> None:
    """Makes the checks that ask a classifier once more."""
    classifier, labels = execution.classifier, placed.block.labels
    if "company" in due:
        if not check_batch_invariance(classifier, placed, answers, again, stochastic):
            # Its other answers tell nothing.
            execution.looked.add("scale")
            return
    if "scale" in due:
        row, as_bytes = again.as_bytes(placed.images)
        if check_scale(classifier, row_of(answers, row), row_of(as_bytes, 0), labels):
            execution.looked.add("outputs")


def _again(
    execution: Execution,
    alteration: Alteration,
    index: jax.Array,
    at: np.ndarray,
    answer: Callable[..., Answers | Altered],
) -> Again:
    """Asks about images in a block again, at one of the levels of a step."""
    classifier = execution.classifier
    static = {"alteration": alteration, "mesh": execution.mesh}

    def answers(images: jax.Array) -> Answers:
        prepared = preparing(images, index, execution.key, **static).run()
        return _answered(answer(prepared, at, 1), classifier)

    def outputs(images: jax.Array) -> jax.Array:
        prepared = preparing(images, index, execution.key, **static).run()
        given = classifier, prepared, index, execution.key, at[0]
        return fetch(outputs_at_level(*given, **static))

    def as_bytes(images: jax.Array) -> tuple[int, Answers]:
        row = _least(at, alteration)
        prepared = preparing(images, index, execution.key, **static).run()
        found = answer(prepared, np.full_like(at, at[row]), 1, 255.0)
        return row, _answered(found, classifier, MANY)

    return Again(answers, outputs, as_bytes)


def _least(levels: np.ndarray, alteration: Alteration) -> int:
    """The place of the level that alters least."""
    return int(np.abs(levels - alteration.identity).argmin())


def _levels_a_step(execution: Execution, images: int, num_levels: int) -> int:
    if execution.network is not None:
        return 1
    mesh = execution.mesh
    return levels_in_step(
        execution.info, execution.image_shape, execution.rows, images, num_levels, mesh
    )


def _checks_due(
    execution: Execution, placed: PlacedBlock, levels: int, number: int, is_least: bool
) -> set[str]:
    """Which checks ask again at a step, once in a call: those that are worth it.

    Args:
      execution: what the steps share.
      placed: the block.
      levels: in a step.
      number: answers in all.
      is_least: whether the step holds the level that alters least.
    """
    mesh, looked = execution.mesh, execution.looked
    in_turn = levels_are_sequential(execution.image_shape, mesh)
    one_more = len(placed.images) * (1 if in_turn else levels)
    few = one_more if execution.network is None else min(len(placed.images), MANY)
    scale = scale_check(execution.classifier, placed.block.labels)
    checks = [("company", "company", one_more)]
    if is_least and scale is not None and len(execution.image_shape) == 3:
        checks.append(("scale", scale, few))
    due = set()
    for name, what, cost in checks:
        if name not in looked:
            looked.add(name)
            if worth_asking(what, execution.classifier, cost, number, mesh):
                due.add(name)
    return due


def _asked(step: _Step, classifier: Classifier) -> _Step:
    """The step with its answers, of a network on the host too."""
    return step._replace(answers=_answered(step.answers, classifier))


def _answered(
    answers: Answers | Altered, classifier: Classifier, number: int | None = None
) -> Answers:
    """Answers; of a network on the host to the first so many images at least."""
    if isinstance(answers, Answers):
        return answers
    network = on_host(classifier.apply_fn)
    assert network is not None
    return ask(classifier, network, answers, number)


def _held_back(items: Iterable[T], number: int) -> Iterator[T]:
    """The items in their order, each once `number` more of them were made."""
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
    """Whether the journal has what is wanted of a block at a level; collects it."""
    kept = execution.kept
    if kept is None:
        return False
    part = block.part(*task.spans[row])
    order = task.in_random_order
    level = task.levels[row]
    known = kept.find(task.alteration, level, part.start, part.stop, order)
    if known is None:
        return False
    _collect(task, part, [row], Answers(*(one[None] for one in known)), execution)
    return True


def _finish(step: _Step, execution: Execution) -> None:
    """Awaits a step's answers, checks them, writes them down and collects them."""
    task, block, rows, _ = step
    whole = Answers(*map(np.asarray, step.answers))
    parts = [block.part(*task.spans[row]) for row in rows]
    for span in dict.fromkeys((part.start, part.stop) for part in parts):
        part = block.part(*span)
        at = [i for i, one in enumerate(parts) if (one.start, one.stop) == span]
        images = slice(part.start - block.start, part.stop - block.start)
        answers = Answers(*(one[at, images] for one in whole))
        alike = [rows[i] for i in at]
        levels = task.levels[alike]
        check_valid(answers.predicted, levels, execution.classifier, task.alteration)
        if execution.kept is not None:
            order = task.in_random_order
            execution.kept.add(task.alteration, levels, part.start, answers, order)
        _collect(task, part, alike, answers, execution)


def _collect(
    task: EvaluationTask,
    block: Block,
    rows: list[int],
    answers: HostAnswers,
    execution: Execution,
) -> None:
    if "outputs" not in execution.looked:
        if not is_flat(answers.confidence, execution.info.num_classes):
            execution.looked.add("outputs")
    task.collector.add(block, rows, answers)
    execution.bar.update(answers.predicted.size)
