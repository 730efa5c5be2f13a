"""The smallest perturbation towards a class, by L-BFGS (Szegedy et al., 2014)."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_choice,
    checked_array,
    checked_flag,
    checked_number,
)
from jaxrob._classifier import Classifier
from jaxrob._devices.blocks import in_blocks
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.hosts import fetch, put
from jaxrob._devices.mesh import platform, sharded
from jaxrob._devices.rows import filled, taken
from jaxrob._engine.bar import Bar
from jaxrob._engine.execution import progress_bar
from jaxrob.adversarial._attack import Attack, most_adversarial
from jaxrob.adversarial._blocks import by_image
from jaxrob.adversarial._problem import Problem, make_attack, make_problem, warned
from jaxrob.adversarial._scores import LEAD, lead, ranking_scores
from jaxrob.adversarial._search import (
    MEMORY,
    Evaluation,
    Search,
    advanced,
    new_search,
    select,
)

# The targets that have a name; others are a class for each image.
_TARGETS = ("runner-up", "all")
#: Copies of an image: steps and gradients remembered, and the rest of a search's state.
_LIVE_IMAGES = 2 * MEMORY + 12
# Passes of the network for an image and a target, usually, a gradient counted as three
# (digits: 16 gradients by an MLP, 24 by a CNN).
_GRADIENT = 3
_PASSES = 70
_HALVINGS = 8  # of the line from what is found to the image
# Evaluations dispatched before the host asks which searches are over.
_CHECK_EVERY = 8
_CHECK_EVERY_CPU = 1

# The classifier, and the confidence to be reached: the same for all images.
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
    (Bertsekas, 1982). A change of variables, such as tanh, would hold all pixels that
    are 0 or 1 in the image for good. The first c is right if the loss is linear.

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
      target_confidence: the probability of the target class to be reached, in (0, 1).
        The 2020 paper's authors use 0.51.
      targets: the classes aimed at. "runner-up": the most probable wrong class on the
        unaltered image (the only one of two classes). "all": each wrong class in turn;
        of their results the most similar counts (Definition 7). Or `[N]` integers.
      key: a random key, needed if the classifier is stochastic; the randomness of an
        image is that of its index and the same at every evaluation.
      batch_size: images attacked at a time; by default few on a CPU, and what fits into
        memory elsewhere. Rounded up to a multiple of the devices.
      mesh: devices over which the images are split, along all of its axes; by default
        all devices of this process. For sharded variables see `jaxrob.evaluate`.
      progress: whether a progress bar is shown, and a line on standard error says how
        long the attack takes, if that is over ten seconds.

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
    targeted = _targeted(problem, targets)
    number = len(targeted) * int(problem.correct.sum())
    with progress_bar("L-BFGS", progress, "pass", number * _PASSES) as bar:
        found = [_attack(problem, one, target_confidence, bar) for one in targeted]
    return warned(problem, most_adversarial(found))


def _targeted(problem: Problem, targets: Any) -> list[np.ndarray]:
    """Returns the classes aimed at, `[N]`, in each of some attacks."""
    if not isinstance(targets, str):
        return [_checked_targets(targets, problem)]
    if targets == "runner-up":
        return [problem.runner_up]
    number = problem.num_classes
    return [(problem.labels + other) % number for other in range(1, number)]


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
            given = closest, ends, best, *block
            closest, ends = _shorten(shared, *given, mesh=mesh).run()
        return closest

    candidates, attacked = found.copy(), np.flatnonzero(problem.correct)
    for index, closest in in_blocks(step, take, attacked, problem.rows, mesh):
        candidates[index] = closest
    return make_attack(problem, candidates, target, vanished)


def _closest_found(
    problem: Problem, target: np.ndarray, shared: Shared, bar: Bar
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The closest points found for the images attacked."""
    # Yields indices, points, and whether there was no gradient to follow. A block has
    # `problem.rows` slots. A slot whose search is over takes the next image, so that no
    # image waits for the others of its block.
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
    """One evaluation of every search's trial, and what follows from it."""
    classifier, target_confidence = shared

    def total_loss(
        trials: jax.Array,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
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
    """Bisection along the line from the image to the best point, between its `ends`."""
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
    log_softmax = jax.nn.log_softmax(scores)
    chosen = jnp.take_along_axis(log_softmax, targets[:, None], axis=-1)[:, 0]
    reached = lead(scores, targets) > LEAD
    if classifier.outputs != "scores":
        reached &= chosen >= jnp.log(target_confidence)
    return -chosen, reached


def _checked_targets(targets: np.ndarray, problem: Problem) -> np.ndarray:
    if targets.shape != problem.labels.shape:
        raise ValueError(
            f"targets must have the shape {problem.labels.shape}, one for each image; "
            f"got {targets.shape}"
        )
    if targets.max() >= problem.num_classes:
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
