"""Adaptive multilevel splitting: how probable a rare misclassification is.

Without gradients. Particles, perturbed images of one input, climb a ladder of levels
of the score: those above a level are copied, and Markov moves that never go below it
make the copies differ. A level is where a fixed share of the particles is above, so
that its probability, given the level before, is that share, and the product of the
shares reaches probabilities far below one over the number of evaluations (subset
simulation, Au and Beck, 2001; Cérou, Del Moral, Furon and Guyader, 2012).
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxrob._classifier import Classifier
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.memory import bucket
from jaxrob._runtime.mesh import checked_mesh, split_over, whole_on
from jaxrob.roma._lanes import Lanes, lane_keys
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._scores import class_score, log_probabilities

#: The log-probability at which a lane is given up.
FLOOR = math.log(1e-15)

# The share of the particles above a level, and the moves that each makes there.
_KEEP = 0.25
_NUM_MOVES = 5
# On plateaus of the score other shares happen. Fewer particles than the least say too
# little; a greater share than the most might need any number of levels.
_LEAST_KEPT = 10
_MOST_KEPT = 0.5
# Moves are adapted to this share of acceptances, at this rate, and not below the
# smallest share, where they would do nothing.
_ACCEPTANCE = 0.3
_ADAPTATION = 0.6
_SMALLEST_SHARE = 2.0**-16
# The variance of log p is taken as this many times its estimate, which is noisy.
_INFLATION = 1.25

# What tells the random numbers from those of other estimators of the same lane.
_STAGE = 2

_GOING, _FINISHED, _STUCK, _INVALID = range(4)


class Splitting(NamedTuple):
    """What splitting estimates for L lanes.

    Attributes:
      log_probability: float64 `[L]`, the logarithm of the probability that the score
        is at least 0. Where not `complete`, that of the last level reached, below
        which the one asked for lies (up to the error of the estimate).
      standard_error: float64 `[L]`, of `log_probability`. Plus and minus 1.96 of it is
        a 95 % interval.
      evaluations: int64 `[L]`, perturbed images that the classifier answered.
      complete: bool `[L]`. False: the probability is below the floor, or the score has
        a plateau which hides what lies above it.
    """

    log_probability: np.ndarray
    standard_error: np.ndarray
    evaluations: np.ndarray
    complete: np.ndarray


def split(
    classifier: Classifier,
    perturbation: Perturbation,
    lanes: Lanes,
    logit_delta: float,
    key: jax.Array,
    *,
    rows: int,
    num_particles: int = 1000,
    mesh: Mesh | None = None,
) -> Splitting:
    """Estimates the probability of a distinct misclassification as a class.

    With p_k the share of the particles above level k, q the share above 0 at the end,
    K levels and N particles, the estimate is `q prod p_k`. Were the particles
    independent, its logarithm's variance would be
    `sum (1 - p_k) / (p_k N) + (1 - q) / (q N)`. How far they are from that depends on
    how well the moves mix, and shows in their descent: with n_i of the n particles
    above 0 stemming from the ith of the first particles, `sum (n_i / n)^2 - 1 / N`
    estimates the variance (Chan and Lai, 2013; Lee and Whiteley, 2018; for adaptive
    levels Du and Guyader, 2021). The standard error is the root of 1.25 times that.

    It is wrong, and hardly knows, where the images that count are in a part in which
    none of the particles at an early level was: a narrow second mode that is behind
    until late. Fewer than 1,000 particles make that worse. In a handful of dimensions
    the L-infinity ball's moves mix badly. A standard error above a half is a warning.

    Args:
      classifier: the classifier.
      perturbation: how images are perturbed; it must have a move.
      lanes: L pairs of an input and a class, on the host.
      logit_delta: log(delta / (1 - delta)), see `class_scores`.
      key: a random key.
      rows: perturbed images in a call of the classifier, over all devices. At least
        one lane's particles on each device are taken, even if they are more.
      num_particles: N, at least 40.
      mesh: devices over which the lanes are split, along all of its axes; by default
        all devices of this process.

    Returns:
      A `Splitting`; it depends neither on the order of the lanes nor on `rows` or
      `mesh`, but for rounding.

    Raises:
      ValueError: if the perturbation has no move, there are too few particles, the
        classifier is stochastic, or it returns NaN (or rows that are no probabilities).
    """
    if perturbation.move is None:
        raise ValueError(
            f"splitting needs a perturbation with a move; {perturbation.name} has none"
        )
    if num_particles < _LEAST_KEPT / _KEEP:
        raise ValueError(
            f"num_particles must be at least {_LEAST_KEPT / _KEEP:g}; "
            f"got {num_particles}"
        )
    mesh = checked_mesh(mesh)
    lanes = Lanes(*map(np.asarray, lanes))
    num_lanes = len(lanes.classes)
    log_p, variance = np.zeros(num_lanes), np.zeros(num_lanes)
    num_steps, complete = np.zeros(num_lanes, np.int64), np.zeros(num_lanes, bool)

    size = _lanes_in_block(num_lanes, rows // num_particles, mesh.size)
    by_lane = split_over(mesh)
    common = put(
        (classifier, perturbation, np.float32(logit_delta), key),
        whole_on(mesh),
    )
    # Whatever mesh surrounds the call, the step runs on its own.
    with jax.set_mesh(mesh):
        image = jax.ShapeDtypeStruct(lanes.images.shape[1:], jnp.float32)
        state = _empty(perturbation, image, size, num_particles, by_lane)
        waiting = iter(range(num_lanes))
        # The lane in each slot of the block, -1 for none. One that is done makes room
        # for the next.
        held = np.full(size, -1)
        while True:
            fresh = held < 0
            for slot, lane in zip(np.flatnonzero(fresh), waiting):
                held[slot] = lane
            busy = held >= 0
            if not busy.any():
                break
            if fresh.any():
                block = put(jax.tree.map(lambda part: part[held], lanes), by_lane)
            state, outcome = _step(
                common,
                state,
                block,
                put(fresh, by_lane),
                num_particles=num_particles,
                mesh=mesh,
            )
            at = held[busy]
            status, above, kinship = (part[busy] for part in fetch(outcome))
            _check_valid(lanes.index[at[status == _INVALID]])
            num_steps[at] += 1
            complete[at] = status == _FINISHED
            # A level that a plateau hides is not reached.
            reached = status != _STUCK
            log_p[at[reached]] += np.log(above[reached] / num_particles)
            variance[at[reached]] = kinship[reached] - 1 / num_particles
            done = (status != _GOING) | (log_p[at] <= FLOOR)
            held[np.flatnonzero(busy)[done]] = -1

    standard_error = np.sqrt(_INFLATION * np.maximum(variance, 0))
    evaluations = num_particles * (1 + _NUM_MOVES * (num_steps - 1))
    return Splitting(log_p, standard_error, evaluations, complete)


class _State(NamedTuple):
    """A block of l lanes with N particles each."""

    latents: Any  # [l, N, ...]
    scores: jax.Array  # [l, N]
    ancestors: jax.Array  # [l, N], which of the first particles each stems from
    level: jax.Array  # [l], which all scores exceed
    log_share: jax.Array  # [l], the logarithm of the share that a move renews
    number: jax.Array  # [l], of the step since the lane's first
    invalid: jax.Array  # bool [l], whether a score was NaN


class _Outcome(NamedTuple):
    status: jax.Array  # [l]
    above: jax.Array  # [l], particles above 0 if finished, else above the new level
    kinship: jax.Array  # [l], the probability that two of these have one ancestor


@functools.partial(
    jax.jit, static_argnames=("num_particles", "mesh"), donate_argnames="state"
)
def _step(common, state, lanes, fresh, *, num_particles, mesh):
    """The moves at one level, and the choice of the next.

    A fresh lane, which has no level yet, draws its particles instead of moving them.
    """

    def local(common, state, lanes, fresh):
        classifier, perturbation, logit_delta, key = common
        state = state._replace(
            ancestors=jnp.where(
                fresh[:, None], jnp.arange(num_particles), state.ancestors
            ),
            level=jnp.where(fresh, -jnp.inf, state.level),
            log_share=jnp.where(fresh, 0, state.log_share),
            number=jnp.where(fresh, 0, state.number),
            invalid=state.invalid & ~fresh,
        )
        fold = jax.vmap(jax.random.fold_in, (0, None))
        keys = jax.vmap(jax.random.fold_in)(lane_keys(key, lanes, _STAGE), state.number)

        def move(number, state):
            each = jax.vmap(fold, (None, 0), 1)(
                fold(keys, number), jnp.arange(num_particles)
            )
            latents = _propose(perturbation, each, state, lanes.images, fresh)
            scores = _scores(classifier, perturbation, logit_delta, lanes, latents)
            return _accept(state, latents, scores, fresh)

        # The last draw is enough.
        first = jnp.where(fresh.all(), _NUM_MOVES - 1, 0)
        state = jax.lax.fori_loop(first, _NUM_MOVES, move, state)
        level, outcome, survivors = jax.vmap(_select)(
            fold(keys, _NUM_MOVES), state.scores, state.ancestors
        )
        status = jnp.where(state.invalid, _INVALID, outcome.status)
        state = state._replace(
            latents=jax.tree.map(lambda part: _take(part, survivors), state.latents),
            scores=_take(state.scores, survivors),
            ancestors=_take(state.ancestors, survivors),
            level=level,
            number=state.number + 1,
        )
        return state, outcome._replace(status=status)

    over_lanes = P(mesh.axis_names)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), over_lanes, over_lanes, over_lanes),
        out_specs=over_lanes,
        check_vma=False,
    )(common, state, lanes, fresh)


def _propose(perturbation, keys, state, images, fresh):
    """Moved latents, or drawn ones for fresh lanes."""
    move = jax.vmap(jax.vmap(perturbation.move, (0, 0, None)))
    draw = jax.vmap(jax.vmap(perturbation.draw, (0, None)))
    moved = move(keys, state.latents, jnp.exp(state.log_share))
    return jax.lax.cond(
        fresh.any(), lambda: _where(fresh, draw(keys, images), moved), lambda: moved
    )


def _scores(classifier, perturbation, logit_delta, lanes, latents):
    """`[l, N]`, the particles of all lanes classified in one batch."""
    perturbed = jax.vmap(jax.vmap(perturbation.perturbed, (None, 0)))
    images = perturbed(lanes.images, latents)
    shape = images.shape[:2]
    log_p = log_probabilities(classifier, images.reshape(-1, *images.shape[2:]))
    log_p = log_p.reshape(*shape, -1)
    return jax.vmap(class_score, (0, 0, None))(log_p, lanes.classes, logit_delta)


def _accept(state, latents, scores, fresh):
    """The state after a proposal; a fresh lane takes all of it."""
    above = scores > state.level[:, None]
    log_share = state.log_share + _ADAPTATION * (above.mean(axis=1) - _ACCEPTANCE)
    accepted = above | fresh[:, None]
    return state._replace(
        latents=_where(accepted, latents, state.latents),
        scores=jnp.where(accepted, scores, state.scores),
        log_share=jnp.clip(log_share, math.log(_SMALLEST_SHARE), 0),
        invalid=state.invalid | jnp.isnan(scores).any(axis=1),
    )


def _select(key, scores, ancestors):
    """The next level of one lane, and which particles take the place of which."""
    num_particles = len(scores)
    wanted = round(_KEEP * num_particles)
    order = jnp.argsort(-scores)
    top, level = scores[order[0]], scores[order[wanted]]
    # On a plateau at the top, all of it is kept: nothing is strictly above it.
    below_top = jnp.where(scores < top, scores, -jnp.inf).max()
    level = jnp.where(level == top, below_top, level)
    kept = (scores > level).sum()
    hits = (scores >= 0).sum()
    finished = hits >= wanted
    stuck = (kept < _LEAST_KEPT) | (kept > _MOST_KEPT * num_particles)
    status = jnp.where(finished, _FINISHED, jnp.where(stuck, _STUCK, _GOING))
    # Each survivor is copied as often as another, or once more; which are, is drawn.
    kept = jnp.maximum(kept, 1).astype(jnp.uint32)
    first = jax.random.bits(key) % kept
    survivors = order[(first + jnp.arange(num_particles, dtype=jnp.uint32)) % kept]
    chosen = jnp.where(finished, scores >= 0, scores > level)
    families = jnp.zeros(num_particles).at[ancestors].add(chosen)
    above = jnp.maximum(chosen.sum(), 1)
    kinship = (families**2).sum() / above**2
    outcome = _Outcome(status, above, kinship)
    return level, outcome, survivors


def _where(mask, new, old):
    """`new` where the mask of the leading axes says so, for pytrees."""

    def one(new, old):
        axes = mask.shape + (1,) * (new.ndim - mask.ndim)
        return jnp.where(mask.reshape(axes), new, old)

    return jax.tree.map(one, new, old)


def _take(values, indices):
    """`values[l, indices[l]]` for all l."""
    return jax.vmap(lambda some, which: some[which])(values, indices)


def _empty(perturbation, image, size, num_particles, sharding):
    """A state of the right shapes, to be filled with fresh lanes."""
    latent = jax.eval_shape(perturbation.draw, jax.random.key(0), image)
    state = _State(
        latents=jax.tree.map(
            lambda leaf: jnp.zeros((size, num_particles, *leaf.shape), leaf.dtype),
            latent,
        ),
        scores=jnp.zeros((size, num_particles)),
        ancestors=jnp.zeros((size, num_particles), jnp.int32),
        level=jnp.zeros(size),
        log_share=jnp.zeros(size),
        number=jnp.zeros(size, jnp.uint32),
        invalid=jnp.zeros(size, bool),
    )
    return put(state, sharding)


def _lanes_in_block(num_lanes: int, at_most: int, num_devices: int) -> int:
    """Slots for lanes, a multiple of the devices; of few sizes where lanes are few."""
    size = min(at_most, bucket(num_lanes, 2))
    return max(1, size // num_devices) * num_devices


def _check_valid(index):
    if len(index):
        raise ValueError(
            "the classifier returned NaN, or rows that are no probabilities, for "
            f"perturbed images of {len(set(index))} of the inputs, first of input "
            f"{index[0]}"
        )
