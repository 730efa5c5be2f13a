"""The smallest perturbation towards a class, by L-BFGS (Szegedy et al., 2014)."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.mesh import platform, split_over
from jaxrob.adversarial._attack import (
    LEAD,
    Attack,
    Problem,
    by_image,
    check,
    class_scores,
    lead,
    most_adversarial,
    padded_blocks,
    result,
)

_MEMORY = 8  # steps that L-BFGS remembers
# A weight's minimum is reached where a step lowers the objective by less than this
# share, or the gradient is this small relative to the perturbation. Networks have kinks
# (ReLU, max-pooling): there the gradient hardly shrinks.
_FLAT = 1e-2
_SMALL = 1e-2
_MAX_STEPS = 20  # evaluations for one weight
_SUFFICIENT = 1e-4  # of the decrease that the gradient promises (Armijo)
_SHORTEST = 2.0**-8  # below this share of a step, the search along it is given up
_PRECISION = 1.1  # to this factor the weight is known when bisection ends
_HALVINGS = 8  # of what is found, along its line to the image
_MAX_WEIGHTS = 20
# The first guess of the weight never assumes less than this share of the loss to go.
_LEAST_GAP = 0.1
# Evaluations dispatched before the host asks which searches are over.
_CHECK_EVERY = 8
_CHECK_EVERY_CPU = 1

_quasi_newton = optax.scale_by_lbfgs(_MEMORY)


def lbfgs(
    classifier: Classifier,
    images: Any,
    labels: Any,
    *,
    target_confidence: float = 0.51,
    targets: str | Any = "runner-up",
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
) -> Attack:
    """Adversarial examples close to the images, by box-constrained L-BFGS.

    For the target class t, Szegedy et al. (2014) minimise

        c |r|^2 - log p_t(x + r)    with x + r in [0, 1],

    and search by bisection for the largest c at whose minimum p_t reaches the target
    confidence. Of all points evaluated, the closest that reaches it, and at which t is
    also the class predicted, is moved straight towards the image as far as it still
    does, and returned.

    The objective is divided by 2 c: near the image its Hessian is then close to the
    identity, whatever the image and the classifier. The directions are
    `optax.scale_by_lbfgs`'s; steps are halved until the objective decreases, and
    projected onto the box, with the pixels held that the gradient pushes out of it
    (Bertsekas, 1982). A change of variables, such as tanh, would hold all pixels that
    are 0 or 1 in the image for good. The first c is right if the loss is linear.

    Each image has its own c, step and history, and an evaluation of the classifier
    serves a whole block of images, wherever their searches stand; an image whose search
    is over makes room for the next one. Results do not depend on the other images,
    rounding apart, which kinks of the classifier may magnify.

    Args:
      classifier: a differentiable classifier. If S samples, their mean probability is
        attacked. If the outputs are "scores", their softmax stands for probabilities in
        the objective, and it is enough that the target's score is the largest.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1].
      labels: `[N]` integers, the right classes.
      target_confidence: the probability of the target class to be reached, in (0, 1).
        The 2020 paper's authors use 0.51.
      targets: the classes aimed at: "runner-up", the most probable class but the label
        on the unaltered image (the only one of two classes); "all", each wrong class in
        turn, of whose results the most similar counts (Definition 7); or `[N]`
        integers.
      key: a random key, needed if the classifier is stochastic; the randomness of an
        image is that of its index and the same at every evaluation.
      batch_size: images attacked at a time; by default few on a CPU, and what fits into
        memory elsewhere. Rounded up to a multiple of the devices.
      mesh: devices over which the images are split, along all of its axes; by default
        all devices of this process.

    Returns:
      An `Attack`. Images that are classified wrongly as they are were not attacked.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if `target_confidence` lies outside (0, 1), a target is the label or
        no class, an image holds NaN or values outside [0, 1], a shape or label does not
        fit, the classifier is not differentiable, is stochastic without a key or
        returns NaN for an unaltered image.

    Source: Szegedy et al., "Intriguing properties of neural networks" (2014), section
    4.1; the 2020 paper, section V.
    """
    if not 0 < target_confidence < 1:
        raise ValueError(
            f"target_confidence must lie in (0, 1); got {target_confidence}"
        )
    # Steps and gradients remembered, and what a lane holds besides.
    live_images = 2 * _MEMORY + 12
    problem = check(classifier, images, labels, key, batch_size, mesh, live_images)
    num_classes = problem.num_classes
    if not isinstance(targets, str):
        target = _checked_targets(targets, problem)
        return _attack(problem, target, target_confidence)
    if targets == "runner-up":
        return _attack(problem, problem.runner_up, target_confidence)
    if targets != "all":
        raise ValueError(
            'targets must be "runner-up", "all" or one class for each image; got '
            f"{targets!r}"
        )
    return most_adversarial(
        [
            _attack(problem, (problem.labels + other) % num_classes, target_confidence)
            for other in range(1, num_classes)
        ]
    )


class _Lane(NamedTuple):
    """One image under attack, minimising |r|^2 / 2 + weight * loss(x + r)."""

    trial: jax.Array  # where the classifier is evaluated next
    is_first: jax.Array  # whether that is the unaltered image
    point: jax.Array  # the last one accepted
    loss: jax.Array  # there
    slope: jax.Array  # the gradient of the loss there
    reached: jax.Array  # whether the target is reached there
    direction: jax.Array
    share: jax.Array  # of the direction that the trial goes
    memory: optax.ScaleByLBFGSState
    weight: jax.Array  # 1 / (2 c)
    low: jax.Array  # the largest weight at whose minimum the target is not reached
    high: jax.Array  # the smallest at which it is
    steps: jax.Array  # evaluations for this weight
    weights: jax.Array  # weights done with
    best: jax.Array  # the closest point that reached the target
    distance: jax.Array  # its distance from the image, squared
    done: jax.Array


class _Evaluation(NamedTuple):
    """What the classifier says at a trial point."""

    loss: jax.Array
    slope: jax.Array
    reached: jax.Array


def _attack(problem: Problem, target: np.ndarray, target_confidence: float) -> Attack:
    def aim(index):
        """On the devices: images, targets and keys of the inputs at `index`."""
        keys = None if problem.keys is None else problem.keys[index]
        return put((problem.images[index], target[index], keys), split_over(mesh))

    mesh = problem.mesh
    shared = problem.classifier, np.float32(target_confidence)
    attacked = np.flatnonzero(problem.correct)
    found = problem.images.copy()
    for index, best in _searches(shared, attacked, aim, problem.rows, mesh):
        found[index] = best
    candidates = found.copy()
    for index in padded_blocks(attacked, problem.rows):
        candidates[index] = _shortened(shared, found[index], aim(index), mesh)
    return result(problem, candidates, target)


def _searches(shared, attacked, aim, rows, mesh):
    """The closest points found for the inputs `attacked`, as (indices, points).

    Each lane whose search is over takes the next input, so that none waits.
    """
    check_every = _CHECK_EVERY_CPU if platform(mesh) == "cpu" else _CHECK_EVERY
    if not len(attacked):
        return
    # Lanes for which there is no input repeat the last one.
    index = next(padded_blocks(attacked[:rows], rows))
    waiting, active = attacked[rows:], np.arange(rows) < len(attacked)
    parts = aim(index)
    lanes = _begin(None, parts[0], mesh=mesh)
    while True:
        # The loop is outside of XLA, whose own make convolutions slow on a CPU.
        for _ in range(check_every):
            lanes = _advance(shared, lanes, *parts, mesh=mesh)
        done = active & fetch(lanes.done)
        if not done.any():
            continue
        yield index[done], fetch(lanes.best)[done]
        free = np.flatnonzero(done)
        taken = free[: len(waiting)]
        active[free] = False
        if not (active.any() or len(taken)):
            return
        if len(taken):
            active[taken] = True
            index[taken], waiting = waiting[: len(taken)], waiting[len(taken) :]
            parts = aim(index)
            fresh = put(np.isin(np.arange(rows), taken), split_over(mesh))
            lanes = _refill(None, lanes, parts[0], fresh, mesh=mesh)


@by_image
def _begin(_, images):
    return jax.vmap(_start)(images)


@by_image
def _refill(_, lanes, images, fresh):
    return jax.vmap(_where)(fresh, jax.vmap(_start)(images), lanes)


def _shortened(shared, best, parts, mesh):
    """What is found, as far towards the image as it reaches the target."""
    ends = np.zeros(len(best), np.float32), np.ones(len(best), np.float32)
    best, ends = put((best, ends), split_over(mesh))
    closest = best
    for _ in range(_HALVINGS):
        closest, ends = _shorten(shared, closest, ends, best, *parts, mesh=mesh)
    return fetch(closest)


def _start(image):
    """A lane that is about to evaluate an unaltered image."""
    zeros, zero, count = jnp.zeros_like(image), jnp.float32(0), jnp.int32(0)
    infinity, no = jnp.float32(jnp.inf), jnp.bool_(False)
    return _Lane(
        trial=image,
        is_first=jnp.bool_(True),
        point=image,
        loss=infinity,
        slope=zeros,
        reached=no,
        direction=zeros,
        share=jnp.float32(1),
        memory=_quasi_newton.init(image),
        weight=zero,
        low=zero,
        high=infinity,
        steps=count,
        weights=count,
        best=image,
        distance=infinity,
        done=no,
    )


@by_image
def _advance(shared, lanes, images, targets, keys):
    """One evaluation of every lane's trial point, and what follows from it."""
    classifier, target_confidence = shared

    def total_loss(trials):
        loss, reached = _aim(classifier, trials, targets, keys, target_confidence)
        return loss.sum(), (loss, reached)

    slope, (loss, reached) = jax.grad(total_loss, has_aux=True)(lanes.trial)
    found = _Evaluation(loss, slope, reached)
    target_loss = -jnp.log(target_confidence)
    return jax.vmap(_next, (0, 0, 0, None))(lanes, images, found, target_loss)


@by_image
def _shorten(shared, closest, ends, best, images, targets, keys):
    """Bisection along the line from the image to the best point, between its `ends`."""
    classifier, target_confidence = shared
    low, high = ends
    middle = (low + high) / 2
    points = images + middle[:, None, None, None] * (best - images)
    _, reached = _aim(classifier, points, targets, keys, target_confidence)
    closest = jnp.where(reached[:, None, None, None], points, closest)
    return closest, (jnp.where(reached, low, middle), jnp.where(reached, middle, high))


def _aim(classifier, points, targets, keys, target_confidence):
    """The loss of the target class `[B]`, and whether the target is reached `[B]`."""
    scores = class_scores(classifier, points, keys)
    log_softmax = jax.nn.log_softmax(scores)
    chosen = jnp.take_along_axis(log_softmax, targets[:, None], axis=-1)[:, 0]
    reached = lead(scores, targets) > LEAD
    if classifier.outputs != "scores":
        reached &= chosen >= jnp.log(target_confidence)
    return -chosen, reached


def _next(lane: _Lane, image: jax.Array, found: _Evaluation, target_loss) -> _Lane:
    """The lane after what was found at its trial point."""
    # Every evaluation counts, not only those at a minimum.
    distance = jnp.sum((lane.trial - image) ** 2)
    better = found.reached & (distance < lane.distance) & ~lane.done
    best = jnp.where(better, lane.trial, lane.best)
    distance = jnp.where(better, distance, lane.distance)

    weight = jnp.where(lane.is_first, _first_weight(found, target_loss), lane.weight)

    def objective(point, loss):
        return jnp.sum((point - image) ** 2) / 2 + weight * loss

    # Whether the trial is accepted.
    old, new = objective(lane.point, lane.loss), objective(lane.trial, found.loss)
    promised = jnp.sum(
        (lane.point - image + weight * lane.slope) * (lane.trial - lane.point)
    )
    accepted = (new <= old + _SUFFICIENT * promised) & jnp.isfinite(found.slope).all()
    accepted |= lane.is_first
    point, (loss, slope, reached) = _where(
        accepted,
        (lane.trial, found),
        (lane.point, _Evaluation(lane.loss, lane.slope, lane.reached)),
    )
    share = jnp.where(accepted, 1, lane.share / 2)
    steps = lane.steps + 1

    # Whether it is the minimum for this weight.
    gradient = _free(point, point - image + weight * slope)
    size = jnp.linalg.norm(point - image)
    settled = accepted & (old - new <= _FLAT * old)
    settled |= jnp.linalg.norm(gradient) <= _SMALL * size
    settled |= (steps >= _MAX_STEPS) | (share < _SHORTEST)
    settled &= ~lane.is_first

    # Bisection; where one end is missing, by growing factors towards it.
    low = jnp.where(settled & ~reached, weight, lane.low)
    high = jnp.where(settled & reached, weight, lane.high)
    weights = lane.weights + settled
    factor = 2.0**weights
    middle = jnp.sqrt(low) * jnp.sqrt(high)
    middle = jnp.where(low > 0, middle, high / factor)
    middle = jnp.where(jnp.isinf(high), low * factor, middle)
    weight = jnp.where(settled, middle, weight)
    done = settled & ((high <= low * _PRECISION) | (weights >= _MAX_WEIGHTS))
    done |= ~((weight > 0) & jnp.isfinite(weight))  # as where there is no slope

    # The next trial: along a new direction, or less far along the old one.
    gradient = _free(point, point - image + weight * slope)
    fresh = _quasi_newton.init(image)
    memory = _where(settled | lane.is_first, fresh, lane.memory)
    direction, memory = _quasi_newton.update(gradient, memory, point)
    direction = -jnp.where(gradient == 0, 0, direction)
    # Negative curvature may leave no descent: then from the gradient again.
    ascent = ~(jnp.sum(direction * gradient) < 0)
    direction, memory = _where(ascent, (-gradient, fresh), (direction, memory))
    turns = accepted | settled
    direction, memory, share = _where(
        turns, (direction, memory, jnp.float32(1)), (lane.direction, lane.memory, share)
    )
    return _Lane(
        trial=jnp.clip(point + share * direction, 0, 1),
        is_first=jnp.zeros_like(lane.is_first),
        point=point,
        loss=loss,
        slope=slope,
        reached=reached,
        direction=direction,
        share=share,
        memory=memory,
        weight=weight,
        low=low,
        high=high,
        steps=jnp.where(settled, 0, steps),
        weights=weights,
        best=best,
        distance=distance,
        done=lane.done | done,
    )


def _first_weight(found, target_loss):
    """The weight at whose minimum a linear margin would reach the target.

    There the slope of the loss has shrunk with the probability of the other classes.
    """
    gap = jnp.maximum(found.loss - target_loss, _LEAST_GAP * found.loss)
    return gap / (jnp.sum(found.slope**2) * -jnp.expm1(-target_loss))


def _free(point, gradient):
    """The gradient without the pixels that it pushes out of the box."""
    held = ((point <= 0) & (gradient > 0)) | ((point >= 1) & (gradient < 0))
    return jnp.where(held, 0, gradient)


def _where(condition, new, old):
    return jax.tree.map(functools.partial(jnp.where, condition), new, old)


def _checked_targets(targets, problem):
    targets = np.asarray(targets)
    if targets.shape != problem.labels.shape:
        raise ValueError(
            f"targets must have the shape {problem.labels.shape}, one for each image; "
            f"got {targets.shape}"
        )
    if not np.issubdtype(targets.dtype, np.integer):
        raise TypeError(f"targets must be integers, got {targets.dtype}")
    if targets.min() < 0 or targets.max() >= problem.num_classes:
        raise ValueError(
            f"targets must lie in 0 ... {problem.num_classes - 1}, the classes; got "
            f"{targets.min()} ... {targets.max()}"
        )
    same = np.flatnonzero(targets == problem.labels)
    if len(same):
        raise ValueError(
            f"targets must differ from the labels; {len(same)} do not, the first at "
            f"index {same[0]}"
        )
    return targets.astype(np.int32)
