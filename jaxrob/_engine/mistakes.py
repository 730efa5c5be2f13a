"""Looks for mistakes in how a network is given, by its answers on a few images.

Each look runs once per public call, and only while it costs next to nothing.
"""

import collections
import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._classifiers.trace import trace_info
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.blocks import first_of, is_on_devices, taken, taken_on_devices
from jaxrob._devices.mesh import ImageMesh, fetch, put, replicated
from jaxrob._domain import AnyAlteration
from jaxrob._engine.answers import HostAnswers
from jaxrob._engine.blocks import Block, PlacedBlock, first_batch, padded_labels, picked
from jaxrob._engine.execution import Execution, noted
from jaxrob._engine.step import Ask, Compiled, altered, levels_are_sequential, preparing
from jaxrob._keys import classifier_keys
from jaxrob._numbers import as_floats

# Images checked in a program of their own.
_NUM_ALONE = 16
# The most images checked together.
_MOST_CHECKED = 64
# Tolerance, in bfloat16 too, of the sum 1 of a distribution.
_SUM_TOLERANCE = 1e-2
# On the right scale the accuracy is at least this much higher, at this significance.
_MIN_GAIN = 0.2
_SIGNIFICANCE = 0.01
# Without labels, fewer images show nothing.
_MIN_IMAGES = 4
# A check of at most this share of all answers costs next to nothing.
_LARGEST_SHARE = 0.01


def check_network(
    execution: Execution,
    alteration: AnyAlteration,
    levels: np.ndarray,
    placed: PlacedBlock,
    dataset: Dataset | BatchedDataset,
    number: int,
) -> None:
    """Warns of a network in training mode, or of pixels on another scale."""
    # In training mode an answer depends on the rest of the batch: images are classified
    # again among copies of one of them, by the step's own program; and times 255.
    answerer, classifier = execution.answerer, execution.classifier
    mesh, size = execution.mesh, len(placed.images)
    if mesh.is_multi_process or "network" in execution.checked:
        return
    execution.checked.add("network")
    # From all over the data, because a sorted folder starts with one class; of batches
    # from the block at hand.
    source = dataset if isinstance(dataset, Dataset) else placed.block
    number_few = min(_MOST_CHECKED, size, len(source.labels))
    rows = np.linspace(0, len(source.labels) - 1, number_few).astype(np.uint32)
    labels, score = source.labels[rows], execution.kind.score
    scale = None
    if score is None and len(execution.image_shape) == 3:
        scale = _scale_check(classifier, labels)
    is_sequential = levels_are_sequential(execution.image_shape, mesh)
    cost = size if is_sequential else size * len(levels)
    cost = number_few if answerer.is_on_host and score is None else cost
    what = "network", scale
    if not is_worthwhile(what, classifier, 3 * cost, number, score):
        return

    if isinstance(dataset, Dataset):
        images, indices = _images_at(rows, dataset), rows
    else:
        images = np.asarray(placed.images)[rows]
        indices = np.asarray(placed.indices)[rows]

    def ask(chosen: np.ndarray, number: int, times: float = 1.0) -> Ask:
        """About a block of the images chosen, of which the first `number` count."""
        # Copies of an image keep others' labels, which shows a score of a whole batch.
        all_labels = labels[every]
        arrays = images[chosen], indices[chosen], padded_labels(all_labels, size)
        pixels, index, classes = jax.device_put(arrays, placed.images.sharding)
        block = PlacedBlock(Block(all_labels[:number], 0), pixels, index, classes)
        prepared = preparing(pixels, index, execution.key, alteration, mesh).run()
        asked = Ask(block, prepared, alteration, levels, 1, times)
        return altered(asked, mesh) if execution.kept.is_apart else asked

    def answers(asked: Ask) -> Any:
        number = len(asked.placed.block.labels)
        found = answerer.finish(answerer.dispatch(asked), number)
        return jax.tree.map(lambda part: np.asarray(part)[0, :number], found)

    def outputs(asked: Ask, rows: slice) -> np.ndarray:
        return fetch(compiled.outputs(asked))[:, rows]

    compiled = Compiled(classifier, execution.key, mesh)
    every, differs = np.arange(size) % number_few, execution.kind.differs
    alone = ask(every, number_few)
    before = answers(alone)
    # At least half of each device's images must be replaced.
    kept = min(number_few, placed.images.sharding.shard_shape((size,))[0] // 2)
    found, what_depends = np.zeros(1, bool), ""
    if kept:
        company = np.where(np.arange(size) < kept, every, 0)
        beside = ask(company, min(size, 2 * kept))
        after = answers(beside)
        same, copies = slice(kept), slice(kept, None)
        as_before = first_of(before, kept)
        found = differs(first_of(after, kept), as_before, lambda: outputs(beside, same))
        what_depends = f"{found.sum()} of {kept} images"
        # Copies of one image have other keys, or the labels of others.
        is_random = alteration.stochastic or classifier.stochastic
        if not (found.any() or is_random or score is not None):
            those, one = taken(after, copies), first_of(after, 1)
            found = differs(those, one, lambda: outputs(beside, copies))
            what_depends = f"{found.sum()} of {len(found)} copies of one image"
    depends, is_state = found.any(), False
    if depends or not kept:
        # Even a single image may be answered differently each time.
        again, all_of_them = answers(alone), slice(number_few)
        found = differs(again, before, lambda: outputs(alone, all_of_them))
        is_state = found.any()
    seems = False
    if scale is not None and not (depends or is_state):
        as_bytes = answers(ask(every, number_few, 255.0))
        seems = _check_scale(scale, classifier, before, as_bytes, labels)
    if seems:
        execution.checked.add("outputs")
    passed = not (depends or is_state or seems)
    _passed(what, classifier, score).append(passed)
    or_score = ""
    if score is not None:
        or_score = (
            f" Or the score {score.name!r} does: each image's score must depend on its "
            "own output and label alone, not on a mean or a maximum over the batch."
        )
    if is_state:
        warn(
            f"the classifier answers {found.sum()} of {number_few} images differently "
            "when it is asked the same again. It keeps a state between calls, or draws "
            "random numbers: switch that off (model.eval(), deterministic=True), or "
            f"take them from the keys of stochastic=True.{or_score}"
        )
    elif depends:
        warn(
            f"the classifier answers {what_depends} differently, depending on the "
            "images beside them. It seems to be left in training mode, where batch "
            "statistics or dropout are on. Switch that off: train=False, "
            f"use_running_average=True, deterministic=True, model.eval().{or_score}"
        )


def _images_at(rows: np.ndarray, dataset: Dataset) -> np.ndarray:
    if is_on_devices(dataset.images):
        return np.asarray(taken_on_devices(dataset.images, rows, len(rows)))
    spans = [slice(0, len(rows))]
    with contextlib.closing(picked(dataset, rows, spans, threading.Event())) as found:
        return next(found)


def check_unaltered(
    classifier: Classifier,
    dataset: Dataset,
    answers: HostAnswers,
    key: jax.Array | None,
    mesh: ImageMesh,
    as_bytes: Callable[[slice], HostAnswers],
) -> None:
    """Warns of other outputs, or pixels on another scale, before an attack."""
    num_classes = trace_info(classifier, dataset.images.shape[1:]).num_classes
    if classifier.outputs in CHECKED and are_doubtful(answers, num_classes):
        key = jax.random.key(0) if key is None else key
        with jax.set_mesh(mesh.mesh):
            check_logits(classifier, dataset, key, mesh, len(dataset))
    few, labels = slice(_MOST_CHECKED), dataset.labels[:_MOST_CHECKED]
    scale = _scale_check(classifier, labels)
    if scale is not None and is_worthwhile(scale, classifier, _MOST_CHECKED, 0):
        found = as_bytes(few)
        _check_scale(scale, classifier, taken(answers, few), found, labels)


#: The outputs that may be of another kind than said.
CHECKED = ("logits", "sigmoid")


def are_doubtful(answers: HostAnswers, num_classes: int) -> bool:
    """Whether outputs may be something else: percent, of one side, or in [0, 1]."""
    # Of percent most softmaxes are 1.
    is_sure = np.mean(answers.confidence > 1 - 1e-6) > 0.5
    if is_sure or _is_flat(answers.confidence, num_classes):
        return True
    sides = answers.predicted[answers.confidence > 0.5]  # 0 is on neither side.
    return num_classes == 2 and (not sides.size or not np.ptp(sides))


def _is_flat(confidence: np.ndarray, num_classes: int) -> bool:
    # The softmax of values in [0, 1] reaches no higher confidence.
    largest = math.e / (math.e + num_classes - 1)
    return bool(confidence.max() <= largest * (1 + 1e-5))


def check_logits(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array,
    mesh: ImageMesh,
    number: int,
) -> None:
    """Warns if "logits" are probabilities, or identical for every image."""
    # Called only if `are_doubtful`, because it runs the classifier on a few images.
    if not is_worthwhile("logits", classifier, _NUM_ALONE, number):
        return
    first = first_batch(dataset)
    # From all over the data, because a sorted folder starts with one class.
    few = min(_NUM_ALONE, len(first))
    at = np.linspace(0, len(first) - 1, few).astype(np.uint32)
    images = _images_at(at, first)
    # Of a single column as it is, beside zeros.
    unchanged = dataclasses.replace(classifier, outputs="logits")
    rows = fetch(_raw_outputs(unchanged, put(images, replicated(mesh)), key))
    labels = None if first._has_pseudo_labels else first.labels
    labels = None if labels is None else np.asarray(labels)[at]
    if classifier.outputs == "logits":
        message = _doubt_of_logits(rows, labels, np.ptp(images, axis=0).max() > 0)
    else:
        message = _doubt_of_sigmoid(rows, labels)
    _passed("logits", classifier).append(message is None)
    if message is not None:
        warn(message.format(of=f"on {few} images the classifier"))


def _doubt_of_logits(
    rows: np.ndarray, labels: np.ndarray | None, images_differ: bool
) -> str | None:
    """Says what outputs `[S, B, K]` are instead of logits; None if they may be."""
    so = 'outputs="logits", but {of} returns '
    is_distribution = np.abs(rows.sum(axis=-1) - 1).max() <= _SUM_TOLERANCE
    if is_distribution and rows.min() >= -1e-6:
        if (rows.max(axis=-1) >= 1 - 1e-6).all():
            return (
                f"{so}a 1 for one class and 0 for the others. Their softmax is no "
                'confidence: pass outputs="scores", of which only the largest counts.'
            )
        return (
            f"{so}distributions, whose values are at least 0 and add up to 1. A second "
            'softmax makes them nearly equal: pass outputs="probabilities", or return '
            "what is before the softmax."
        )
    # A binary head's only column stands beside zeros.
    if rows.shape[-1] == 2 and not rows[..., 0].any() and rows[..., 1].any():
        column = rows[..., 1].mean(axis=0)
        for what, low, high, half, fix in _COLUMNS:
            if low <= column.min() and column.max() <= high:
                return _doubt_of_column(column, labels, what, half, fix)
    elif 0 <= rows.min() and 0.5 < rows.max() <= 1:
        return (
            f"{so}values in [0, 1], as of a sigmoid for each class. Their softmax is "
            'nearly flat: pass outputs="sigmoid", or "scores".'
        )
    total = rows.sum(axis=-1)
    scale = total.max()
    if np.ptp(total) <= _SUM_TOLERANCE * scale and scale > 2 and rows.min() >= 0:
        if np.ptp(rows, 1).max() > 0.01 * scale:  # Not the same for every image.
            return (
                f"{so}distributions that add up to {scale:.3g}, as percent do: divide "
                'them by it, and pass outputs="probabilities".'
            )
    # Of confident ones the curve says it.
    is_flat = _is_flat(scipy.special.softmax(rows, -1).mean(axis=0), rows.shape[-1])
    if is_flat and images_differ and np.ptp(rows, 1).max() <= 1e-6 * np.abs(rows).max():
        return (
            "{of} returns the same for every image. It has learnt nothing, or the "
            "images are not scaled as it expects them."
        )
    return None


# One column that is no logit: what it is, its ends, its value at probability 1/2, and
# what makes it a probability.
_COLUMNS = (
    ("probabilities of class 1", 0.0, 1.0, 0.5, ""),
    ("percent", 0.0, 100.0, 50.0, " of a hundredth of it"),
    ("log-probabilities", -math.inf, 0.0, math.log(0.5), " of its exp"),
)


def _doubt_of_column(
    column: np.ndarray, labels: np.ndarray | None, what: str, half: float, fix: str
) -> str | None:
    # Logits may all be of one side, but are seldom in [0, 1], or as large as 50.
    right, is_sure, shares = (0.0, 0.0), not fix or column.max() > 50, ""
    if labels is not None:
        right = [((column > at) == (labels == 1)).mean() for at in (0, half)]
        shares = f" So {right[0]:.0%} of these are right, and {right[1]:.0%} as such."
    if not is_sure and (column.min() > half or right[1] < right[0] + _MIN_GAIN):
        return None
    return (
        f'outputs="logits", but {{of}} returns one column from {column.min():.3g} to '
        f'{column.max():.3g}, as of {what}: outputs="sigmoid"{fix}.{shares}'
    )


def _doubt_of_sigmoid(rows: np.ndarray, labels: np.ndarray | None) -> str | None:
    """Says that a column below 1/2 is better read as logits."""
    if labels is None or rows.shape[-1] != 2 or rows[..., 0].any():
        return None
    column = rows[..., 1].mean(axis=0)
    right = [((column > at) == (labels == 1)).mean() for at in (0.5, 0)]
    if right[1] < right[0] + _MIN_GAIN:
        return None
    return (
        f'outputs="sigmoid", but {{of}} returns one column from {column.min():.3g} to '
        f"{column.max():.3g}. So {right[0]:.0%} of these are right, and {right[1]:.0%} "
        'as logits: outputs="logits"'
    )


def is_worthwhile(
    what: Hashable,
    classifier: Classifier,
    cost: int,
    number: int,
    score: Score | None = None,
) -> bool:
    """Whether a check that runs a classifier again is worth its time."""
    # It is until a classifier of this structure has passed the check with this score;
    # from then on, only where the check costs next to nothing.
    passed = list(_passed(what, classifier, score))
    return passed != [True] or cost <= _LARGEST_SHARE * number


def _scale_check(classifier: Classifier, labels: np.ndarray) -> str | None:
    """Names the check of the scale that these images allow."""
    # If labels differ, it compares accuracies, else confidences. Returns None for
    # scores, or too few images, without differing labels.
    if np.ptp(labels) > 0:
        return "accuracy by scale"
    has_enough = len(labels) >= _MIN_IMAGES and classifier.outputs != "scores"
    return "confidence by scale" if has_enough else None


def _check_scale(
    what: str,
    classifier: Classifier,
    answers: HostAnswers,
    as_bytes: HostAnswers,
    labels: np.ndarray,
) -> bool:
    """Warns if a classifier takes pixels of 0 to 255 but gets those in [0, 1]."""
    seems = _takes_bytes(answers, as_bytes, labels)
    _passed(what, classifier).append(not seems)
    if not seems:
        return False
    seen = "answers nearly the same for each of them"
    if what == "accuracy by scale":
        right = [np.mean(one.predicted == labels) for one in (answers, as_bytes)]
        seen = f"is right for {right[0]:.0%} of them, and for {right[1]:.0%} times 255"
    warn(
        f"the classifier gets pixels in [0, 1], and seems to take those of 0 to 255: "
        f"of {len(labels)} images it {seen}. Say scale=255 (in the jaxrob."
        "Preprocessing of Classifier.from_...), or multiply by 255 in your function."
    )
    return True


def _takes_bytes(
    answers: HostAnswers, as_bytes: HostAnswers, labels: np.ndarray
) -> bool:
    """Whether a classifier takes pixels of 0 to 255, judged by both scales' answers."""
    # To a network of bytes, images in [0, 1] are nearly black; one of these is too sure
    # of images times 255. The limits separated both all through a training on MNIST.
    has_confidence = not np.isnan(answers.confidence).any()  # NaN for scores.
    spread = np.ptp(answers.confidence) if has_confidence else 0.0
    sure = as_bytes.confidence.mean()
    saturated = (as_bytes.confidence > 1 - 1e-6).mean()
    if np.ptp(labels) > 0:
        accuracy = np.mean(as_bytes.predicted == labels)
        too_sure = saturated > 0.5 and sure > accuracy + 0.35
        alike = spread <= 0.1 and _share_of_one(answers) >= 0.4
        return bool(alike and not too_sure and _is_better(answers, as_bytes, labels))
    alike = has_confidence and spread <= 0.03 and answers.confidence.mean() <= 0.95
    differ = _share_of_one(answers) >= 0.9 and _share_of_one(as_bytes) <= 0.7
    return bool(alike and differ and sure >= 0.5 and saturated <= 0.5)


def _is_better(answers: HostAnswers, as_bytes: HostAnswers, labels: np.ndarray) -> bool:
    right, right_as_bytes = answers.predicted == labels, as_bytes.predicted == labels
    most_frequent = np.bincount(labels).max() / len(labels)
    if right_as_bytes.mean() < max(right.mean(), most_frequent) + _MIN_GAIN:
        return False
    gained, changed = (right_as_bytes & ~right).sum(), (right_as_bytes ^ right).sum()
    return bool(scipy.special.bdtrc(gained - 1, changed, 0.5) <= _SIGNIFICANCE)


def _share_of_one(answers: HostAnswers) -> float:
    _, counts = np.unique(answers.predicted, return_counts=True)
    return counts.max() / counts.sum()


def _passed(
    what: Hashable, classifier: Classifier, score: Score | None = None
) -> collections.deque[bool]:
    """Returns a check's last result for classifiers of this structure, if any."""
    try:
        return noted(what, jax.tree.structure(classifier), score)
    except TypeError:  # A score whose function cannot be hashed.
        return collections.deque(maxlen=1)


@jax.jit
def _raw_outputs(
    classifier: Classifier, images: jax.Array, key: jax.Array
) -> jax.Array:
    keys = None
    if classifier.stochastic:
        keys = classifier_keys(key, jnp.arange(len(images), dtype=np.uint32))
    return classifier.raw_outputs(as_floats(images), keys)
