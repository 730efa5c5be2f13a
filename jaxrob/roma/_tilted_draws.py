"""Draws from a ball that is tilted towards a class.

For one input and one class, the class's margin is nearly linear in the perturbation u.
The distribution is tilted along the mean gradient, which is found in a few rounds under
the tilt itself. It is tilted until the mean margin is below 0 by no more than the part
that is not linear adds among the draws that count. Then every second to tenth draw is a
hit, and its weight makes up for the tilt (Siegmund 1976, for the exponential tilt).
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.mesh import on_each_device, split_over
from jaxrob._runtime.pixels import as_floats
from jaxrob.roma._blocks import blocks, check_valid, first_of, joined
from jaxrob.roma._margins import LARGEST_MARGIN, margins_of_pairs
from jaxrob.roma._pairs import TILT_SEARCH, TILTED_DRAWS, Pairs, pair_keys
from jaxrob.roma._tilt import TILTS, Tilt
from jaxrob.roma._work import Work, rows_on_a_device

# Rounds of gradients, how many in each, and the first whose gradients are kept.
_ROUNDS = 8
_GRADIENTS = 64
_FIRST_KEPT = 3
# What a gradient costs, in forward passes.
_GRADIENT_COST = 3
# Pairs and draws in a call. Of the later stages' many draws it is one pair, however
# many are left, so that one program serves them all.
_MOST_PAIRS = 16
_MOST_DRAWS = 4096

#: Forward passes that finding a tilt costs.
TILT_COST = _ROUNDS * _GRADIENTS * _GRADIENT_COST


def find_tilts(work: Work, pairs: Pairs[np.ndarray], bar: tqdm) -> Any:
    """The tilts' parameters, a pytree of arrays `[P, ...]`.

    Args:
      work: the classifier and so on, placed; the perturbation is a ball with a norm in
        `TILTS`.
      pairs: P pairs.
      bar: where progress is shown.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    rows = rows_on_a_device(work, pairs.images.shape[1:])
    parts = []
    for block, number, on_devices in _put_blocks(work, pairs, rows, _GRADIENTS):
        tilts, valid = fetch(_find(work, on_devices))
        check_valid(valid[:number], block.indices)
        parts.append(first_of(tilts, number))
        bar.update(number * TILT_COST)
    return joined(parts)


def draw_tilted(
    work: Work,
    pairs: Pairs[np.ndarray],
    tilts: Any,
    num_samples: int,
    stage: int,
    bar: tqdm,
) -> tuple[np.ndarray, np.ndarray]:
    """Margins and weights of tilted draws.

    Args:
      work: as for `find_tilts`.
      pairs: P pairs.
      tilts: what `find_tilts` returned for them.
      num_samples: draws for each pair, n.
      stage: a number that tells these draws from others of the same pairs.
      bar: where progress is shown.

    Returns:
      `[P, n]` margins, and the logarithms of the weights, float64.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    rows = rows_on_a_device(work, pairs.images.shape[1:])
    log_constant = TILTS[work.perturbation.norm].log_constant
    margins, log_weights = [], []
    for block, number, on_devices in _put_blocks(
        work, (pairs, tilts), rows, num_samples
    ):
        found = _draw(
            work, *on_devices, np.uint32(stage), num_samples=num_samples, rows=rows
        )
        part, log_ratio = first_of(fetch(found), number)
        check_valid(~np.isnan(part).any(axis=1), block[0].indices)
        constant = log_constant(first_of(block[1], number))
        margins.append(part)
        log_weights.append(log_ratio.astype(np.float64) + constant[:, None])
        bar.update(number * num_samples)
    return np.concatenate(margins), np.concatenate(log_weights)


def _put_blocks(
    work: Work, tree: Any, rows: int, draws: int
) -> Iterator[tuple[Any, int, Any]]:
    """Blocks of about as many draws as fit.

    Yields:
      A block on the host, how many of its rows count, and the block on the devices.
    """
    split = split_over(work.mesh)
    most = max(1, min(_MOST_PAIRS, min(rows, _MOST_DRAWS) // draws))
    with jax.set_mesh(work.mesh):
        for block, number in blocks(tree, work.mesh, most):
            yield block, number, put(block, split)


class _Search(NamedTuple):
    """What is known of l pairs' tilts after some rounds; arrays `[l, ...]`."""

    tilts: Any  # the tilts' parameters
    slope: jax.Array  # the mean gradient of the margin
    intercept: jax.Array  # the mean of what the slope leaves of the margin
    variance: jax.Array  # its variance
    valid: jax.Array  # bool, whether all margins were numbers


@jax.jit
def _find(work: Work, pairs: Pairs[jax.Array]) -> tuple[Any, jax.Array]:
    """The tilts of a block of pairs, and whether all their margins were numbers."""
    tilt = TILTS[work.perturbation.norm]

    def local(work: Work, pairs: Pairs[jax.Array]) -> tuple[Any, jax.Array]:
        images = as_floats(pairs.images)
        keys = pair_keys(work.key, pairs, TILT_SEARCH)

        def one_round(number: jax.Array, search: _Search) -> _Search:
            u = _search_draws(tilt, keys, number, search.tilts)
            total = functools.partial(_total_margin, work, pairs.classes, images)
            (_, margins), gradients = jax.value_and_grad(total, has_aux=True)(u)
            return _after_round(tilt, number, search, u, margins, gradients)

        number = len(images)
        start = _Search(
            jax.vmap(tilt.none)(images),
            jnp.zeros_like(images),
            jnp.zeros(number),
            jnp.zeros(number),
            jnp.ones(number, bool),
        )
        found = jax.lax.fori_loop(0, _ROUNDS, one_round, start)
        return found.tilts, found.valid

    return on_each_device(local, work.mesh, (False, True))(work, pairs)


def _search_draws(
    tilt: Tilt, keys: jax.Array, number: jax.Array, tilts: Any
) -> jax.Array:
    """The perturbations `[l, g, ...]` of the round of this number."""
    each = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)
    each = jax.vmap(lambda k: jax.random.split(k, _GRADIENTS))(each)
    return jax.vmap(lambda k, p: jax.vmap(lambda kk: tilt.draw(kk, p))(k))(each, tilts)


def _after_round(
    tilt: Tilt,
    number: jax.Array,
    search: _Search,
    u: jax.Array,
    margins: jax.Array,
    gradients: jax.Array,
) -> _Search:
    """The tilts after a round of this number, by its margins and gradients at u."""
    # Gradients may be NaN where the margin is not, as that of a square root at 0.
    gradients = jnp.where(jnp.isfinite(gradients), gradients, 0)
    slope = gradients.mean(axis=1)
    projected = jax.vmap(lambda us, a: jax.vmap(lambda v: jnp.sum(v * a))(us))
    intercept = (margins - projected(u, slope)).mean(axis=1)
    # A running mean from the first round that counts; until then the last one.
    kept = jnp.maximum(number - _FIRST_KEPT, 0)
    slope = (kept * search.slope + slope) / (kept + 1)
    intercept = (kept * search.intercept + intercept) / (kept + 1)
    variance = (margins - projected(u, slope)).var(axis=1)
    variance = (kept * search.variance + variance) / (kept + 1)
    return _Search(
        jax.vmap(tilt.towards)(slope, intercept, variance),
        slope,
        intercept,
        variance,
        search.valid & ~jnp.isnan(margins).any(axis=1),
    )


@functools.partial(jax.jit, static_argnames=("num_samples", "rows"))
def _draw(
    work: Work,
    pairs: Pairs[jax.Array],
    tilts: Any,
    stage: jax.Array,
    *,
    num_samples: int,
    rows: int,
) -> tuple[jax.Array, jax.Array]:
    """The margins `[l, n]` of a block of pairs, and the logs of the density ratios."""
    tilt = TILTS[work.perturbation.norm]

    def local(
        work: Work, pairs: Pairs[jax.Array], tilts: Any, stage: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        images = as_floats(pairs.images)
        keys = jax.vmap(lambda k: jax.random.fold_in(k, stage))(
            pair_keys(work.key, pairs, TILTED_DRAWS)
        )
        parts = -(-num_samples * len(images) // rows)
        draws = -(-num_samples // parts)

        def chunk(number: jax.Array) -> tuple[jax.Array, jax.Array]:
            numbers = number * draws + jnp.arange(draws, dtype=jnp.uint32)

            def one(key: jax.Array, parameters: Any) -> tuple[jax.Array, jax.Array]:
                each = jax.vmap(lambda n: jax.random.fold_in(key, n))(numbers)
                u = jax.vmap(lambda k: tilt.draw(k, parameters))(each)
                return u, jax.vmap(lambda v: tilt.log_ratio(v, parameters))(u)

            u, log_ratio = jax.vmap(one)(keys, tilts)
            return _margins(work, pairs.classes, images, u), log_ratio

        found = jax.lax.map(chunk, jnp.arange(parts, dtype=jnp.uint32))

        def by_pair(array: jax.Array) -> jax.Array:
            return array.swapaxes(0, 1).reshape(len(images), -1)[:, :num_samples]

        return jax.tree.map(by_pair, found)

    return on_each_device(local, work.mesh, (False, True, True, False))(
        work, pairs, tilts, stage
    )


def _total_margin(
    work: Work, classes: jax.Array, images: jax.Array, u: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The sum of the margins, whose gradient is that of each, and the margins.

    Beyond a limit there is no gradient, because what is made of it would overflow.
    """
    margins = _margins(work, classes, images, u)
    margins = jnp.clip(margins, -LARGEST_MARGIN, LARGEST_MARGIN)
    return margins.sum(), margins


def _margins(
    work: Work, classes: jax.Array, images: jax.Array, u: jax.Array
) -> jax.Array:
    """`[l, m]` margins of l pairs at the perturbations u `[l, m, H, W, C]`."""
    perturbed = images[:, None] + work.perturbation.size * u
    perturbed = work.perturbation.clipped(perturbed)
    return margins_of_pairs(work, classes, perturbed)
