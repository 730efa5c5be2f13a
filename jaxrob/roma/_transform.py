"""Box and Cox's (1964) power transformation to normality, for many samples at once.

Samples come as logarithms, since small confidences underflow. The negative
log-likelihood is convex in the parameter, so Newton's method finds the minimum: twice
the variance is the mean of `((e^(λa) - e^(λb))/λ)²` over pairs of samples. The
logarithm of each, `λ(a + b) + 2 log(sinh(λ(a - b)/2)/λ)` up to a constant, is convex;
so is the logarithm of a sum of exponentials of convex functions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import checked_traceable

# Newton's iterations.
_ITERATIONS = 14
# The derivatives cancel where an exponent vanishes. The step is taken from a point this
# far from there. Newton's error is then its square, and the rounding's is float32's
# spacing over it.
_NUDGE = 1e-2


def boxcox(log_x: jax.Array, lmbda: jax.Array) -> jax.Array:
    """Makes positive samples more normal: Box and Cox's transform.

    It is `(x^λ - 1)/λ`, or `log x` where λ is 0. In float32 it loses x^λ beside 1 where
    that is tiny, and overflows above e^88. Up to an affine map it is the same of x over
    any constant. So pass `log_x - c`, with c the mean of `log_x` or any number in the
    middle of the samples, and subtract the same c from what is compared with them.

    Example::

        centre = log_x.mean()
        lmbda = jaxrob.roma.boxcox_lambda(log_x)
        transformed = jaxrob.roma.boxcox(log_x - centre, lmbda)

    Args:
      log_x: `[...]`, logarithms of positive numbers.
      lmbda: λ, of a shape that broadcasts with `log_x`.

    Returns:
      `[...]`, accurate to a few float32 roundings, also where λ is near 0.
    """
    log_x = checked_traceable("log_x", log_x, "...")
    lmbda = checked_traceable("lmbda", lmbda, "...")
    pairs = zip(log_x.shape[::-1], lmbda.shape[::-1])
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ValueError(
            "lmbda must have a shape that broadcasts with log_x's, "
            f"{log_x.shape}; got {lmbda.shape}"
        )
    return log_x * _relative_expm1(log_x * lmbda)


def boxcox_lambda(log_x: jax.Array) -> jax.Array:
    """Fits Box and Cox's transform: its maximum-likelihood λ.

    The log-likelihood, `(λ - 1) sum log x - n/2 log var(x^λ/λ)` (Box and Cox, 1964),
    is `-n/2 log var((e^(λc) - 1)/λ)` up to a constant, with c the logarithms less their
    mean. In units of their standard deviation the λ searched for is of order 1.

    Args:
      log_x: `[..., n]`, logarithms of positive samples.

    Returns:
      `[...]`; 1 where all samples are equal, and NaN where one is NaN or infinite.

    Raises:
      ValueError: if there are fewer than 2 samples.
    """
    log_x = checked_traceable("log_x", log_x, "..., n")
    num_samples = log_x.shape[-1]
    if num_samples < 2:
        raise ValueError(
            f"log_x must have the shape [..., n] with n at least 2; got {log_x.shape}"
        )
    centred = log_x - jnp.mean(log_x, axis=-1, keepdims=True)
    centred = centred - jnp.mean(centred, axis=-1, keepdims=True)
    sd = jnp.sqrt(jnp.mean(centred**2, axis=-1))
    smallest, largest = jnp.min(log_x, axis=-1), jnp.max(log_x, axis=-1)
    constant = smallest == largest
    sd = jnp.where(constant, 1.0, sd)
    u = centred / sd[..., None]
    smallest, largest = jnp.min(u, axis=-1), jnp.max(u, axis=-1)

    def derivatives(scaled: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of `log var((e^(scaled u) - 1)/scaled)`, the first and the second."""
        # The largest exponent is subtracted, which only rescales the variance, so that
        # nothing overflows; and 1, for precision where they are all small.
        top = scaled * jnp.where(scaled > 0, largest, smallest)
        less_1 = jnp.expm1(scaled[..., None] * u - top[..., None])
        w = less_1 + 1
        d = less_1 - jnp.mean(less_1, axis=-1, keepdims=True)
        uw = u * w
        variance = jnp.mean(d * d, axis=-1)
        # cov(w, uw) - variance/scaled, subtracted sample by sample.
        slope = jnp.mean(d * (scaled[..., None] * uw - d), axis=-1)
        slope = slope / (scaled * variance)
        # var(uw) + cov(w, u²w).
        curvature = jnp.mean(uw * uw + d * u * uw, axis=-1)
        curvature = (curvature - jnp.mean(uw, axis=-1) ** 2) / variance
        curvature = curvature - 2 * (slope + 1 / scaled) ** 2 + 1 / scaled**2
        return slope, curvature

    # Two values, one of them rare, have the largest |λ|: the root of n - 1.
    bound = jnp.full(sd.shape, 2 * num_samples**0.5, jnp.float32)
    scaled = _newton(derivatives, jnp.zeros_like(sd), -bound, bound)
    return jnp.where(constant, 1.0, scaled / sd)


def _newton(
    derivatives: Callable, start: jax.Array, lower: jax.Array, upper: jax.Array
) -> jax.Array:
    """The minimum of convex functions, one for each element."""
    # A Newton step that leaves the bracket is replaced by the bracket's middle.

    def step(_: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        point, lower, upper = state
        nudged = jnp.where(point < 0, -_NUDGE, _NUDGE)
        point = jnp.where(jnp.abs(point) < _NUDGE, nudged, point)
        slope, curvature = derivatives(point)
        lower = jnp.where(slope < 0, point, lower)
        upper = jnp.where(slope > 0, point, upper)
        point = point - slope / curvature
        inside = (point >= lower) & (point <= upper)
        # NaN stays, so that it is seen.
        outside = ~inside & ~jnp.isnan(slope)
        return jnp.where(outside, (lower + upper) / 2, point), lower, upper

    state = start, lower, upper
    return jax.lax.fori_loop(0, _ITERATIONS, step, state)[0]


def _relative_expm1(exponent: jax.Array) -> jax.Array:
    """`expm1(z)/z`, which is 1 at 0."""
    small = jnp.abs(exponent) < 1e-4
    ratio = jnp.expm1(exponent) / jnp.where(small, 1.0, exponent)
    return jnp.where(small, 1 + exponent / 2, ratio)
