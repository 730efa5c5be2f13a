"""Algorithm 1 of Levy and Katz (2022): a normal distribution of confidences."""

from collections.abc import Callable
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import log_ndtr

from jaxrob._arguments.checks import checked_flag, checked_traceable
from jaxrob._arguments.texts import warn
from jaxrob.roma._draws import (
    Array,
    Inputs,
    Settings,
    Statistic,
    Work,
    log_hic,
    observe_hits,
    summarise_draws,
)
from jaxrob.roma._estimate import Answers

#: The corrected statistic below which samples count as normal: the 15 % point, with
#: mean and variance estimated, of D'Agostino and Stephens (1986), table 4.7.
NORMAL_BELOW = 0.561

# From this spacing of float32 over the deviation on, the test sees the rounding.
_COARSEST = 1e-3


class Normality(NamedTuple):
    """How normal samples are. All arrays have the samples' leading axes.

    Attributes:
      statistic: Anderson and Darling's A², corrected for n; infinite if all are equal.
      mean: the samples' mean.
      standard_deviation: theirs, with n - 1; 0 if all are equal.
      resolved: whether float32 resolves the samples; else the statistic says little.
    """

    statistic: jax.Array
    mean: jax.Array
    standard_deviation: jax.Array
    resolved: jax.Array


def anderson_darling(samples: jax.Array, *, ascending: bool = False) -> Normality:
    """Tests whether samples are normally distributed, with unknown mean and variance.

    Example::

        found = jaxrob.roma.anderson_darling(jnp.log(confidences))  # [..., n]
        is_normal = found.statistic < 0.561

    For `p_i = (i - 1/2) / n` and the ascending standardised samples' normal
    probabilities F_i, Anderson and Darling (1954) define A² as::

        A² = -n - sum_i (2i - 1)/n (log F_i + log(1 - F_{n+1-i}))

    Here it is times `1 + 0.75/n + 2.25/n²`, which makes the limit's critical values
    hold for n >= 8 (D'Agostino and Stephens, 1986, table 4.7).

    Args:
      samples: `[..., n]` with n >= 8; computed in float32.
      ascending: whether they are sorted already; sorting takes most of the time.

    Returns:
      A `Normality` of `[...]`; its statistic is NaN where a sample is NaN or infinite.

    Raises:
      ValueError: if there are fewer than 8 samples.
    """
    samples = checked_traceable("samples", samples, "..., n")
    checked_flag("ascending", ascending)
    if samples.shape[-1] < 8:
        raise ValueError(
            "samples must have the shape [..., n] with n at least 8; "
            f"got {samples.shape}"
        )
    num_samples = samples.shape[-1]
    samples = samples if ascending else sort(samples)
    mean = jnp.mean(samples, axis=-1, keepdims=True)
    # A mean of large samples is itself rounded; the second one sets that right.
    centred = samples - mean
    centred = centred - jnp.mean(centred, axis=-1, keepdims=True)
    # In its units squares do not underflow; equal samples may be off their mean.
    constant = samples[..., :1] == samples[..., -1:]
    unit = jnp.maximum(-centred[..., :1], centred[..., -1:])
    unit = jnp.where(constant, 1.0, unit)
    z = centred / unit
    sd = jnp.sqrt(jnp.sum(z**2, axis=-1, keepdims=True) / (num_samples - 1))
    z = z / jnp.where(constant, 1.0, sd)
    sd = jnp.where(constant, 0.0, sd * unit)

    # A² is a small difference of sums of order n: less log p_i and log(1 - p_i) terms
    # are small, and a constant is known in float64. In the second sum, i is n + 1 - i.
    p = (np.arange(num_samples) + 0.5) / num_samples
    below, above = 2 * p, 2 * (1 - p)
    log_p, log_q = np.log(p).astype(np.float32), np.log1p(-p).astype(np.float32)
    rest = -num_samples - below @ log_p.astype(float) - above @ log_q.astype(float)
    terms = jnp.float32(below) * (log_p - log_ndtr(z))
    terms = terms + jnp.float32(above) * (log_q - log_ndtr(-z))
    correction = 1 + 0.75 / num_samples + 2.25 / num_samples**2
    statistic = (jnp.sum(terms, axis=-1) + jnp.float32(rest)) * correction

    mean, sd = mean[..., 0], sd[..., 0]
    largest = jnp.maximum(jnp.abs(samples[..., 0]), jnp.abs(samples[..., -1]))
    return Normality(
        statistic=jnp.where(constant[..., 0], jnp.inf, statistic),
        mean=mean,
        standard_deviation=sd,
        resolved=resolved(largest, sd),
    )


def resolved(magnitude: jax.Array, standard_deviation: jax.Array) -> jax.Array:
    """Whether float32 resolves a distribution well enough to test its shape."""
    # `magnitude`: the largest number behind them, such as the largest logit.
    magnitude = jnp.abs(jnp.asarray(magnitude, jnp.float32))
    spacing = jnp.nextafter(magnitude, jnp.float32(jnp.inf)) - magnitude
    sd = jnp.asarray(standard_deviation, jnp.float32)
    return (sd > 0) & (spacing <= _COARSEST * sd)


def sort(samples: jax.Array) -> jax.Array:
    """Sorts float32 `[..., n]` along the last axis, as `jnp.sort` does but faster."""
    # As integers of the same order: XLA's sort on a CPU looks for NaN among floats.
    samples = jnp.asarray(samples, jnp.float32)
    bits = jax.lax.bitcast_convert_type(samples, jnp.int32)
    ordered = _flip_negative(jnp.sort(_flip_negative(bits), axis=-1))
    return jax.lax.bitcast_convert_type(ordered, jnp.float32)


def _flip_negative(bits: jax.Array) -> jax.Array:
    """Makes the order of integers that of the floats, and back: its own inverse."""
    # Negative floats have the sign bit and then a magnitude that grows downwards.
    return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


_ITERATIONS = 14
# Derivatives cancel where an exponent vanishes: a step is taken from this far away.
_NUDGE = 1e-2


def boxcox(log_x: jax.Array, lmbda: jax.Array) -> jax.Array:
    """Makes positive samples more normal: Box and Cox's transform.

    It is `(x^λ - 1)/λ`, or `log x` where λ is 0. Up to an affine map it is the same of
    x over any constant. So that float32 suffices, pass `log_x - c`, with c the mean of
    `log_x`, and subtract the same c from what is compared with them.

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
    exponent = log_x * lmbda
    small = jnp.abs(exponent) < 1e-4
    ratio = jnp.expm1(exponent) / jnp.where(small, 1.0, exponent)
    return log_x * jnp.where(small, 1 + exponent / 2, ratio)


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
    # Minima alone: a maximum's first value slows a network's pooling on a CPU.
    smallest, largest = jnp.min(log_x, axis=-1), -jnp.min(-log_x, axis=-1)
    constant = smallest == largest
    sd = jnp.where(constant, 1.0, sd)
    u = centred / sd[..., None]
    smallest, largest = jnp.min(u, axis=-1), -jnp.min(-u, axis=-1)

    def derivatives(scaled: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of `log var((e^(scaled u) - 1)/scaled)`, the first and the second."""
        # Less the largest exponent nothing overflows; less 1 small ones stay precise.
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


# A fit is contradicted by hits that it makes less probable than this.
_IMPOSSIBLE = 1e-4


_ASSUMES = (
    "a normal distribution fitted to plain draws is assumed to hold beyond them; "
    "how far that is off is not known: rare probabilities come out too high, often "
    "tenfold and up to 20,000-fold"
)
#: The statuses of "roma", and their caveats.
FITTED = {
    "normal": _ASSUMES,
    "transformed": _ASSUMES,
    **dict.fromkeys(("failed", "constant", "unresolved"), ""),
}


class Confidences(NamedTuple):
    # The logarithm of the highest incorrect confidence (section 3.2).
    log_hic: jax.Array
    # The size of the largest number it was computed from, whose rounding it shares.
    magnitude: jax.Array
    hit: jax.Array  # whether it is distinctly misclassified


class Moments(NamedTuple, Generic[Array]):
    """What lines 5 to 12 need of N inputs."""

    # Columns: as drawn, in units of the largest; transformed, of the geometric mean.

    log_unit: Array  # `[N, 2]`, the logarithms of these units
    boxcox_lambda: Array  # `[N]`, the maximum-likelihood lambda
    statistic: Array  # `[N, 2]`, Anderson and Darling's
    mean: Array  # `[N, 2]`
    std: Array  # `[N, 2]`
    constant: Array  # `[N]`, whether all draws give the same confidence
    resolved: Array  # `[N]`, whether float32 resolves the confidences
    hits: Array  # int32 `[N]`, draws that are distinctly misclassified


def roma(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    found = summarise_draws(work, inputs, settings, NORMALITY)
    return fit_normal(found, settings.delta, settings.num_samples)


def warn_of_contradictions(
    log_probability: np.ndarray, hits: np.ndarray, number: int
) -> None:
    p = np.exp(log_probability)
    binomial = scipy.stats.binom
    with np.errstate(invalid="ignore"):
        least = np.fmin(binomial.cdf(hits, number, p), binomial.sf(hits - 1, number, p))
    answered = np.count_nonzero(~np.isnan(p))
    # Of true fits, one is so improbable once in 10,000 calls.
    impossible = np.count_nonzero(least < _IMPOSSIBLE / max(answered, 1))
    if impossible:
        worst = np.nanargmin(least)
        warn(
            f"the plain draws contradict the normal fit of {impossible} of {answered} "
            f"answers: at input {worst} it gives the probability {p[worst]:.2g}, but "
            f"{hits[worst]} of {number} draws are distinctly misclassified. Take "
            'estimator="auto"'
        )


def observe_hic(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> Confidences:
    hits = observe_hits(log_p, excluded, logit_delta)
    return Confidences(log_hic(log_p, excluded), -log_p.min(axis=-1), hits)


def examine_normality(observed: Confidences) -> Moments[jax.Array]:
    """What lines 5 to 12 need of b inputs, from `[b, n]`."""
    # The unit does not matter, and hic may underflow. One sort serves both, in order.
    ascending = sort(observed.log_hic)
    largest = ascending[:, -1]
    centre = ascending.mean(axis=1)
    centred = ascending - centre[:, None]
    lmbda = boxcox_lambda(ascending)
    raw = anderson_darling(jnp.exp(ascending - largest[:, None]), ascending=True)
    transformed = anderson_darling(boxcox(centred, lmbda[:, None]), ascending=True)
    return Moments(
        log_unit=_pair(largest, centre),
        boxcox_lambda=lmbda,
        statistic=_pair(raw.statistic, transformed.statistic),
        mean=_pair(raw.mean, transformed.mean),
        std=_pair(raw.standard_deviation, transformed.standard_deviation),
        constant=ascending[:, 0] == largest,
        resolved=resolved(-(-observed.magnitude).min(axis=1), centred.std(axis=1)),
        hits=observed.hit.sum(axis=1, dtype=jnp.int32),
    )


#: How normal the confidences of plain draws are.
NORMALITY = Statistic(observe_hic, examine_normality)


def fit_normal(found: Moments[np.ndarray], delta: float, num_samples: int) -> Answers:
    """Lines 5 to 14, by what `examine_normality` returned for N inputs."""
    largest, centre = found.log_unit.astype(np.float64).T
    lmbda = found.boxcox_lambda.astype(np.float64)
    statistic, in_unit_mean, in_unit_std = (
        a.astype(np.float64).T for a in (found.statistic, found.mean, found.std)
    )
    is_normal, is_transformed = statistic < NORMAL_BELOW
    usable = ~found.constant & found.resolved
    status = np.select(
        [found.constant, ~found.resolved, is_normal, is_transformed],
        ["constant", "unresolved", "normal", "transformed"],
        "failed",
    )
    # Line 13 prints Box-Cox(delta) for both; delta stays where the draws do.
    with np.errstate(all="ignore"):
        bound = np.stack(
            [np.exp(np.log(delta) - largest), _boxcox(np.log(delta) - centre, lmbda)]
        )
        score = (bound - in_unit_mean) / in_unit_std
        grown = np.exp(lmbda * centre)
        mean = [np.exp(largest) * in_unit_mean[0]]
        mean.append(grown * in_unit_mean[1] + _boxcox(centre, lmbda))
        std = [np.exp(largest) * in_unit_std[0], grown * in_unit_std[1]]
        log_probability = scipy.special.log_ndtr(-np.where(is_normal, *score))
    answered = usable & (is_normal | is_transformed)
    none = np.full(len(status), np.nan)
    return Answers(
        status=status,
        log_adversarial_probability=np.where(answered, log_probability, np.nan),
        log_low=none,
        log_high=none,
        hits=found.hits,
        evaluations=np.full(len(status), num_samples, np.int64),
        statistic=np.where(usable, np.where(is_normal, *statistic), np.nan),
        boxcox_lambda=np.where(usable & ~is_normal, lmbda, np.nan),
        mean=np.where(usable, np.where(is_normal, *mean), np.nan),
        std=np.where(usable, np.where(is_normal, *std), np.nan),
    )


def _pair(as_drawn: jax.Array, transformed: jax.Array) -> jax.Array:
    return jnp.stack([as_drawn, transformed], axis=1)


def _boxcox(log_x: np.ndarray, lmbda: np.ndarray) -> np.ndarray:
    return log_x * scipy.special.exprel(lmbda * log_x)
