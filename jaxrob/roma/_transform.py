"""Power transformations to normality, for many samples at once.

Box-Cox (1964) for positive samples, which come as logarithms since small confidences
underflow, and Yeo-Johnson (2000) for samples of both signs. Each has one parameter,
fitted by maximum likelihood.

Both negative log-likelihoods are convex in the parameter, so Newton's method finds the
minimum. For Box-Cox, twice the variance is the mean of `((e^(λa) - e^(λb))/λ)²` over
pairs of samples. The logarithm of each, `λ(a + b) + 2 log(sinh(λ(a - b)/2)/λ)` up to a
constant, is convex; so is the logarithm of a sum of exponentials of convex functions.
For Yeo-Johnson see Marchand et al. (2022), "SecureFedYJ".
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
# The largest exponent of Yeo-Johnson's transform while searching: its square and a sum
# of 10,000 such are still finite in float32.
_LARGEST_EXPONENT = 35.0


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
    log_x, lmbda = _broadcasting("log_x", log_x, lmbda)
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
    log_x = _samples("log_x", log_x)
    num_samples = log_x.shape[-1]
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
    scaled = _newton(
        derivatives,
        jnp.zeros_like(sd),
        -bound,
        bound,
        lambda scaled: _away_from(0.0, scaled),
    )
    return jnp.where(constant, 1.0, scaled / sd)


def yeojohnson(x: jax.Array, lmbda: jax.Array) -> jax.Array:
    """Makes samples of both signs more normal: Yeo and Johnson's transform (2000).

    Where x >= 0 it is Box and Cox's transform of 1 + x with λ. Where x < 0 it is minus
    that of 1 - x with 2 - λ.

    Args:
      x: `[...]`, any real numbers.
      lmbda: λ, of a shape that broadcasts with `x`.

    Returns:
      `[...]`, increasing in x.
    """
    x, lmbda = _broadcasting("x", x, lmbda)
    exponent = jnp.where(x < 0, 2 - lmbda, lmbda)
    log = jnp.log1p(jnp.abs(x))
    return jnp.sign(x) * log * _relative_expm1(log * exponent)


def yeojohnson_lambda(x: jax.Array) -> jax.Array:
    """Fits Yeo and Johnson's transform: its maximum-likelihood λ.

    The log-likelihood is `(λ - 1) sum sign(x) log(1 + |x|) - n/2 log var(y)` with y the
    transformed samples (Yeo and Johnson, 2000).

    Args:
      x: `[..., n]`, standardised: the transform depends on origin and unit, and is
        nearly linear, λ hardly determined, where all `|x|` are tiny.

    Returns:
      `[...]`; 1 where all samples are equal, and NaN where one is NaN or infinite.

    Raises:
      ValueError: if there are fewer than 2 samples.
    """
    x = _samples("x", x)
    constant = jnp.min(x, axis=-1) == jnp.max(x, axis=-1)
    negative, sign = x < 0, jnp.where(x < 0, -1.0, 1.0)
    log = jnp.log1p(jnp.abs(x))
    mean_log = jnp.mean(sign * log, axis=-1)

    def derivatives(lmbda: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of half of `log var(y) - 2 (lmbda - 1) mean_log`, the first and second."""
        exponent = jnp.where(negative, 2 - lmbda[..., None], lmbda[..., None])
        # The transform of |x| and its derivatives by the exponent.
        over = 1 / exponent
        e = jnp.expm1(exponent * log)
        y0 = e * over
        y1 = (log * (e + 1) - y0) * over
        y2 = (log * log * (e + 1) - 2 * y1) * over
        # By lmbda, the signs of 2 - lmbda and of x cancel in the first.
        y0, y2 = sign * y0, sign * y2
        y0 = y0 - jnp.mean(y0, axis=-1, keepdims=True)
        variance = jnp.mean(y0 * y0, axis=-1)
        variance = jnp.where(constant, 1.0, variance)
        slope = jnp.mean(y0 * y1, axis=-1) / variance
        curvature = jnp.mean(y1 * y1 + y0 * y2, axis=-1) - jnp.mean(y1, axis=-1) ** 2
        return slope - mean_log, curvature / variance - 2 * slope**2

    # So that neither exponent times its largest logarithm overflows.
    above = jnp.max(jnp.where(negative, 0.0, log), axis=-1)
    below = jnp.max(jnp.where(negative, log, 0.0), axis=-1)
    lmbda = _newton(
        derivatives,
        jnp.ones_like(mean_log),
        2 - _LARGEST_EXPONENT / jnp.clip(below, 0.35, 35.0),
        _LARGEST_EXPONENT / jnp.clip(above, 0.35, 35.0),
        lambda lmbda: _away_from(2.0, _away_from(0.0, lmbda)),
    )
    return jnp.where(constant, 1.0, lmbda)


def _newton(
    derivatives: Callable,
    start: jax.Array,
    lower: jax.Array,
    upper: jax.Array,
    nudge: Callable,
) -> jax.Array:
    """The minimum of convex functions, one for each element."""
    # A Newton step that leaves the bracket is replaced by the bracket's middle.

    def step(_: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        point, lower, upper = state
        point = nudge(point)
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


def _away_from(pole: float, point: jax.Array) -> jax.Array:
    distance = point - pole
    nudged = pole + jnp.where(distance < 0, -_NUDGE, _NUDGE)
    return jnp.where(jnp.abs(distance) < _NUDGE, nudged, point)


def _relative_expm1(exponent: jax.Array) -> jax.Array:
    """`expm1(z)/z`, which is 1 at 0."""
    small = jnp.abs(exponent) < 1e-4
    ratio = jnp.expm1(exponent) / jnp.where(small, 1.0, exponent)
    return jnp.where(small, 1 + exponent / 2, ratio)


def _samples(name: str, samples: jax.Array) -> jax.Array:
    samples = checked_traceable(name, samples, "..., n")
    if samples.shape[-1] < 2:
        raise ValueError(
            f"{name} must have the shape [..., n] with n at least 2; got "
            f"{samples.shape}"
        )
    return samples


def _broadcasting(
    name: str, x: jax.Array, lmbda: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x = checked_traceable(name, x, "...")
    lmbda = checked_traceable("lmbda", lmbda, "...")
    pairs = zip(x.shape[::-1], lmbda.shape[::-1])
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ValueError(
            f"lmbda must have a shape that broadcasts with {name}'s, {x.shape}; got "
            f"{lmbda.shape}"
        )
    return x, lmbda
