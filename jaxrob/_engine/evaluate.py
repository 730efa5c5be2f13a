"""The engine: a classifier's answers on a data set at every level of an alteration."""

import collections
import contextlib
import functools
import itertools
import math
import mmap
import operator
import os
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier, TraceInfo, trace_info
from jaxrob._curve import Curve, ReducedCurve, count, select
from jaxrob._dataset import BatchedDataset, Dataset, check_labels_below, check_values
from jaxrob._engine.answers import INVALID, Answers, answer
from jaxrob._engine.kept_answers import KeptAnswers, kept_in
from jaxrob._engine.provenance import arguments_digest, provenance
from jaxrob._runtime.checks import check_type
from jaxrob._runtime.hosts import check_same, gathered, is_first, put, put_rows
from jaxrob._runtime.keys import alteration_keys, checked_key, classifier_keys
from jaxrob._runtime.memory import bucket, rows_that_fit
from jaxrob._runtime.mesh import (
    checked_mesh,
    on_each_device,
    platform,
    split_over,
    whole_on,
)
from jaxrob._runtime.pixels import as_floats
from jaxrob._runtime.prefetch import prefetched
from jaxrob.alterations import Alteration

# On a CPU a step takes that many levels one after the other, or fewer where the
# classifier would need more operations: about a second on two cores, after which the
# answers are safe in the journal.
_MAX_LEVELS_CPU = 16
_MAX_OPERATIONS_CPU = 2**36
# Steps dispatched ahead of the one whose answers are awaited. On a CPU one fills the
# cores while the host looks at answers; more would only be in each other's way.
_AHEAD = 8
_AHEAD_CPU = 1


def evaluate(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    levels: Sequence[float] | np.ndarray,
    *,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    reduced: bool = False,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> Curve | ReducedCurve:
    """What the classifier answers on every image at every level.

    One compiled step alters a block of images at a few levels and classifies it. It is
    compiled once for each structure of classifier, alteration and block shape; new
    variables go through it as they are. So does any number of levels on a CPU, where
    they are taken one by one; elsewhere they are batched, 1, 4, 16, ... in a step, and
    each size is compiled when it is first needed. Levels with the same effect (see
    `Alteration.resolution`) are evaluated once.

    The answers do not depend on the batch size, the order or number of the levels, or
    the devices, but for images whose best two classes are closer than rounding (about
    1e-5): noise is drawn from `fold_in(key, index of the image)`, at every level the
    same.

    Args:
      classifier: the classifier.
      dataset: N images with their labels.
      alteration: the alteration.
      levels: `[L]` levels within the alteration's range, in any order.
      key: a random key, needed if the alteration or the classifier is stochastic.
      batch_size: images in a block; by default what fits in memory and keeps the
        device busy. Rounded up to a multiple of the devices.
      mesh: devices over which the images are split, along all of its axes; by default
        all devices of this process. If it spans all processes (`jax.distributed`),
        each of them makes the call with the same arguments, feeds its own devices, of
        arrays and memory maps with just the part that they take, and returns the
        whole result; the first one reads and writes the journal and shows progress.
      reduced: whether only counts by class are kept, for data sets so large that about
        ten bytes for each image and level are too many.
      journal: a file that every block of answers is written to as soon as it is known,
        and found in by a rerun on the same classifier, data and key (see
        `jaxrob.assess`).
      progress: whether a progress bar is shown.

    Returns:
      A `Curve`, or a `ReducedCurve` if `reduced`, with the levels as given.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a level is NaN or outside the range, no level is given, a key is
        missing, the alteration or the classifier refuses the images' shape, a label is
        no class of the classifier, or the classifier returned NaN (or rows that are no
        probabilities) for some image, or the journal is of something else.
      OSError: if the journal cannot be read or written.
    """
    check_types(classifier, dataset, alteration)
    levels = np.asarray(levels, np.float64)
    if levels.ndim != 1 or not levels.size:
        raise ValueError(
            f"levels must be a sequence of at least one level; got the shape "
            f"{levels.shape}"
        )
    canonical, inverse = np.unique(alteration.canonical(levels), return_inverse=True)
    mesh = checked_mesh(mesh)
    image, _ = first_look(dataset)
    check_together(classifier, dataset, alteration, image, key)
    source = functools.partial(provenance, classifier, dataset, key, mesh)
    with (
        progress_bar(alteration.name, progress) as bar,
        kept_in(journal, classifier, source, mesh) as kept,
    ):
        (curve,) = evaluate_queue(
            classifier,
            dataset,
            [Frontier(alteration, canonical)],
            key=key,
            batch_size=batch_size,
            mesh=mesh,
            reduced=reduced,
            bar=bar,
            kept=kept,
        )
    return select(curve, inverse, levels)


class Frontier(NamedTuple):
    """Levels `[L]` of an alteration to be evaluated: canonical and distinct."""

    alteration: Alteration
    levels: np.ndarray


def progress_bar(name: str, progress: bool) -> tqdm:
    """A bar of altered images, whose total grows with every queue."""
    shown = progress and is_first()
    return tqdm(desc=name, unit="image", unit_scale=True, disable=not shown, total=0)


def evaluate_queue(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    frontiers: Sequence[Frontier],
    *,
    key: jax.Array | None,
    batch_size: int | None,
    mesh: Mesh,
    reduced: bool,
    bar: tqdm,
    kept: KeptAnswers | None = None,
) -> list[Curve | ReducedCurve]:
    """The answers on every image at every level of several alterations.

    The data are read once, and the steps of all frontiers stand in one queue, so that
    an accelerator does not wait between alterations. What `evaluate` checks of the
    arguments must have been checked.

    Args:
      classifier: the classifier.
      dataset: the images.
      frontiers: which levels of which alterations.
      key: see `evaluate`.
      batch_size: see `evaluate`.
      mesh: the devices, see `evaluate`.
      reduced: see `evaluate`.
      bar: where progress is shown.
      kept: where known answers are found and new ones put.

    Returns:
      A curve for each frontier.
    """
    if batch_size is not None and operator.index(batch_size) < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    image, length = first_look(dataset)
    found = trace_info(classifier, image.shape)
    num_classes = found.num_classes
    key = jax.random.key(0) if key is None else checked_key(key)
    rows = rows_that_fit(found.largest_array, image.shape, mesh)
    size = _images_in_block(rows, length, batch_size, mesh)

    check_same(
        "classifier, key, levels and number of images",
        lambda: arguments_digest(classifier, key, frontiers, length),
        mesh,
    )
    classifier, key = put((classifier, key), whole_on(mesh))
    step_sizes = [
        _levels_in_step(found, rows, size, len(levels), mesh) for _, levels in frontiers
    ]
    # Of each frontier either the counts or, for each block of images, the answers.
    counts = [
        np.zeros((len(levels), num_classes, num_classes + 1), np.int64)
        if reduced
        else None
        for _, levels in frontiers
    ]
    # At once as large as they will be, where that is known.
    answers = [
        [_no_answers((len(levels), length), num_classes)]
        if length is not None and not reduced
        else []
        for _, levels in frontiers
    ]
    labels = []
    on_accelerator = platform(mesh) != "cpu"
    ahead = _AHEAD if on_accelerator else _AHEAD_CPU
    # Steps in flight: what they are of, and their answers.
    pending = collections.deque()

    def fill(task, places, parts):
        """Answers `[l, n]` of a block of images at the levels of these places."""
        if reduced:
            counted = count(parts.predicted, task.block.labels, num_classes)
            counts[task.which][places] += counted
        else:
            for whole, part in zip(task.answers, parts):
                for place, row in zip(places, part):
                    whole[place] = row
        bar.update(parts.predicted.size)

    def fetch():
        task, places, parts = pending.popleft()
        block = task.block
        alteration, levels = frontiers[task.which]
        valid = (slice(len(places)), slice(len(block.labels)))
        parts = Answers(*(np.asarray(part)[valid] for part in parts))
        _check_valid(parts.predicted, levels[places], classifier, alteration)
        if kept is not None:
            kept.add(alteration, levels[places], block.start, parts)
        fill(task, places, parts)

    num_levels = sum(len(levels) for _, levels in frontiers)
    if length is not None:
        bar.total += length * num_levels
        bar.refresh()
    # Whatever mesh surrounds the call, the step runs on its own.
    placed = contextlib.closing(_placed(dataset, size, mesh))
    with jax.set_mesh(mesh), placed as blocks:
        for block, images, index in blocks:
            name = f"labels of {dataset.name}"
            check_labels_below(block.labels, num_classes, name)
            labels.append(block.labels)
            for which, (alteration, levels) in enumerate(frontiers):
                if reduced:
                    task = _Task(block, which, None)
                elif length is None:
                    shape = (len(levels), len(block.labels))
                    task = _Task(block, which, _no_answers(shape, num_classes))
                    answers[which].append(task.answers)
                else:
                    part = slice(*block.range)
                    whole = answers[which][0]
                    task = _Task(block, which, Answers(*(x[:, part] for x in whole)))
                missing = []
                for place, level in enumerate(levels):
                    known = kept and kept.find(alteration, level, *block.range)
                    if known:
                        fill(task, [place], Answers(*(part[None] for part in known)))
                    else:
                        missing.append(place)
                if not missing:
                    continue
                static = {"alteration": alteration, "mesh": mesh}
                prepared = _prepare(images, index, key, **static)
                size_here = step_sizes[which]
                for first in range(0, len(missing), size_here):
                    places = missing[first : first + size_here]
                    # Filled up with the last level.
                    filled = places + places[-1:] * (size_here - len(places))
                    at = levels[filled].astype(np.float32)
                    number = np.int32(len(places))
                    step = _step(classifier, prepared, index, key, at, number, **static)
                    step = gathered(step)
                    if on_accelerator:
                        jax.copy_to_host_async(step)
                    pending.append((task, places, step))
                    if len(pending) > ahead:
                        fetch()
        while pending:
            fetch()

    if reduced:
        return [
            ReducedCurve(frontier.levels, some)
            for frontier, some in zip(frontiers, counts)
        ]
    labels = np.concatenate(labels)
    return [
        _curve(frontier.levels, some, labels, num_classes, classifier.outputs)
        for frontier, some in zip(frontiers, answers)
    ]


def _curve(levels, answers, labels, num_classes, outputs):
    """The curve of answers that come by block of images."""
    if len(answers) > 1:
        answers = [map(functools.partial(np.concatenate, axis=1), zip(*answers))]
    ((predicted, confidence, uncertainty),) = answers
    has_probabilities = outputs != "scores"
    return Curve(
        levels,
        predicted,
        confidence if has_probabilities else None,
        uncertainty if has_probabilities else None,
        labels,
        num_classes,
    )


class _Block(NamedTuple):
    labels: np.ndarray  # [n], of the images that count
    start: int  # the index of the first image in the data set

    @property
    def range(self) -> tuple[int, int]:
        return self.start, self.start + len(self.labels)


class _Task(NamedTuple):
    """A block of images at all levels of a frontier."""

    block: _Block
    which: int
    answers: Answers | None  # [l, n], to be filled in; None if only counts are kept


def _no_answers(shape, num_classes):
    small = np.int16 if num_classes <= np.iinfo(np.int16).max else np.int32
    return Answers(
        np.empty(shape, small),
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
    )


@functools.partial(jax.jit, static_argnames=("alteration", "mesh"))
def _prepare(images, index, key, *, alteration, mesh):
    """The level-independent part of the alteration, for a block of images."""

    def local(images, index, key):
        images = as_floats(images)
        if not alteration.stochastic:
            return jax.vmap(alteration.prepared)(images)
        return jax.vmap(alteration.prepared)(images, alteration_keys(key, index))

    return on_each_device(local, mesh, split=(True, True, False))(images, index, key)


@functools.partial(jax.jit, static_argnames=("alteration", "mesh"))
def _step(classifier, prepared, index, key, levels, num_levels, *, alteration, mesh):
    """Answers `[l, b]` at l levels on b images, without communication.

    On a CPU those at levels from `num_levels` on are zeros.
    """

    def local(classifier, prepared, index, key, levels, num_levels):
        keys = classifier_keys(key, index) if classifier.stochastic else None

        # Levels outside, images inside: what depends on the level alone is computed
        # once for each level.
        def altered(level):
            return jax.vmap(lambda image: alteration.at_level(image, level))(prepared)

        def at_level(level):
            return answer(classifier, altered(level), keys)

        shape = len(levels), len(index)
        if platform(mesh) == "cpu":
            # One level keeps a CPU busy, and its images take the place in the caches of
            # those before. A step for each level costs a perceptron a fifth more.
            def add(place, found):
                part = at_level(levels[place])
                return jax.tree.map(lambda x, y: x.at[place].set(y), found, part)

            one = jax.eval_shape(at_level, levels[0])
            none = jax.tree.map(lambda part: jnp.zeros(shape, part.dtype), one)
            return jax.lax.fori_loop(0, num_levels, add, none)
        if len(levels) == 1:
            # A batch of one would make batched gathers of plain ones.
            return jax.tree.map(lambda part: part[None], at_level(levels[0]))
        images = jax.vmap(altered)(levels)
        images = images.reshape(-1, *images.shape[2:])
        if keys is not None:
            keys = jnp.tile(keys, len(levels))
        answers = answer(classifier, images, keys)
        return jax.tree.map(lambda part: part.reshape(shape), answers)

    split = (False, True, True, False, False, False)
    per_device = on_each_device(local, mesh, split, joined_along=1)
    return per_device(classifier, prepared, index, key, levels, num_levels)


def _placed(
    dataset: Dataset | BatchedDataset, size: int, mesh: Mesh
) -> Generator[tuple[_Block, jax.Array, jax.Array], None, None]:
    """Blocks, their images and their indices, on the devices.

    What must be read first is read ahead on a thread.
    """
    split = split_over(mesh)
    is_mapped = isinstance(getattr(dataset, "images", None), np.memmap)

    def place(block, images):
        index = block.start + np.arange(len(images), dtype=np.uint32)
        if is_mapped:
            # Read here and now, or it would be while a step waits for it.
            images = put_rows(functools.partial(_read, images), len(index), split)
        else:
            images = put(images, split)
        return block, images, put(index, split)

    blocks = itertools.starmap(place, _blocks(dataset, size, mesh.size))
    if is_mapped or isinstance(dataset, BatchedDataset):
        yield from prefetched(blocks)
    else:
        yield from blocks


def _read(images, rows):
    """Rows of a memory map, in memory: the map's own where a device can take those."""
    part = images[rows]
    if not part.flags.c_contiguous:
        return np.ascontiguousarray(part)
    values = part.reshape(-1).view(np.uint8)
    for place in (slice(None, None, mmap.PAGESIZE), slice(-1, None)):
        values[place].max()
    return part


def _blocks(
    dataset: Dataset | BatchedDataset, size: int, num_devices: int
) -> Iterator[tuple[_Block, np.ndarray]]:
    """Blocks of `size` images, whatever the batches they come in; the last padded."""
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    images, labels, start = [], [], 0
    for batch in batches:
        first = 0
        while first < len(batch):
            # Fill the block at hand, from the rest of this batch.
            last = min(len(batch), first + size - sum(map(len, labels)))
            part = np.asarray(batch.images[first:last])
            if isinstance(batch.images, np.memmap):
                check_values(part)
            images.append(part)
            labels.append(batch.labels[first:last])
            first = last
            if sum(map(len, labels)) == size:
                yield _block(images, labels, start, size)
                images, labels, start = [], [], start + size
    if labels:
        if isinstance(dataset, BatchedDataset):
            # Blocks of an unknown number of images may be far larger than what is left.
            left = bucket(sum(map(len, labels)), 2)
            size = min(size, -(-left // num_devices) * num_devices)
        yield _block(images, labels, start, size)


def _block(images, labels, start, size):
    images = images[0] if len(images) == 1 else np.concatenate(images)
    if len(images) < size:
        padding = [(0, size - len(images))] + [(0, 0)] * (images.ndim - 1)
        images = np.pad(images, padding)
    return _Block(np.concatenate(labels), start), images


def _images_in_block(
    rows: int, length: int | None, batch_size: int | None, mesh: Mesh
) -> int:
    """The images of a block, at most `rows` over all devices unless asked for."""
    if batch_size is not None:
        images = batch_size
    elif length is None:
        images = rows
    else:
        # Blocks of equal size, so that the last one is hardly padded.
        images = math.ceil(length / math.ceil(length / rows))
    return math.ceil(images / mesh.size) * mesh.size


def _levels_in_step(
    found: TraceInfo, rows: int, images: int, num_levels: int, mesh: Mesh
) -> int:
    """The levels of a step on so many images."""
    if platform(mesh) == "cpu":
        most = int(_MAX_OPERATIONS_CPU / max(1, found.operations * images))
        return min(max(1, most), _MAX_LEVELS_CPU)
    # Of few sizes, for each is compiled, but none far larger than there are levels.
    return max(1, min(rows // images, bucket(num_levels, 4)))


def check_types(classifier, dataset, alteration):
    """Refuses what is no classifier, data set or alteration."""
    check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    check_type("dataset", dataset, Dataset | BatchedDataset, "a jaxrob.Dataset")
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")


def first_look(dataset: Dataset | BatchedDataset) -> tuple[np.ndarray, int | None]:
    """The first image, and the number of images where it is known."""
    if isinstance(dataset, Dataset):
        return np.asarray(dataset.images[0]), len(dataset)
    return np.asarray(next(dataset.batches()).images[0]), None


def check_together(classifier, dataset, alteration, image, key) -> TraceInfo:
    """Refuses a classifier, data, alteration and key that do not go together."""
    if key is None and (alteration.stochastic or classifier.stochastic):
        what = alteration.name if alteration.stochastic else "the classifier"
        raise ValueError(
            f"{what} is stochastic and needs a key, such as key=jax.random.key(0); got "
            "key=None"
        )
    _check_alteration(alteration, image.shape)
    _check_identity(alteration, image)
    found = trace_info(classifier, image.shape)
    num_classes = found.num_classes
    names = dataset.class_names
    if names is not None and len(names) != num_classes:
        raise ValueError(
            f"the classifier returns {num_classes} classes, but {dataset.name} has "
            f"{len(names)}: {', '.join(names[:10])}"
        )
    return found


@functools.lru_cache(maxsize=256)
def _check_alteration(alteration, image_shape):
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    level = jax.ShapeDtypeStruct((), jnp.float32)
    altered = jax.eval_shape(alteration, image, level, jax.random.key(0))
    if getattr(altered, "shape", None) != image_shape:
        raise ValueError(
            f"{alteration.name} must return an array of the image's shape "
            f"{image_shape}; got {altered}"
        )


def _check_identity(alteration, image):
    """Refuses an alteration that changes the data at the level it calls unaltered."""
    level = np.float32(alteration.identity)
    change = float(_largest_change(image, level, alteration=alteration))
    if change != 0:
        raise ValueError(
            f"{alteration.name} must return the image unchanged at its identity, level "
            f"{alteration.identity:g}; there, values change by up to {change:g}"
        )


@functools.partial(jax.jit, static_argnames="alteration")
def _largest_change(image, level, *, alteration):
    image = as_floats(image)
    return jnp.abs(alteration(image, level, jax.random.key(0)) - image).max()


def _check_valid(predicted, levels, classifier, alteration):
    if predicted.min() != INVALID:
        return
    invalid = predicted == INVALID
    level = levels[invalid.any(axis=1)][0]
    what = {
        "probabilities": "NaN, or rows that are no probabilities with a sum of 1,",
        "sigmoid": "NaN, or activations outside [0, 1],",
    }.get(classifier.outputs, "NaN")
    raise ValueError(
        f"the classifier returned {what} for {invalid.any(axis=0).sum()} of "
        f"{predicted.shape[1]} images in a block, first at level {level:g} of "
        f"{alteration.name} (which may have made them NaN)"
    )
