"""Uniform distributions in a ball, tilted towards a half-space.

* L-infinity: the density is proportional to exp(b . u), truncated exponentials. The
  tilt's strength is the largest component of b.
* L2: the component along e is Beta distributed, and the rest uniform in the ball of one
  dimension less that it leaves. The strength is the component's mode.
* L1: the density is proportional to (1 - b . u)^-(d + 1), as of Laplace variables
  (exp(-|x| + b x)) over the sum of their sizes and of one more exponential variable.
  The strength is the largest component of b.

Where the margin curves, the first two may be stretched along some directions: in the
L-infinity ball by a Gaussian copula, in the L2 ball the rest's direction is that of a
normal vector with this covariance (angular central Gaussian, Tyler 1987).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from scipy import special

from jaxrob._numbers import largest

# The largest divergence, in nats: probabilities down to about e^-80.
_LARGEST_DIVERGENCE = 80.0
_BISECTIONS = 30
# Probabilities that have a quantile in float32.
_SMALLEST = 1e-30


class Stretch(NamedTuple):
    """Directions along which a tilt is wider, in its own normal coordinates."""

    directions: Any  # `[k, H, W, C]`, orthonormal, or 0 for none
    widths: Any  # `[k]`, variances along them, at least 1


class Tilt(NamedTuple):
    """Which tilted distribution of a ball."""

    vector: Any  # `[H, W, C]`, b in the L-infinity and the L1 ball, e in the L2 ball
    strength: Any  # from 0, no tilt, to `TiltedBall.strongest`
    stretch: Stretch  # where the distribution is wider; the L1 ball's never is


class Moments(NamedTuple):
    """Moments of a tilted distribution, and of a linear margin `slope . u` under it."""

    margin: jax.Array  # the margin's mean
    # That of the exponent along the tilt's direction: the tilt is like exp(rate e . u).
    rate: jax.Array
    # About the Kullback-Leibler divergence from no tilt, in nats: minus the log of the
    # probability that a linear margin, tilted to 0, exceeds it.
    divergence: jax.Array
    # `[H, W, C]`, of each component of u; None where tilts cannot be stretched.
    deviation: jax.Array | None


class TiltedBall(NamedTuple):
    """The tilted distributions of a ball; u has the image's shape."""

    draw: Callable[[jax.Array, Tilt], jax.Array]  # `draw(key, tilt)`, u
    # `log_ratio(u, tilt)`: log-density without less with tilt, up to a constant.
    log_ratio: Callable[[jax.Array, Tilt], jax.Array]
    # `log_constant(tilts)`: it without a stretch, float64, by NumPy, `[M, ...]`.
    log_constant: Callable[[Tilt], np.ndarray]
    # `moments(tilt, slope)`, without a stretch.
    moments: Callable[[Tilt, jax.Array], Moments]
    # `length(slope)`, by which a slope is divided to get a direction.
    length: Callable[[jax.Array], jax.Array]
    strongest: Callable[[int], float]  # `strongest(dimension)`, the largest strength
    is_scaled: bool  # whether `Tilt.vector` is the direction times the strength

    def none(self, image: Any) -> Tilt:
        """The uniform distribution, in the unit ball of an image's shape."""
        first = jnp.zeros(image.shape, jnp.float32).at[(0,) * image.ndim].set(1.0)
        return self._tilt(first, jnp.float32(0))

    def _tilt(self, direction: jax.Array, strength: jax.Array) -> Tilt:
        vector = strength * direction if self.is_scaled else direction
        none = jnp.zeros(0, jnp.float32)
        stretch = Stretch(none.reshape(0, *direction.shape), none)
        return Tilt(vector, strength, stretch)

    def towards(
        self, slope: jax.Array, intercept: jax.Array, variance: jax.Array
    ) -> Tilt:
        """The tilt by which `slope . u + intercept` and a rest have the mean 0.

        exp(theta margin) moves both means; the tilt is the part along the slope.
        """
        length = self.length(slope)
        safe = jnp.where(length > 0, length, 1)
        direction = jnp.where(length > 0, slope / safe, self.none(slope).vector)

        def too_strong(strength: jax.Array) -> jax.Array:
            moments = self.moments(self._tilt(direction, strength), slope)
            beyond = intercept + moments.margin + moments.rate / safe * variance > 0
            return beyond | (moments.divergence > _LARGEST_DIVERGENCE)

        strength = _bisect(too_strong, self.strongest(slope.size))
        return self._tilt(direction, jnp.where(length > 0, strength, 0.0))

    def theta(self, tilt: Tilt, slope: jax.Array) -> jax.Array:
        """The theta of `towards`, which the tilt was made by for this slope."""
        length = self.length(slope)
        return self.moments(tilt, slope).rate / jnp.where(length > 0, length, 1)


def of_component(tilts: Tilt, which: jax.Array) -> Tilt:
    # All components' directions, not copied (slow), with width 1 along the others'.
    directions, widths = tilts.stretch
    is_own = (jnp.arange(len(widths)) == which)[:, None]
    stretch = Stretch(
        directions.reshape(-1, *directions.shape[2:]),
        jnp.where(is_own, widths, 1.0).reshape(-1),
    )
    return Tilt(tilts.vector[which], tilts.strength[which], stretch)


def with_idle_stretch(tilts: Tilt, like: Tilt) -> Tilt:
    """Tilts `[M, ...]` on the host, with as many idle directions as others have."""
    shapes = ((len(tilts.strength), *a.shape[1:]) for a in like.stretch)
    idle = Stretch(*(np.full(s, v, np.float32) for s, v in zip(shapes, (0, 1))))
    return tilts._replace(stretch=idle)


def log_constants(ball: TiltedBall, tilts: Tilt) -> np.ndarray:
    """`[M]` the constants that `log_ratio` of M tilts lacks, float64."""
    widths = np.asarray(tilts.stretch.widths, np.float64)
    return ball.log_constant(tilts) + np.log(widths).sum(axis=1) / 2


def _bisect(too_large: Callable[[jax.Array], jax.Array], high: float) -> jax.Array:
    """The largest of [0, high] that is not too large."""

    def halve(
        _: jax.Array, ends: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        large = too_large(middle)
        return jnp.where(large, low, middle), jnp.where(large, middle, high)

    ends = jnp.float32(0), jnp.float32(high)
    return jax.lax.fori_loop(0, _BISECTIONS, halve, ends)[0]


def _steepest(slope: jax.Array) -> jax.Array:
    return largest(jnp.abs(slope).ravel())


def _euclidean(slope: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(slope**2))


def _inner(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a.reshape(-1), b.reshape(-1), precision="highest")


def _stretched(stretch: Stretch, normals: jax.Array) -> jax.Array:
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


def _linf_draw(key: jax.Array, tilt: Tilt) -> jax.Array:
    b, stretch = tilt.vector, tilt.stretch
    v = jax.random.uniform(key, b.shape, jnp.float32)
    if len(stretch.widths):
        # Of the mirrored components, so that all normals grow with u.
        side = jnp.where(b < 0, -1.0, 1.0)
        normals = side * ndtri(jnp.maximum(v, _SMALLEST))
        v = ndtr(side * _stretched(stretch, normals))
    # By the inverse of the distribution function, for |b|, then mirrored.
    size = jnp.abs(b)
    flat = size < 1e-3
    size = jnp.where(flat, 1.0, size)
    curved = 1 + jnp.log(v + (1 - v) * jnp.exp(-2 * size)) / size
    w = 2 * v - 1
    u = jnp.where(flat, w + jnp.abs(b) / 2 * (1 - w**2), curved)
    return jnp.clip(jnp.where(b < 0, -u, u), -1, 1)


def _linf_log_ratio(u: jax.Array, tilt: Tilt) -> jax.Array:
    b = tilt.vector
    ratio = -_inner(b, u)
    if len(tilt.stretch.widths):
        ratio -= _excess(tilt.stretch, _linf_normals(u, b)) / 2
    return ratio


def _linf_normals(u: jax.Array, b: jax.Array) -> jax.Array:
    """Standard normals if u is drawn from the tilt without a stretch."""
    size = jnp.abs(b)
    flat = size < 1e-3
    size = jnp.where(flat, 1.0, size)
    w = jnp.where(b < 0, -u, u)
    # The distribution function of |b| and its complement, the smaller accurately.
    whole = jnp.expm1(-2 * size)
    below = jnp.exp(size * (w - 1)) * jnp.expm1(-size * (w + 1)) / whole
    above = jnp.expm1(size * (w - 1)) / whole
    bend = jnp.abs(b) / 4 * (1 - w**2)
    below = jnp.where(flat, (1 + w) / 2 - bend, below)
    above = jnp.where(flat, (1 - w) / 2 + bend, above)
    normals = ndtri(jnp.maximum(jnp.minimum(below, above), _SMALLEST))
    return jnp.where((below < above) == (b < 0), -normals, normals)


def _linf_log_constant(tilts: Tilt) -> np.ndarray:
    b = np.abs(np.asarray(tilts.vector, np.float64)).reshape(len(tilts.vector), -1)
    safe = np.maximum(b, 1e-4)
    # log(sinh b / b), from sinh b = e^b (1 - e^-2b) / 2.
    values = safe + np.log1p(-np.exp(-2 * safe)) - np.log(2 * safe)
    return np.where(b < 1e-4, b**2 / 6, values).sum(axis=1)


def _linf_moments(tilt: Tilt, slope: jax.Array) -> Moments:
    b = tilt.vector
    flat = jnp.abs(b) < 0.03
    size = jnp.where(flat, 1.0, jnp.abs(b))
    rest = jnp.exp(-2 * size)
    # coth b - 1 / b, log(sinh b / b) and 1 / b^2 - 1 / sinh^2 b.
    mean = jnp.sign(b) * ((1 + rest) / (1 - rest) - 1 / size)
    log_constant = size + jnp.log((1 - rest) / (2 * size))
    variance = 1 / size**2 - 4 * jnp.exp(-2 * size) / jnp.expm1(-2 * size) ** 2
    mean = jnp.where(flat, b / 3, mean)
    log_constant = jnp.where(flat, b**2 / 6, log_constant)
    variance = jnp.where(flat, 1 / 3, variance)
    return Moments(
        margin=jnp.sum(slope * mean),
        rate=_steepest(b),
        divergence=jnp.sum(b * mean - log_constant),
        deviation=jnp.sqrt(jnp.maximum(variance, 0)),
    )


def _l2_shape(mode: Any, size: int, xp: Any) -> tuple[Any, Any]:
    """The exponents of (1 + s) and (1 - s) in the component's density."""
    # (1 - s^2)^((d - 1) / 2) exp(b s) has the same mode and curvature there.
    # Not 1 - mode^2, which cancels near 1: float32 and float64 must agree.
    centre = (size - 1) / 2 * (1 + mode**2) / ((1 - mode) * (1 + mode))
    return xp.asarray(centre * (1 + mode)), xp.asarray(centre * (1 - mode))


def _l2_draw(key: jax.Array, tilt: Tilt) -> jax.Array:
    along, rest = jax.random.split(key)
    size = tilt.vector.size
    up, down = _l2_shape(tilt.strength, size, jnp)
    # Both parts from gammas, so that neither end of (-1, 1) is rounded to.
    above = jax.random.loggamma(jax.random.fold_in(along, 0), up + 1, (), jnp.float32)
    below = jax.random.loggamma(jax.random.fold_in(along, 1), down + 1, (), jnp.float32)
    s = jnp.tanh((above - below) / 2)
    normal = jax.random.normal(rest, (size + 2,), jnp.float32)
    direction = tilt.vector.reshape(-1)
    inside = normal[:size] - direction * _inner(direction, normal[:size])
    if len(tilt.stretch.widths):
        inside = _stretched(tilt.stretch, inside)
    # d - 1 of d + 1 normals over the norm of all are uniform in d - 1 dimensions.
    norm = jnp.sqrt(jnp.sum(inside**2) + jnp.sum(normal[size:] ** 2))
    u = s * direction + jnp.sqrt((1 - s) * (1 + s)) * inside / norm
    return u.reshape(tilt.vector.shape)


def _l2_log_ratio(u: jax.Array, tilt: Tilt) -> jax.Array:
    size = tilt.vector.size
    up, down = _l2_shape(tilt.strength, size, jnp)
    s = jnp.clip(_inner(u, tilt.vector), -1 + 1e-7, 1 - 1e-7)
    usual = (size - 1) / 2
    # In one call: XLA 0.10 may take two, of s and -s, for the same on a CPU.
    logs = jnp.log1p(jnp.stack([s, -s]))
    ratio = (usual - up) * logs[0] + (usual - down) * logs[1]
    if len(tilt.stretch.widths):
        # The rest is a part of a point of the unit sphere of d + 1 dimensions.
        rest = u / jnp.sqrt((1 - s) * (1 + s))
        excess = jnp.minimum(_excess(tilt.stretch, rest), 1 - 1e-6)
        ratio += (size + 1) / 2 * jnp.log1p(-excess)
    return ratio


def _l2_log_constant(tilts: Tilt) -> np.ndarray:
    size = np.asarray(tilts.vector[0]).size
    up, down = _l2_shape(np.asarray(tilts.strength, np.float64), size, np)
    usual = (size - 1) / 2
    # Beta densities on (1 + s) / 2: a factor 2 for each exponent.
    return (
        special.betaln(up + 1, down + 1)
        - special.betaln(usual + 1, usual + 1)
        - np.log(2) * (2 * usual - up - down)
    )


def _l2_moments(tilt: Tilt, slope: jax.Array) -> Moments:
    mode, size = tilt.strength, slope.size
    left = (1 - mode) * (1 + mode)
    # The uniform measure beyond s is about (1 - s^2)^((d + 1) / 2).
    divergence = -(size + 1) / 2 * jnp.log1p(-(mode**2))
    return Moments(
        # The mode stands for the mean, which is nearer to 0 by 2 / d at most.
        margin=mode * _euclidean(slope),
        # The b for which a density like exp(b s) has its mode there.
        rate=(size - 1) * mode / left,
        # It is the largest at the strongest tilt, up to rounding.
        divergence=jnp.minimum(divergence, _LARGEST_DIVERGENCE),
        deviation=jnp.full(slope.shape, jnp.sqrt(left / (size + 1))),
    )


def _l2_strongest(size: int) -> float:
    most = math.sqrt(-math.expm1(-2 * _LARGEST_DIVERGENCE / (size + 1)))
    return min(most, 1 - 1e-4)


def _l1_draw(key: jax.Array, tilt: Tilt) -> jax.Array:
    b = tilt.vector
    which, sizes = jax.random.split(key)
    up = jax.random.bernoulli(which, (1 + b) / 2)
    exponential = jax.random.exponential(sizes, (b.size + 1,), jnp.float32)
    x = exponential[:-1].reshape(b.shape)
    x = jnp.where(up, x / (1 - b), -x / (1 + b))
    return x / (jnp.abs(x).sum() + exponential[-1])


def _l1_log_ratio(u: jax.Array, tilt: Tilt) -> jax.Array:
    b = tilt.vector
    return (b.size + 1) * jnp.log1p(-_inner(b, u))


def _l1_log_constant(tilts: Tilt) -> np.ndarray:
    b = np.asarray(tilts.vector, np.float64).reshape(len(tilts.vector), -1)
    return -np.log1p(-(b**2)).sum(axis=1)


def _l1_moments(tilt: Tilt, slope: jax.Array) -> Moments:
    b = tilt.vector
    # The means of the variables, over that of the sum which they are divided by.
    rest = (1 - b) * (1 + b)
    mean = 2 * b / rest / (1 + jnp.sum((1 + b**2) / rest))
    left = 1 - jnp.sum(b * mean)
    return Moments(
        margin=jnp.sum(slope * mean),
        rate=(b.size + 1) * tilt.strength / left,
        divergence=jnp.sum(jnp.log1p(-(b**2))) - (b.size + 1) * jnp.log(left),
        deviation=None,
    )


#: By the norm of the ball.
TILTED_BALLS: dict[str | None, TiltedBall] = {
    "linf": TiltedBall(
        _linf_draw,
        _linf_log_ratio,
        _linf_log_constant,
        _linf_moments,
        _steepest,
        strongest=lambda size: 1e4,
        is_scaled=True,
    ),
    "l2": TiltedBall(
        _l2_draw,
        _l2_log_ratio,
        _l2_log_constant,
        _l2_moments,
        _euclidean,
        strongest=_l2_strongest,
        is_scaled=False,
    ),
    "l1": TiltedBall(
        _l1_draw,
        _l1_log_ratio,
        _l1_log_constant,
        _l1_moments,
        _steepest,
        strongest=lambda size: 1 - 1e-4,
        is_scaled=True,
    ),
}
