"""The Anderson-Darling test of normality, for many samples at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from jaxrob._arguments.checks import checked_flag, checked_traceable

#: The corrected statistic below which samples count as normal: the 15 % point, with
#: mean and variance estimated, of D'Agostino and Stephens (1986), table 4.7.
NORMAL_BELOW = 0.561

# Float32's spacing at the samples, over their standard deviation, from which on the
# test sees the rounding rather than the distribution.
_COARSEST = 1e-3


class Normality(NamedTuple):
    """How normal samples are. All arrays have the samples' leading axes.

    Attributes:
      statistic: Anderson and Darling's A², corrected for n; normal below
        `NORMAL_BELOW`. Infinite where all samples are equal.
      mean: the samples' mean.
      standard_deviation: theirs, with n - 1 in the denominator; 0 where all are equal.
      resolved: whether float32 resolves the samples (see `resolved`); where it does
        not, the statistic says little.
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
    hold for n >= 8 (D'Agostino and Stephens, 1986, table 4.7). `scipy.stats.anderson`
    gives A² itself and divides the critical values instead.

    Args:
      samples: `[..., n]` with n >= 8; computed in float32.
      ascending: whether they are sorted already. Sorting takes most of the time, and
        increasing functions of sorted samples are sorted.

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
    # In units of the largest deviation, so that the squares do not underflow. Equal
    # samples may still be off their rounded mean.
    constant = samples[..., :1] == samples[..., -1:]
    unit = jnp.maximum(-centred[..., :1], centred[..., -1:])
    unit = jnp.where(constant, 1.0, unit)
    z = centred / unit
    sd = jnp.sqrt(jnp.sum(z**2, axis=-1, keepdims=True) / (num_samples - 1))
    z = z / jnp.where(constant, 1.0, sd)
    sd = jnp.where(constant, 0.0, sd * unit)

    # A² is a small difference of sums of the order of n. Taking log p_i and
    # log(1 - p_i) off sample by sample leaves small terms, and a constant known in
    # float64. Both sums are in the order of the samples: i becomes n + 1 - i in the
    # second, whose weight is then twice 1 - p_i.
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
    # It does if float32's spacing at `magnitude` is at most a thousandth of the
    # standard deviation. Pass the largest number that the samples were computed from,
    # if it is larger than they are: the largest logit, for instance, of confidences
    # near 1 that perturbations hardly change.
    magnitude = jnp.abs(jnp.asarray(magnitude, jnp.float32))
    spacing = jnp.nextafter(magnitude, jnp.float32(jnp.inf)) - magnitude
    sd = jnp.asarray(standard_deviation, jnp.float32)
    return (sd > 0) & (spacing <= _COARSEST * sd)


def sort(samples: jax.Array) -> jax.Array:
    """Sorts float32 `[..., n]` along the last axis, as `jnp.sort` does but faster."""
    # It sorts the bit patterns, as integers of the same order. XLA's sort on a CPU is
    # several times faster on these than on floats, where it has to look for NaN.
    samples = jnp.asarray(samples, jnp.float32)
    bits = jax.lax.bitcast_convert_type(samples, jnp.int32)
    ordered = _flip_negative(jnp.sort(_flip_negative(bits), axis=-1))
    return jax.lax.bitcast_convert_type(ordered, jnp.float32)


def _flip_negative(bits: jax.Array) -> jax.Array:
    """Makes the order of integers that of the floats, and back: its own inverse."""
    # Negative floats have the sign bit and then a magnitude that grows downwards.
    return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
