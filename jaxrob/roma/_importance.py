"""Importance sampling from a ball, tilted towards a class.

For one input and one class, the class's score is nearly linear in the perturbation u.
The distribution is tilted along the mean gradient, found under the tilt itself in a
few rounds, until the mean score is below 0 by what the part that is not linear adds
among the draws that count: then every second to tenth draw is a hit, and its weight
makes up for the tilt (Siegmund 1976, for the exponential tilt).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from scipy import special
from tqdm.auto import tqdm

from jaxrob._classifier import trace_info
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.memory import rows_that_fit
from jaxrob._runtime.mesh import split_over, whole_on
from jaxrob.roma._draws import Work, check_valid, first_of, input_blocks, joined
from jaxrob.roma._lanes import Lanes, lane_keys
from jaxrob.roma._scores import class_score, log_probabilities
from jaxrob.roma._tilt import TILTS

# Rounds of gradients, how many in each, and the first whose gradients are kept.
_ROUNDS = 8
_GRADIENTS = 64
_FIRST_KEPT = 3
# What a gradient costs, in forward passes.
_GRADIENT_COST = 3
# Lanes and draws in a call. Of the later stages' many draws it is one lane, however
# many are left, so that one program serves them all.
_MOST_LANES = 16
_MOST_DRAWS = 4096

#: The largest relative standard error of an estimate that is trusted. Of few draws it
#: is lower, for they may hold none of the large weights and hence show too small a one.
LARGEST_ERROR = 0.15
_LARGEST_ERROR_OF_FEW = 0.12
_FEW = 2000
# Nor may a single weight make up more than this share of it, and hits be rare or nearly
# certain.
_LARGEST_SHARE = 0.1
_HITS = (0.02, 0.98)
# Below this log-probability, an upper bound is answer enough.
_NEGLIGIBLE = -40.0


class Estimate(NamedTuple):
    """Importance sampling's estimates; arrays `[L]`, one entry a lane.

    Attributes:
      log_probability: float64; an upper bound where `bounded`.
      error: the standard error of the log-probability.
      share: what the largest weight makes up of the estimate.
      hits: the share of the draws that are hits.
      bounded: whether the probability is so small that it is bounded only.
      number: how many draws.
    """

    log_probability: np.ndarray
    error: np.ndarray
    share: np.ndarray
    hits: np.ndarray
    bounded: np.ndarray
    number: np.ndarray

    @property
    def trusted(self) -> np.ndarray:
        """Whether the weights are even enough for the estimate to mean something."""
        few = self.number < _FEW
        return (
            (self.error < np.where(few, _LARGEST_ERROR_OF_FEW, LARGEST_ERROR))
            & (self.share < _LARGEST_SHARE)
            & (self.hits >= _HITS[0])
            & (self.hits <= _HITS[1])
        )


#: Forward passes that finding a tilt costs.
TILT_COST = _ROUNDS * _GRADIENTS * _GRADIENT_COST


def find_tilts(work: Work, lanes: Lanes, bar: tqdm):
    """The tilts' parameters, a pytree of arrays `[L, ...]`.

    Args:
      work: the classifier and so on; the perturbation is a ball with a norm in `TILTS`.
      lanes: the lanes, NumPy arrays.
      bar: where progress is shown.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    parts = []
    for block, valid, arguments in _blocks(work, lanes, _GRADIENTS):
        tilt, is_valid = _find(*arguments, mesh=work.mesh)
        tilt, is_valid = fetch((tilt, is_valid))
        check_valid(is_valid[:valid], block.index)
        parts.append(first_of(tilt, valid))
        bar.update(valid * TILT_COST)
    return joined(parts)


def estimate(
    work: Work, lanes: Lanes, tilts, num_samples: int, bar: tqdm, stage: int = 1
) -> Estimate:
    """Estimates from tilted draws.

    Args:
      work: as for `find_tilts`.
      lanes: the lanes, L of them, NumPy arrays.
      tilts: what `find_tilts` returned for them.
      num_samples: draws for each lane.
      bar: where progress is shown.
      stage: a number that tells these draws from others of the same lanes.

    Returns:
      The estimates.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    both = _Tilted(*lanes, tilts)
    scores, log_weights = [], []
    for block, valid, arguments in _blocks(work, both, num_samples):
        part = _draw(
            *arguments,
            np.uint32(stage),
            num_samples=num_samples,
            rows=_rows(work, lanes),
            mesh=work.mesh,
        )
        part_scores, part_weights = (a[:valid] for a in fetch(part))
        check_valid(~np.isnan(part_scores).any(axis=1), block.index)
        log_constant = TILTS[work.perturbation.norm].log_constant
        constant = log_constant(first_of(block.tilts, valid))
        scores.append(part_scores)
        log_weights.append(part_weights.astype(np.float64) + constant[:, None])
        bar.update(valid * num_samples)
    return weigh(np.concatenate(scores), np.concatenate(log_weights))


def weigh(scores: np.ndarray, log_weights: np.ndarray) -> Estimate:
    """Estimates of P(score >= 0) from weighted draws.

    Args:
      scores: `[L, n]`.
      log_weights: float64 `[L, n]`, log of the density ratios.

    Returns:
      The estimates.
    """
    log_p, error, share = _weighted(scores >= 0, log_weights)
    hits = (scores >= 0).mean(axis=1)
    number = np.full(len(scores), scores.shape[1])
    found = Estimate(log_p, error, share, hits, np.zeros(len(scores), bool), number)
    # Where no tilt within its limit reaches the boundary, the probability of a lower
    # score is an upper bound. The median is reached by half of the draws.
    reached = np.median(scores, axis=1)
    higher, higher_error, share = _weighted(scores >= reached[:, None], log_weights)
    bounded = ~found.trusted & (reached < 0) & (higher < _NEGLIGIBLE)
    bounded &= (higher_error < LARGEST_ERROR) & (share < _LARGEST_SHARE)
    return found._replace(
        log_probability=np.where(bounded, higher, log_p),
        error=np.where(bounded, higher_error, error),
        bounded=bounded,
    )


def pooled(first: Estimate, second: Estimate) -> Estimate:
    """The estimates from both draws; the second's where one of them is bounded."""
    both = [first, second]
    number = first.number + second.number
    parts = [each.number / number for each in both]
    # The weights' first two moments, in units of the larger estimate.
    unit = np.maximum(first.log_probability, second.log_probability)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [np.exp(each.log_probability - unit) for each in both]
        squares = [
            np.where(mean > 0, mean**2 * (each.number * each.error**2 + 1), 0)
            for mean, each in zip(means, both)
        ]
        mean, square = (
            sum(part * each for part, each in zip(parts, moments))
            for moments in (means, squares)
        )
        share = np.maximum(
            *(
                np.where(each_mean > 0, each.share * part * each_mean / mean, 0)
                for each, part, each_mean in zip(both, parts, means)
            )
        )
        found = Estimate(
            unit + np.log(mean),
            np.sqrt(np.maximum(square / mean**2 - 1, 0) / number),
            share,
            sum(part * each.hits for part, each in zip(parts, both)),
            np.zeros(len(number), bool),
            number,
        )
    usable = np.isfinite(unit) & ~first.bounded & ~second.bounded
    return Estimate(*(np.where(usable, a, b) for a, b in zip(found, second)))


def _weighted(hits, log_weights):
    number = hits.shape[1]
    masked = np.where(hits, log_weights, -np.inf)
    none = ~hits.any(axis=1)
    masked[none, 0] = 0.0
    total = special.logsumexp(masked, axis=1)
    squares = special.logsumexp(2 * masked, axis=1)
    error = np.sqrt(np.maximum(np.exp(squares - 2 * total) - 1 / number, 0))
    share = np.exp(masked.max(axis=1) - total)
    log_p = np.where(none, -np.inf, total - np.log(number))
    return log_p, np.where(none, np.inf, error), np.where(none, 1.0, share)


class _Tilted(NamedTuple):
    images: np.ndarray
    index: np.ndarray
    classes: np.ndarray
    tilts: object


def _blocks(work, lanes, draws):
    """Blocks of lanes of about as many rows as fit, and the arguments of their step."""
    split = split_over(work.mesh)
    shared = put(
        (work.classifier, work.perturbation, work.key, np.float32(work.logit_delta)),
        whole_on(work.mesh),
    )
    most = max(1, min(_MOST_LANES, min(_rows(work, lanes), _MOST_DRAWS) // draws))
    with jax.set_mesh(work.mesh):
        for block, valid in input_blocks(lanes, work.mesh, most):
            yield block, valid, (*shared, put(block, split))


def _rows(work, lanes):
    found = trace_info(work.classifier, lanes.images.shape[1:])
    rows = rows_that_fit(found.largest_array, lanes.images.shape[1:], work.mesh)
    return max(1, rows // work.mesh.size)


def _scores(classifier, perturbation, images, classes, logit_delta, u):
    """`[l, m]` scores at the perturbations u `[l, m, H, W, C]`."""
    perturbed = images[:, None] + perturbation.size * u
    perturbed = perturbation.clipped(perturbed)
    log_p = log_probabilities(
        classifier, perturbed.reshape(-1, *perturbed.shape[2:])
    ).reshape(*u.shape[:2], -1)
    return jax.vmap(class_score, (0, 0, None))(log_p, classes, logit_delta)


@functools.partial(jax.jit, static_argnames="mesh")
def _find(classifier, perturbation, key, logit_delta, lanes, *, mesh):
    tilt = TILTS[perturbation.norm]

    def local(classifier, perturbation, key, logit_delta, lanes):
        images = lanes.images
        keys = lane_keys(key, lanes, 0)

        def total(u):
            scores = _scores(
                classifier, perturbation, images, lanes.classes, logit_delta, u
            )
            return scores.sum(), scores

        def one_round(number, state):
            parameters, slopes, intercepts, variances, valid = state
            each = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)
            each = jax.vmap(lambda k: jax.random.split(k, _GRADIENTS))(each)
            u = jax.vmap(lambda k, p: jax.vmap(lambda kk: tilt.draw(kk, p))(k))(
                each, parameters
            )
            (_, scores), gradients = jax.value_and_grad(total, has_aux=True)(u)
            # It may be NaN where the score is not, as that of a square root at 0.
            gradients = jnp.where(jnp.isfinite(gradients), gradients, 0)
            slope = gradients.mean(axis=1)
            projected = jax.vmap(lambda us, a: jax.vmap(lambda v: jnp.sum(v * a))(us))
            intercept = (scores - projected(u, slope)).mean(axis=1)
            valid &= ~jnp.isnan(scores).any(axis=1)
            # A running mean from the first round that counts; until then the last one.
            kept = jnp.maximum(number - _FIRST_KEPT, 0)
            slopes = (kept * slopes + slope) / (kept + 1)
            intercepts = (kept * intercepts + intercept) / (kept + 1)
            variance = (scores - projected(u, slopes)).var(axis=1)
            variances = (kept * variances + variance) / (kept + 1)
            parameters = jax.vmap(tilt.towards)(slopes, intercepts, variances)
            return parameters, slopes, intercepts, variances, valid

        number = len(images)
        start = (
            jax.vmap(tilt.none)(images),
            jnp.zeros_like(images),
            jnp.zeros(number),
            jnp.zeros(number),
            jnp.ones(number, bool),
        )
        parameters, *_, valid = jax.lax.fori_loop(0, _ROUNDS, one_round, start)
        return parameters, valid

    over_lanes = P(mesh.axis_names)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P(), P(), P(), over_lanes),
        out_specs=over_lanes,
        check_vma=False,
    )(classifier, perturbation, key, logit_delta, lanes)


@functools.partial(jax.jit, static_argnames=("num_samples", "rows", "mesh"))
def _draw(
    classifier,
    perturbation,
    key,
    logit_delta,
    lanes,
    stage,
    *,
    num_samples,
    rows,
    mesh,
):
    tilt = TILTS[perturbation.norm]

    def local(classifier, perturbation, key, logit_delta, lanes, stage):
        images = lanes.images
        keys = jax.vmap(lambda k: jax.random.fold_in(k, stage))(
            lane_keys(key, lanes, 1)
        )
        parts = -(-num_samples * len(images) // rows)
        draws = -(-num_samples // parts)

        def chunk(number):
            numbers = number * draws + jnp.arange(draws, dtype=jnp.uint32)

            def one(k, parameters):
                each = jax.vmap(lambda n: jax.random.fold_in(k, n))(numbers)
                u = jax.vmap(lambda kk: tilt.draw(kk, parameters))(each)
                return u, jax.vmap(lambda v: tilt.log_ratio(v, parameters))(u)

            u, log_ratio = jax.vmap(one)(keys, lanes.tilts)
            scores = _scores(
                classifier, perturbation, images, lanes.classes, logit_delta, u
            )
            return scores, log_ratio

        found = jax.lax.map(chunk, jnp.arange(parts, dtype=jnp.uint32))

        def by_lane(array):
            return array.swapaxes(0, 1).reshape(len(images), -1)[:, :num_samples]

        return jax.tree.map(by_lane, found)

    over_lanes = P(mesh.axis_names)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P(), P(), P(), over_lanes, P()),
        out_specs=over_lanes,
        check_vma=False,
    )(classifier, perturbation, key, logit_delta, lanes, stage)
