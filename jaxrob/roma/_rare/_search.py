"""Searches for the parts of a ball where an input is distinctly misclassified (modes).

Many searches start at different points. Each linearises its margin, draws points from
the ball tilted towards where the linear margin is 0, and linearises again by the
gradients there. Searches that end in one direction have found one mode. More start
while some mode was found by a single search, because others may not have been found at
all (Good, 1953).

Half of the searches start in the ball, in pairs on opposite sides, for the classes that
plain draws put nearest. The others start at a multiple of its radius, for any class: a
steep mode, whose margin is far below that of a shallow one nearly everywhere in the
ball, has the greater margin there.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._devices.blocks import first_of, in_blocks, joined, put_at, taken
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._engine.execution import Bar
from jaxrob._pixels import as_floats
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
# A mode whose tilt diverges by this many nats more than the nearest one's is left out:
# it is about 10,000 times less probable.
_LARGEST_GAP = 9.2
# Directions with at least this cosine are one mode: of searches, and of refined modes,
# whose directions are known better.
_SAME_MODE = 0.7
_SAME_REFINED_MODE = 0.9
# Searches with at least this cosine are neighbours.
_CLOSE = 0.9
# Points whose gradients are taken in a call, at most.
_MOST_POINTS = 1024
_MOST_TILTS = 64
# A mode is reached if the greatest margin there is at most this many of the margins'
# standard deviations below 0.
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
# It is estimated where the nonlinear part of the margin would add more than this to the
# exponent of the tilt, in nats: the weights vary by about its exponential.
_BENT = 1.0
# Directions kept, and the least and largest curvatures along them, in units of the
# tilt's own: at 1 the tilt would be infinitely wide.
_DIRECTIONS = 16
_CURVATURES = (0.1, 0.75)


class Line(NamedTuple):
    """Linear margins `slope . u + intercept` of L searches; arrays `[L, ...]`."""

    slope: Any  # `[L, H, W, C]`, the mean gradient of the margin with respect to u
    intercept: Any  # `[L]`, the mean of the residual, the margin less `slope . u`.
    variance: Any  # `[L]`, the residual's variance


class Searches(NamedTuple):
    """Where L searches are; arrays `[L, ...]`."""

    owner: np.ndarray  # int `[L]`, the number of each search's input
    numbers: np.ndarray  # uint32 `[L]`, its number among the searches of its input
    classes: np.ndarray  # int32 `[L]`, the class whose margin it climbs
    line: Line  # the margin where it is
    # `[L]`, of the tilt there from the uniform distribution, in nats.
    divergence: np.ndarray
    reached: np.ndarray  # bool `[L]`, whether the margin comes near 0 there


class Modes(NamedTuple):
    """Modes around N inputs; arrays `[M, ...]`."""

    owner: np.ndarray  # int `[M]`, the number of each mode's input, ascending
    tilts: Tilt  # the tilts towards them
    cost: np.ndarray  # int64 `[N]`, forward passes spent on finding them


def run_searches(
    work: Work,
    inputs: Pairs[np.ndarray],
    classes: np.ndarray,
    bar: Bar,
    budget: float = math.inf,
) -> Searches:
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
        points = _starts(work, inputs, owner, numbers)
        batches.append(
            searches_from(work, inputs, owner, numbers, sought.astype(np.int32), points)
        )
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
    owner: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    points: np.ndarray,
    *,
    classes_of_points: bool = False,
) -> Searches:
    lines, nearest = _in_blocks(
        work, inputs, owner, classes, (numbers, points), _SEARCHING.gradients, _line_at
    )
    if classes_of_points:
        classes = nearest
    return _climbed(work, inputs, owner, numbers, classes, lines, _SEARCHING)


def no_nearer(searches: Searches, least: np.ndarray) -> Searches:
    # Where gradients alternate, a search's margins vary so much that its mode seems
    # near, and would displace modes that others have found.
    divergence = np.maximum(searches.divergence, least[searches.owner])
    return searches._replace(divergence=divergence)


def refinement_cost(searches: Searches, number: int) -> np.ndarray:
    """`[N]` forward passes that `refined` takes for each input, without stretches."""
    return MODE_COST * np.bincount(
        _merged(searches, _SAME_MODE).owner, minlength=number
    )


def refined(
    work: Work,
    inputs: Pairs[np.ndarray],
    searches: Searches,
    bar: Bar,
    least: np.ndarray,
    *,
    stretched: bool = True,
) -> Modes:
    modes = _merged(searches, _SAME_MODE)
    found = _climbed(
        work, inputs, modes.owner, modes.numbers, modes.classes, modes.line, _REFINING
    )
    cost = MODE_COST * np.bincount(found.owner, minlength=len(inputs.indices))
    found = _merged(no_nearer(found, least), _SAME_REFINED_MODE)
    tilts, bend = _towards(work, found.line)
    bent = np.flatnonzero(bend > _BENT)
    if stretched and len(bent):
        some = taken(found, bent)
        given = (some.numbers, some.line)
        better = _in_blocks(
            work, inputs, some.owner, some.classes, given, _CURVES, _stretched
        )
        tilts = put_at(with_idle_stretch(tilts, better), bent, better)
        more = _GRADIENT_COST * _CURVES
        cost += more * np.bincount(some.owner, minlength=len(cost))
    bar.update(int(cost.sum()))
    return Modes(found.owner, tilts, cost)


def has_another_mode(searches: Searches, new: Searches) -> bool:
    labels = _labels(joined([searches, new]), _SAME_MODE)
    old, late = labels[: len(searches.owner)], labels[len(searches.owner) :]
    return bool(np.setdiff1d(late[late >= 0], old).size)


def _towards(work: Work, line: Line) -> tuple[Tilt, np.ndarray]:
    """The tilts towards modes, and `[M]` the excess that `_BENT` limits."""
    step = functools.partial(_tilts, norm=work.perturbation.norm, mesh=work.mesh)
    every = np.arange(len(line.intercept))
    size = block_size(len(every), work.mesh, _MOST_TILTS, base=16)
    blocks = in_blocks(step, lambda rows: (taken(line, rows),), every, size, work.mesh)
    return joined([found for _, found in blocks])


def _in_the_ball(numbers: np.ndarray) -> np.ndarray:
    """Which searches start in the ball, for a class that is sought."""
    return numbers % BATCH < BATCH // 2


def wants_more_searches(searches: Searches, number: int) -> np.ndarray:
    """`[N]` whether an input may have modes that no search has found."""
    each = (taken(searches, searches.owner == one) for one in range(number))
    return np.array([_goes_on(one) for one in each])


def _goes_on(searches: Searches) -> bool:
    labels = _labels(searches, _SAME_MODE)
    sizes = np.bincount(labels[labels >= 0])
    return bool((sizes == 1).any()) or len(labels) < _SEARCHES_PER_MODE * len(sizes)


def _merged(searches: Searches, same: float) -> Searches:
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


def _labels(searches: Searches, same: float) -> np.ndarray:
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


def _that_matter(searches: Searches, labels: np.ndarray) -> np.ndarray:
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


def _starts(
    work: Work, inputs: Pairs[np.ndarray], owner: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """`[L, H, W, C]` where searches start, in units of epsilon."""
    classes = np.full(len(owner), ANY_CLASS, np.int32)
    far = _FAR[numbers // 2 % len(_FAR)]
    radius = np.where(_in_the_ball(numbers), 1.0, far).astype(np.float32)
    # In calls of one size: it is cheap, but compiling it is not.
    most = _MOST_POINTS // BATCH
    return _in_blocks(work, inputs, owner, classes, (numbers, radius), most, _start)


def _climbed(
    work: Work,
    inputs: Pairs[np.ndarray],
    owner: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    lines: Line,
    climb: _Climb,
) -> Searches:
    step = functools.partial(_climb, climb=climb)
    line, classes, divergence, reached = _in_blocks(
        work, inputs, owner, classes, (numbers, lines), climb.gradients, step
    )
    return Searches(owner, numbers, classes, line, divergence, reached)


def _in_blocks(
    work: Work,
    inputs: Pairs[np.ndarray],
    owner: np.ndarray,
    classes: np.ndarray,
    given: Any,
    points: int,
    step: Any,
) -> Any:
    """Runs a step on searches, in blocks; returns arrays `[L, ...]` on the host."""
    rows = rows_on_a_device(work, inputs.images.shape[1:])
    most = max(1, min(rows, _MOST_POINTS) // points)
    size = block_size(len(owner), work.mesh, most, base=16)

    def take(rows: np.ndarray) -> tuple[Pairs[np.ndarray], Any]:
        pairs = taken(inputs, owner[rows])._replace(classes=classes[rows])
        return pairs, taken(given, rows)

    step, parts = functools.partial(step, work), []
    every = np.arange(len(owner))
    for rows, (found, valid) in in_blocks(step, take, every, size, work.mesh):
        check_valid(valid, inputs.indices[owner[rows]])
        parts.append(found)
    return joined(parts)


@by_row(True, True)
def _start(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
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
    return jax.vmap(one)(keys, images, *given), valid


@by_row(True, True)
def _line_at(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
) -> tuple[tuple[Line, jax.Array], jax.Array]:
    numbers, points = given
    keys = jax.vmap(jax.random.fold_in)(pair_keys(work.key, pairs, STARTS), numbers)
    u = points[:, None]
    margins, gradients = _with_gradients(work, pairs, u, keys[:, None])
    classes = nearest_class(work, pairs, perturbed_by(work, pairs, u), keys[:, None])
    # Far from the ball NaN is allowed: such a search starts far below 0.
    margins = jnp.where(jnp.isnan(margins), -LARGEST_MARGIN, margins)
    found = _line(u, margins, gradients), classes[:, 0]
    return found, jnp.ones(len(numbers), bool)


@by_row(True, True, static_argnames="climb")
def _climb(
    work: Work,
    pairs: Pairs[jax.Array],
    given: tuple[jax.Array, Line],
    *,
    climb: _Climb,
) -> tuple[tuple[Line, jax.Array, jax.Array, jax.Array], jax.Array]:
    ball = TILTED_BALLS[work.perturbation.norm]
    numbers, line = given
    keys = jax.vmap(jax.random.fold_in)(pair_keys(work.key, pairs, climb.use), numbers)

    is_any = pairs.classes == ANY_CLASS

    def one_round(number: jax.Array, state: Any) -> Any:
        line, classes, _, valid = state
        tilts = jax.vmap(ball.towards)(*line)
        each = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)
        each = jax.vmap(lambda k: jax.random.split(k, climb.gradients))(each)
        u = jax.vmap(jax.vmap(ball.draw, (0, None)))(each, tilts)
        # `ANY_CLASS` becomes the nearest class at the first draw, and stays: the
        # mean gradient of several classes leads to none of them.
        first = perturbed_by(work, pairs, u[:, :1])
        nearest = nearest_class(work, pairs, first, each[:, :1])[:, 0]
        classes = jnp.where(is_any & (number == 0), nearest, classes)
        mine = pairs._replace(classes=classes)
        margins, gradients = _with_gradients(work, mine, u, each)
        new = _line(u, margins, gradients)
        # The last one until `first_kept`, then a running mean.
        kept = jnp.maximum(number - climb.first_kept, 0)
        line = jax.tree.map(lambda a, b: (kept * a + b) / (kept + 1), line, new)
        reached = margins.max(axis=1) + _REACH * margins.std(axis=1) >= 0
        return line, classes, reached, valid & ~jnp.isnan(margins).any(axis=1)

    yes = jnp.ones(len(numbers), bool)
    line, classes, reached, valid = jax.lax.fori_loop(
        0, climb.rounds, one_round, (line, pairs.classes, yes, yes)
    )
    tilts = jax.vmap(ball.towards)(*line)
    divergence = jax.vmap(ball.moments)(tilts, line.slope).divergence
    return (line, classes, divergence, reached), valid


@functools.partial(jax.jit, static_argnames=("norm", "mesh"))
def _tilts(line: Line, *, norm: str, mesh: ImageMesh) -> tuple[Tilt, jax.Array]:
    ball = TILTED_BALLS[norm]

    def local(line: Line) -> tuple[Tilt, jax.Array]:
        tilts = jax.vmap(ball.towards)(*line)
        if jax.vmap(ball.moments)(tilts, line.slope).deviation is None:
            return tilts, jnp.zeros(len(line.intercept), jnp.float32)
        return tilts, jax.vmap(ball.theta)(tilts, line.slope) ** 2 * line.variance

    return on_each_device(local, mesh, (True,))(line)


@by_row(True, True)
def _stretched(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, Line]
) -> tuple[Any, jax.Array]:
    ball = TILTED_BALLS[work.perturbation.norm]
    numbers, line = given
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
    # If the margin is quadratic in the tilt's normal coordinates, with the Hessian H,
    # the points that count have the covariance (1 - theta H)^-1 (second-order
    # reliability, Breitung 1984). The principal components of the gradients are those
    # of H up to sign, which the draws' coordinates determine.
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
    """The linear margins of l searches, from m points of each."""
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
    """The images `[l, m, H, W, C]` at such points."""
    images = as_floats(pairs.images)
    return work.perturbation.clipped(images[:, None] + work.perturbation.size * u)
