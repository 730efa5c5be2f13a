"""The search for one image's adversarial example: weights, and L-BFGS for each.

It minimises |r|^2 / 2 + weight * loss(x + r). At the minimum for a large weight the
target is reached, at that for a small one it is not; bisection finds where it begins.
"""

import functools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

MEMORY = 8  # steps that L-BFGS remembers
# A weight's minimum is reached where a step lowers the objective by less than this
# share, or the gradient is this small relative to the perturbation. Networks have kinks
# (ReLU, max-pooling): there the gradient hardly shrinks.
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
    """The classifier's answer at a point.

    Attributes:
      loss: the loss of the target class.
      slope: its gradient.
      reached: whether the target is reached.
    """

    loss: jax.Array
    slope: jax.Array
    reached: jax.Array


class Bracket(NamedTuple):
    """The weight 1 / (2 c) on trial, between weights tried before.

    Attributes:
      weight: the weight.
      low: the largest one whose minimum does not reach the target, or 0.
      high: the smallest one whose minimum does, or infinity.
      tried: how many weights were tried.
    """

    weight: jax.Array
    low: jax.Array
    high: jax.Array
    tried: jax.Array


class Search(NamedTuple):
    """The state of the search for one image.

    Attributes:
      trial: where the classifier is evaluated next.
      is_first: whether that is the unaltered image.
      point: the last trial accepted.
      at_point: the classifier's answer there.
      direction: the search direction from the point.
      share: the step along the direction, in (0, 1].
      memory: L-BFGS's state.
      bracket: the weight, and its bounds.
      steps: evaluations for this weight.
      best: the closest point that reached the target.
      distance: its distance from the image, squared.
      done: whether the search is over.
      vanished: whether the gradient at the image was 0 or not finite.
    """

    trial: jax.Array
    is_first: jax.Array
    point: jax.Array
    at_point: Evaluation
    direction: jax.Array
    share: jax.Array
    memory: optax.OptState
    bracket: Bracket
    steps: jax.Array
    best: jax.Array
    distance: jax.Array
    done: jax.Array
    vanished: jax.Array


def new_search(image: jax.Array) -> Search:
    """A search that is about to evaluate an unaltered image."""
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
    """The search after an evaluation."""
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

    # Whether the point is the minimum for this weight.
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
    """One of two pytrees of the same structure, by a scalar."""
    return jax.tree.map(functools.partial(jnp.where, condition), new, old)


def _first_weight(found: Evaluation, target_loss: jax.Array) -> jax.Array:
    """The weight at whose minimum a linear margin would reach the target."""
    # There the slope of the loss has shrunk with the probability of the other classes.
    gap = jnp.maximum(found.loss - target_loss, _LEAST_GAP * found.loss)
    return gap / (jnp.sum(found.slope**2) * -jnp.expm1(-target_loss))


def _judged(
    search: Search, image: jax.Array, found: Evaluation, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Whether the trial is accepted, and whether it hardly lowers the objective."""

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
    """The bracket after a weight is settled, and whether bisection is over."""
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
    """L-BFGS's direction from a point, and its memory."""
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
