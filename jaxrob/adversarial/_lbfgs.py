"""The smallest perturbation towards a class, by L-BFGS (Szegedy et al., 2014)."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_choice,
    checked_array,
    checked_flag,
    checked_number,
)
from jaxrob._classifiers.classifier import Classifier
from jaxrob._devices.blocks import filled, in_blocks, taken
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.mesh import fetch, platform, put, sharded
from jaxrob._engine.execution import Bar, progress_bar
from jaxrob._numbers import log_softmax
from jaxrob.adversarial._attack import (
    LEAD,
    Attack,
    Problem,
    by_image,
    lead,
    make_attack,
    make_problem,
    most_adversarial,
    ranking_scores,
    warned,
)

MEMORY = 8  # steps that L-BFGS remembers
# A weight's minimum: a step lowers the objective by less than this share, or the
# gradient is this small. At kinks (ReLU, max-pooling) it hardly shrinks.
_FLAT = 1e-2
_SMALL = 1e-2
_MAX_STEPS = 20  # evaluations for one weight
_SUFFICIENT = 1e-4  # of the decrease that the gradient promises (Armijo)
_SHORTEST = 2.0**-8  # below this share of a step, the search along it is given up
_PRECISION = 1.1  # to this factor the weight is known when bisection ends
_MAX_WEIGHTS = 20
# The first guess of the weight never assumes less than this share of the loss to go.
_LEAST_GAP = 0.1

_quasi_newton = optax.scale_by_lbfgs(MEMORY)


class Evaluation(NamedTuple):
    loss: jax.Array  # the loss of the target class
    slope: jax.Array  # its gradient
    reached: jax.Array  # whether the target is reached


class Bracket(NamedTuple):
    """The weight 1 / (2 c) on trial, between weights tried before."""

    weight: jax.Array
    low: jax.Array  # the largest one whose minimum does not reach the target, or 0
    high: jax.Array  # the smallest one whose minimum does, or infinity
    tried: jax.Array  # how many weights were tried


class Search(NamedTuple):
    trial: jax.Array  # where the classifier is evaluated next
    is_first: jax.Array  # whether that is the unaltered image
    point: jax.Array  # the last trial accepted
    at_point: Evaluation  # the classifier's answer there
    direction: jax.Array  # the search direction from the point
    share: jax.Array  # the step along the direction, in (0, 1]
    memory: optax.OptState  # L-BFGS's state
    bracket: Bracket  # the weight, and its bounds
    steps: jax.Array  # evaluations for this weight
    best: jax.Array  # the closest point that reached the target
    distance: jax.Array  # its distance from the image, squared
    done: jax.Array  # whether the search is over
    vanished: jax.Array  # whether the gradient at the image was 0 or not finite


def new_search(image: jax.Array) -> Search:
    zeros, zero, count = jnp.zeros_like(image), jnp.float32(0), jnp.int32(0)
    infinity, no = jnp.float32(jnp.inf), jnp.bool_(False)
    return Search(
        trial=image,
        is_first=jnp.bool_(True),
        point=image,
        at_point=Evaluation(infinity, zeros, no),
        direction=zeros,
        share=jnp.float32(1),
        memory=_no_memory(image),
        bracket=Bracket(zero, zero, infinity, count),
        steps=count,
        best=image,
        distance=infinity,
        done=no,
        vanished=no,
    )


def advanced(
    search: Search, image: jax.Array, found: Evaluation, target_loss: jax.Array
) -> Search:
    # Every evaluation counts, not only those at a minimum.
    distance = jnp.sum((search.trial - image) ** 2)
    better = found.reached & (distance < search.distance) & ~search.done
    best = jnp.where(better, search.trial, search.best)
    distance = jnp.where(better, distance, search.distance)

    first_weight = _first_weight(found, target_loss)
    weight = jnp.where(search.is_first, first_weight, search.bracket.weight)
    no_slope = ~_is_weight(weight) & ~found.reached
    vanished = search.vanished | (search.is_first & no_slope)
    accepted, is_flat = _judged(search, image, found, weight)
    point, at_point = select(
        accepted, (search.trial, found), (search.point, search.at_point)
    )
    share = jnp.where(accepted, 1, search.share / 2)
    steps = search.steps + 1

    gradient = _free(point, point - image + weight * at_point.slope)
    size = jnp.linalg.norm(point - image)
    settled = is_flat | (jnp.linalg.norm(gradient) <= _SMALL * size)
    settled |= (steps >= _MAX_STEPS) | (share < _SHORTEST)
    settled &= ~search.is_first
    bracket = search.bracket._replace(weight=weight)
    bracket, done = _bisected(bracket, settled, at_point.reached)

    # The next trial: along a new direction, or less far along the old one.
    gradient = _free(point, point - image + bracket.weight * at_point.slope)
    fresh = _no_memory(image)
    memory = select(settled | search.is_first, fresh, search.memory)
    direction, memory = _descent(gradient, memory, fresh, point)
    direction, memory, share = select(
        accepted | settled,
        (direction, memory, jnp.float32(1)),
        (search.direction, search.memory, share),
    )
    return Search(
        trial=jnp.clip(point + share * direction, 0, 1),
        is_first=jnp.zeros_like(search.is_first),
        point=point,
        at_point=at_point,
        direction=direction,
        share=share,
        memory=memory,
        bracket=bracket,
        steps=jnp.where(settled, 0, steps),
        best=best,
        distance=distance,
        done=search.done | done,
        vanished=vanished,
    )


def select(condition: jax.Array, new: Any, old: Any) -> Any:
    return jax.tree.map(functools.partial(jnp.where, condition), new, old)


def _first_weight(found: Evaluation, target_loss: jax.Array) -> jax.Array:
    """The weight at whose minimum a linear margin would reach the target."""
    # There the slope of the loss has shrunk with the probability of the other classes.
    gap = jnp.maximum(found.loss - target_loss, _LEAST_GAP * found.loss)
    return gap / (jnp.sum(found.slope**2) * -jnp.expm1(-target_loss))


def _judged(
    search: Search, image: jax.Array, found: Evaluation, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    def objective(point: jax.Array, loss: jax.Array) -> jax.Array:
        return jnp.sum((point - image) ** 2) / 2 + weight * loss

    before = search.at_point
    old = objective(search.point, before.loss)
    new = objective(search.trial, found.loss)
    promised = jnp.sum(
        (search.point - image + weight * before.slope) * (search.trial - search.point)
    )
    accepted = (new <= old + _SUFFICIENT * promised) & jnp.isfinite(found.slope).all()
    accepted |= search.is_first
    return accepted, accepted & (old - new <= _FLAT * old)


def _bisected(
    bracket: Bracket, settled: jax.Array, reached: jax.Array
) -> tuple[Bracket, jax.Array]:
    # Where one end is missing, the weight moves towards it by growing factors.
    weight, low, high, tried = bracket
    low = jnp.where(settled & ~reached, weight, low)
    high = jnp.where(settled & reached, weight, high)
    tried = tried + settled
    factor = jnp.float32(2) ** tried
    middle = jnp.sqrt(low) * jnp.sqrt(high)
    middle = jnp.where(low > 0, middle, high / factor)
    middle = jnp.where(jnp.isinf(high), low * factor, middle)
    weight = jnp.where(settled, middle, weight)
    done = settled & ((high <= low * _PRECISION) | (tried >= _MAX_WEIGHTS))
    done |= ~_is_weight(weight)  # as where there is no slope
    return Bracket(weight, low, high, tried), done


def _is_weight(weight: jax.Array) -> jax.Array:
    return (weight > 0) & jnp.isfinite(weight)


def _descent(
    gradient: jax.Array, memory: optax.OptState, fresh: optax.OptState, point: jax.Array
) -> tuple[jax.Array, optax.OptState]:
    direction, memory = _quasi_newton.update(gradient, memory, point)
    direction = -jnp.where(gradient == 0, 0, cast(jax.Array, direction))
    # Negative curvature may leave no descent: then from the gradient again.
    ascent = ~(jnp.sum(direction * gradient) < 0)
    return select(ascent, (-gradient, fresh), (direction, memory))


def _free(point: jax.Array, gradient: jax.Array) -> jax.Array:
    """The gradient without the pixels that it pushes out of the box."""
    held = ((point <= 0) & (gradient > 0)) | ((point >= 1) & (gradient < 0))
    return jnp.where(held, 0, gradient)


def _no_memory(image: jax.Array) -> optax.OptState:
    """Optax's memory before any step, which has JAX's default type."""
    memory = _quasi_newton.init(image)
    return jax.tree.map(lambda a: a.astype("f4") if a.dtype == "f8" else a, memory)


# The targets that have a name; others are a class for each image.
_TARGETS = ("runner-up", "all")
#: Copies of an image: steps and gradients remembered, and the rest of a search's state.
_LIVE_IMAGES = 2 * MEMORY + 12
# Passes for an image and a target (digits: 16 gradients by an MLP, 24 by a CNN).
_GRADIENT = 3
_PASSES = 70
_HALVINGS = 8  # of the line from what is found to the image
# Evaluations dispatched before the host asks which searches are over.
_CHECK_EVERY = 8
_CHECK_EVERY_CPU = 1

Shared = tuple[Classifier, Any]


@own_errors()
def lbfgs(
    classifier: Classifier,
    images: Any,
    labels: Any = None,
    *,
    target_confidence: float = 0.51,
    targets: str | Any = "runner-up",
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Attack:
    """Finds adversarial examples close to the images, by box-constrained L-BFGS.

    Example::

        test = jaxrob.data.load("digits")[:32]
        attack = jaxrob.adversarial.lbfgs(classifier, test)
        print(attack.success.mean(), attack.distance)

    For the target class t, Szegedy et al. (2014) minimise::

        c |r|^2 - log p_t(x + r)    with x + r in [0, 1]

    and search by bisection for the largest c at whose minimum p_t reaches the target
    confidence. Of all points evaluated that reach it, and at which t is also the class
    predicted, the closest is moved straight towards the image as far as it still does,
    and returned.

    The objective is divided by 2 c: near the image its Hessian is then close to the
    identity for every image and classifier. The directions are
    `optax.scale_by_lbfgs`'s; steps are halved until the objective decreases, and
    projected onto the box. Pixels that the gradient pushes out of it are held
    (Bertsekas, 1982). The first c is right if the loss is linear.

    Each image has its own c, step and history. An evaluation of the classifier serves a
    whole block of images, wherever their searches stand, and an image whose search is
    over makes room for the next one. Results do not depend on the other images, except
    for rounding, which kinks of the classifier may magnify.

    Where the gradient at the image is exactly 0, or not finite, there is nothing to
    follow: `Attack.vanished` says so, with a warning. Prefer logits to probabilities,
    which float32 rounds to 0 and 1.

    Args:
      classifier: a differentiable classifier. If it has S samples, their mean
        probability is attacked. If the outputs are "scores", their softmax stands for
        probabilities in the objective, and it is enough that the target's score is the
        largest.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1]; or a `jaxrob.Dataset` with
        labels.
      labels: `[N]` integers, the right classes. Not beside a data set.
      target_confidence: the probability of the target class to be reached, in (0, 1),
        as in the 2020 paper.
      targets: the classes aimed at. "runner-up": the most probable wrong class on the
        unaltered image (the only one of two classes). "all": each wrong class in turn;
        of their results the most similar counts (Definition 7). Or `[N]` integers.
      key: a random key, needed if the classifier is stochastic; the randomness of an
        image is that of its index and the same at every evaluation.
      batch_size: images attacked at a time; by default few on a CPU, and what fits into
        memory elsewhere. Rounded up to a multiple of the devices.
      mesh: devices over which the images are split, see `jaxrob.evaluate`.
      progress: whether a progress bar is shown, and how long it takes, if over 10 s.

    Returns:
      An `Attack`. Images that are classified wrongly as they are were not attacked.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, a target is the label or no
        class, a shape or label does not fit, or the classifier is not differentiable,
        is stochastic without a key or returns NaN for an unaltered image.

    Source: Szegedy et al., "Intriguing properties of neural networks" (2014), section
    4.1; the 2020 paper, section V.
    """
    target_confidence = checked_number(
        "target_confidence", target_confidence, above=0, below=1
    )
    if isinstance(targets, str):
        check_choice("targets", targets, _TARGETS)
    else:
        targets = checked_array("targets", targets, "N", "integers", at_least=0)
    checked_flag("progress", progress)
    problem = make_problem(
        classifier, images, labels, key, batch_size, mesh, _LIVE_IMAGES
    )
    if isinstance(targets, np.ndarray):
        targeted = [_checked_targets(targets, problem)]
    elif targets == "runner-up":
        targeted = [problem.runner_up]
    else:
        number = problem.num_classes
        targeted = [(problem.labels + other) % number for other in range(1, number)]
    number = len(targeted) * int(problem.correct.sum())
    with progress_bar("L-BFGS", progress, "pass", number * _PASSES) as bar:
        found = [_attack(problem, one, target_confidence, bar) for one in targeted]
    return warned(problem, most_adversarial(found))


def _attack(
    problem: Problem, target: np.ndarray, target_confidence: float, bar: Bar
) -> Attack:
    mesh = problem.mesh
    shared = problem.classifier, np.float32(target_confidence)
    found, vanished = problem.images.copy(), np.zeros(len(problem.images), bool)
    for index, best, lost in _closest_found(problem, target, shared, bar):
        found[index], vanished[index] = best, lost

    def take(index: np.ndarray) -> tuple[Any, ...]:
        ends = np.zeros(len(index), np.float32), np.ones(len(index), np.float32)
        everything = found, problem.images, target, problem.keys
        return ends, *taken(everything, index)

    def step(ends: Any, best: jax.Array, *block: Any) -> jax.Array:
        closest = best
        for _ in range(_HALVINGS):
            shorten = _shorten(shared, closest, ends, best, *block, mesh=mesh)
            closest, ends = shorten.run()
        return closest

    candidates, attacked = found.copy(), np.flatnonzero(problem.correct)
    for index, closest in in_blocks(step, take, attacked, problem.rows, mesh):
        candidates[index] = closest
    return make_attack(problem, candidates, target, vanished)


def _closest_found(
    problem: Problem, target: np.ndarray, shared: Shared, bar: Bar
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    # Yields indices, points, and whether no gradient led on. Of `problem.rows` slots,
    # one that is done takes the next image.
    rows, mesh = problem.rows, problem.mesh
    check_every = _CHECK_EVERY_CPU if platform(mesh) == "cpu" else _CHECK_EVERY
    attacked = np.flatnonzero(problem.correct)
    if not len(attacked):
        return
    # Slots for which there is no image repeat the last one.
    index = filled(attacked[:rows], rows)
    waiting, active = attacked[rows:], np.arange(rows) < len(attacked)
    everything = problem.images, target, problem.keys
    block = put(taken(everything, index), sharded(mesh))
    searches = _begin(None, block[0], mesh=mesh).run()
    while True:
        # A loop in Python: within XLA's own, convolutions are slow on a CPU.
        for _ in range(check_every):
            searches = _advance(shared, searches, *block, mesh=mesh).run()
        done = active & fetch(searches.done)
        bar.update(_GRADIENT * check_every * int(active.sum()))
        if not done.any():
            continue
        best, vanished = fetch((searches.best, searches.vanished))
        yield index[done], best[done], vanished[done]
        free = np.flatnonzero(done)
        refilled = free[: len(waiting)]
        active[free] = False
        if not (active.any() or len(refilled)):
            return
        if len(refilled):
            active[refilled] = True
            index[refilled] = waiting[: len(refilled)]
            waiting = waiting[len(refilled) :]
            block = put(taken(everything, index), sharded(mesh))
            is_new = put(np.isin(np.arange(rows), refilled), sharded(mesh))
            searches = _refill(None, searches, block[0], is_new, mesh=mesh).run()


@by_image
def _begin(_: None, images: jax.Array) -> Search:
    return jax.vmap(new_search)(images)


@by_image
def _refill(_: None, searches: Search, images: jax.Array, is_new: jax.Array) -> Search:
    return jax.vmap(select)(is_new, jax.vmap(new_search)(images), searches)


@by_image
def _advance(
    shared: Shared,
    searches: Search,
    images: jax.Array,
    targets: jax.Array,
    keys: jax.Array | None,
) -> Search:
    classifier, target_confidence = shared

    def total_loss(trials: jax.Array) -> tuple[jax.Array, Any]:
        loss, reached = _aim(classifier, trials, targets, keys, target_confidence)
        return loss.sum(), (loss, reached)

    slope, (loss, reached) = jax.grad(total_loss, has_aux=True)(searches.trial)
    found = Evaluation(loss, slope, reached)
    target_loss = -jnp.log(target_confidence)
    return jax.vmap(advanced, (0, 0, 0, None))(searches, images, found, target_loss)


@by_image
def _shorten(
    shared: Shared,
    closest: jax.Array,
    ends: tuple[jax.Array, jax.Array],
    best: jax.Array,
    images: jax.Array,
    targets: jax.Array,
    keys: jax.Array | None,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    classifier, target_confidence = shared
    low, high = ends
    middle = (low + high) / 2
    points = images + middle[:, None, None, None] * (best - images)
    _, reached = _aim(classifier, points, targets, keys, target_confidence)
    closest = jnp.where(reached[:, None, None, None], points, closest)
    return closest, (jnp.where(reached, low, middle), jnp.where(reached, middle, high))


def _aim(
    classifier: Classifier,
    points: jax.Array,
    targets: jax.Array,
    keys: jax.Array | None,
    target_confidence: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The loss of the target class `[B]`, and whether the target is reached `[B]`."""
    scores = ranking_scores(classifier, points, keys)
    found = log_softmax(scores, -1)
    chosen = jnp.take_along_axis(found, targets[:, None], axis=-1)[:, 0]
    reached = lead(scores, targets) > LEAD
    if classifier.outputs != "scores":
        reached &= chosen >= jnp.log(target_confidence)
    return -chosen, reached


def _checked_targets(targets: np.ndarray, problem: Problem) -> np.ndarray:
    most, axes = problem.num_classes - 1, {"N": len(problem.labels)}
    checked_array(
        "targets", targets, "N", "integers", at_least=0, at_most=most, axes=axes
    )
    same = np.flatnonzero(targets == problem.labels)
    if len(same):
        raise ValueError(
            f"targets must differ from the labels; {len(same)} do not, the first at "
            f"index {same[0]}"
        )
    return targets.astype(np.int32)
