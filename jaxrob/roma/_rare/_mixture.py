"""Draws from a mixture of tilts, and their importance weights.

The components of an input's mixture are the plain distribution and the tilts towards
its modes. A draw's weight is the ratio of the plain density to the whole mixture's (the
balance heuristic, Veach and Guibas 1995), so that every draw counts for every mode and
class, and no weight exceeds the inverse of the plain draws' share.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob._devices.blocks import bucket, in_blocks, joined, taken
from jaxrob._engine.execution import Bar
from jaxrob.roma._draws import (
    MIXTURE,
    Pairs,
    Work,
    block_size,
    by_row,
    check_valid,
    pair_keys,
    rows_on_a_device,
)
from jaxrob.roma._rare._search import Modes, margins_at
from jaxrob.roma._rare._tilt import (
    TILTED_BALLS,
    Tilt,
    log_constants,
    of_component,
    with_idle_stretch,
)

#: Trusted relative errors: few draws may lack the large weights, and underestimate.
LARGEST_ERROR = 0.15
_LARGEST_ERROR_OF_FEW = 0.12
_LARGEST_ERROR_OF_SOME = 0.09
_FEW, _SOME = 2000, 8000
# A weight's largest share of the sum, and the share of draws that may be hits.
_LARGEST_SHARE = 0.1
_HITS = (0.02, 0.98)
# Below this log-probability a bound is enough: that of reaching the first of these
# quantiles of the margins for which the weights are even.
_NEGLIGIBLE = -40.0
_REACHED = (0.5, 0.75, 0.9, 0.95, 0.98)


class WeightedDraws(NamedTuple):
    """Estimates of P probabilities from weighted draws; arrays `[P]`."""

    log_probability: np.ndarray  # float64; estimates an upper bound where `bounded`
    # Of the log-probability; without a hit, of one that may become a bound.
    standard_error: np.ndarray
    share: np.ndarray  # the largest weight's share of the probability
    hits: np.ndarray  # the share of the draws that are hits
    # Whether the probability is so small that only a bound is given.
    bounded: np.ndarray
    number: np.ndarray  # how many draws
    # The effective sample size of the hits, (sum w)^2 / sum w^2 (Kong 1992).
    effective: np.ndarray

    @property
    def trusted(self) -> np.ndarray:
        """Whether the weights are even enough for the probability to be near."""
        most = np.select(
            [self.number < _FEW, self.number < _SOME],
            [_LARGEST_ERROR_OF_FEW, _LARGEST_ERROR_OF_SOME],
            LARGEST_ERROR,
        )
        return (
            (self.standard_error < most)
            & (self.share < _LARGEST_SHARE)
            & (self.hits >= _HITS[0])
            & (self.hits <= _HITS[1])
        )


def nothing_drawn(number: int) -> WeightedDraws:
    return WeightedDraws(
        log_probability=np.full(number, -np.inf),
        standard_error=np.full(number, np.inf),
        share=np.ones(number),
        hits=np.zeros(number),
        bounded=np.zeros(number, bool),
        number=np.zeros(number, np.int64),
        effective=np.zeros(number),
    )


def weigh(margins: np.ndarray, log_weights: np.ndarray) -> WeightedDraws:
    log_p, error, share, effective = _weighted(margins >= 0, log_weights)
    hits = (margins >= 0).mean(axis=1)
    number = np.full(len(margins), margins.shape[1])
    none = np.zeros(len(margins), bool)
    found = WeightedDraws(log_p, error, share, hits, none, number, effective)
    for quantile in _REACHED:
        found = _with_bound(found, margins, log_weights, quantile)
    return found


def _with_bound(
    found: WeightedDraws, margins: np.ndarray, log_weights: np.ndarray, quantile: float
) -> WeightedDraws:
    """The estimates, or the probability of reaching a quantile: an upper bound."""
    reached = np.quantile(margins.astype(np.float64), quantile, axis=1)
    log_p, error, share, _ = _weighted(margins >= reached[:, None], log_weights)
    small = (reached < 0) & (log_p < _NEGLIGIBLE)
    even = (error < LARGEST_ERROR) & (share < _LARGEST_SHARE)
    new = ~found.trusted & ~found.bounded & small & even
    # Without a hit, the error says how near the draws come to a bound.
    nearer = np.isneginf(found.log_probability) & small
    nearest = np.minimum(error, np.where(nearer, found.standard_error, np.inf))
    return found._replace(
        log_probability=np.where(new, log_p, found.log_probability),
        standard_error=np.select([new, nearer], [error, nearest], found.standard_error),
        bounded=found.bounded | new,
    )


def _weighted(
    hits: np.ndarray, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The weighted mean of hits `[P, n]`."""
    number = hits.shape[1]
    masked = np.where(hits, log_weights, -np.inf)
    none = ~hits.any(axis=1)
    masked[none, 0] = 0.0
    total = np.asarray(special.logsumexp(masked, axis=1))
    squares = np.asarray(special.logsumexp(2 * masked, axis=1))
    error = np.sqrt(np.maximum(np.exp(squares - 2 * total) - 1 / number, 0))
    share = np.exp(masked.max(axis=1) - total)
    log_p = np.where(none, -np.inf, total - np.log(number))
    effective = np.where(none, 0.0, np.exp(2 * total - squares))
    return log_p, np.where(none, np.inf, error), np.where(none, 1.0, share), effective


#: Draws in a row. A stage takes a whole number of rows for each input.
DRAWS = 1024
# Draws in a call.
_MOST_DRAWS = 4096
# The plain share of a mixture, and the part of the others that hits do not move.
_PLAIN = 0.05
_EQUAL = 0.2
# The part of the draws that show the nearest mode where there is no hit.
_TOP = 0.05
#: Components come in sizes that are powers of this.
COMPONENTS = 4


class Mixtures(NamedTuple):
    """Mixtures around N inputs, of up to C components; the first is the plain one."""

    tilts: Tilt  # arrays `[N, C, ...]`
    # int `[N]`, of each; the others are plain, and never drawn from.
    number: np.ndarray


class Draws(NamedTuple):
    """n draws around each of N inputs."""

    margins: np.ndarray  # `[N, n]` of the nearest class
    # float32 `[N, n, C]`, the log-density of each component less the plain one's.
    log_ratios: np.ndarray
    component: np.ndarray  # int32 `[N, n]`, which each was drawn from


def mixtures(work: Work, modes: Modes, images: np.ndarray) -> Mixtures:
    sizes = np.bincount(modes.owner, minlength=len(images))
    most = bucket(1 + int(sizes.max()), COMPONENTS)
    within = np.arange(len(modes.owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    none = TILTED_BALLS[work.perturbation.norm].none(images[0])
    none = jax.tree.map(lambda a: np.asarray(a)[None], none)
    none = taken(with_idle_stretch(none, modes.tilts), 0)

    def filled(none: np.ndarray, tilts: np.ndarray) -> np.ndarray:
        array = np.broadcast_to(none, (len(images), most, *none.shape)).copy()
        array[modes.owner, 1 + within] = tilts
        return array

    return Mixtures(jax.tree.map(filled, none, modes.tilts), 1 + sizes)


def allotted(shares: np.ndarray, num_draws: int) -> np.ndarray:
    """Which component each of n draws is from."""
    ends = np.cumsum(shares, axis=1)[:, :-1]
    middles = (np.arange(num_draws) + 0.5) / num_draws
    return (middles[None, :, None] > ends[:, None]).sum(axis=2).astype(np.int32)


def draw(
    work: Work,
    inputs: Pairs[np.ndarray],
    mixture: Mixtures,
    component: np.ndarray,
    stage: int,
    bar: Bar,
) -> Draws:
    number, num_draws = component.shape
    parts = num_draws // DRAWS
    rows = rows_on_a_device(work, inputs.images.shape[1:])
    ball = TILTED_BALLS[work.perturbation.norm]
    each = (taken(mixture.tilts, one) for one in range(number))
    constants = np.stack([log_constants(ball, tilts) for tilts in each])
    # An input's draws come in rows of one size, so that few programs serve all stages.
    owner = np.repeat(np.arange(number), parts)
    first = np.tile(np.arange(parts, dtype=np.uint32) * DRAWS, number)
    given = first, component.reshape(-1, DRAWS)

    def take(block: np.ndarray) -> tuple[Any, ...]:
        mine = (inputs, mixture.tilts)
        return *taken(mine, owner[block]), *taken(given, block)

    def step(*placed: Any) -> tuple[jax.Array, jax.Array]:
        return _draw(work, *placed, np.uint32(stage), rows=rows)

    found, every = [], np.arange(len(owner))
    most = max(1, min(rows, _MOST_DRAWS) // DRAWS)
    size = block_size(len(every), work.mesh, most, base=4)
    for block, (margins, ratios) in in_blocks(step, take, every, size, work.mesh):
        mine = owner[block]
        check_valid(~np.isnan(margins).any(axis=1), inputs.indices[mine])
        found.append((margins, -(ratios + constants[mine, None]).astype(np.float32)))
        bar.update(len(block) * DRAWS)
    margins, log_ratios = joined(found)
    return Draws(
        margins.reshape(number, num_draws),
        log_ratios.reshape(number, num_draws, -1),
        component,
    )


def log_weights(log_ratios: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The logarithms of draws' weights by the balance heuristic, float64 `[..., n]`."""
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)[..., None, :]
    return -np.asarray(special.logsumexp(log_ratios + log_shares, axis=-1))


def shares_of(draws: Draws) -> np.ndarray:
    """`[N, C]` shares of the draws that are from each component."""
    components = np.arange(draws.log_ratios.shape[-1])
    return (draws.component[..., None] == components).mean(axis=1)


def responsibilities(draws: Draws, log_weight: np.ndarray) -> np.ndarray:
    """`[N, C]` how much of the hits' weights each component accounts for."""
    # Without a hit, its share of the greatest margins. Rows sum to 1.
    logs = np.where(draws.margins >= 0, log_weight, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    weight = np.exp(logs - np.where(np.isfinite(top), top, 0))
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares_of(draws))
    # A component's part of the density at a draw, over the whole mixture's.
    parts = np.exp(draws.log_ratios + log_shares[:, None] + log_weight[..., None])
    total = np.einsum("nd,ndc->nc", weight, parts)
    none = ~np.isfinite(top[:, 0])
    if none.any():
        least = np.quantile(draws.margins[none], 1 - _TOP, axis=1, keepdims=True)
        is_top = draws.margins[none] >= least
        components = np.arange(total.shape[1])
        from_each = draws.component[none][..., None] == components
        total[none] = (is_top[..., None] & from_each).sum(axis=1)
    return total / np.maximum(total.sum(axis=1, keepdims=True), 1e-300)


def better_shares(mixture: Mixtures, by_hits: np.ndarray | None) -> np.ndarray:
    """`[N, C]` shares of the components in the next stage."""
    # Most go to modes by their hits (cross-entropy), some to all modes, few are plain.
    component = np.arange(mixture.tilts.strength.shape[1])
    is_mode = (component < mixture.number[:, None]) & (component > 0)
    equal = is_mode / np.maximum(is_mode.sum(axis=1, keepdims=True), 1)
    hit = np.asarray(equal if by_hits is None else by_hits * is_mode)
    total = hit.sum(axis=1, keepdims=True)
    hit = np.where(total > 0, hit / np.where(total > 0, total, 1), equal)
    shares = (1 - _PLAIN) * (_EQUAL * equal + (1 - _EQUAL) * hit)
    shares[:, 0] = 1 - shares[:, 1:].sum(axis=1)
    return shares


@by_row(True, True, True, True, False, static_argnames="rows")
def _draw(
    work: Work,
    inputs: Pairs[jax.Array],
    tilts: Tilt,
    first: jax.Array,
    component: jax.Array,
    stage: jax.Array,
    *,
    rows: int,
) -> tuple[jax.Array, jax.Array]:
    """The margins `[l, n]`, and `TiltedBall.log_ratio`, `[l, n, C]`."""
    ball = TILTED_BALLS[work.perturbation.norm]
    keys = jax.vmap(lambda k: jax.random.fold_in(k, stage))(
        pair_keys(work.key, inputs, MIXTURE)
    )
    number, num_draws = component.shape
    parts = -(-num_draws * number // rows)
    draws = -(-num_draws // parts)
    padding = ((0, 0), (0, parts * draws - num_draws))
    component = jnp.pad(component, padding, mode="edge")

    def chunk(part: jax.Array) -> tuple[jax.Array, jax.Array]:
        numbers = part * draws + jnp.arange(draws, dtype=jnp.uint32)
        which = jax.lax.dynamic_slice_in_dim(component, part * draws, draws, 1)

        def one(key: jax.Array, tilts: Tilt, first: jax.Array, which: jax.Array) -> Any:
            each = jax.vmap(lambda n: jax.random.fold_in(key, first + n))(numbers)
            u = jax.vmap(lambda k, w: ball.draw(k, of_component(tilts, w)))(each, which)
            ratios = jax.vmap(
                lambda v: jax.vmap(lambda t: ball.log_ratio(v, t))(tilts)
            )(u)
            return u, ratios, each

        u, ratios, each = jax.vmap(one)(keys, tilts, first, which)
        return margins_at(work, inputs, u, each), ratios

    found = jax.lax.map(chunk, jnp.arange(parts, dtype=jnp.uint32))

    def by_input(array: jax.Array) -> jax.Array:
        array = array.swapaxes(0, 1)
        return array.reshape(number, -1, *array.shape[3:])[:, :num_draws]

    return jax.tree.map(by_input, found)


#: Draws of each stage while all are too few; splitting is cheaper beyond the sum.
STAGES = (DRAWS, *3 * (4 * DRAWS,), *4 * (8 * DRAWS,))


class Sample(NamedTuple):
    """Draws from the mixture of one input; arrays have an axis of 1."""

    mixture: Mixtures
    draws: Draws
    stage: int  # how many of `STAGES` are drawn
    weighted: WeightedDraws  # the estimate
    shares: np.ndarray  # `[1, C]`, of all draws, that are from each component
    by_hits: np.ndarray  # `[1, C]`, each component's share of the hits' weights
    hits: np.ndarray  # the logarithms of the hits' weights, descending


def without_draws(work: Work, modes: Modes, images: np.ndarray) -> list[Sample]:
    mixture = mixtures(work, modes, images)
    number = mixture.tilts.strength.shape[1]
    none, nothing = np.zeros((1, 0)), np.zeros((1, number))
    draws = Draws(none, np.zeros((1, 0, number), np.float32), none.astype(np.int32))
    weighted = nothing_drawn(1)
    return [
        Sample(one, draws, 0, weighted, nothing, nothing, np.zeros(0))
        for one in (taken(mixture, slice(n, n + 1)) for n in range(len(images)))
    ]


def draw_while_it_pays(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[Any, Sample],
    which: np.ndarray,
    bar: Bar,
    budget: np.ndarray,
    stages: Sequence[int] = STAGES,
) -> np.ndarray:
    left = which
    for stage, drawn in enumerate(np.cumsum(stages)):
        left = left[drawn <= budget[left]]
        if not len(left):
            break
        draw_on(work, inputs, samples, left, bar, stages)
        weighted = joined([samples[n].weighted for n in left])
        on = ~(weighted.trusted | weighted.bounded)
        if stage:
            best = weighted.standard_error * np.sqrt(weighted.number / sum(stages))
            on &= best < LARGEST_ERROR
        left = left[on]
    return np.array([int(samples[n].weighted.number[0]) for n in which])


def draw_on(
    work: Work,
    inputs: Pairs[np.ndarray],
    samples: dict[Any, Sample],
    which: np.ndarray,
    bar: Bar,
    stages: Sequence[int] = STAGES,
) -> np.ndarray:
    number = [stages[samples[one].stage] for one in which]
    alike: dict[Any, list[Any]] = {}
    for one in which:
        shapes = [a.shape for a in jax.tree.leaves(samples[one].mixture.tilts)]
        alike.setdefault((samples[one].stage, *shapes), []).append(one)
    for (stage, *_), some in alike.items():
        mixture = joined([samples[n].mixture for n in some])
        by_hits = np.concatenate([samples[n].by_hits for n in some])
        shares = better_shares(mixture, by_hits if stage else None)
        component = allotted(shares, stages[stage])
        mine = taken(inputs, np.array(some))
        new = draw(work, mine, mixture, component, stage, bar)
        for place, one in enumerate(some):
            more = taken(new, slice(place, place + 1))
            samples[one] = _with(samples[one], more)
    return np.array(number, np.int64)


def weights_at(work: Work, sample: Sample, points: np.ndarray) -> np.ndarray:
    """`[m]` the log importance weights that draws at points would have."""
    norm, tilts = work.perturbation.norm, taken(sample.mixture.tilts, 0)
    ratios = np.asarray(_log_ratios(points, tilts, norm=norm), np.float64)
    constants = log_constants(TILTED_BALLS[norm], tilts)
    return log_weights(-(ratios + constants), sample.shares[0])


@functools.partial(jax.jit, static_argnames="norm")
def _log_ratios(points: jax.Array, tilts: Tilt, *, norm: str) -> jax.Array:
    log_ratio = TILTED_BALLS[norm].log_ratio
    return jax.vmap(lambda u: jax.vmap(lambda t: log_ratio(u, t))(tilts))(points)


def _with(sample: Sample, more: Draws) -> Sample:
    both = zip(sample.draws, more)
    draws = Draws(*(np.concatenate(pair, axis=1) for pair in both))
    shares = shares_of(draws)
    log_weight = log_weights(draws.log_ratios, shares)
    return sample._replace(
        draws=draws,
        stage=sample.stage + 1,
        weighted=weigh(draws.margins, log_weight),
        shares=shares,
        by_hits=responsibilities(draws, log_weight),
        hits=-np.sort(-log_weight[draws.margins >= 0]),
    )
