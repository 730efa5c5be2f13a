"""Draws from a mixture of tilts, and their importance weights.

The components of an input's mixture are the plain distribution and the tilts towards
its modes. A draw's weight is the ratio of the plain density to the whole mixture's (the
balance heuristic, Veach and Guibas 1995), so that every draw counts for every mode and
class, and no weight exceeds the inverse of the plain draws' share.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob._devices.blocks import Call, in_blocks
from jaxrob._devices.memory import bucket
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._devices.rows import joined, taken
from jaxrob._engine.bar import Bar
from jaxrob.roma._blocks import block_size, check_valid
from jaxrob.roma._pairs import MIXTURE, Pairs, pair_keys
from jaxrob.roma._search import Modes, margins_at
from jaxrob.roma._tilt import (
    TILTED_BALLS,
    Tilt,
    log_constants,
    of_component,
    with_idle_stretch,
)
from jaxrob.roma._work import Work, rows_on_a_device

#: Draws in a row. A stage takes a whole number of rows for each input.
DRAWS = 1024
# Draws in a call.
_MOST_DRAWS = 4096
# The plain draws' share of a mixture, and the part of the other shares that does not
# depend on the hits.
_PLAIN = 0.05
_EQUAL = 0.2
# The part of the draws that show the nearest mode where there is no hit.
_TOP = 0.05
#: Components come in sizes that are powers of this.
COMPONENTS = 4


class Mixtures(NamedTuple):
    """Mixtures around N inputs, of up to C components; the first is the plain one.

    Attributes:
      tilts: arrays `[N, C, ...]`.
      number: int `[N]`, how many components each has. The others are plain, and never
        drawn from.
    """

    tilts: Tilt
    number: np.ndarray


class Draws(NamedTuple):
    """n draws around each of N inputs.

    Attributes:
      margins: `[N, n]` of the nearest class.
      log_ratios: float32 `[N, n, C]`, the log-density of each component less the plain
        one's.
      component: int32 `[N, n]`, which each was drawn from.
    """

    margins: np.ndarray
    log_ratios: np.ndarray
    component: np.ndarray


def mixtures(work: Work, modes: Modes, images: np.ndarray) -> Mixtures:
    """The mixtures of N inputs' modes."""
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
    """Draws from mixtures."""
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
        return drawing_tilted(work, *placed, stage=stage, rows=rows).run()

    found, every = [], np.arange(len(owner))
    size = inputs_in_call(len(every), work.mesh, rows)
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


def drawing_tilted(
    work: Work,
    inputs: Pairs[Any],
    tilts: Any,
    first: Any,
    component: Any,
    *,
    stage: int,
    rows: int,
) -> Call:
    """The call that draws `DRAWS` around each of l inputs; arrays or their shapes."""
    args = work, inputs, tilts, first, component, np.uint32(stage)
    return Call(_draw, args, {"rows": rows}, work.mesh)


def inputs_in_call(number: int, mesh: ImageMesh, rows: int) -> int:
    """How many of so many inputs, with `DRAWS` each, a call takes."""
    return block_size(number, mesh, max(1, min(rows, _MOST_DRAWS) // DRAWS), base=4)


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
    # Where nothing was hit, its share of the draws with the greatest margins. Each row
    # sums to 1.
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
    # Most draws go to each mode by its part of the hits' weights (a step of adaptation
    # by cross-entropy), some to all modes, few are plain.
    component = np.arange(num_components(mixture))
    is_mode = (component < mixture.number[:, None]) & (component > 0)
    equal = is_mode / np.maximum(is_mode.sum(axis=1, keepdims=True), 1)
    hit = np.asarray(equal if by_hits is None else by_hits * is_mode)
    total = hit.sum(axis=1, keepdims=True)
    hit = np.where(total > 0, hit / np.where(total > 0, total, 1), equal)
    shares = (1 - _PLAIN) * (_EQUAL * equal + (1 - _EQUAL) * hit)
    shares[:, 0] = 1 - shares[:, 1:].sum(axis=1)
    return shares


def log_ratios_at(
    work: Work, mixture: Mixtures, number: int, points: np.ndarray
) -> np.ndarray:
    """`[m, C]` log-density ratios, as of `Draws`, at points of one input's ball."""
    norm = work.perturbation.norm
    tilts = taken(mixture.tilts, number)
    ratio = np.asarray(_log_ratios(points, tilts, norm=norm), np.float64)
    return -(ratio + log_constants(TILTED_BALLS[norm], tilts))


@functools.partial(jax.jit, static_argnames="norm")
def _log_ratios(points: jax.Array, tilts: Tilt, *, norm: str) -> jax.Array:
    log_ratio = TILTED_BALLS[norm].log_ratio
    return jax.vmap(lambda u: jax.vmap(lambda t: log_ratio(u, t))(tilts))(points)


def num_components(mixture: Mixtures) -> int:
    """C, the components that there is room for."""
    return jax.tree.leaves(mixture.tilts)[0].shape[1]


@functools.partial(jax.jit, static_argnames="rows")
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

    def local(
        work: Work,
        inputs: Pairs[jax.Array],
        tilts: Tilt,
        first: jax.Array,
        component: jax.Array,
        stage: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
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

            def one(
                key: jax.Array, tilts: Tilt, first: jax.Array, which: jax.Array
            ) -> Any:
                each = jax.vmap(lambda n: jax.random.fold_in(key, first + n))(numbers)
                u = jax.vmap(lambda k, w: ball.draw(k, of_component(tilts, w)))(
                    each, which
                )
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

    split = (False, True, True, True, True, False)
    return on_each_device(local, work.mesh, split)(
        work, inputs, tilts, first, component, stage
    )
