"""Adaptive multilevel splitting of what plain draws leave open: the pilot and after it.

Particles, perturbed images of one input, climb levels of the margin: those above one,
a fixed share, are copied, and Markov moves that never go below it make copies differ.
The product of the shares reaches rare probabilities (subset simulation, Au and Beck,
2001; Cérou, Del Moral, Furon and Guyader, 2012). The particles that arrive are also
evidence about what other methods miss.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob._devices.blocks import nearest_bucket, put_at, taken
from jaxrob._devices.mesh import fetch, put, sharded
from jaxrob._engine.execution import Bar
from jaxrob.roma._draws import (
    AGAIN,
    ANY_CLASS,
    LARGEST_MARGIN,
    SCOUTS,
    SPLITTING,
    Array,
    Inputs,
    Pairs,
    Settings,
    Statistic,
    Work,
    check_valid,
    distinct_margins,
    rows_on_a_device,
    summarise_draws,
)
from jaxrob.roma._estimate import (
    Estimate,
    improved,
    pooled,
    summed,
    unknown,
    with_second_opinion,
)
from jaxrob.roma._rare._particles import (
    FINISHED,
    GOING,
    INVALID,
    KEEP,
    STUCK,
    Outcome,
    empty_systems,
    is_thorough,
    num_moves,
    stepping,
)

# Classes less probable by this factor, by a normal fit to plain draws, are out.
_LARGEST_GAP = np.log(300.0)
# Classes sought around an input; plain draws or particles may meet others.
_SOUGHT = 4
#: The log-probability below which a pair is given up: that is bound enough.
FLOOR = math.log(1e-15)

#: Particles around each input.
NUM_PARTICLES = 1000
# A run must be this precise: few ancestors are a poor estimate of the error itself.
_PRECISE = 0.5
_PRECISE_IN_FEW_DIMENSIONS = 0.25
# The variance of log p is taken as this many times its estimate, which is noisy.
_INFLATION = 1.25


class Pilot(NamedTuple, Generic[Array]):
    """What plain draws around N inputs say of each class; `[N, K]`."""

    possible: Array  # whether it is another class than the one predicted at the input
    hits: Array  # int32, draws that are distinctly misclassified as it
    mean: Array  # the mean of its margins
    # Their deviation, or that above the mean if greater (modes on two sides).
    std: Array


class Candidates(NamedTuple):
    """Inputs whose probabilities are to be estimated, and the classes that matter."""

    inputs: Pairs[np.ndarray]  # N pairs of an input and `ANY_CLASS`
    classes: np.ndarray  # int32 `[N, T]`, those that matter, the most probable first
    pairs: Pairs[np.ndarray]  # P pairs of an input and a class that matters
    owner: np.ndarray  # int `[P]`, the number of each pair's input
    plain_hits: np.ndarray  # int32 `[N]`, plain draws that are distinctly misclassified
    num_samples: int  # plain draws for each input
    log_normal: np.ndarray  # `[P]` the pairs' log-probabilities by a normal fit
    budget: float  # forward passes left for each input; may be infinite
    confidence_level: float  # of the intervals


def draw_pilot(work: Work, inputs: Inputs, settings: Settings) -> Pilot[np.ndarray]:
    return summarise_draws(work, inputs, settings, _BY_CLASS)


def pairs_that_matter(
    pilot: Pilot[np.ndarray], inputs: Inputs, settings: Settings
) -> Candidates:
    """The classes each input may be mistaken for, by a normal fit to margins."""
    mean = pilot.mean.astype(np.float64)
    # No deviation is 0, by which the mean is divided.
    std = np.maximum(pilot.std.astype(np.float64), 1e-12 * np.abs(mean) + 1e-300)
    log_p = np.where(pilot.possible, special.log_ndtr(mean / std), -np.inf)
    best = log_p.max(axis=1, keepdims=True)
    chosen = (log_p >= best - _LARGEST_GAP) | (pilot.hits > 0)
    chosen &= pilot.possible
    owner, classes = np.nonzero(chosen)
    pairs = Pairs(
        inputs.images[owner],
        inputs.indices[owner],
        classes.astype(np.int32),
        inputs.excluded[owner],
    )
    any_class = np.full(len(inputs.indices), ANY_CLASS, np.int32)
    return Candidates(
        Pairs(inputs.images, inputs.indices, any_class, inputs.excluded),
        _nearest(np.where(chosen, log_p, -np.inf)),
        pairs,
        owner,
        np.asarray(pilot.hits).sum(axis=1),
        settings.num_samples,
        log_p[owner, classes],
        settings.budget - settings.num_samples,
        settings.confidence_level,
    )


def _nearest(log_p: np.ndarray) -> np.ndarray:
    """`[N, T]` the most probable classes; -inf for those that do not matter."""
    order = np.argsort(-log_p, axis=1, kind="stable")
    number = np.maximum((log_p > -np.inf).sum(axis=1, keepdims=True), 1)
    return np.take_along_axis(order, np.arange(_SOUGHT) % number, axis=1)


def observe_classes(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m, K]` margins within a limit, less for the class predicted at the input."""
    margins = distinct_margins(log_p, logit_delta)
    margins = jnp.clip(margins, -LARGEST_MARGIN, LARGEST_MARGIN)
    is_excluded = jnp.arange(log_p.shape[-1]) == excluded
    return jnp.where(is_excluded, -2 * LARGEST_MARGIN, margins)


def _by_class(margins: jax.Array) -> Pilot[jax.Array]:
    possible = margins[:, :1] >= -LARGEST_MARGIN
    margins = jnp.where(possible, margins, 0)
    # The deviation that those above the mean would have on both sides of it.
    above = jnp.maximum(margins - margins.mean(axis=1, keepdims=True), 0)
    upper = jnp.sqrt(2 * (above**2).mean(axis=1))
    return Pilot(
        possible=possible[:, 0],
        hits=((margins >= 0) & possible).sum(axis=1, dtype=jnp.int32),
        mean=margins.mean(axis=1),
        std=jnp.maximum(margins.std(axis=1), upper),
    )


_BY_CLASS = Statistic(observe_classes, _by_class)


def by_splitting(
    work: Work, candidates: Candidates, estimate: Estimate, bar: Bar
) -> Estimate:
    left = np.flatnonzero(np.isin(estimate.status, ["", "untrusted"]))
    expected = expected_cost(work, candidates)
    by_input = np.bincount(candidates.owner, expected, len(estimate.status))
    afford = candidates.budget - estimate.evaluations
    left = left[by_input[left] <= afford[left]]
    if not len(left):
        return estimate
    mine = np.isin(candidates.owner, left)
    pairs = taken(candidates.pairs, mine)
    rows = rows_on_a_device(work, pairs.images.shape[1:]) * work.mesh.size
    # A pair may take more than was expected, by what its input can afford.
    share = (expected / by_input[candidates.owner])[mine]
    found = _precise(work, pairs, rows, share * afford[candidates.owner[mine]])
    bar.update(int(found.evaluations.sum()))
    owner = np.searchsorted(left, candidates.owner[mine])
    by_input = summed(found, owner, len(left))
    # Plain draws hit what splitting says is next to impossible.
    contradicted = (by_input.status == "bounded") & (candidates.plain_hits[left] > 0)
    status = np.where(contradicted, "untrusted", by_input.status)
    error = np.where(contradicted, np.inf, by_input.standard_error)
    by_input = by_input._replace(status=status, standard_error=error)
    alike = is_thorough(pairs.images.shape[1:])
    better = with_second_opinion(
        by_input, taken(estimate, left), alike, candidates.confidence_level
    )
    return improved(estimate, left, better)


def expected_cost(work: Work, candidates: Candidates) -> np.ndarray:
    """`[P]` the forward passes that splitting takes for each pair, about."""
    log_p = np.maximum(candidates.log_normal, FLOOR)
    levels = np.ceil(log_p / math.log(KEEP))
    moves = num_moves(work.perturbation, math.prod(candidates.pairs.images.shape[1:]))
    return NUM_PARTICLES * (1 + moves * np.maximum(levels - 1, 0))


def _precise(
    work: Work, pairs: Pairs[np.ndarray], rows: int, budget: np.ndarray
) -> Estimate:
    few = is_thorough(pairs.images.shape[1:])
    largest = _PRECISE_IN_FEW_DIMENSIONS if few else _PRECISE
    found, _ = split(work, pairs, rows=rows, budget=budget)
    runs = [found]
    for use in AGAIN:
        answered = found.status == "splitting"
        left = answered & (found.standard_error > largest)
        # Another run takes about as much as the first.
        spent = found.evaluations + runs[0].evaluations
        left = np.flatnonzero(left & (spent <= budget))
        if not len(left):
            break
        rest = (budget - found.evaluations)[left]
        more, _ = split(work, taken(pairs, left), rows=rows, use=use, budget=rest)
        runs.append(put_at(found, left, more))
        found = put_at(found, left, pooled([taken(run, left) for run in runs]))
    return found


def splitting_obstacle(work: Work, image_shape: tuple[int, ...]) -> str | None:
    del image_shape
    if work.perturbation.move is not None:
        return None
    return (
        "needs a perturbation with a move, which keeps its distribution; "
        f"{work.perturbation.name!r} has none: give a jaxrob.roma.Perturbation with "
        'one, or use "count" or "auto"'
    )


def split(
    work: Work,
    pairs: Pairs[np.ndarray],
    *,
    rows: int,
    num_particles: int = NUM_PARTICLES,
    use: int = SPLITTING,
    keep_hits: bool = False,
    budget: np.ndarray | float = math.inf,
) -> tuple[Estimate, list[Any]]:
    """Estimates the probability of a distinct misclassification as a class."""
    # The logarithm's variance, with n_i of n at the end from the ith of N at first, is
    # about `sum (n_i / n)^2 - 1 / N` (Chan and Lai 2013; Du and Guyader 2021).
    none = np.zeros(len(pairs.classes))
    no = none.astype(bool)
    climb = _Climb(none, none, none.astype(np.int64), no, no)
    moves = num_moves(work.perturbation, math.prod(pairs.images.shape[1:]))
    budget = np.broadcast_to(budget, len(pairs.classes))
    most_steps = 1 + np.floor(np.maximum(budget / num_particles - 1, 0) / moves)
    hits: list[Any] = [None] * len(pairs.classes)
    size = num_slots(len(pairs.classes), rows // num_particles, work.mesh.size)
    by_slot = sharded(work.mesh)
    image = jax.ShapeDtypeStruct(pairs.images.shape[1:], jnp.float32)
    systems = empty_systems(work.perturbation, image, size, num_particles)
    systems = put(systems, by_slot)
    # The pair in each slot, -1 for none. One that is done makes room for the next.
    held, waiting = np.full(size, -1), iter(range(len(pairs.classes)))
    block = None
    while (fresh := _fill(held, waiting)) is not None:
        if fresh.any():
            block = put(taken(pairs, held), by_slot)
        fresh = put(fresh, by_slot)
        call = stepping(work, systems, block, fresh, use, num_particles)
        systems, outcome = call.run()
        busy = np.flatnonzero(held >= 0)
        at, outcome = held[busy], taken(fetch(outcome), busy)
        check_valid(outcome.status != INVALID, pairs.indices[at])
        climb = _climbed(climb, at, outcome, num_particles)
        finished = outcome.status == FINISHED
        if keep_hits and finished.any():
            latents = fetch(systems.latents)
            for slot, pair in zip(busy[finished], at[finished]):
                hits[pair] = taken(latents, slot)
        done = (outcome.status != GOING) | (climb.log_probability[at] <= FLOOR)
        done |= climb.num_steps[at] >= most_steps[at]
        held[busy[done]] = -1
    estimate = unknown(len(hits))._replace(
        status=np.select(
            [climb.complete, climb.log_probability <= FLOOR, climb.stuck],
            ["splitting", "bounded", "incomplete"],
            "",
        ),
        log_probability=climb.log_probability,
        standard_error=np.sqrt(_INFLATION * np.maximum(climb.variance, 0)),
        evaluations=num_particles * (1 + moves * (climb.num_steps - 1)),
    )
    return estimate, hits


class _Climb(NamedTuple):
    """How far the particle systems of P pairs have come; arrays `[P]`."""

    log_probability: np.ndarray  # of the last level reached
    variance: np.ndarray  # of its estimate
    num_steps: np.ndarray
    complete: np.ndarray  # whether that level is 0
    stuck: np.ndarray  # whether a plateau hides the next one


def _climbed(
    climb: _Climb, at: np.ndarray, outcome: Outcome, num_particles: int
) -> _Climb:
    before = taken(climb, at)
    # A level that a plateau hides is not reached.
    reached = np.asarray(outcome.status != STUCK)
    higher = before.log_probability + np.log(outcome.above / num_particles)
    variance = outcome.common_ancestry - 1 / num_particles
    after = _Climb(
        np.where(reached, higher, before.log_probability),
        np.where(reached, variance, before.variance),
        before.num_steps + 1,
        np.asarray(outcome.status == FINISHED),
        ~reached,
    )
    return put_at(climb, at, after)


def _fill(held: np.ndarray, waiting: Iterator[int]) -> np.ndarray | None:
    empty = held < 0
    for slot, pair in zip(np.flatnonzero(empty), waiting):
        held[slot] = pair
    return empty if (held >= 0).any() else None


def num_slots(num_pairs: int, at_most: int, num_devices: int) -> int:
    """Slots, a multiple of the devices; of few sizes where pairs are few."""
    size = min(at_most, nearest_bucket(num_pairs, 4))
    return max(1, size // num_devices) * num_devices


# Particles around an input; in few dimensions as many as splitting takes.
_FEW_PARTICLES = 64
# Unexplained: less than this part of the probability has weights as great.
_TAIL = 0.002


class Evidence(NamedTuple):
    # Of each input `[m, H, W, C]` distinctly misclassified in the unit ball, or None.
    points: list[np.ndarray | None]
    log_probability: np.ndarray  # `[N]`, by splitting; NaN where it got stuck
    standard_error: np.ndarray  # `[N]`
    evaluations: np.ndarray  # int64 `[N]`, forward passes
    # `[N]`, of the level where a budget ended their climb; -inf elsewhere.
    log_open: np.ndarray


def cost_down_to(log_p: float, work: Work, shape: tuple[int, ...]) -> int:
    moves = num_moves(work.perturbation, math.prod(shape))
    return _number(shape) * (1 + moves * math.ceil(log_p / math.log(KEEP)))


def evidence(
    work: Work,
    inputs: Pairs[np.ndarray],
    use: int = SCOUTS,
    budget: np.ndarray | float = math.inf,
) -> Evidence:
    shape = inputs.images.shape[1:]
    rows = rows_on_a_device(work, shape) * work.mesh.size
    found, hits = split(
        work,
        inputs,
        rows=rows,
        num_particles=_number(shape),
        use=use,
        keep_hits=True,
        budget=budget,
    )
    points = functools.partial(_points, apply=work.perturbation.apply, shape=shape)
    return Evidence(
        [None if some is None else np.asarray(points(some)) for some in hits],
        np.where(found.status == "splitting", found.log_probability, np.nan),
        found.standard_error,
        found.evaluations,
        np.where(found.status == "", found.log_probability, -np.inf),
    )


def unexplained(log_weight: np.ndarray, hits: np.ndarray) -> np.ndarray:
    if not len(hits):
        return np.ones(len(log_weight), bool)
    mass = np.cumsum(np.exp(hits - hits[0]))
    # The part of the probability that has at least such a weight.
    as_great = np.searchsorted(-hits, -log_weight, side="right")
    return np.append(0.0, mass / mass[-1])[as_great] < _TAIL


def _number(shape: tuple[int, ...]) -> int:
    return NUM_PARTICLES if is_thorough(shape) else _FEW_PARTICLES


@functools.partial(jax.jit, static_argnames=("apply", "shape"))
def _points(latents: Any, *, apply: Any, shape: tuple[int, ...]) -> jax.Array:
    return jax.vmap(apply, (None, 0, None))(jnp.zeros(shape, jnp.float32), latents, 1.0)
