"""Uniform distributions in a ball, tilted towards a half-space.

A point u of the unit ball is drawn with a density that favours one direction. The
likelihood ratio of the uniform density to it makes up for that.

* In the L-infinity ball the density is proportional to exp(b . u): a product of
  truncated exponentials.
* In the L2 ball the component along a direction e is drawn from a Beta distribution and
  the rest, uniformly, from the ball of one dimension less that it leaves.
* In the L1 ball the density is proportional to (1 - b . u)^-(d + 1). That is how
  Laplace variables with densities proportional to exp(-|x| + b x) are distributed once
  they are divided by the sum of their sizes and of one more exponential variable.

Where the margin curves, the points that count spread further than the tilt's along some
directions. The first two tilts may be stretched along these: in the L-infinity ball the
components become correlated (a Gaussian copula), and in the L2 ball the rest's
direction is that of a normal vector with this covariance (the angular central Gaussian
distribution, Tyler 1987).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from scipy import special

# Tilts are not stronger than this divergence from the uniform distribution, in nats: a
# probability of about e^-80 is the smallest that can be estimated.
_LARGEST_DIVERGENCE = 80.0
_BISECTIONS = 30
# Probabilities that have a quantile in float32.
_SMALLEST = 1e-30


class Stretch(NamedTuple):
    """Directions along which a tilt is wider, in its own normal coordinates.

    Attributes:
      directions: `[k, H, W, C]`, orthonormal, or 0 for none.
      widths: `[k]`, variances along them, at least 1.
    """

    directions: Any
    widths: Any


class Tilt(NamedTuple):
    """What importance sampling needs of a ball; u has the image's shape.

    Attributes:
      none: `none(image)`, the parameters of no tilt.
      towards: `towards(slope, intercept, variance)`, the parameters for a margin of
        `slope . u + intercept` and a rest of that variance. A density tilted by
        exp(theta margin) would move the mean of both parts, that of the rest by theta
        times its variance. The theta taken is the one with which the mean of the whole
        is 0 (or as near as tilts go). The tilt is the part along the slope alone; it
        does not make up for what the rest would contribute.
      divergence: `divergence(parameters)`, about the Kullback-Leibler divergence of the
        tilt from no tilt, in nats: minus the logarithm of the probability that a linear
        margin, tilted to 0, exceeds it.
      draw: `draw(key, parameters)`, u.
      log_ratio: `log_ratio(u, parameters)`, the log-density of no tilt less that of
        the tilt, up to a constant.
      log_constant: `log_constant(parameters)`, that constant, by NumPy in float64, for
        parameters with a leading axis.
      stretched: `stretched(parameters, stretch)`, the parameters of the tilt stretched
        along directions; None if this tilt cannot be.
      scale: `scale(parameters, slope)`, the deviation of each component of u, and the
        theta above.
    """

    none: Callable
    towards: Callable
    divergence: Callable
    draw: Callable
    log_ratio: Callable
    log_constant: Callable
    stretched: Callable | None = None
    scale: Callable | None = None


def of_component(tilts: Any, which: jax.Array) -> Any:
    """The tilt of one of C components, to draw from it.

    Directions are not copied, which draws by the thousand would be slow with: it has
    those of all components, with a width of 1 along the others'.

    Args:
      tilts: a pytree of arrays `[C, ...]`.
      which: the component.
    """
    own = jax.tree.map(lambda a: a[which], tilts)
    if not hasattr(tilts, "stretch"):
        return own
    directions, widths = tilts.stretch
    is_own = (jnp.arange(len(widths)) == which)[:, None]
    stretch = Stretch(
        directions.reshape(-1, *directions.shape[2:]),
        jnp.where(is_own, widths, 1.0).reshape(-1),
    )
    return own._replace(stretch=stretch)


def with_room(tilts: Any, like: Any) -> Any:
    """Tilts `[M, ...]` on the host, with as many idle directions as others have."""
    number = len(jax.tree.leaves(tilts)[0])
    shapes = ((number, *a.shape[1:]) for a in like.stretch)
    idle = Stretch(*(np.full(s, v, np.float32) for s, v in zip(shapes, (0, 1))))
    return tilts._replace(stretch=idle)


def plain(norm: str | None, image: np.ndarray, like: Any) -> Any:
    """No tilt, as NumPy arrays, with a stretch of as many directions as others have.

    Args:
      norm: the ball's.
      image: an image.
      like: tilts `[M, ...]`.
    """
    none = jax.tree.map(lambda a: np.asarray(a)[None], TILTS[norm].none(image))
    if hasattr(like, "stretch"):
        none = with_room(none, like)
    return jax.tree.map(lambda a: a[0], none)


def _no_stretch(image: jax.Array) -> Stretch:
    return Stretch(jnp.zeros((0, *image.shape)), jnp.zeros(0))


def _stretched(parameters: Any, stretch: Stretch) -> Any:
    return parameters._replace(stretch=stretch)


def _along(stretch: Stretch, normals: jax.Array) -> jax.Array:
    """Standard normals `[...]`, wider along directions."""
    widening = jnp.sqrt(stretch.widths) - 1
    added = (widening * _parts(stretch, normals)) @ _rows(stretch)
    return normals + added.reshape(normals.shape)


def _excess(stretch: Stretch, normals: jax.Array) -> jax.Array:
    """What normals lose of the exponent of their density, times -2."""
    parts = _parts(stretch, normals)
    return jnp.sum((1 - 1 / stretch.widths) * parts**2)


def _parts(stretch: Stretch, normals: jax.Array) -> jax.Array:
    return jnp.dot(_rows(stretch), normals.reshape(-1), precision="highest")


def _rows(stretch: Stretch) -> jax.Array:
    return stretch.directions.reshape(len(stretch.widths), -1)


class _Box(NamedTuple):
    """A tilt of the L-infinity ball: the exponent b of the density exp(b . u)."""

    exponent: Any
    stretch: Stretch


def _box_none(image: jax.Array) -> _Box:
    return _Box(jnp.zeros(image.shape), _no_stretch(image))


def _box_towards(slope: jax.Array, intercept: jax.Array, variance: jax.Array) -> _Box:
    steepest = jnp.abs(slope).max()
    steepest = jnp.where(steepest > 0, steepest, 1)
    unit = slope / steepest

    def too_strong(largest: jax.Array) -> jax.Array:
        b = largest * unit
        mean, log_constant = _box_cumulant(b)
        beyond = intercept + jnp.sum(slope * mean) + largest / steepest * variance > 0
        return beyond | (jnp.sum(b * mean - log_constant) > _LARGEST_DIVERGENCE)

    return _Box(_bisect(too_strong, 1e4) * unit, _no_stretch(slope))


def _box_divergence(box: _Box) -> jax.Array:
    mean, log_constant = _box_cumulant(box.exponent)
    return jnp.sum(box.exponent * mean - log_constant)


def _box_draw(key: jax.Array, box: _Box) -> jax.Array:
    b, stretch = box
    v = jax.random.uniform(key, b.shape)
    if len(stretch.widths):
        # Of the mirrored components, so that all normals grow with u.
        side = jnp.where(b < 0, -1.0, 1.0)
        normals = side * ndtri(jnp.maximum(v, _SMALLEST))
        v = ndtr(side * _along(stretch, normals))
    # By the inverse of the distribution function, for |b|, then mirrored.
    size = jnp.abs(b)
    flat = size < 1e-3
    size = jnp.where(flat, 1.0, size)
    curved = 1 + jnp.log(v + (1 - v) * jnp.exp(-2 * size)) / size
    w = 2 * v - 1
    u = jnp.where(flat, w + jnp.abs(b) / 2 * (1 - w**2), curved)
    return jnp.clip(jnp.where(b < 0, -u, u), -1, 1)


def _box_log_ratio(u: jax.Array, box: _Box) -> jax.Array:
    ratio = -_inner(box.exponent, u)
    if len(box.stretch.widths):
        ratio -= _excess(box.stretch, _box_normals(u, box.exponent)) / 2
    return ratio


def _box_normals(u: jax.Array, b: jax.Array) -> jax.Array:
    """Standard normals if u is drawn from the tilt without a stretch."""
    size = jnp.abs(b)
    flat = size < 1e-3
    size = jnp.where(flat, 1.0, size)
    w = jnp.where(b < 0, -u, u)
    # The distribution function of |b| and what it lacks of 1, the smaller accurately.
    whole = jnp.expm1(-2 * size)
    below = jnp.exp(size * (w - 1)) * jnp.expm1(-size * (w + 1)) / whole
    above = jnp.expm1(size * (w - 1)) / whole
    bend = jnp.abs(b) / 4 * (1 - w**2)
    below = jnp.where(flat, (1 + w) / 2 - bend, below)
    above = jnp.where(flat, (1 - w) / 2 + bend, above)
    normals = ndtri(jnp.maximum(jnp.minimum(below, above), _SMALLEST))
    return jnp.where((below < above) == (b < 0), -normals, normals)


def _box_log_constant(box: _Box) -> np.ndarray:
    b = np.abs(np.asarray(box.exponent, np.float64)).reshape(len(box.exponent), -1)
    safe = np.maximum(b, 1e-4)
    # log(sinh b / b), from sinh b = e^b (1 - e^-2b) / 2.
    values = safe + np.log1p(-np.exp(-2 * safe)) - np.log(2 * safe)
    values = np.where(b < 1e-4, b**2 / 6, values).sum(axis=1)
    return values + _log_volume(box.stretch)


def _log_volume(stretch: Stretch) -> np.ndarray:
    return np.log(np.asarray(stretch.widths, np.float64)).sum(axis=1) / 2


def _box_scale(box: _Box, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    b = box.exponent
    flat = jnp.abs(b) < 0.03
    size = jnp.where(flat, 1.0, jnp.abs(b))
    # 1 / b^2 - 1 / sinh^2 b
    variance = 1 / size**2 - 4 * jnp.exp(-2 * size) / jnp.expm1(-2 * size) ** 2
    variance = jnp.where(flat, 1 / 3, variance)
    steepest = jnp.abs(slope).max()
    theta = jnp.abs(b).max() / jnp.where(steepest > 0, steepest, 1)
    return jnp.sqrt(jnp.maximum(variance, 0)), theta


def _box_cumulant(b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean of one component, coth b - 1 / b, and log(sinh b / b)."""
    flat = jnp.abs(b) < 0.03
    size = jnp.where(flat, 1.0, jnp.abs(b))
    rest = jnp.exp(-2 * size)
    mean = jnp.sign(b) * ((1 + rest) / (1 - rest) - 1 / size)
    log_constant = size + jnp.log((1 - rest) / (2 * size))
    return jnp.where(flat, b / 3, mean), jnp.where(flat, b**2 / 6, log_constant)


class _Cap(NamedTuple):
    """A tilt of the L2 ball: the direction e, and the component's mode s along it."""

    direction: Any
    mode: Any
    stretch: Stretch


def _cap_none(image: jax.Array) -> _Cap:
    direction = jnp.zeros(image.shape).at[(0,) * image.ndim].set(1.0)
    return _Cap(direction, jnp.zeros(()), _no_stretch(image))


def _cap_towards(slope: jax.Array, intercept: jax.Array, variance: jax.Array) -> _Cap:
    norm = jnp.sqrt(jnp.sum(slope**2))
    safe = jnp.where(norm > 0, norm, 1)
    direction = jnp.where(norm > 0, slope / safe, _cap_none(slope).direction)
    # The uniform measure beyond s is about (1 - s^2)^((d + 1) / 2).
    farthest = np.sqrt(-np.expm1(-2 * _LARGEST_DIVERGENCE / (slope.size + 1)))

    def too_strong(mode: jax.Array) -> jax.Array:
        b = _cap_exponent(mode, slope.size)
        return intercept + mode * norm + b / safe * variance > 0

    mode = _bisect(too_strong, min(farthest, 1 - 1e-4))
    mode = jnp.where(norm > 0, mode, 0.0)
    return _Cap(direction, mode, _no_stretch(slope))


def _cap_exponent(mode: jax.Array, size: int) -> jax.Array:
    """The b for which a component with a density like exp(b s) has its mode there."""
    return (size - 1) * mode / ((1 - mode) * (1 + mode))


def _cap_scale(cap: _Cap, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    norm = jnp.sqrt(jnp.sum(slope**2))
    theta = _cap_exponent(cap.mode, slope.size) / jnp.where(norm > 0, norm, 1)
    left = (1 - cap.mode) * (1 + cap.mode)
    return jnp.full(slope.shape, jnp.sqrt(left / (slope.size + 1))), theta


def _cap_divergence(cap: _Cap) -> jax.Array:
    # As for the farthest mode.
    return -(cap.direction.size + 1) / 2 * jnp.log1p(-(cap.mode**2))


def _bisect(too_large: Callable[[jax.Array], jax.Array], high: float) -> jax.Array:
    """The largest of [0, high] that is not too large."""

    def halve(
        _: jax.Array, ends: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        large = too_large(middle)
        return jnp.where(large, low, middle), jnp.where(large, middle, high)

    return jax.lax.fori_loop(0, _BISECTIONS, halve, (0.0, high))[0]


def _cap_shape(mode: Any, size: int, xp: Any) -> tuple[Any, Any]:
    """The exponents of (1 + s) and (1 - s) in the component's density.

    The density (1 - s^2)^((d - 1) / 2) exp(b s) has its maximum at the same mode, and
    the same curvature there.

    Args:
      mode: the mode s.
      size: the ball's dimension, d.
      xp: `jax.numpy` or `numpy`, which computes in float64.
    """
    # Not 1 - mode^2, which cancels near 1: float32 and float64 must agree.
    centre = (size - 1) / 2 * (1 + mode**2) / ((1 - mode) * (1 + mode))
    return xp.asarray(centre * (1 + mode)), xp.asarray(centre * (1 - mode))


def _cap_draw(key: jax.Array, cap: _Cap) -> jax.Array:
    along, rest = jax.random.split(key)
    size = cap.direction.size
    up, down = _cap_shape(cap.mode, size, jnp)
    # Both parts from gammas, so that neither end of (-1, 1) is rounded to.
    above = jax.random.loggamma(jax.random.fold_in(along, 0), up + 1)
    below = jax.random.loggamma(jax.random.fold_in(along, 1), down + 1)
    s = jnp.tanh((above - below) / 2)
    normal = jax.random.normal(rest, (size + 2,))
    direction = cap.direction.reshape(-1)
    inside = normal[:size] - direction * jnp.dot(
        direction, normal[:size], precision="highest"
    )
    if len(cap.stretch.widths):
        inside = _along(cap.stretch, inside)
    # The first d - 1 of d + 1 normals, divided by the norm of all, are uniform in the
    # ball of d - 1 dimensions.
    norm = jnp.sqrt(jnp.sum(inside**2) + jnp.sum(normal[size:] ** 2))
    u = s * direction + jnp.sqrt((1 - s) * (1 + s)) * inside / norm
    return u.reshape(cap.direction.shape)


def _cap_log_ratio(u: jax.Array, cap: _Cap) -> jax.Array:
    size = cap.direction.size
    up, down = _cap_shape(cap.mode, size, jnp)
    s = jnp.clip(_inner(u, cap.direction), -1 + 1e-7, 1 - 1e-7)
    usual = (size - 1) / 2
    # In one call: XLA 0.10 may take two, of s and -s, for the same on a CPU.
    logs = jnp.log1p(jnp.stack([s, -s]))
    ratio = (usual - up) * logs[0] + (usual - down) * logs[1]
    if len(cap.stretch.widths):
        # The rest is a part of a point of the unit sphere of d + 1 dimensions.
        rest = u / jnp.sqrt((1 - s) * (1 + s))
        excess = jnp.minimum(_excess(cap.stretch, rest), 1 - 1e-6)
        ratio += (size + 1) / 2 * jnp.log1p(-excess)
    return ratio


def _cap_log_constant(cap: _Cap) -> np.ndarray:
    size = np.asarray(cap.direction[0]).size
    up, down = _cap_shape(np.asarray(cap.mode, np.float64), size, np)
    usual = (size - 1) / 2
    # Beta densities on (1 + s) / 2: a factor 2 for each exponent.
    return _log_volume(cap.stretch) + (
        special.betaln(up + 1, down + 1)
        - special.betaln(usual + 1, usual + 1)
        - np.log(2) * (2 * usual - up - down)
    )


def _cross_none(image: jax.Array) -> jax.Array:
    return jnp.zeros(image.shape)


def _cross_towards(
    slope: jax.Array, intercept: jax.Array, variance: jax.Array
) -> jax.Array:
    steepest = jnp.abs(slope).max()
    steepest = jnp.where(steepest > 0, steepest, 1)
    unit = slope / steepest

    def too_strong(largest: jax.Array) -> jax.Array:
        b = largest * unit
        mean = _cross_mean(b)
        left = 1 - jnp.sum(b * mean)
        theta = (slope.size + 1) * largest / left / steepest
        beyond = intercept + jnp.sum(slope * mean) + theta * variance > 0
        return beyond | (_cross_divergence(b) > _LARGEST_DIVERGENCE)

    return _bisect(too_strong, 1 - 1e-4) * unit


def _cross_mean(b: jax.Array) -> jax.Array:
    """The means of the variables, over that of the sum which they are divided by."""
    rest = (1 - b) * (1 + b)
    return 2 * b / rest / (1 + jnp.sum((1 + b**2) / rest))


def _cross_divergence(b: jax.Array) -> jax.Array:
    left = 1 - jnp.sum(b * _cross_mean(b))
    return jnp.sum(jnp.log1p(-(b**2))) - (b.size + 1) * jnp.log(left)


def _cross_draw(key: jax.Array, b: jax.Array) -> jax.Array:
    which, sizes = jax.random.split(key)
    up = jax.random.bernoulli(which, (1 + b) / 2)
    exponential = jax.random.exponential(sizes, (b.size + 1,))
    x = exponential[:-1].reshape(b.shape)
    x = jnp.where(up, x / (1 - b), -x / (1 + b))
    return x / (jnp.abs(x).sum() + exponential[-1])


def _cross_log_ratio(u: jax.Array, b: jax.Array) -> jax.Array:
    return (b.size + 1) * jnp.log1p(-_inner(b, u))


def _cross_log_constant(b: np.ndarray) -> np.ndarray:
    b = np.asarray(b, np.float64).reshape(len(b), -1)
    return -np.log1p(-(b**2)).sum(axis=1)


def _inner(a: jax.Array, b: jax.Array) -> jax.Array:
    """The inner product, which for many points and tilts is a product of matrices."""
    return jnp.dot(a.reshape(-1), b.reshape(-1), precision="highest")


#: By the norm of the ball.
TILTS: dict[str | None, Tilt] = {
    "linf": Tilt(
        _box_none,
        _box_towards,
        _box_divergence,
        _box_draw,
        _box_log_ratio,
        _box_log_constant,
        _stretched,
        _box_scale,
    ),
    "l2": Tilt(
        _cap_none,
        _cap_towards,
        _cap_divergence,
        _cap_draw,
        _cap_log_ratio,
        _cap_log_constant,
        _stretched,
        _cap_scale,
    ),
    "l1": Tilt(
        _cross_none,
        _cross_towards,
        _cross_divergence,
        _cross_draw,
        _cross_log_ratio,
        _cross_log_constant,
    ),
}
