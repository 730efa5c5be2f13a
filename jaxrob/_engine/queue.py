"""The queue: the steps of several alterations in a row, so that no device waits."""

import collections
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._adapters.on_host import on_host
from jaxrob._classifier import Classifier, trace_info, unnamed
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.blocks import Block, PlacedBlock, placed_blocks
from jaxrob._engine.checks import check_valid, first_look
from jaxrob._engine.collect import AnswerCollector, Collector, CountCollector
from jaxrob._engine.execution import Execution
from jaxrob._engine.mistakes import (
    check_in_company,
    check_logits,
    is_flat,
    worth_asking_again,
)
from jaxrob._engine.on_host import Altered, alter, ask, network_on_host
from jaxrob._engine.provenance import arguments_digest
from jaxrob._engine.sizes import (
    images_in_block,
    levels_in_step,
    levels_in_turn,
    rows_for,
)
from jaxrob._engine.step import answer_at_levels, prepare
from jaxrob._runtime.host_function import own_errors
from jaxrob._runtime.hosts import check_same, gathered, put
from jaxrob._runtime.keys import checked_key
from jaxrob._runtime.mesh import platform, whole_on
from jaxrob.alterations import Alteration

# Steps that are dispatched before the answers of an earlier one are awaited. On a CPU
# one keeps the cores busy while the host looks at answers; more would only compete.
_AHEAD = 8
_AHEAD_CPU = 1

T = TypeVar("T")


class Frontier(NamedTuple):
    """Levels `[L]` of an alteration to be evaluated: canonical and distinct."""

    alteration: Alteration
    levels: np.ndarray


def evaluate_queue(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
    execution: Execution,
) -> list[Curve | ReducedCurve]:
    """The answers on every image at every level of several alterations.

    The data are read once, and the steps of all frontiers stand in one queue, so that
    an accelerator does not wait between alterations. What `evaluate` checks of the
    arguments must have been checked.

    Args:
      classifier: the classifier.
      dataset: the images.
      frontiers: which levels of which alterations.
      execution: how they are evaluated.

    Returns:
      A curve for each frontier.

    Raises:
      ValueError: if the batch size is below 1, a label is no class of the classifier,
        the classifier returned NaN or rows that are no probabilities, or the journal
        holds answers that cannot be.
      OSError: if the journal cannot be written.
    """
    mesh = execution.mesh
    image, length = first_look(dataset)
    info = trace_info(classifier, image.shape)
    rows = rows_for(classifier, image.shape, mesh)
    size = images_in_block(classifier, rows, length, execution.batch_size, mesh)
    key = jax.random.key(0) if execution.key is None else checked_key(execution.key)
    check_same(
        "classifier, key, levels and number of images",
        lambda: arguments_digest(classifier, key, frontiers, length),
        mesh,
    )
    classifier, key = put((unnamed(classifier), key), whole_on(mesh))
    network = network_on_host(classifier, mesh)

    def new_task(frontier: Frontier) -> _Task:
        levels, num_classes = frontier.levels, info.num_classes
        collector = CountCollector(levels, num_classes)
        if not execution.reduced:
            has_probabilities = classifier.outputs != "scores"
            collector = AnswerCollector(levels, num_classes, length, has_probabilities)
        levels_a_step = 1
        if network is None:
            levels_a_step = levels_in_step(info, rows, size, len(levels), mesh)
        return _Task(frontier, levels_a_step, collector, num_classes)

    if execution.kept is not None:
        for frontier in frontiers:
            execution.kept.check(frontier.alteration, info.num_classes, length)
    tasks = list(map(new_task, frontiers))
    number = (length or 0) * sum(len(frontier.levels) for frontier in frontiers)
    if length is not None:
        execution.bar.total += number
        execution.bar.refresh()
    one_more = size * (1 if levels_in_turn(mesh) else tasks[0].levels_a_step)
    if not worth_asking_again(classifier, one_more, number, mesh):
        execution.looked.add("company")
    ahead = _AHEAD_CPU if platform(mesh) == "cpu" else _AHEAD
    placed = placed_blocks(dataset, info.num_classes, size, mesh)
    # The steps run on this mesh, even if the caller has set another one.
    with (
        own_errors(),
        jax.set_mesh(mesh),
        contextlib.closing(placed) as blocks,
    ):
        steps = (
            step
            for block in blocks
            for task in tasks
            for step in _dispatched(task, block, classifier, key, execution)
        )
        if network is not None:
            # While the host works on one level, the devices alter to the next.
            steps = (_asked(step, classifier) for step in _held_back(steps, 1))
        for step in _held_back(steps, ahead):
            _finish(step, classifier, execution)
        if classifier.outputs == "logits" and "outputs" not in execution.looked:
            # No answer was more certain than that of distributions taken as logits.
            execution.looked.add("outputs")
            check_logits(classifier, dataset, key, mesh)
    return [task.collector.curve() for task in tasks]


class _Task(NamedTuple):
    """A frontier, how many of its levels a step takes, and where its answers go."""

    frontier: Frontier
    levels_a_step: int
    collector: Collector
    num_classes: int


class _Step(NamedTuple):
    """A step that was dispatched.

    It does not hold the images: they are freed while its answers are awaited.
    """

    task: _Task
    block: Block
    rows: list[int]  # which levels of the frontier
    # [l, B], with what fills up the step; or what a network on the host is asked.
    answers: Answers[jax.Array] | Altered


def _dispatched(
    task: _Task,
    placed: PlacedBlock,
    classifier: Classifier,
    key: jax.Array,
    execution: Execution,
) -> Iterator[_Step]:
    """Dispatches the steps on a block, one by one; levels that are known need none."""
    block, images, index = placed
    alteration, levels = task.frontier
    missing = _without_known(task, block, execution)
    if not missing:
        return
    static = {"alteration": alteration, "mesh": execution.mesh}
    network = network_on_host(classifier, execution.mesh)

    def dispatched(images: Any, at: np.ndarray, number: int) -> Answers | Altered:
        if network is not None:
            given = {"preprocessing": network.preprocessing, **static}
            return alter(images, at[0], **given)
        answers = answer_at_levels(
            classifier, images, index, key, at, np.int32(number), **static
        )
        return gathered(answers)

    prepared = prepare(images, index, key, **static)
    for first in range(0, len(missing), task.levels_a_step):
        rows = missing[first : first + task.levels_a_step]
        # Filled up with the last level: every step has the same shape.
        filled = rows + rows[-1:] * (task.levels_a_step - len(rows))
        at = levels[filled].astype(np.float32)
        step = _Step(task, block, rows, dispatched(prepared, at, len(rows)))
        if "company" not in execution.looked:
            execution.looked.add("company")

            def in_company(others: jax.Array, at: np.ndarray = at) -> Answers:
                others = prepare(others, index, key, **static)
                return _answered(dispatched(others, at, 1), classifier)

            first_answers = _answered(step.answers, classifier)
            step = step._replace(answers=first_answers)
            check_in_company(
                classifier, placed, first_answers, in_company, alteration.stochastic
            )
        if platform(execution.mesh) != "cpu":
            jax.copy_to_host_async(step.answers)
        yield step


def _asked(step: _Step, classifier: Classifier) -> _Step:
    """The step with its answers, of a network on the host too."""
    return step._replace(answers=_answered(step.answers, classifier))


def _answered(answers: Answers | Altered, classifier: Classifier) -> Answers:
    if isinstance(answers, Answers):
        return answers
    network = on_host(classifier.apply_fn)
    assert network is not None
    return ask(classifier, network, answers)


def _held_back(items: Iterable[T], number: int) -> Iterator[T]:
    """The items in their order, each once `number` more of them were made."""
    waiting = collections.deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > number:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _without_known(task: _Task, block: Block, execution: Execution) -> list[int]:
    """The rows of a frontier that the journal does not know; collects the others."""
    alteration, levels = task.frontier
    if execution.kept is None:
        return list(range(len(levels)))
    missing = []
    for row, level in enumerate(levels):
        known = execution.kept.find(alteration, level, block.start, block.stop)
        if known is None:
            missing.append(row)
        else:
            known = Answers(*(part[None] for part in known))
            _collect(task, block, [row], known, execution)
    return missing


def _finish(step: _Step, classifier: Classifier, execution: Execution) -> None:
    """Awaits a step's answers, checks them, writes them down and collects them."""
    task, block, rows, _ = step
    alteration, levels = task.frontier
    valid = slice(len(rows)), slice(len(block.labels))
    answers = Answers(*(np.asarray(part)[valid] for part in step.answers))
    check_valid(answers.predicted, levels[rows], classifier, alteration)
    if execution.kept is not None:
        execution.kept.add(alteration, levels[rows], block.start, answers)
    _collect(task, block, rows, answers, execution)


def _collect(
    task: _Task,
    block: Block,
    rows: list[int],
    answers: HostAnswers,
    execution: Execution,
) -> None:
    if "outputs" not in execution.looked:
        if not is_flat(answers.confidence, task.num_classes):
            execution.looked.add("outputs")
    task.collector.add(block, rows, answers)
    execution.bar.update(answers.predicted.size)
