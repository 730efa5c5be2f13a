"""Particle systems, one for a pair of an input and a class: their step on devices."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._devices.blocks import Call
from jaxrob._numbers import as_floats, largest
from jaxrob.roma._draws import Pairs, Work, by_row, margins_of_pairs, pair_keys
from jaxrob.roma._perturbation import (
    Perturbation,
    can_be_nudged,
    has_few_normals,
    nudged,
    put_within,
    within,
)

#: The share of the particles above a level.
KEEP = 0.25
# The moves that each makes there, and those that are made of few components.
_NUM_MOVES = 5
_NUM_MOVES_OF_FEW = 10
# Up to this many dimensions are few.
_FEW_DIMENSIONS = 16
#: Plateaus give other shares: too few particles say little, too many never end.
LEAST_KEPT = 10
_MOST_KEPT = 0.5
# Moves adapt to this acceptance, at this rate, down to the smallest share.
_ACCEPTANCE = 0.3
_ADAPTATION = 0.6
# Nudges have to follow regions that shrink by a factor of 4 a level in one direction.
_ADAPTATION_OF_NUDGES = 3.0
_SMALLEST_SHARE = 2.0**-16
# Steps are drawn from a factor e to this power on; differences are taken times this,
# divided by the square root of the dimension, or whole with this probability.
_SPREAD = 3.0
_SPREAD_OF_NUDGES = 1.0
_LENGTH = 1.7
_WHOLE = 0.2

#: A step reached a level, reached 0, met a plateau, or a margin was NaN.
GOING, FINISHED, STUCK, INVALID = range(4)


class ParticleSystems(NamedTuple):
    """The particle systems in l slots, with N particles each."""

    latents: Any  # a pytree of arrays `[l, N, ...]`, see `Perturbation`
    margins: jax.Array  # `[l, N]`
    # int `[l, N]`, which of the first particles each stems from (its Eve index).
    ancestors: jax.Array
    level: jax.Array  # `[l]`, which all margins exceed
    log_share: jax.Array  # `[l]`, the logarithm of the share that a move renews
    log_nudge: jax.Array  # `[l]`, the logarithm of how far a nudge goes at most
    number: jax.Array  # uint32 `[l]`, of the step since the system's first
    invalid: jax.Array  # bool `[l]`, whether a margin was NaN


class Outcome(NamedTuple):
    status: jax.Array  # int `[l]`, `GOING`, `FINISHED`, `STUCK` or `INVALID`
    # int `[l]`, particles above 0 if finished, else above the new level.
    above: jax.Array
    # `[l]`, the probability that two of these stem from one of the first.
    common_ancestry: jax.Array


def num_moves(perturbation: Perturbation, size: int) -> int:
    few = has_few_normals(perturbation, size)
    return _NUM_MOVES_OF_FEW if few else _NUM_MOVES


def is_thorough(shape: tuple[int, ...]) -> bool:
    """Whether images are so small that particles need not be spared."""
    return math.prod(shape) <= _FEW_DIMENSIONS


def empty_systems(
    perturbation: Perturbation,
    image: jax.ShapeDtypeStruct,
    num_slots: int,
    num_particles: int,
) -> ParticleSystems:
    latent = jax.eval_shape(perturbation.draw, jax.random.key(0), image)
    return ParticleSystems(
        latents=jax.tree.map(
            lambda leaf: jnp.zeros((num_slots, num_particles, *leaf.shape), leaf.dtype),
            latent,
        ),
        margins=jnp.zeros((num_slots, num_particles), jnp.float32),
        ancestors=jnp.zeros((num_slots, num_particles), jnp.int32),
        level=jnp.zeros(num_slots, jnp.float32),
        log_share=jnp.zeros(num_slots, jnp.float32),
        log_nudge=jnp.zeros(num_slots, jnp.float32),
        number=jnp.zeros(num_slots, jnp.uint32),
        invalid=jnp.zeros(num_slots, bool),
    )


def stepping(
    work: Work,
    systems: ParticleSystems,
    pairs: Any,
    fresh: Any,
    use: int,
    num_particles: int,
) -> Call:
    args = work, systems, pairs, fresh, np.uint32(use)
    return Call(step, args, {"num_particles": num_particles}, work.mesh)


@by_row(
    True, True, True, False, static_argnames="num_particles", donate_argnames="systems"
)
def step(
    work: Work,
    systems: ParticleSystems,
    pairs: Pairs[jax.Array],
    fresh: jax.Array,
    use: jax.Array,
    *,
    num_particles: int,
) -> tuple[ParticleSystems, Outcome]:
    images = as_floats(pairs.images)
    systems = _started(systems, fresh)
    before = _points(work.perturbation, systems.latents, images[0].shape)
    fold = jax.vmap(jax.random.fold_in, (0, None))
    keys = pair_keys(work.key, pairs, use)
    keys = jax.vmap(jax.random.fold_in)(keys, systems.number)

    def move(number: jax.Array, systems: ParticleSystems) -> ParticleSystems:
        each = jax.vmap(fold, (None, 0), 1)(
            fold(keys, number), jnp.arange(num_particles)
        )
        nudge = number % 2 == 0
        proposal = _propose(
            work.perturbation, each, systems, before, images, fresh, nudge
        )
        perturbed = jax.vmap(jax.vmap(work.perturbation.perturbed, (None, 0)))
        perturbed = perturbed(images, proposal.latents)
        margins = margins_of_pairs(work, pairs, perturbed, each)
        return _accept(systems, proposal, margins, fresh)

    # The last draw is enough.
    number = num_moves(work.perturbation, images[0].size)
    first = jnp.where(fresh.all(), number - 1, 0)
    systems = jax.lax.fori_loop(first, number, move, systems)
    level, outcome, survivors = jax.vmap(_select)(
        fold(keys, number), systems.margins, systems.ancestors
    )
    status = jnp.where(systems.invalid, INVALID, outcome.status)
    systems = systems._replace(
        latents=jax.tree.map(lambda part: _take(part, survivors), systems.latents),
        margins=_take(systems.margins, survivors),
        ancestors=_take(systems.ancestors, survivors),
        level=level,
        number=systems.number + 1,
    )
    return systems, outcome._replace(status=status)


def _started(systems: ParticleSystems, fresh: jax.Array) -> ParticleSystems:
    first = jnp.arange(systems.ancestors.shape[1], dtype=jnp.int32)
    return systems._replace(
        ancestors=jnp.where(fresh[:, None], first, systems.ancestors),
        level=jnp.where(fresh, jnp.finfo(jnp.float32).min, systems.level),
        log_share=jnp.where(fresh, 0, systems.log_share),
        log_nudge=jnp.where(fresh, 0, systems.log_nudge),
        number=jnp.where(fresh, 0, systems.number),
        invalid=systems.invalid & ~fresh,
    )


def _points(
    perturbation: Perturbation, latents: Any, shape: tuple[int, ...]
) -> jax.Array | None:
    """`[l, N, ...]` points of the unit ball, where few normal components make them."""
    if not has_few_normals(perturbation, math.prod(shape)):
        return None
    assert perturbation.norm is not None
    one = functools.partial(within, perturbation.norm, shape=shape)
    return jax.vmap(jax.vmap(one))(latents)


class _Proposal(NamedTuple):
    """What particles are to move to; arrays `[l, N, ...]`."""

    latents: Any
    possible: jax.Array
    # Whether the move's step is the one that is adapted, and whether it is a nudge.
    adapts: jax.Array
    nudges: jax.Array


def _propose(
    perturbation: Perturbation,
    keys: jax.Array,
    systems: ParticleSystems,
    before: jax.Array | None,
    images: jax.Array,
    fresh: jax.Array,
    nudge: jax.Array,
) -> _Proposal:
    # Nudges every other move: where few matter, redrawing leaves those few as they are.
    no = jnp.zeros((), bool)
    if has_few_normals(perturbation, images[0].size):
        assert perturbation.norm is not None and before is not None
        one = functools.partial(_few_moved, perturbation.norm, images.shape[1:])
        each = jax.vmap(jax.vmap(one, (0, 0, None, None)))
        share = jnp.exp(systems.log_share)
        proposal = _Proposal(*each(keys, systems.latents, share, before), no)
    else:
        assert perturbation.move is not None
        move = jax.vmap(jax.vmap(perturbation.move, (0, 0, None)))
        moved = functools.partial(move, keys, systems.latents)
        if can_be_nudged(perturbation, images[0].size):
            one = functools.partial(_nudged, perturbation.norm)
            each = jax.vmap(jax.vmap(one, (0, 0, None)))
            latents = jax.lax.cond(
                nudge,
                lambda: each(keys, systems.latents, jnp.exp(systems.log_nudge)),
                lambda: moved(jnp.exp(systems.log_share)),
            )
        else:
            nudge, latents = no, moved(jnp.exp(systems.log_share))
        yes = jnp.ones_like(systems.margins, bool)
        proposal = _Proposal(latents, yes, yes, nudge)
    draw = jax.vmap(jax.vmap(perturbation.draw, (0, None)))
    latents = jax.lax.cond(
        fresh.any(),
        lambda: _where(fresh, draw(keys, images), proposal.latents),
        lambda: proposal.latents,
    )
    return proposal._replace(latents=latents)


def _nudged(
    norm: str | None, key: jax.Array, latent: jax.Array, share: jax.Array
) -> jax.Array:
    """A nudge of one of many sizes, since a level may need far smaller ones."""
    scale, what = jax.random.split(key)
    smaller = jnp.exp(-_SPREAD_OF_NUDGES * jax.random.uniform(scale, (), jnp.float32))
    return nudged(norm, what, latent, share * smaller)


def _few_moved(
    norm: str,
    shape: tuple[int, ...],
    key: jax.Array,
    latent: jax.Array,
    share: jax.Array,
    before: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    # Half are autoregressive, half along the difference of two particles (ter Braak and
    # Vrugt 2008), which has the region's shape, however thin.
    choices, normal = jax.random.split(key)
    scale, first, second, jump, which = jax.random.uniform(choices, (5,), jnp.float32)
    # Steps of many sizes, since a level may need far smaller ones than the last.
    smaller = jnp.exp(-_SPREAD * scale)
    some = share * smaller**2
    fresh = jax.random.normal(normal, latent.shape, jnp.float32)
    near = jnp.sqrt(1 - some) * latent + jnp.sqrt(some) * fresh
    a, b = (jnp.int32(u * len(before)) for u in (first, second))
    length = smaller * _LENGTH / math.sqrt(math.prod(shape))
    length = jnp.where(jump < _WHOLE, 1.0, length)
    point = within(norm, latent, shape) + length * (before[a] - before[b])
    along, possible = put_within(norm, latent, point)
    adapts = which < 0.5
    return jnp.where(adapts, near, along), adapts | possible, adapts


def _accept(
    systems: ParticleSystems, proposal: _Proposal, margins: jax.Array, fresh: jax.Array
) -> ParticleSystems:
    # A stochastic answer is drawn with the perturbation, and kept with it.
    above = (margins > systems.level[:, None]) & proposal.possible
    number = proposal.adapts.sum(axis=1, dtype=jnp.float32)
    adapted = (above & proposal.adapts).sum(axis=1, dtype=jnp.float32)
    share = adapted / jnp.maximum(number, 1)
    off = share - _ACCEPTANCE
    log_share = systems.log_share + jnp.where(proposal.nudges, 0, _ADAPTATION * off)
    further = jnp.where(proposal.nudges, _ADAPTATION_OF_NUDGES * off, 0)
    log_nudge = systems.log_nudge + further
    accepted = above | fresh[:, None]
    return systems._replace(
        latents=_where(accepted, proposal.latents, systems.latents),
        margins=jnp.where(accepted, margins, systems.margins),
        log_share=jnp.clip(log_share, math.log(_SMALLEST_SHARE), 0),
        log_nudge=jnp.clip(log_nudge, math.log(_SMALLEST_SHARE), 0),
        invalid=systems.invalid | (jnp.isnan(margins) & proposal.possible).any(axis=1),
    )


def _select(
    key: jax.Array, margins: jax.Array, ancestors: jax.Array
) -> tuple[jax.Array, Outcome, jax.Array]:
    """The next level of one system, and which particles take the place of which."""
    num_particles = len(margins)
    wanted = round(KEEP * num_particles)
    order = jnp.argsort(-margins)
    top, level = margins[order[0]], margins[order[wanted]]
    # Of a plateau at the top all is kept, since nothing is strictly above it.
    below_top = largest(margins, but=~(margins < top))
    level = jnp.where(level == top, below_top, level)
    kept = (margins > level).sum()
    hits = (margins >= 0).sum()
    finished = hits >= wanted
    stuck = (kept < LEAST_KEPT) | (kept > int(_MOST_KEPT * num_particles))
    status = jnp.where(finished, FINISHED, jnp.where(stuck, STUCK, GOING))
    # Survivors are copied equally often, up to one; at the end all hits are.
    kept = jnp.where(finished, hits, jnp.maximum(kept, 1)).astype(jnp.uint32)
    first = jax.random.bits(key, (), jnp.uint32) % kept
    survivors = order[(first + jnp.arange(num_particles, dtype=jnp.uint32)) % kept]
    chosen = jnp.where(finished, margins >= 0, margins > level)
    families = jnp.zeros(num_particles, jnp.float32).at[ancestors].add(chosen)
    above = jnp.maximum(chosen.sum(), 1)
    common_ancestry = (families**2).sum() / above**2
    return level, Outcome(status, above, common_ancestry), survivors


def _where(mask: jax.Array, new: Any, old: Any) -> Any:
    """`new` where the mask of the leading axes says so, for pytrees."""

    def one(new: jax.Array, old: jax.Array) -> jax.Array:
        axes = mask.shape + (1,) * (new.ndim - mask.ndim)
        return jnp.where(mask.reshape(axes), new, old)

    return jax.tree.map(one, new, old)


def _take(values: jax.Array, indices: jax.Array) -> jax.Array:
    """`values[l, indices[l]]` for all l."""
    return jax.vmap(lambda some, which: some[which])(values, indices)
