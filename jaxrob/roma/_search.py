"""The search for the parts of a ball where an input is distinctly misclassified.

Lanes start at many points, each with its own direction, and climb: a lane takes its
margin as linear, draws points from the ball tilted towards where that would be 0, and
has the next linear margin from the gradients there. Lanes that end in one direction
have found one mode. More of them start as long as a mode was found by a single lane
only, because then there may be others that none has found (Good, 1953).

Half of the lanes start in the ball, for the classes that plain draws put nearest, in
pairs on opposite sides. The others start at a multiple of its radius, for any class: a
steep mode, whose margin is far below that of a shallow one nearly everywhere in the
ball, is the greater one there.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._devices.blocks import in_blocks
from jaxrob._devices.mesh import on_each_device
from jaxrob._devices.rows import first_of, joined, put_at, taken
from jaxrob._pixels import as_floats
from jaxrob.roma._blocks import block_size, check_valid
from jaxrob.roma._estimate import MOST_MODES
from jaxrob.roma._margins import LARGEST_MARGIN, margins_of_pairs, nearest_class
from jaxrob.roma._pairs import ANY_CLASS, REFINEMENT, SEARCH, STARTS, Pairs, pair_keys
from jaxrob.roma._tilt import (
    TILTED_BALLS,
    Stretch,
    Tilt,
    TiltedBall,
    with_idle_stretch,
)
from jaxrob.roma._work import Work, rows_on_a_device

# What a gradient costs, in forward passes.
_GRADIENT_COST = 3
#: Lanes that start at a time, and at most. Half of them start in the ball.
LANES = 16
_MOST_LANES = 64
_LANES_OF_A_MODE = 6
# Where the pairs of the other half start, in radii of the ball.
_FAR = np.array([3.0, 6.0, 12.0, 24.0])
# A mode whose tilt diverges by so many nats more than the nearest one's is left out: it
# is less probable by about that, a log of 10,000.
_LARGEST_GAP = 9.2
# Directions with at least this cosine are one mode: lanes', and those of modes once
# they are refined, when directions are better known.
_SAME_LANE = 0.7
_SAME_MODE = 0.9
# Lanes this close count as neighbours.
_CLOSE = 0.9
# Points whose gradients are taken in a call, at most.
_MOST_POINTS = 1024
_MOST_TILTS = 64
# A mode is reached if the margin there is not further below 0 than so many of its
# standard deviations.
_REACH = 4.0


class _Climb(NamedTuple):
    """How lanes climb."""

    rounds: int
    gradients: int  # in each round
    first_kept: int  # the round from which on linear margins are averaged
    use: int  # of random keys

    @property
    def cost(self) -> int:
        """Forward passes of a lane; one a round is for the class that is nearest."""
        return self.rounds * (1 + _GRADIENT_COST * self.gradients)


_SEARCHING = _Climb(rounds=3, gradients=4, first_kept=1, use=SEARCH)
_REFINING = _Climb(rounds=2, gradients=64, first_kept=0, use=REFINEMENT)
#: Forward passes for a mode, from lanes on.
MODE_COST = _REFINING.cost
# Gradients that tell how a mode's margin curves, directions kept, and the least and
# largest curvatures along these, in units of the tilt's own: at 1 the tilt would be
# infinitely wide.
_CURVES = 256
# It is asked of modes where the part of the margin that is not linear would add more
# than so much to the exponent of the tilt, in nats: the draws' weights vary by about
# its exponential.
_BENT = 1.0
_DIRECTIONS = 16
_CURVATURES = (0.1, 0.75)


class Line(NamedTuple):
    """Linear margins `slope . u + intercept` of L lanes; arrays `[L, ...]`.

    Attributes:
      slope: `[L, H, W, C]`, the mean gradient of the margin with respect to u.
      intercept: `[L]`, the mean of what the slope leaves of the margin.
      variance: `[L]`, the variance of that.
    """

    slope: Any
    intercept: Any
    variance: Any


class Lanes(NamedTuple):
    """Where L lanes are; arrays `[L, ...]`.

    Attributes:
      owner: int `[L]`, the number of the input that each belongs to.
      numbers: uint32 `[L]`, its number among those of its input.
      classes: int32 `[L]`, whose margin it climbs.
      line: the margin where it is.
      divergence: `[L]`, of the tilt there from the uniform distribution, in nats.
      reached: bool `[L]`, whether the margin comes near 0 there.
    """

    owner: np.ndarray
    numbers: np.ndarray
    classes: np.ndarray
    line: Line
    divergence: np.ndarray
    reached: np.ndarray


class Modes(NamedTuple):
    """Modes around N inputs; arrays `[M, ...]`.

    Attributes:
      owner: int `[M]`, the number of each mode's input, ascending.
      tilts: the tilts towards them.
      cost: int64 `[N]`, forward passes spent on finding them.
    """

    owner: np.ndarray
    tilts: Tilt
    cost: np.ndarray


def find_lanes(
    work: Work,
    inputs: Pairs[np.ndarray],
    classes: np.ndarray,
    bar: tqdm,
    budget: float = math.inf,
) -> Lanes:
    """Lanes that have climbed from points in and far around the balls of N inputs.

    Args:
      work: the classifier and so on, placed; the perturbation is a ball.
      inputs: one pair for each input, with `ANY_CLASS`.
      classes: int32 `[N, T]`, the classes sought after, the nearest one first; repeated
        where there are fewer than T.
      bar: where progress is shown.
      budget: forward passes for each input; they are at least those of the first lanes.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    batches, left = [], np.arange(len(classes))
    most = min(_MOST_LANES, max(budget // LANE_COST, LANES))
    for first in range(0, int(most) - LANES + 1, LANES):
        numbers = first + np.tile(np.arange(LANES, dtype=np.uint32), len(left))
        owner = np.repeat(left, LANES)
        sought = np.where(
            _in_the_ball(numbers),
            classes[owner, numbers // 2 % classes.shape[1]],
            ANY_CLASS,
        )
        points = _starts(work, inputs, owner, numbers)
        batches.append(
            lanes_from(work, inputs, owner, numbers, sought.astype(np.int32), points)
        )
        bar.update(len(owner) * LANE_COST)
        lanes = joined(batches)
        left = left[wants_more_lanes(lanes, len(classes))[left]]
        if not len(left):
            break
    return joined(batches)


#: Forward passes that a lane costs.
LANE_COST = 1 + _GRADIENT_COST + _SEARCHING.cost


def lanes_from(
    work: Work,
    inputs: Pairs[np.ndarray],
    owner: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    points: np.ndarray,
    *,
    classes_of_points: bool = False,
) -> Lanes:
    """L lanes that have climbed from the points `[L, H, W, C]` given.

    Args:
      work: as for `find_modes`.
      inputs: as for `find_modes`.
      owner: int `[L]`, the number of the input of each lane.
      numbers: uint32 `[L]`, the lanes' numbers, which their random keys depend on.
      classes: int32 `[L]`, whose margins are climbed.
      points: where they start, in units of epsilon.
      classes_of_points: whether each lane climbs the margin of the class that is the
        nearest one where it starts, whatever `classes` are.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    lines, nearest = _in_blocks(
        work, inputs, owner, classes, (numbers, points), _SEARCHING.gradients, _line_at
    )
    if classes_of_points:
        classes = nearest
    return _climbed(work, inputs, owner, numbers, classes, lines, _SEARCHING)


def no_nearer(lanes: Lanes, least: np.ndarray) -> Lanes:
    """The lanes, none of which seems nearer than it can be.

    Where gradients lead to and fro, a lane's margins vary so much that it seems to be
    near, and would put off modes that others have found.

    Args:
      lanes: lanes of N inputs.
      least: `[N]`, the divergence of a mode as probable as all together may be.
    """
    divergence = np.maximum(lanes.divergence, least[lanes.owner])
    return lanes._replace(divergence=divergence)


def refinement_cost(lanes: Lanes, number: int) -> np.ndarray:
    """`[N]` forward passes that `refined` takes for each input, but for stretches."""
    return MODE_COST * np.bincount(_merged(lanes, _SAME_LANE).owner, minlength=number)


def refined(
    work: Work,
    inputs: Pairs[np.ndarray],
    lanes: Lanes,
    bar: tqdm,
    least: np.ndarray,
    *,
    stretched: bool = True,
) -> Modes:
    """The modes that lanes have found, from more gradients each.

    Args:
      work: as for `find_modes`.
      inputs: N of them, as for `find_modes`.
      lanes: lanes of these.
      bar: where progress is shown.
      least: as of `no_nearer`.
      stretched: whether tilts are stretched where margins curve. It takes 768 forward
        passes a mode, and draws from small networks that take twenty times as long.

    Raises:
      ValueError: if the classifier returned NaN.
    """
    modes = _merged(lanes, _SAME_LANE)
    found = _climbed(
        work, inputs, modes.owner, modes.numbers, modes.classes, modes.line, _REFINING
    )
    cost = MODE_COST * np.bincount(found.owner, minlength=len(inputs.indices))
    found = _merged(no_nearer(found, least), _SAME_MODE)
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


def has_another_mode(lanes: Lanes, new: Lanes) -> bool:
    """Whether new lanes of an input are in a mode that none of the others is in."""
    labels = _labels(joined([lanes, new]), _SAME_LANE)
    old, late = labels[: len(lanes.owner)], labels[len(lanes.owner) :]
    return bool(np.setdiff1d(late[late >= 0], old).size)


def _towards(work: Work, line: Line) -> tuple[Tilt, np.ndarray]:
    """The tilts towards modes, and `[M]` what `_BENT` is a limit of."""
    step = functools.partial(_tilts, norm=work.perturbation.norm, mesh=work.mesh)
    every = np.arange(len(line.intercept))
    size = block_size(len(every), work.mesh, _MOST_TILTS, base=16)
    blocks = in_blocks(step, lambda rows: (taken(line, rows),), every, size, work.mesh)
    return joined([found for _, found in blocks])


def _in_the_ball(numbers: np.ndarray) -> np.ndarray:
    """Which lanes, by their numbers, start in the ball, for a class that is sought."""
    return numbers % LANES < LANES // 2


def wants_more_lanes(lanes: Lanes, number: int) -> np.ndarray:
    """`[N]` whether more lanes of an input should start, or it may have more modes."""
    each = (taken(lanes, lanes.owner == one) for one in range(number))
    return np.array([_goes_on(one) for one in each])


def _goes_on(lanes: Lanes) -> bool:
    labels = _labels(lanes, _SAME_LANE)
    sizes = np.bincount(labels[labels >= 0])
    return bool((sizes == 1).any()) or len(labels) < _LANES_OF_A_MODE * len(sizes)


def _merged(lanes: Lanes, same: float) -> Lanes:
    """One lane for each mode, with the mean of its lanes' linear margins."""
    parts = []
    for number in np.unique(lanes.owner):
        mine = taken(lanes, lanes.owner == number)
        labels = _labels(mine, same)
        for label in range(labels.max() + 1):
            members = taken(mine, labels == label)
            line = jax.tree.map(lambda a: a.mean(axis=0, keepdims=True), members.line)
            usual = np.bincount(members.classes).argmax()
            one = first_of(members, 1)
            parts.append(one._replace(line=line, classes=np.array([usual], np.int32)))
    return joined(parts)


def _labels(lanes: Lanes, same: float) -> np.ndarray:
    """`[L]` the mode that each lane of an input is in; -1 for none that matters."""
    slopes = lanes.line.slope.reshape(len(lanes.owner), -1).astype(np.float64)
    norms = np.linalg.norm(slopes, axis=1)
    slopes = slopes / np.where(norms > 0, norms, 1)[:, None]
    cosines = slopes @ slopes.T
    # Lanes with many others close to them lead: one between two modes does not.
    neighbours = (cosines >= max(same, _CLOSE)).sum(axis=1)
    order = np.lexsort((lanes.divergence, -neighbours, ~lanes.reached))
    labels, leaders = np.full(len(order), -1), []
    for lane in order:
        nearest = cosines[lane, leaders]
        if len(leaders) and nearest.max() >= same:
            labels[lane] = nearest.argmax()
        else:
            labels[lane] = len(leaders)
            leaders.append(lane)
    return _that_matter(lanes, labels)


def _that_matter(lanes: Lanes, labels: np.ndarray) -> np.ndarray:
    """The labels, numbered by how near the modes are; -1 for those that are too far."""
    number = labels.max() + 1
    members = [labels == label for label in range(number)]
    distance = np.array([np.median(lanes.divergence[some]) for some in members])
    # Those that are far below 0 come last.
    reached = np.array([lanes.reached[some].any() for some in members])
    distance += np.where(reached, 0, 1e3)
    order = np.argsort(distance, kind="stable")
    # A single lane may be lost where it seems near. It must not put off the others.
    sizes = np.array([some.sum() for some in members])
    sure = distance[sizes > 1] if (sizes > 1).any() else distance
    order = order[distance[order] <= sure.min() + _LARGEST_GAP][:MOST_MODES]
    renamed = np.full(number, -1)
    renamed[order] = np.arange(len(order))
    return renamed[labels]


def _starts(
    work: Work, inputs: Pairs[np.ndarray], owner: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """`[L, H, W, C]` where lanes start, in units of epsilon."""
    classes = np.full(len(owner), ANY_CLASS, np.int32)
    far = _FAR[numbers // 2 % len(_FAR)]
    radius = np.where(_in_the_ball(numbers), 1.0, far).astype(np.float32)
    # In calls of one size: it is cheap, but not to compile.
    most = _MOST_POINTS // LANES
    return _in_blocks(work, inputs, owner, classes, (numbers, radius), most, _start)


def _climbed(
    work: Work,
    inputs: Pairs[np.ndarray],
    owner: np.ndarray,
    numbers: np.ndarray,
    classes: np.ndarray,
    lines: Line,
    climb: _Climb,
) -> Lanes:
    step = functools.partial(_climb, climb=climb)
    line, classes, divergence, reached = _in_blocks(
        work, inputs, owner, classes, (numbers, lines), climb.gradients, step
    )
    return Lanes(owner, numbers, classes, line, divergence, reached)


def _in_blocks(
    work: Work,
    inputs: Pairs[np.ndarray],
    owner: np.ndarray,
    classes: np.ndarray,
    given: Any,
    points: int,
    step: Any,
) -> Any:
    """What a step returns for lanes, block by block: arrays `[L, ...]` on the host.

    Raises:
      ValueError: if the classifier returned NaN.
    """
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


@jax.jit
def _start(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Plain draws times a radius, those of lanes of odd numbers on the other side."""
    ball = TILTED_BALLS[work.perturbation.norm]

    def local(
        work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        keys = pair_keys(work.key, pairs, STARTS)

        def one(
            key: jax.Array, image: jax.Array, number: jax.Array, radius: jax.Array
        ) -> jax.Array:
            u = ball.draw(jax.random.fold_in(key, number // 2), ball.none(image))
            return jnp.where(number % 2, -radius, radius) * u

        images = as_floats(pairs.images)
        valid = jnp.ones(len(images), bool)
        return jax.vmap(one)(keys, images, *given), valid

    return on_each_device(local, work.mesh, (False, True, True))(work, pairs, given)


@jax.jit
def _line_at(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
) -> tuple[tuple[Line, jax.Array], jax.Array]:
    """The margin's tangent at one point of each lane, and the nearest class there."""

    def local(
        work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[Line, jax.Array], jax.Array]:
        numbers, points = given
        keys = jax.vmap(jax.random.fold_in)(pair_keys(work.key, pairs, STARTS), numbers)
        u = points[:, None]
        margins, gradients = _with_gradients(work, pairs, u, keys[:, None])
        classes = nearest_class(
            work, pairs, perturbed_by(work, pairs, u), keys[:, None]
        )
        # Far from the ball nothing is promised: a lane that starts where there is no
        # number climbs from nowhere.
        margins = jnp.where(jnp.isnan(margins), -LARGEST_MARGIN, margins)
        found = _line(u, margins, gradients), classes[:, 0]
        return found, jnp.ones(len(numbers), bool)

    return on_each_device(local, work.mesh, (False, True, True))(work, pairs, given)


@functools.partial(jax.jit, static_argnames="climb")
def _climb(
    work: Work,
    pairs: Pairs[jax.Array],
    given: tuple[jax.Array, Line],
    *,
    climb: _Climb,
) -> tuple[tuple[Line, jax.Array, jax.Array, jax.Array], jax.Array]:
    """Where lanes with these numbers and linear margins come.

    Returns:
      The linear margins, whose they are, the divergence of the tilts to which they
      lead, whether the margin came near 0; and whether all margins were numbers.
    """
    ball = TILTED_BALLS[work.perturbation.norm]

    def local(
        work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, Line]
    ) -> Any:
        numbers, line = given
        keys = jax.vmap(jax.random.fold_in)(
            pair_keys(work.key, pairs, climb.use), numbers
        )

        is_any = pairs.classes == ANY_CLASS

        def one_round(number: jax.Array, state: Any) -> Any:
            line, classes, _, valid = state
            tilts = jax.vmap(ball.towards)(*line)
            each = jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)
            each = jax.vmap(lambda k: jax.random.split(k, climb.gradients))(each)
            u = jax.vmap(jax.vmap(ball.draw, (0, None)))(each, tilts)
            # For any class it is the nearest one at the first draw, and then stays so:
            # the gradients of several classes have no mean that leads to one of them.
            first = perturbed_by(work, pairs, u[:, :1])
            nearest = nearest_class(work, pairs, first, each[:, :1])[:, 0]
            classes = jnp.where(is_any & (number == 0), nearest, classes)
            mine = pairs._replace(classes=classes)
            margins, gradients = _with_gradients(work, mine, u, each)
            new = _line(u, margins, gradients)
            # A running mean from the first round that counts; until then the last.
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

    split = (False, True, True)
    return on_each_device(local, work.mesh, split)(work, pairs, given)


@functools.partial(jax.jit, static_argnames=("norm", "mesh"))
def _tilts(line: Line, *, norm: str, mesh: Mesh) -> tuple[Tilt, jax.Array]:
    ball = TILTED_BALLS[norm]

    def local(line: Line) -> tuple[Tilt, jax.Array]:
        tilts = jax.vmap(ball.towards)(*line)
        if jax.vmap(ball.moments)(tilts, line.slope).deviation is None:
            return tilts, jnp.zeros(len(line.intercept))
        return tilts, jax.vmap(ball.theta)(tilts, line.slope) ** 2 * line.variance

    return on_each_device(local, mesh, (True,))(line)


@jax.jit
def _stretched(
    work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, Line]
) -> tuple[Any, jax.Array]:
    """The tilts towards lanes' modes, stretched to where their margins curve."""
    ball = TILTED_BALLS[work.perturbation.norm]

    def local(
        work: Work, pairs: Pairs[jax.Array], given: tuple[jax.Array, Line]
    ) -> tuple[Any, jax.Array]:
        numbers, line = given
        keys = pair_keys(work.key, pairs, REFINEMENT)
        keys = jax.vmap(jax.random.fold_in)(keys, numbers + _MOST_LANES)
        each = jax.vmap(lambda k: jax.random.split(k, _CURVES))(keys)
        u = jax.vmap(jax.vmap(ball.draw, (0, None)))(
            each, jax.vmap(ball.towards)(*line)
        )
        margins, gradients = _with_gradients(work, pairs, u, each)
        line = _line(u, margins, gradients)
        tilts = jax.vmap(ball.towards)(*line)
        stretch = jax.vmap(functools.partial(_stretch, ball))(
            tilts, line.slope, u, gradients
        )
        return tilts._replace(stretch=stretch), ~jnp.isnan(margins).any(axis=1)

    return on_each_device(local, work.mesh, (False, True, True))(work, pairs, given)


def _stretch(
    ball: TiltedBall, tilt: Tilt, slope: jax.Array, u: jax.Array, gradients: jax.Array
) -> Stretch:
    """Where a margin curves away from the tilt towards it.

    With a margin that is quadratic in the tilt's normal coordinates, of Hessian H, the
    points that count have the covariance (1 - theta H)^-1 (second-order reliability,
    Breitung 1984). The gradients' principal components are those of H, of either sign,
    which the draws' own coordinates tell.
    """
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
    """The linear margins of l lanes, by m points of each."""
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
    """The margins `[l, m]` at u `[l, m, H, W, C]`, and their gradients.

    Beyond a limit there is no gradient, because what is made of it would overflow.
    """

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
