"""The checked inputs of an attack, and what every attack returns."""

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_pix import ssim
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_integer,
    checked_sequence,
)
from jaxrob._arguments.messages import classifier_wanted
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier, check_has_classes
from jaxrob._classifiers.trace import (
    TraceInfo,
    fingerprinted_classifier,
    trace_info,
    with_gradient,
)
from jaxrob._codec import Array, Layout, document, from_json, to_json
from jaxrob._dataset import Dataset, check_labels_below, given_images
from jaxrob._devices.blocks import Call, in_blocks, joined, taken
from jaxrob._devices.mesh import (
    ImageMesh,
    checked_mesh,
    on_each_device,
    platform,
    put_whole,
)
from jaxrob._engine.answers import INVALID, Answers, answer
from jaxrob._engine.execution import check_split_network
from jaxrob._engine.mistakes import check_unaltered
from jaxrob._engine.preflight import preflight
from jaxrob._keys import check_key, checked_key, classifier_keys
from jaxrob._numbers import as_floats, first_largest, largest, mean_over_samples

_Flags = Annotated[np.ndarray, Array("N", "bool")]
_Classes = Annotated[np.ndarray, Array("N", "int32", at_least=0)]
# Rounding may carry a probability or a similarity beyond 1.
_MOST = 1 + 1e-5


@document("jaxrob attack 1")
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
      vanished: bool `[N]`, whether nothing was found because the gradient was exactly
        0, or not finite, somewhere on the way. That says nothing of the image's
        robustness.
    """

    images: Annotated[
        np.ndarray, Layout(make=lambda axes: np.zeros((0, 0, 0, 0), np.float32))
    ]
    success: _Flags
    similarity: Annotated[np.ndarray, Array("N", at_least=-_MOST, at_most=_MOST)]
    distance: Annotated[np.ndarray, Array("N", at_least=0, may_be_nan=True)]
    correct: _Flags
    labels: _Classes
    target: Annotated[np.ndarray, Array("N", "int32", at_least=-1)]
    predicted: _Classes
    confidence: Annotated[
        np.ndarray, Array("N", "float32", at_least=0, at_most=_MOST, may_be_nan=True)
    ]
    vanished: _Flags

    def to_json(self) -> str:
        """What was found as JSON text, without the images. NaN becomes null."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "Attack":
        """Reads what `to_json` gave; errors as of `jaxrob.Assessment.from_json`.

        Its `images`, which the text lacks, are an array `[0, 0, 0, 0]`.
        """
        return from_json(text, Attack)


def most_adversarial(attacks: Sequence[Attack]) -> Attack:
    """Picks each image's most similar example among those of several attacks.

    Args:
      attacks: results for the same classifier, images and labels.

    Returns:
      For each input the result of the attack with the largest similarity; of equals,
      that of the first.

    Raises:
      ValueError: if no attack is given, or they are not of the same inputs.

    Source: Definition 7 of the 2020 paper.
    """
    attacks = checked_sequence("attacks", attacks, Attack, "jaxrob.adversarial.Attack")
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
    found = Attack(*(np.stack(field)[best, every] for field in zip(*attacks)))
    # One that had a gradient, and failed, says something.
    vanished = np.all([attack.vanished for attack in attacks], axis=0)
    return found._replace(vanished=vanished)


# Wang et al. (2004), for pixels in [0, 1].
_C1 = 0.01**2
_C2 = 0.03**2
_FILTER_SIZE = 11


def structural_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How similar two images are: structural similarity, the image as one window.

    S(p, q) = (2 mu_p mu_q + c1) (2 sigma_pq + c2)
              / ((mu_p^2 + mu_q^2 + c1) (sigma_p^2 + sigma_q^2 + c2))

    with the means, variances and the covariance of all pixels in all channels. The
    definition names neither the constants nor the divisor of the variances: here
    c1 = 0.01^2 and c2 = 0.03^2 (Wang et al., 2004, for pixels in [0, 1]) and the number
    of values. It is computed in float64, because an adversarial example may be so
    similar that float32 cannot tell it from the image.

    Args:
      a: images `[N, H, W, C]` in [0, 1].
      b: images of the same shape.

    Returns:
      float64 `[N]` in [-1, 1], 1 where the images are identical; below 0 only where
      they are negatively correlated, which the definition does not foresee.

    Raises:
      ValueError: if the shapes differ or are not `[N, H, W, C]`.

    Source: Definition 6 of the 2020 paper; Brunet, Vrscay and Wang, "On the
    mathematical properties of the structural similarity index" (2012).
    """
    a, b = _checked_pair(a, b)
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (a, b))
    # Each factor as 1 less something small: 2 x y = x^2 + y^2 - (x - y)^2.
    mean_a, mean_b, variances = a.mean(1), b.mean(1), a.var(1) + b.var(1)
    luminance = (mean_a - mean_b) ** 2 / (mean_a**2 + mean_b**2 + _C1)
    structure = (a - b).var(1) / (variances + _C2)
    return (1 - luminance) * (1 - structure)


def windowed_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How similar two images are: mean structural similarity over Gaussian windows.

    It is `dm_pix.ssim`'s, that of Wang et al. (2004): windows of 11 x 11 pixels with a
    standard deviation of 1.5, of each channel alone.

    Args:
      a: images `[N, H, W, C]` in [0, 1], at least 11 x 11.
      b: images of the same shape.

    Returns:
      float64 `[N]` in [-1, 1], computed in float32: of flat images within 5e-4.

    Raises:
      ValueError: if the shapes differ, are not `[N, H, W, C]` or are too small.
    """
    a, b = _checked_pair(a, b)
    if min(a.shape[1:3]) < _FILTER_SIZE:
        raise ValueError(
            f"images must be at least {_FILTER_SIZE} x {_FILTER_SIZE} for windows of "
            f"that size; got the shape {a.shape}"
        )
    similarity = _windowed(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))
    return np.asarray(similarity, np.float64)


@jax.jit
def _windowed(a: jax.Array, b: jax.Array) -> jax.Array:
    # One image after the other: the filter of many at once would keep all its maps.
    return jax.lax.map(lambda pair: ssim(*pair), (a, b))


def _checked_pair(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    axes: dict[str, int] = {}
    checked = []
    for name, x in (("a", a), ("b", b)):
        x = checked_array(name, x, "N, H, W, C", at_least=0, at_most=1, axes=axes)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(f"{name} must be floating, in [0, 1]; got {x.dtype}")
        checked.append(x)
    return checked


# Images at a time. Beyond a CPU's caches the gradient of max-pooling is slow.
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


def _rows_in_block(
    num_images: int, batch_size: int | None, row_bytes: int, mesh: ImageMesh
) -> int:
    """Images in a block, a multiple of the devices, where none is much smaller."""
    most = _MAX_ROWS_CPU if platform(mesh) == "cpu" else _MAX_ROWS
    fit = mesh.size * max(1, min(most, _MAX_BYTES // row_bytes))
    num_blocks = -(-num_images // (batch_size or fit))
    rows = -(-num_images // num_blocks)
    return -(-rows // mesh.size) * mesh.size


# The target of an attack that has none.
UNTARGETED = -1


class Problem(NamedTuple):
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
    # The gradient keeps what the forward pass computed: a few arrays of that size.
    row_bytes = 4 * (info.largest_array + live_images * data.images[0].size)
    rows = _rows_in_block(len(data), batch_size, row_bytes, over)
    images, labels = np.asarray(as_floats(data.images)), data.labels
    keys = None
    if classifier.stochastic:
        assert key is not None  # The preflight has checked it.
        index = jnp.arange(len(images), dtype=jnp.uint32)
        keys = classifier_keys(checked_key(key), index)
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
    number = info.num_classes
    return Problem(
        classifier, images, labels, keys, before, runner_up, number, rows, over
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
    try:
        return with_gradient(classifier, shape[1:]), info
    except Exception as error:  # The user's code may raise anything.
        raise ValueError(
            "classifier must be differentiable in its images, because an attack "
            "follows gradients; one that runs on the host (Classifier.from_host) is "
            f"not: {error}"
        ) from error


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
    classifier: Classifier, images: jax.Array, labels: jax.Array, keys: jax.Array | None
) -> tuple[Answers, jax.Array]:
    scores = ranking_scores(classifier, images, keys)
    is_label = jax.nn.one_hot(labels, scores.shape[-1], dtype=bool)
    runner_up = first_largest(scores, but=is_label)
    return answer(classifier, images, labels, keys), runner_up.astype(jnp.int32)


# A class that leads by this share of the range leads in blocks of any size.
LEAD = 1e-5


def ranking_scores(
    classifier: Classifier, images: jax.Array, keys: jax.Array | None
) -> jax.Array:
    # Logarithms of mean probabilities over samples; without probabilities, mean scores.
    if classifier.outputs == "scores":
        return classifier.raw_outputs(images, keys).mean(axis=0)
    return mean_over_samples(classifier.log_probabilities(images, keys))


def lead(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """By how much a class leads the best other, as a share of the scores' range."""
    chosen = jax.nn.one_hot(classes, scores.shape[-1], dtype=bool)
    ahead = largest(scores, but=~chosen) - largest(scores, but=chosen)
    return ahead / (largest(scores) - scores.min(axis=-1))
