"""Searches for the parts of a ball where an input is distinctly misclassified (modes).

Each search linearises its margin by the gradients at points from the ball, tilted
towards where the linear margin is 0, again and again. More start while a single search
found some mode, because others may be unfound (Good, 1953): half in the ball, on
opposite sides, for the nearest classes, half far outside, for any class, where a steep
mode, which is behind a shallow one nearly everywhere in the ball, is ahead.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._devices.blocks import first_of, in_blocks, joined, put_at, taken
from jaxrob._engine.execution import Bar
from jaxrob._numbers import as_floats, largest
from jaxrob.roma._draws import (
    ANY_CLASS,
    LARGEST_MARGIN,
    REFINEMENT,
    SEARCH,
    STARTS,
    Pairs,
    Work,
    block_size,
    by_row,
    check_valid,
    margins_of_pairs,
    nearest_class,
    pair_keys,
    rows_on_a_device,
)
from jaxrob.roma._estimate import MOST_MODES
from jaxrob.roma._rare._tilt import (
    TILTED_BALLS,
    Stretch,
    Tilt,
    TiltedBall,
    with_idle_stretch,
)

# Forward passes that a gradient costs.
_GRADIENT_COST = 3
#: Searches around an input that start together, half of them in the ball; and at most.
BATCH = 16
_MOST_SEARCHES = 64
_SEARCHES_PER_MODE = 6
# Where the others start, in radii of the ball.
_FAR = np.array([3.0, 6.0, 12.0, 24.0])
# Modes that are so many nats farther than the nearest, 10,000 times rarer, don't count.
_LARGEST_GAP = 9.2
# Directions with at least this cosine are one mode, of searches and of refined modes.
_SAME_MODE = 0.7
_SAME_REFINED_MODE = 0.9
# Searches with at least this cosine are neighbours.
_CLOSE = 0.9
# Points whose gradients are taken in a call, at most.
_MOST_POINTS = 1024
_MOST_TILTS = 64
# Reached: the greatest margin is within so many standard deviations of 0.
_REACH = 4.0


class _Climb(NamedTuple):
    rounds: int
    gradients: int  # in each round
    first_kept: int  # linear margins are averaged from this round on
    use: int  # see `pair_keys`

    @property
    def cost(self) -> int:
        """Forward passes of a search; one in each round finds the nearest class."""
        return self.rounds * (1 + _GRADIENT_COST * self.gradients)


_SEARCHING = _Climb(rounds=3, gradients=4, first_kept=1, use=SEARCH)
_REFINING = _Climb(rounds=2, gradients=64, first_kept=0, use=REFINEMENT)
#: Forward passes that refine a mode.
MODE_COST = _REFINING.cost
# Gradients by which a mode's curvature is estimated.
_CURVES = 256
# It is estimated where the margin's nonlinear part would add this to the exponent of
# the tilt, in nats: the weights vary by about its exponential.
_BENT = 1.0
# Directions, and curvatures in the tilt's units: at 1 it would be infinitely wide.
_DIRECTIONS = 16
_CURVATURES = (0.1, 0.75)


class Line(NamedTuple):
    """Linear margins `slope . u + intercept` of L searches; arrays `[L, ...]`."""

    slope: Any  # `[L, H, W, C]`, the mean gradient of the margin with respect to u
    intercept: Any  # `[L]`, the mean of the residual, the margin less `slope . u`.
    variance: Any  # `[L]`, the residual's variance


class Modes(NamedTuple):
    """L modes as searches see them, which begin with three fields, or as refined."""

    owner: np.ndarray  # int, the number of each one's input, ascending if refined
    numbers: np.ndarray  # uint32, its search's number among those of its input
    classes: np.ndarray  # int32, the class whose margin is climbed
    line: Any = None  # the `Line` of the margin there
    # Of the tilt there from the uniform distribution, in nats.
    divergence: Any = None
    reached: Any = None  # bool, whether the margin comes near 0 there
    tilts: Any = None  # the `Tilt` towards each, once it is refined


def run_searches(
    work: Work,
    inputs: Pairs[np.ndarray],
    classes: np.ndarray,
    bar: Bar,
    budget: float = math.inf,
) -> Modes:
    batches, left = [], np.arange(len(classes))
    most = min(_MOST_SEARCHES, max(budget // SEARCH_COST, BATCH))
    for first in range(0, int(most) - BATCH + 1, BATCH):
        numbers = first + np.tile(np.arange(BATCH, dtype=np.uint32), len(left))
        owner = np.repeat(left, BATCH)
        sought = np.where(
            _in_the_ball(numbers),
            classes[owner, numbers // 2 % classes.shape[1]],
            ANY_CLASS,
        )
        begun = Modes(owner, numbers, sought.astype(np.int32))
        batches.append(searches_from(work, inputs, begun, _starts(work, inputs, begun)))
        bar.update(len(owner) * SEARCH_COST)
        searches = joined(batches)
        left = left[wants_more_searches(searches, len(classes))[left]]
        if not len(left):
            break
    return joined(batches)


#: Forward passes that a search costs.
SEARCH_COST = 1 + _GRADIENT_COST + _SEARCHING.cost


def searches_from(
    work: Work,
    inputs: Pairs[np.ndarray],
    begun: Modes,
    points: np.ndarray,
    *,
    classes_of_points: bool = False,
) -> Modes:
    lines, nearest = _in_blocks(
        work, inputs, begun, points, _SEARCHING.gradients, _line_at
    )
    classes = nearest if classes_of_points else begun.classes
    begun = begun._replace(classes=classes, line=lines)
    return _climbed(work, inputs, begun, _SEARCHING)


def no_nearer(searches: Modes, least: np.ndarray) -> Modes:
    # Alternating gradients make a mode seem near, and would displace others' modes.
    divergence = np.maximum(searches.divergence, least[searches.owner])
    return searches._replace(divergence=divergence)


def refinement_cost(searches: Modes, number: int) -> np.ndarray:
    """`[N]` forward passes that `refined` takes for each input, without stretches."""
    modes = _merged(searches, _SAME_MODE)
    return MODE_COST * np.bincount(modes.owner, minlength=number)


def refined(
    work: Work,
    inputs: Pairs[np.ndarray],
    searches: Modes,
    bar: Bar,
    least: np.ndarray,
    *,
    stretched: bool = True,
) -> tuple[Modes, np.ndarray]:
    """The modes with tilts towards them, and `[N]` the forward passes spent on each."""
    modes = _climbed(work, inputs, _merged(searches, _SAME_MODE), _REFINING)
    cost = MODE_COST * np.bincount(modes.owner, minlength=len(inputs.indices))
    modes = _merged(no_nearer(modes, least), _SAME_REFINED_MODE)
    most = _MOST_POINTS // _MOST_TILTS
    tilts, bend = _in_blocks(work, inputs, modes, modes.line, most, _towards)
    bent = np.flatnonzero(bend > _BENT)
    if stretched and len(bent):
        some = taken(modes, bent)
        better = _in_blocks(work, inputs, some, some.line, _CURVES, _stretched)
        tilts = put_at(with_idle_stretch(tilts, better), bent, better)
        cost += _GRADIENT_COST * _CURVES * np.bincount(some.owner, minlength=len(cost))
    bar.update(int(cost.sum()))
    return modes._replace(tilts=tilts), cost


def has_another_mode(searches: Modes, new: Modes) -> bool:
    labels = _labels(joined([searches, new]), _SAME_MODE)
    old, late = labels[: len(searches.owner)], labels[len(searches.owner) :]
    return bool(np.setdiff1d(late[late >= 0], old).size)


def _in_the_ball(numbers: np.ndarray) -> np.ndarray:
    return numbers % BATCH < BATCH // 2


def wants_more_searches(searches: Modes, number: int) -> np.ndarray:
    """`[N]` whether an input may have modes that no search has found."""
    more = np.zeros(number, bool)
    for one in range(number):
        labels = _labels(taken(searches, searches.owner == one), _SAME_MODE)
        sizes = np.bincount(labels[labels >= 0])
        few = len(labels) < _SEARCHES_PER_MODE * len(sizes)
        more[one] = few or (sizes == 1).any()
    return more


def _merged(searches: Modes, same: float) -> Modes:
    parts = []
    for number in np.unique(searches.owner):
        mine = taken(searches, searches.owner == number)
        labels = _labels(mine, same)
        for label in range(labels.max() + 1):
            members = taken(mine, labels == label)
            line = jax.tree.map(lambda a: a.mean(axis=0, keepdims=True), members.line)
            usual = np.bincount(members.classes).argmax()
            one = first_of(members, 1)
            parts.append(one._replace(line=line, classes=np.array([usual], np.int32)))
    return joined(parts)


def _labels(searches: Modes, same: float) -> np.ndarray:
    """`[L]` the mode that each search of an input found; -1 for a negligible one."""
    slopes = searches.line.slope.reshape(len(searches.owner), -1).astype(np.float64)
    norms = np.linalg.norm(slopes, axis=1)
    slopes = slopes / np.where(norms > 0, norms, 1)[:, None]
    cosines = slopes @ slopes.T
    # Searches with many neighbours lead, so that none between two modes does.
    neighbours = (cosines >= max(same, _CLOSE)).sum(axis=1)
    order = np.lexsort((searches.divergence, -neighbours, ~searches.reached))
    labels, leaders = np.full(len(order), -1), []
    for search in order:
        nearest = cosines[search, leaders]
        if len(leaders) and nearest.max() >= same:
            labels[search] = nearest.argmax()
        else:
            labels[search] = len(leaders)
            leaders.append(search)
    return _that_matter(searches, labels)


def _that_matter(searches: Modes, labels: np.ndarray) -> np.ndarray:
    """The labels, numbered from the nearest mode; -1 for those too far."""
    number = labels.max() + 1
    members = [labels == label for label in range(number)]
    distance = np.array([np.median(searches.divergence[some]) for some in members])
    # Modes that were not reached come last.
    reached = np.array([searches.reached[some].any() for some in members])
    distance += np.where(reached, 0, 1e3)
    order = np.argsort(distance, kind="stable")
    # A single search may seem near by mistake. It must not exclude the others.
    sizes = np.array([some.sum() for some in members])
    sure = distance[sizes > 1] if (sizes > 1).any() else distance
    order = order[distance[order] <= sure.min() + _LARGEST_GAP][:MOST_MODES]
    renamed = np.full(number, -1)
    renamed[order] = np.arange(len(order))
    return renamed[labels]


def _starts(work: Work, inputs: Pairs[np.ndarray], begun: Modes) -> np.ndarray:
    """`[L, H, W, C]` where searches start, in units of epsilon."""
    far = _FAR[begun.numbers // 2 % len(_FAR)]
    radius = np.where(_in_the_ball(begun.numbers), 1.0, far).astype(np.float32)
    # For any class. In calls of one size: it is cheap, but compiling it is not.
    begun = begun._replace(classes=np.full_like(begun.classes, ANY_CLASS))
    return _in_blocks(work, inputs, begun, radius, _MOST_POINTS // BATCH, _start)


def _climbed(
    work: Work, inputs: Pairs[np.ndarray], begun: Modes, climb: _Climb
) -> Modes:
    step = functools.partial(_climb, climb=climb)
    line, classes, divergence, reached = _in_blocks(
        work, inputs, begun, begun.line, climb.gradients, step
    )
    return begun._replace(
        line=line, classes=classes, divergence=divergence, reached=reached
    )


def _in_blocks(
    work: Work,
    inputs: Pairs[np.ndarray],
    modes: Modes,
    given: Any,
    points: int,
    step: Any,
) -> Any:
    """Runs a step on modes, in blocks; returns arrays `[L, ...]` on the host."""
    rows = rows_on_a_device(work, inputs.images.shape[1:])
    most = max(1, min(rows, _MOST_POINTS) // points)
    size = block_size(len(modes.owner), work.mesh, most, base=16)

    def take(rows: np.ndarray) -> tuple[Pairs[np.ndarray], np.ndarray, Any]:
        pairs = taken(inputs, modes.owner[rows])._replace(classes=modes.classes[rows])
        return pairs, modes.numbers[rows], taken(given, rows)

    step, parts = functools.partial(step, work), []
    every = np.arange(len(modes.owner))
    for rows, (found, valid) in in_blocks(step, take, every, size, work.mesh):
        check_valid(valid, inputs.indices[modes.owner[rows]])
        parts.append(found)
    return joined(parts)


@by_row(True, True, True)
def _start(
    work: Work, pairs: Pairs[jax.Array], numbers: jax.Array, radii: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Plain draws times a radius; searches of odd numbers mirror the one before."""
    ball = TILTED_BALLS[work.perturbation.norm]
    keys = pair_keys(work.key, pairs, STARTS)

    def one(
        key: jax.Array, image: jax.Array, number: jax.Array, radius: jax.Array
    ) -> jax.Array:
        u = ball.draw(jax.random.fold_in(key, number // 2), ball.none(image))
        return jnp.where(number % 2, -radius, radius) * u

    images = as_floats(pairs.images)
    valid = jnp.ones(len(images), bool)
    return jax.vmap(one)(keys, images, numbers, radii), valid


@by_row(True, True, True)
def _line_at(
    work: Work, pairs: Pairs[jax.Array], numbers: jax.Array, points: jax.Array
) -> tuple[tuple[Line, jax.Array], jax.Array]:
    keys = jax.vmap(jax.random.fold_in)(pair_keys(work.key, pairs, STARTS), numbers)
    u = points[:, None]
    margins, gradients = _with_gradients(work, pairs, u, keys[:, None])
    classes = nearest_class(work, pairs, perturbed_by(work, pairs, u), keys[:, None])
    # Far from the ball NaN is allowed: such a search starts far below 0.
    margins = jnp.where(jnp.isnan(margins), -LARGEST_MARGIN, margins)
    found = _line(u, margins, gradients), classes[:, 0]
    return found, jnp.ones(len(numbers), bool)


@by_row(True, True, True, static_argnames="climb")
def _climb(
    work: Work,
    pairs: Pairs[jax.Array],
    numbers: jax.Array,
    line: Line,
    *,
    climb: _Climb,
) -> tuple[tuple[Line, jax.Array, jax.Array, jax.Array], jax.Array]:
    ball = TILTED_BALLS[work.perturbation.norm]
    keys = jax.vmap(jax.random.fold_in)(pair_keys(work.key, pairs, climb.use), numbers)

    is_any = pairs.classes == ANY_CLASS

    def one_round(number: jax.Array, state: Any) -> Any:
        line, classes, _, valid = state
        tilts = jax.vmap(ball.towards)(*line)
        each = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)
        each = jax.vmap(lambda k: jax.random.split(k, climb.gradients))(each)
        u = jax.vmap(jax.vmap(ball.draw, (0, None)))(each, tilts)
        # The nearest class at first stays: several classes' mean leads to none.
        first = perturbed_by(work, pairs, u[:, :1])
        nearest = nearest_class(work, pairs, first, each[:, :1])[:, 0]
        classes = jnp.where(is_any & (number == 0), nearest, classes)
        mine = pairs._replace(classes=classes)
        margins, gradients = _with_gradients(work, mine, u, each)
        new = _line(u, margins, gradients)
        # The last one until `first_kept`, then a running mean.
        kept = jnp.maximum(number - climb.first_kept, 0)
        line = jax.tree.map(lambda a, b: (kept * a + b) / (kept + 1), line, new)
        reached = largest(margins, 1) + _REACH * margins.std(axis=1) >= 0
        return line, classes, reached, valid & ~jnp.isnan(margins).any(axis=1)

    yes = jnp.ones(len(numbers), bool)
    line, classes, reached, valid = jax.lax.fori_loop(
        0, climb.rounds, one_round, (line, pairs.classes, yes, yes)
    )
    tilts = jax.vmap(ball.towards)(*line)
    divergence = jax.vmap(ball.moments)(tilts, line.slope).divergence
    return (line, classes, divergence, reached), valid


@by_row(True, True, True)
def _towards(
    work: Work, pairs: Pairs[jax.Array], numbers: jax.Array, line: Line
) -> tuple[tuple[Tilt, jax.Array], jax.Array]:
    ball = TILTED_BALLS[work.perturbation.norm]
    tilts = jax.vmap(ball.towards)(*line)
    if jax.vmap(ball.moments)(tilts, line.slope).deviation is None:
        bend = jnp.zeros(len(numbers), jnp.float32)
    else:
        bend = jax.vmap(ball.theta)(tilts, line.slope) ** 2 * line.variance
    return (tilts, bend), jnp.ones(len(numbers), bool)


@by_row(True, True, True)
def _stretched(
    work: Work, pairs: Pairs[jax.Array], numbers: jax.Array, line: Line
) -> tuple[Tilt, jax.Array]:
    ball = TILTED_BALLS[work.perturbation.norm]
    keys = pair_keys(work.key, pairs, REFINEMENT)
    keys = jax.vmap(jax.random.fold_in)(keys, numbers + _MOST_SEARCHES)
    each = jax.vmap(lambda k: jax.random.split(k, _CURVES))(keys)
    u = jax.vmap(jax.vmap(ball.draw, (0, None)))(each, jax.vmap(ball.towards)(*line))
    margins, gradients = _with_gradients(work, pairs, u, each)
    line = _line(u, margins, gradients)
    tilts = jax.vmap(ball.towards)(*line)
    stretch = jax.vmap(functools.partial(_stretch, ball))(
        tilts, line.slope, u, gradients
    )
    return tilts._replace(stretch=stretch), ~jnp.isnan(margins).any(axis=1)


def _stretch(
    ball: TiltedBall, tilt: Tilt, slope: jax.Array, u: jax.Array, gradients: jax.Array
) -> Stretch:
    # Points that count have the covariance (1 - theta H)^-1, H the margin's Hessian
    # (Breitung 1984), up to sign the gradients' principal components; draws tell it.
    scale, theta = ball.moments(tilt, slope).deviation, ball.theta(tilt, slope)
    assert scale is not None
    number = len(u)

    def centred(array: jax.Array) -> jax.Array:
        return (array - array.mean(axis=0)).reshape(number, -1)

    steep = (slope * scale).reshape(-1)
    steep = steep / jnp.maximum(jnp.linalg.norm(steep), 1e-30)
    g = centred(jnp.where(jnp.isfinite(gradients), gradients, 0) * scale)
    g = g - jnp.outer(_dot(g, steep), steep)
    z = centred(u / jnp.maximum(scale, 1e-30))
    squares, vectors = jnp.linalg.eigh(_dot(g, g.T))
    kept = min(_DIRECTIONS, number, g.shape[1])
    length = jnp.sqrt(jnp.maximum(squares[-kept:], 0))
    known = length > 1e-3 * length[-1]
    vectors = jnp.where(known, vectors[:, -kept:] / jnp.where(known, length, 1), 0)
    rows = _dot(vectors.T, g)
    hessian = theta / number * _dot(_dot(g, rows.T).T, _dot(z, rows.T))
    curvature, turned = jnp.linalg.eigh((hessian + hessian.T) / 2)
    least, largest = _CURVATURES
    curvature = jnp.where(curvature > least, jnp.minimum(curvature, largest), 0)
    directions = _dot(turned.T, rows).reshape(kept, *slope.shape)
    return Stretch(directions, 1 / (1 - curvature))


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a, b, precision="highest")


def _line(u: jax.Array, margins: jax.Array, gradients: jax.Array) -> Line:
    # Gradients may be NaN where the margin is not, as that of a square root at 0.
    gradients = jnp.where(jnp.isfinite(gradients), gradients, 0)
    slope = gradients.mean(axis=1)
    rest = margins - jax.vmap(lambda us, a: jax.vmap(lambda v: jnp.sum(v * a))(us))(
        u, slope
    )
    return Line(slope, rest.mean(axis=1), rest.var(axis=1))


def _with_gradients(
    work: Work, pairs: Pairs[jax.Array], u: jax.Array, keys: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The margins `[l, m]` at u `[l, m, H, W, C]`, and their gradients."""
    # Margins beyond a limit have no gradient, so that nothing overflows.

    def total(u: jax.Array) -> tuple[jax.Array, jax.Array]:
        margins = margins_at(work, pairs, u, keys)
        margins = jnp.clip(margins, -LARGEST_MARGIN, LARGEST_MARGIN)
        return margins.sum(), margins

    (_, margins), gradients = jax.value_and_grad(total, has_aux=True)(u)
    return margins, gradients


def margins_at(
    work: Work, pairs: Pairs[jax.Array], u: jax.Array, keys: jax.Array
) -> jax.Array:
    """`[l, m]` margins of l pairs at points u `[l, m, H, W, C]` of the unit ball."""
    return margins_of_pairs(work, pairs, perturbed_by(work, pairs, u), keys)


def perturbed_by(work: Work, pairs: Pairs[jax.Array], u: jax.Array) -> jax.Array:
    images = as_floats(pairs.images)
    return work.perturbation.clipped(images[:, None] + work.perturbation.size * u)
