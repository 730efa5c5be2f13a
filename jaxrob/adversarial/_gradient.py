"""The strongest perturbation within a ball, by the gradient's direction."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from optax import projections

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_integer,
    checked_number,
)
from jaxrob._classifiers.classifier import Classifier
from jaxrob._devices.blocks import in_blocks, taken
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.execution import progress_bar
from jaxrob._numbers import warn_beyond_pixels
from jaxrob.adversarial._attack import (
    LEAD,
    UNTARGETED,
    Attack,
    by_image,
    lead,
    make_attack,
    make_problem,
    ranking_scores,
    warned,
)

NORMS = ("linf", "l2")
# The largest radius and step: beyond, float32 would overflow.
_LARGEST = 2.0**30
_LIVE_IMAGES = 8
_TINY = float(jnp.finfo(jnp.float32).tiny)


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
    """The state of a block of images."""

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
        scores = jax.nn.log_softmax(ranking_scores(classifier, points, keys))
        # The log odds against the right class: their gradient points as the
        # cross-entropy's does, but keeps its digits where the classifier is sure.
        right = jax.nn.one_hot(labels, scores.shape[-1], dtype=bool)
        wrong = jax.nn.logsumexp(jnp.where(right, -jnp.inf, scores), axis=-1)
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
    """The state with the points taken as its best where they are better."""
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
    gradient = gradient / jnp.maximum(jnp.abs(gradient).max(), _TINY)
    return gradient / jnp.maximum(jnp.linalg.norm(gradient), _TINY)
