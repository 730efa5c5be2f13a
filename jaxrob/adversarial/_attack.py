"""What every attack takes, checks and returns."""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxrob._classifier import Classifier, trace_info
from jaxrob._dataset import Dataset
from jaxrob._engine.answers import INVALID, Answers, answer
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.keys import checked_key, classifier_keys
from jaxrob._runtime.mesh import checked_mesh, platform, split_over, whole_on
from jaxrob._runtime.pixels import unit_range
from jaxrob.adversarial._similarity import structural_similarity

# By more than this share of the scores' range a class leads whatever the block's size,
# by which rounding differs.
LEAD = 1e-5
# Images attacked at a time, memory permitting. On a CPU, the gradient of max-pooling is
# twice as slow where it leaves the caches.
_MAX_ROWS = 256
_MAX_ROWS_CPU = 16
_MAX_BYTES = 2**30
# The target of an attack that has none.
UNTARGETED = -1


class Attack(NamedTuple):
    """What an attack found, for each of N inputs.

    Attributes:
      images: float32 `[N, H, W, C]` in [0, 1], the adversarial examples; where there is
        none, the image as it was.
      success: bool `[N]`, whether an adversarial example was found: one for which the
        classifier predicts another class than the label. Only for images that are
        classified correctly as they are (Definition 7).
      similarity: float64 `[N]`, `structural_similarity` to the unaltered image; 0 where
        there is no adversarial example.
      distance: float64 `[N]`, the Euclidean norm of the perturbation; NaN likewise.
      correct: bool `[N]`, whether the unaltered image is classified correctly.
      labels: int32 `[N]`, the right classes.
      target: int32 `[N]`, the class aimed at; -1 if any wrong one would do.
      predicted: int32 `[N]`, the class predicted for `images`.
      confidence: float32 `[N]`, its probability; NaN if the outputs are "scores".
    """

    images: np.ndarray
    success: np.ndarray
    similarity: np.ndarray
    distance: np.ndarray
    correct: np.ndarray
    labels: np.ndarray
    target: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray


class Problem(NamedTuple):
    """Checked inputs of an attack.

    Attributes:
      classifier: the classifier, on each device.
      images: float32 `[N, H, W, C]`, on the host.
      labels: int32 `[N]`.
      keys: `[N]` random keys for a stochastic classifier, else None.
      before: the answers on the unaltered images.
      runner_up: int32 `[N]`, the best class but the label on the unaltered images.
      num_classes: number of classes, K.
      rows: images attacked at a time, a multiple of the devices.
      mesh: the devices.
    """

    classifier: Classifier
    images: np.ndarray
    labels: np.ndarray
    keys: jax.Array | None
    before: Answers
    runner_up: np.ndarray
    num_classes: int
    rows: int
    mesh: Mesh

    @property
    def correct(self) -> np.ndarray:
        """Bool `[N]`, whether the unaltered image is classified correctly."""
        return self.before.predicted == self.labels


def check(
    classifier: Classifier,
    images: Any,
    labels: Any,
    key: jax.Array | None,
    batch_size: int | None,
    mesh: Mesh | None,
    live_images: int,
) -> Problem:
    """Refuses what cannot be attacked, and asks the classifier about the rest.

    Args:
      classifier: the classifier.
      images: `[N, H, W, C]`, as `Dataset` takes them.
      labels: `[N]` integers.
      key: a random key, needed if the classifier is stochastic.
      batch_size: images attacked at a time, or None.
      mesh: the devices, or None.
      live_images: copies of an image that the attack keeps.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a value is outside its range, the classifier is not differentiable
        or does not take the images, or its outputs are NaN.
    """
    if not isinstance(classifier, Classifier):
        raise TypeError(
            f"classifier must be a jaxrob.Classifier; got {type(classifier).__name__}"
        )
    mesh = checked_mesh(mesh)
    data = Dataset(np.asarray(images), labels)
    images, labels = data.images, data.labels
    if images.ndim != 4:
        raise ValueError(
            "images must have the shape [N, H, W, C], for an attack needs the range "
            f"[0, 1]; got {images.shape}"
        )
    found = trace_info(classifier, images.shape[1:])
    if labels.max() >= found.num_classes:
        raise ValueError(
            "labels must be below the classifier's number of classes, "
            f"{found.num_classes} (they count from 0); got {labels.max()}"
        )
    _check_differentiable(classifier, images.shape[1:])
    if batch_size is not None and operator.index(batch_size) < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    rows = batch_size or mesh.size * _rows(
        found.largest_array, images[0].size, live_images, mesh
    )
    # Blocks of equal size, whose number does not depend on how many are correct.
    rows = -(-len(images) // -(-len(images) // rows))
    rows = -(-rows // mesh.size) * mesh.size
    images = as_floats(images)
    keys = None
    if classifier.stochastic:
        if key is None:
            raise ValueError(
                "the classifier is stochastic and needs a key, such as "
                "key=jax.random.key(0); got key=None"
            )
        index = jnp.arange(len(images), dtype=jnp.uint32)
        keys = classifier_keys(checked_key(key), index)
    classifier = put(classifier, whole_on(mesh))
    before, runner_up = _look(classifier, images, labels, keys, rows, mesh)
    invalid = before.predicted == INVALID
    if invalid.any():
        raise ValueError(
            "the classifier returned NaN, or rows that are no probabilities, for "
            f"{invalid.sum()} of {len(images)} unaltered images"
        )
    return Problem(
        classifier,
        images,
        labels,
        keys,
        before,
        runner_up,
        found.num_classes,
        rows,
        mesh,
    )


def result(problem: Problem, images: np.ndarray, target: np.ndarray) -> Attack:
    """The attack's result, after the classifier's own verdict on what was found.

    Args:
      problem: what was attacked.
      images: float32 `[N, H, W, C]`, the candidates; the image as it was where there is
        none.
      target: int32 `[N]`, the class aimed at.
    """
    classifier, unaltered, labels, keys, *_ = problem
    after, _ = _look(classifier, images, labels, keys, problem.rows, problem.mesh)
    success = problem.correct & (after.predicted != INVALID)
    success &= np.where(
        target == UNTARGETED, after.predicted != labels, after.predicted == target
    )
    images = np.where(success[:, None, None, None], images, unaltered)
    change = (images.astype(np.float64) - unaltered).reshape(len(images), -1)
    pick = functools.partial(np.where, success)
    return Attack(
        images,
        success,
        pick(structural_similarity(unaltered, images), 0.0),
        pick(np.linalg.norm(change, axis=1), np.nan),
        problem.correct,
        labels,
        np.asarray(target, np.int32),
        pick(after.predicted, problem.before.predicted),
        pick(after.confidence, problem.before.confidence),
    )


def most_adversarial(attacks: Sequence[Attack]) -> Attack:
    """The most similar adversarial example among all that several attacks found.

    Args:
      attacks: results for the same classifier, images and labels.

    Returns:
      For each input the result of the attack with the largest similarity; of equals,
      that of the first.

    Raises:
      ValueError: if no attack is given, or they are not of the same inputs.

    Source: Definition 7 of the 2020 paper.
    """
    if not attacks:
        raise ValueError("attacks is empty; at least one is needed")
    first = attacks[0]
    for attack in attacks:
        same = [
            np.array_equal(getattr(attack, name), getattr(first, name))
            for name in ("labels", "correct")
        ]
        if not all(same) or attack.images.shape != first.images.shape:
            raise ValueError(
                "attacks must be of the same classifier, images and labels"
            )
    # A failure must not beat an adversarial example of similarity 0 or less.
    similarity = np.stack([np.where(a.success, a.similarity, -np.inf) for a in attacks])
    best = similarity.argmax(axis=0)
    every = np.arange(len(best))
    return Attack(*(np.stack(field)[best, every] for field in zip(*attacks)))


def as_floats(images: Any) -> np.ndarray:
    """float32 in [0, 1], of bytes or of floats in [0, 1]."""
    images = np.asarray(images)
    if images.dtype == np.uint8:
        images = unit_range(jnp.asarray(images))
    return np.asarray(images, np.float32)


def class_scores(classifier, images, keys):
    """`[B, K]` of which the largest counts: mean log-probabilities, or the scores."""
    if classifier.outputs == "scores":
        return classifier.raw_outputs(images, keys).mean(axis=0)
    log_probabilities = classifier.log_probabilities(images, keys)
    return jax.nn.logsumexp(log_probabilities, axis=0) - jnp.log(len(log_probabilities))


def lead(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """By how much a class leads the best other, of the range of scores.

    Args:
      scores: `[B, K]`.
      classes: `[B]`, a class for each row.

    Returns:
      `[B]` in [-1, 1]; NaN where a score is NaN or all are equal. More than `LEAD` only
      if the class is the one predicted.
    """
    chosen = jax.nn.one_hot(classes, scores.shape[-1], dtype=bool)
    rival = jnp.where(chosen, -jnp.inf, scores).max(axis=-1)
    own = jnp.where(chosen, scores, -jnp.inf).max(axis=-1)
    return (own - rival) / (scores.max(axis=-1) - scores.min(axis=-1))


def by_image(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function that treats images one by one, each device its own.

    Args:
      function: `function(shared, *arrays)` of what is the same for all images and of
        arrays with a leading axis of images; returns such arrays.

    Returns:
      A function of the same arguments and of `mesh`, over which the images are split;
      its program communicates nothing.
    """

    @functools.partial(jax.jit, static_argnames="mesh")
    def compiled(shared, arrays, *, mesh):
        over_images = P(mesh.axis_names)
        return jax.shard_map(
            lambda shared, arrays: function(shared, *arrays),
            mesh=mesh,
            in_specs=(P(), over_images),
            out_specs=over_images,
            check_vma=False,
        )(shared, arrays)

    @functools.wraps(compiled)
    def call(shared, *arrays, mesh):
        # Whatever mesh surrounds the call.
        with jax.set_mesh(mesh):
            return compiled(shared, arrays, mesh=mesh)

    return call


def padded_blocks(index: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """The indices in blocks of exactly `rows`, the last filled up with its last."""
    for start in range(0, len(index), rows):
        block = index[start : start + rows]
        yield np.pad(block, (0, rows - len(block)), mode="edge")


def _rows(largest_array, image_size, live_images, mesh):
    cpu = platform(mesh) == "cpu"
    # The gradient keeps what the forward pass computed: a few arrays of that size.
    row = 4 * largest_array + 4 * live_images * image_size
    return max(1, min(_MAX_ROWS_CPU if cpu else _MAX_ROWS, _MAX_BYTES // row))


def _look(classifier, images, labels, keys, rows, mesh):
    """Answers and the best class but the label, `[N]`, on the host."""
    found = []
    for index in padded_blocks(np.arange(len(images)), rows):
        some = None if keys is None else keys[index]
        block = put((images[index], labels[index], some), split_over(mesh))
        found.append(_look_block(classifier, *block, mesh=mesh))
    return jax.tree.map(
        lambda *parts: np.concatenate(parts)[: len(images)], *map(fetch, found)
    )


@by_image
def _look_block(classifier, images, labels, keys):
    scores = class_scores(classifier, images, keys)
    is_label = jax.nn.one_hot(labels, scores.shape[-1], dtype=bool)
    runner_up = jnp.where(is_label, -jnp.inf, scores).argmax(axis=-1)
    return answer(classifier, images, keys), runner_up.astype(jnp.int32)


def _check_differentiable(classifier, image_shape):
    leaves, structure = jax.tree.flatten(classifier)
    specs = tuple(
        jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in map(jax.typeof, leaves)
    )
    reason = _not_differentiable(structure, specs, tuple(image_shape))
    if reason is not None:
        raise ValueError(
            "classifier must be differentiable in its images, for an attack follows "
            "gradients; one that runs on the host (Classifier.from_host) is not: "
            f"{reason}"
        )


@functools.lru_cache(maxsize=256)
def _not_differentiable(structure, specs, image_shape):
    """Why JAX cannot differentiate the classifier, or None; nothing is computed."""
    classifier = jax.tree.unflatten(structure, specs)
    images = jax.ShapeDtypeStruct((2, *image_shape), jnp.float32)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 2))

    def total(images, classifier, keys):
        return class_scores(classifier, images, keys).sum()

    try:
        jax.eval_shape(jax.grad(total), images, classifier, keys)
    except Exception as error:
        return str(error)
    return None
