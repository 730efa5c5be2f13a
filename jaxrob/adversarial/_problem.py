"""The checked inputs of an attack, with the classifier's answers on them."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._arguments.messages import classifier_wanted
from jaxrob._arguments.warnings import warn
from jaxrob._classifier import (
    Classifier,
    TraceInfo,
    check_has_classes,
    gradient_obstacle,
    trace_info,
)
from jaxrob._dataset import Dataset, check_labels_below, given_images
from jaxrob._devices.blocks import Call, in_blocks, joined, taken
from jaxrob._devices.hosts import put_whole
from jaxrob._devices.mesh import ImageMesh, checked_mesh, on_each_device, platform
from jaxrob._engine.answers import INVALID, Answers, answer
from jaxrob._engine.execution import check_split_network
from jaxrob._engine.mistakes import check_unaltered
from jaxrob._engine.preflight import preflight
from jaxrob._fingerprint import fingerprinted_classifier
from jaxrob._keys import check_key, checked_key, classifier_keys
from jaxrob._log_probabilities import mean_over_samples
from jaxrob._pixels import as_floats
from jaxrob.adversarial._attack import Attack, structural_similarity

# Images attacked at a time, memory permitting. On a CPU, the gradient of max-pooling is
# twice as slow where it leaves the caches.
_MAX_ROWS = 256
_MAX_ROWS_CPU = 16
_MAX_BYTES = 2**30


def by_image(function: Callable[..., Any]) -> Callable[..., Call]:
    @functools.partial(jax.jit, static_argnames="mesh")
    def compiled(shared: Any, arrays: tuple[Any, ...], *, mesh: ImageMesh) -> Any:
        each = on_each_device(
            lambda shared, arrays: function(shared, *arrays), mesh, (False, True)
        )
        return each(shared, arrays)

    def call(shared: Any, *arrays: Any, mesh: ImageMesh) -> Call:
        return Call(compiled, (shared, arrays), {"mesh": mesh}, mesh)

    return call


def rows_in_block(
    num_images: int | None,
    batch_size: int | None,
    largest_array: int,
    image_size: int,
    live_images: int,
    mesh: ImageMesh,
) -> int:
    """Images in a block, a multiple of the devices, where none is much smaller."""
    most = batch_size or _rows_that_fit(largest_array, image_size, live_images, mesh)
    num_images = num_images or most
    num_blocks = -(-num_images // most)
    rows = -(-num_images // num_blocks)
    return -(-rows // mesh.size) * mesh.size


def _rows_that_fit(
    largest_array: int, image_size: int, live_images: int, mesh: ImageMesh
) -> int:
    most = _MAX_ROWS_CPU if platform(mesh) == "cpu" else _MAX_ROWS
    # The gradient keeps what the forward pass computed: a few arrays of that size.
    row = 4 * largest_array + 4 * live_images * image_size
    return mesh.size * max(1, min(most, _MAX_BYTES // row))


# The target of an attack that has none.
UNTARGETED = -1


class Problem(NamedTuple):
    """Checked inputs of an attack."""

    classifier: Classifier  # the classifier, on each device
    images: np.ndarray  # float32 `[N, H, W, C]`, on the host
    labels: np.ndarray  # int32 `[N]`
    keys: jax.Array | None  # `[N]` random keys for a stochastic classifier, else None
    before: Answers  # the answers on the unaltered images, on the host
    # int32 `[N]`, the best class except the label on the unaltered images.
    runner_up: np.ndarray
    num_classes: int  # number of classes, K
    rows: int  # images attacked at a time, a multiple of the devices
    mesh: ImageMesh

    @property
    def correct(self) -> np.ndarray:
        """Bool `[N]`, whether the unaltered image is classified correctly."""
        return np.asarray(self.before.predicted == self.labels)


def make_problem(
    classifier: Classifier,
    images: Any,
    labels: Any,
    key: jax.Array | None,
    batch_size: int | None,
    mesh: Mesh | None,
    live_images: int,
) -> Problem:
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    over = checked_mesh(mesh, classifier.variables)
    if batch_size is not None:
        batch_size = checked_integer("batch_size", batch_size, at_least=1)
    if key is not None:
        check_key(key)
    data = given_images(images, labels)
    classifier, info = _checked_attackable(classifier, data)
    preflight(classifier, data, (), data.images[0], key)
    check_split_network(classifier, data.images.shape[1:], over)
    largest, size = info.largest_array, data.images[0].size
    rows = rows_in_block(len(data), batch_size, largest, size, live_images, over)
    images, labels = np.asarray(as_floats(data.images)), data.labels
    keys = _image_keys(classifier, key, len(images))
    classifier = put_whole(classifier, over)
    before, runner_up = _answers(classifier, images, labels, keys, rows, over)
    invalid = before.predicted == INVALID
    if invalid.any():
        raise ValueError(
            "the classifier returned NaN, or rows that are no probabilities, for "
            f"{invalid.sum()} of {len(images)} unaltered images"
        )

    def as_bytes(few: slice) -> Answers:
        pixels = 255 * images[few]
        return _answers(classifier, pixels, labels[few], keys, rows, over)[0]

    check_unaltered(classifier, data, before, key, over, as_bytes)
    return Problem(
        classifier,
        images,
        labels,
        keys,
        before,
        runner_up,
        info.num_classes,
        rows,
        over,
    )


def make_attack(
    problem: Problem, images: np.ndarray, target: np.ndarray, vanished: np.ndarray
) -> Attack:
    classifier, unaltered, labels, keys, *_ = problem
    after, _ = _answers(classifier, images, labels, keys, problem.rows, problem.mesh)
    success = problem.correct & np.asarray(after.predicted != INVALID)
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
        vanished & problem.correct & ~success,
    )


def warned(problem: Problem, attack: Attack) -> Attack:
    number, attacked = (int(some.sum()) for some in (attack.vanished, attack.correct))
    if number:
        outputs = problem.classifier.outputs
        fix = "The network rounds, compares or stops gradients: try"
        if outputs in ("probabilities", "sigmoid"):
            fix = (
                f'The outputs are "{outputs}", which float32 rounds to 0 and 1 where '
                'the network is sure: give its logits, with outputs="logits". Or try'
            )
        warn(
            f"the gradient vanishes at {number} of {attacked} images that were "
            "attacked (it is exactly zero, or not finite), and nothing was found "
            f"there, which is no sign of robustness. {fix} another attack, or "
            "jaxrob.roma.assess, which needs no gradients"
        )
    return attack


def has_slope(gradient: jax.Array) -> jax.Array:
    """`[B]` whether gradients `[B, H, W, C]` are finite and not 0."""
    flat = gradient.reshape(len(gradient), -1)
    return (flat != 0).any(axis=1) & jnp.isfinite(flat).all(axis=1)


def _checked_attackable(
    classifier: Classifier, data: Dataset
) -> tuple[Classifier, TraceInfo]:
    """Fingerprints the classifier; rejects data that no attack can take."""
    shape = data.images.shape
    if len(shape) != 4:
        hint = " (images[..., None] adds the axis of the channels)"
        raise ValueError(
            "images must have the shape [N, H, W, C], because an attack needs the "
            f"range [0, 1]; got {shape}{hint if len(shape) == 3 else ''}"
        )
    classifier = fingerprinted_classifier(classifier, shape[1:])
    check_has_classes(classifier)
    info = trace_info(classifier, shape[1:])
    check_labels_below(data.labels, info.num_classes, "labels")
    obstacle = gradient_obstacle(classifier, shape[1:])
    if obstacle is not None:
        raise ValueError(
            "classifier must be differentiable in its images, because an attack "
            "follows gradients; one that runs on the host (Classifier.from_host) is "
            f"not: {obstacle}"
        )
    return classifier, info


def _image_keys(
    classifier: Classifier, key: jax.Array | None, num_images: int
) -> jax.Array | None:
    if not classifier.stochastic:
        return None
    assert key is not None  # The preflight has checked it.
    index = jnp.arange(num_images, dtype=jnp.uint32)
    return classifier_keys(checked_key(key), index)


def _answers(
    classifier: Classifier,
    images: np.ndarray,
    labels: np.ndarray,
    keys: jax.Array | None,
    rows: int,
    mesh: ImageMesh,
) -> tuple[Answers, np.ndarray]:
    """Answers and the best class except the label, `[N]`, on the host."""

    def step(*block: Any) -> tuple[Answers, jax.Array]:
        return _block_answers(classifier, *block, mesh=mesh).run()

    take = functools.partial(taken, (images, labels, keys))
    blocks = in_blocks(step, take, np.arange(len(images)), rows, mesh)
    return joined([found for _, found in blocks])


@by_image
def _block_answers(
    classifier: Classifier,
    images: jax.Array,
    labels: jax.Array,
    keys: jax.Array | None,
) -> tuple[Answers, jax.Array]:
    scores = ranking_scores(classifier, images, keys)
    is_label = jax.nn.one_hot(labels, scores.shape[-1], dtype=bool)
    runner_up = jnp.where(is_label, -jnp.inf, scores).argmax(axis=-1)
    return answer(classifier, images, labels, keys), runner_up.astype(jnp.int32)


# A class that leads by more than this share of the scores' range also leads in blocks
# of other sizes, which round differently.
LEAD = 1e-5


def ranking_scores(
    classifier: Classifier, images: jax.Array, keys: jax.Array | None
) -> jax.Array:
    """The scores by which the classifier ranks the classes."""
    # They are the logarithms of the mean probabilities over its samples or, of a
    # classifier without probabilities, the mean scores.
    if classifier.outputs == "scores":
        return classifier.raw_outputs(images, keys).mean(axis=0)
    return mean_over_samples(classifier.log_probabilities(images, keys))


def lead(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """By how much a class leads the best other, as a share of the scores' range."""
    chosen = jax.nn.one_hot(classes, scores.shape[-1], dtype=bool)
    rival = jnp.where(chosen, -jnp.inf, scores).max(axis=-1)
    own = jnp.where(chosen, scores, -jnp.inf).max(axis=-1)
    return (own - rival) / (scores.max(axis=-1) - scores.min(axis=-1))
