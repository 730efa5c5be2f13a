"""How vulnerable a classifier is, by any attacks, and the attacks within a ball."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from optax import projections

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_array,
    checked_flag,
    checked_integer,
    checked_number,
    checked_sequence,
)
from jaxrob._arguments.messages import classifier_wanted
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import given_images, images_and_labels
from jaxrob._devices.blocks import in_blocks, taken
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.execution import progress_bar
from jaxrob._numbers import (
    as_floats,
    largest,
    log_softmax,
    log_sum_exp,
    warn_beyond_pixels,
)
from jaxrob.adversarial._attack import (
    LEAD,
    UNTARGETED,
    Attack,
    by_image,
    lead,
    make_attack,
    make_problem,
    most_adversarial,
    ranking_scores,
    structural_similarity,
    warned,
)
from jaxrob.adversarial._lbfgs import lbfgs
from jaxrob.metrics._counts import quotient

NORMS = ("linf", "l2")
# The largest radius and step: beyond, float32 would overflow.
_LARGEST = 2.0**30
_LIVE_IMAGES = 8
_TINY = float(jnp.finfo(jnp.float32).tiny)


class Adversariability(NamedTuple):
    """How vulnerable a classifier is, and from what that was computed.

    Attributes:
      value: the adversariability, in [0, 1); NaN if no image is classified correctly.
      per_class: float64 `[K]`, that of the images of each class alone; NaN for a class
        without any that is classified correctly.
      num_inputs: the images classified correctly, which are those that count.
      num_inputs_per_class: int64 `[K]`, those of each class.
      success_rate: the share of them with an adversarial example, in [0, 1]; NaN
        likewise. Similarities of 1 would make the value as large.
      num_vanished: those of them without a gradient to follow, where an attack that
        found nothing says nothing (see `Attack.vanished`). Each makes the value too
        small by up to 1 / num_inputs.
      attack: the most adversarial example of each of all N images.
    """

    value: float
    per_class: np.ndarray
    num_inputs: int
    num_inputs_per_class: np.ndarray
    success_rate: float
    num_vanished: int
    attack: Attack


def adversariability(
    classifier: Classifier,
    images: Any,
    labels: Any = None,
    *,
    attack: Callable[..., Attack] | Sequence[Callable[..., Attack]] = lbfgs,
    similarity: Callable[..., np.ndarray] = structural_similarity,
) -> Adversariability:
    """Measures how vulnerable a classifier is to adversarial examples, in [0, 1).

    It is the share of images with an adversarial example, each weighted by its
    similarity to the image. 0 is best.

    Example::

        test = jaxrob.data.load("digits")[:32]
        found = jaxrob.adversarial.adversariability(classifier, test)
        print(found.value, found.success_rate)

    The value is::

        adv(C, P) = sum over p in CE of S(p, p_ae) / |CE|

    with CE the images p of P that are classified correctly, and p_ae the most similar
    adversarial example of p (Definition 7). S is replaced by 0 where there is none.

    The definitions are of binary classifiers; here any wrong class counts. An image
    whose adversarial examples all have a negative similarity, which the definitions
    rule out, counts as 0. Only what an attack returns is considered, not all that it
    evaluates.

    Args:
      classifier: the classifier.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1]; or a `jaxrob.Dataset` with
        labels.
      labels: `[N]` integers, the right classes. Not beside a data set.
      attack: how adversarial examples are found: a function of (classifier, images,
        labels) that returns an `Attack`, or several of them; then the most similar
        example of each image counts. Give further arguments by `functools.partial`:
        `partial(pgd, epsilon=0.1)` or `partial(lbfgs, key=key, mesh=mesh)`.
      similarity: a function of two arrays `[N, H, W, C]` in [0, 1] that returns `[N]`:
        `structural_similarity` (Definition 6) or `windowed_similarity`.

    Returns:
      An `Adversariability`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if no attack is given; an attack returns images of another shape,
        outside [0, 1] or NaN, other labels, or success where there was nothing to
        attack; a similarity is not one number in [-1, 1] for each image; or as the
        attacks.

    Source: Definition 8 of the 2020 paper.
    """
    if callable(attack):
        attacks = (attack,)
    else:
        wanted = "functions of (classifier, images, labels)"
        attacks = checked_sequence("attack", attack, Callable, wanted)
    check_type("similarity", similarity, Callable, "a function of two arrays of images")
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    images, labels = images_and_labels(images, labels)
    given = given_images(images, labels)
    found = [one(classifier, images, labels) for one in attacks]
    unaltered = np.asarray(as_floats(given.images))
    for one in found:
        _check_attack(one, unaltered, given.labels)
    found = [
        one._replace(similarity=_similarities(similarity, unaltered, one))
        for one in found
    ]
    best = most_adversarial(found)
    weights = np.maximum(best.similarity, 0)
    correct = best.correct
    # A table with a row for each image and a column for each class.
    num_classes = classifier.num_classes(unaltered.shape[1:])
    of_class = best.labels[:, None] == np.arange(num_classes)
    counts = (of_class & correct[:, None]).sum(axis=0)
    sums = (of_class * weights[:, None]).sum(axis=0)
    return Adversariability(
        value=float(quotient(weights.sum(), correct.sum(), np.nan)),
        per_class=quotient(sums, counts, np.nan),
        num_inputs=int(correct.sum()),
        num_inputs_per_class=counts,
        success_rate=float(quotient(best.success.sum(), correct.sum(), np.nan)),
        num_vanished=int(best.vanished.sum()),
        attack=best,
    )


def _check_attack(found: Any, images: np.ndarray, labels: np.ndarray) -> None:
    check_type("attack(...)", found, Attack, "jaxrob.adversarial.Attack")
    axes = dict(zip("NHWC", images.shape))
    pixels = {"at_least": 0, "at_most": 1, "axes": axes}
    checked_array("attack(...).images", found.images, "N, H, W, C", **pixels)
    for field in ("success", "correct", "vanished"):
        given, name = getattr(found, field), f"attack(...).{field}"
        checked_array(name, given, "N", "booleans", axes=axes)
    if not np.array_equal(found.labels, labels):
        raise ValueError("attack(...).labels must be the labels that it was given")
    if (np.asarray(found.success) & ~np.asarray(found.correct)).any():
        raise ValueError(
            "attack(...).success must be false where correct is: what is classified "
            "wrongly as it is needs no attack (Definition 7)"
        )


def _similarities(
    similarity: Callable[..., np.ndarray], images: np.ndarray, found: Attack
) -> np.ndarray:
    """`[N]`, 0 where there is no adversarial example."""
    values = similarity(images, found.images)
    where = {"may_be_nan": True, "axes": {"N": len(images)}}
    values = checked_array("similarity(...)", values, "N", **where)
    # Rounding may carry it a little beyond.
    off = found.success & ~(np.abs(values) <= 1 + 1e-5)
    if off.any():
        raise ValueError(
            "similarity(...) must lie in [-1, 1], 1 for the same image; got "
            f"{values[off][0]} for image {np.flatnonzero(off)[0]}"
        )
    return np.where(found.success, values, 0.0)


@own_errors()
def pgd(
    classifier: Classifier,
    images: Any,
    labels: Any = None,
    *,
    epsilon: float,
    norm: str = "linf",
    steps: int = 40,
    step_size: float | None = None,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Attack:
    """Finds adversarial examples within a ball around each image, by gradient ascent.

    Example::

        test = jaxrob.data.load("digits")[:32]
        attack = jaxrob.adversarial.pgd(classifier, test, epsilon=0.1)
        print(attack.success.mean())

    Projected gradient ascent on the loss of the right class::

        x <- clip(project(x + step_size * d), 0, 1)

    where d is the sign of the gradient (linf) or the gradient over its norm (l2), and
    the projection is onto the ball of radius epsilon around the image. It starts from
    the image itself, so that the result is deterministic. Of all points visited that
    are classified wrongly, the closest is returned (Definition 7 asks for the most
    similar). An image at which the gradient is exactly 0, or not finite, has nowhere to
    go: `Attack.vanished` says so, with a warning. Prefer logits to probabilities, which
    float32 rounds to 0 and 1.

    Args:
      classifier: see `lbfgs`.
      images: see `lbfgs`.
      labels: see `lbfgs`.
      epsilon: the radius, in pixel values of [0, 1]; positive.
      norm: of the ball, "linf" (the largest change of a value) or "l2" (Euclidean).
      steps: number of steps, at least 1.
      step_size: positive; by default 2.5 epsilon / steps, as the authors choose.
      key: see `lbfgs`.
      batch_size: see `lbfgs`.
      mesh: see `lbfgs`.
      progress: see `lbfgs`.

    Returns:
      An `Attack` of targets -1. Images that are classified wrongly as they are were
      not attacked.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if epsilon, the number of steps or their size is not positive, the
        norm is none of the above, or as for `lbfgs`.

    Source: Madry et al., "Towards deep learning models resistant to adversarial
    attacks" (2018), section 2.1.
    """
    epsilon = checked_number("epsilon", epsilon, above=0, at_most=_LARGEST)
    steps = checked_integer("steps", steps, at_least=1)
    if step_size is None:
        step_size = 2.5 * epsilon / steps
    step_size = checked_number("step_size", step_size, above=0, at_most=_LARGEST)
    check_choice("norm", norm, NORMS)
    checked_flag("progress", progress)
    warn_beyond_pixels(epsilon, norm)
    problem = make_problem(
        classifier, images, labels, key, batch_size, mesh, _LIVE_IMAGES
    )
    candidates, over = problem.images.copy(), problem.mesh
    vanished = np.zeros(len(candidates), bool)
    shared = problem.classifier, np.float32(epsilon), np.float32(step_size)
    ascend = _ASCEND[norm]
    everything = problem.images, problem.labels, problem.keys

    def take(index: np.ndarray) -> tuple[Any, ...]:
        far, never = np.full(len(index), np.inf, np.float32), np.zeros(len(index), bool)
        return far, never, *taken(everything, index)

    def step(far: Any, never: Any, *block: Any) -> tuple[jax.Array, jax.Array]:
        state = _Ascent(block[0], block[0], far, never)
        # A loop in Python: within XLA's own, convolutions are slow on a CPU.
        for _ in range(steps):
            state = ascend(shared, state, *block, mesh=over).run()
        state = _end(problem.classifier, state, *block, mesh=over).run()
        return state.best, state.vanished

    attacked = np.flatnonzero(problem.correct)
    blocks = in_blocks(step, take, attacked, problem.rows, over)
    # A gradient counts as three passes; the last points are only classified.
    each = 3 * steps + 1
    with progress_bar("PGD", progress, "pass", each * len(attacked)) as bar:
        for index, found in blocks:
            candidates[index], vanished[index] = found
            bar.update(each * len(index))
    targets = np.full(len(candidates), UNTARGETED)
    return warned(problem, make_attack(problem, candidates, targets, vanished))


def fgsm(
    classifier: Classifier,
    images: Any,
    labels: Any = None,
    *,
    epsilon: float,
    norm: str = "linf",
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Attack:
    """Finds adversarial examples fast, by one step of `pgd` to the ball's surface.

    It is the fast gradient sign method. Arguments, result and errors are those of
    `pgd`; the step has the length `epsilon`.

    Source: Goodfellow et al., "Explaining and harnessing adversarial examples" (2015),
    section 4.
    """
    return pgd(
        classifier,
        images,
        labels,
        epsilon=epsilon,
        norm=norm,
        steps=1,
        step_size=epsilon,
        key=key,
        batch_size=batch_size,
        mesh=mesh,
        progress=progress,
    )


class _Ascent(NamedTuple):
    points: jax.Array  # where they are
    best: jax.Array  # the closest points so far that are classified wrongly
    distance: jax.Array  # their distance from the images
    vanished: jax.Array  # whether the gradient led nowhere at one of the points


def _ascend(
    shared: tuple[Classifier, jax.Array, jax.Array],
    state: _Ascent,
    images: jax.Array,
    labels: jax.Array,
    keys: jax.Array | None,
    *,
    norm: str,
) -> _Ascent:
    classifier, epsilon, step_size = shared

    def total_odds(points: jax.Array) -> tuple[jax.Array, jax.Array]:
        scores = log_softmax(ranking_scores(classifier, points, keys), -1)
        # Log odds: the cross-entropy's direction, with digits where it is sure.
        right = jax.nn.one_hot(labels, scores.shape[-1], dtype=bool)
        wrong = log_sum_exp(scores, but=right)
        return (wrong - jnp.where(right, scores, 0).sum(axis=-1)).sum(), scores

    gradient, scores = jax.grad(total_odds, has_aux=True)(state.points)
    state = _closest(state, scores, images, labels)
    step = jax.vmap(functools.partial(_unit, norm=norm))(gradient)
    change = state.points + step_size * step - images
    project = getattr(projections, f"projection_{norm}_ball")
    change = jax.vmap(project, (0, None))(change, epsilon)
    slopes = gradient.reshape(len(gradient), -1)
    followed = (slopes != 0).any(axis=1) & jnp.isfinite(slopes).all(axis=1)
    # The image is in the box, so clipping leads no further away from it.
    return state._replace(
        points=jnp.clip(images + change, 0, 1), vanished=state.vanished | ~followed
    )


_ASCEND = {norm: by_image(functools.partial(_ascend, norm=norm)) for norm in NORMS}


@by_image
def _end(
    classifier: Classifier,
    state: _Ascent,
    images: jax.Array,
    labels: jax.Array,
    keys: jax.Array | None,
) -> _Ascent:
    scores = ranking_scores(classifier, state.points, keys)
    return _closest(state, scores, images, labels)


def _closest(
    state: _Ascent, scores: jax.Array, images: jax.Array, labels: jax.Array
) -> _Ascent:
    distance = jnp.linalg.norm((state.points - images).reshape(len(images), -1), axis=1)
    better = (lead(scores, labels) < -LEAD) & (distance < state.distance)
    return state._replace(
        best=jnp.where(better[:, None, None, None], state.points, state.best),
        distance=jnp.where(better, distance, state.distance),
    )


def _unit(gradient: jax.Array, norm: str) -> jax.Array:
    """The direction of steepest ascent, of length 1 in the norm; 0 if there is none."""
    if norm == "linf":
        return jnp.sign(gradient)
    # By the largest first, because squares of small numbers underflow.
    gradient = gradient / jnp.maximum(largest(jnp.abs(gradient).ravel()), _TINY)
    return gradient / jnp.maximum(jnp.linalg.norm(gradient), _TINY)
