"""What a network is given and returns: ranges, bytes as pixels, log-probabilities."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.texts import warn

# The sum of probabilities may differ from 1 by this much: in bfloat16 2e-3 is common.
_SUM_TOLERANCE = 1e-2
# Beyond the ends of [0, 1]: a hard sigmoid's rounding.
_ROUNDING = 1e-5
_TINY = float(jnp.finfo(jnp.float32).tiny)


def largest(
    values: jax.Array, axis: int = -1, keepdims: bool = False, but: Any = False
) -> jax.Array:
    """The maximum of those not in `but`, without a gradient; NaN where one is NaN."""
    # It starts from the smallest number, because XLA merges equal constants: on a CPU,
    # max-pooling that shares its minus infinity with us makes a network slower.
    least = jnp.asarray(jnp.finfo(values.dtype).min, values.dtype)
    values = jnp.where(but, least, jax.lax.stop_gradient(values))
    found = jax.lax.reduce(values, least, jax.lax.max, (axis % values.ndim,))
    found = jnp.where(found == least, 2 * found, found)  # Minus infinity.
    return jnp.expand_dims(found, axis) if keepdims else found


def first_largest(values: jax.Array, axis: int = -1, but: Any = False) -> jax.Array:
    """The index of the first of the largest values that are not in `but`."""
    found = (values == largest(values, axis, True, but)) & ~jnp.asarray(but)
    return jnp.argmax(found, axis)


def log_sum_exp(
    values: jax.Array, axis: int = -1, keepdims: bool = False, but: Any = False
) -> jax.Array:
    """`jax.nn.logsumexp` of those not in `but`, but for where its maximum starts."""
    top = largest(values, axis, True, but)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    terms = jnp.exp(jnp.where(but, top, values) - top)
    total = jnp.log(jnp.where(but, 0.0, terms).sum(axis, keepdims=True)) + top
    return total if keepdims else jnp.squeeze(total, axis)


# Compiled as one program even if the caller is not.
@functools.partial(jax.jit, static_argnames=("kind", "axis"))
def log_normalised(outputs: jax.Array, kind: str, axis: int = -1) -> jax.Array:
    if kind == "logits":
        return log_softmax(outputs, axis)
    in_range = (outputs >= -_ROUNDING) & (outputs <= 1 + _ROUNDING)
    in_range = in_range.all(axis=axis, keepdims=True)
    # At 0 the logarithm has no gradient.
    outputs = jnp.maximum(outputs, _TINY)
    total = outputs.sum(axis=axis, keepdims=True)
    if kind == "probabilities":
        in_range &= jnp.abs(total - 1) <= _SUM_TOLERANCE
    log_probabilities = jnp.log(outputs) - jnp.log(total)
    return jnp.where(in_range, log_probabilities, jnp.nan)


@functools.partial(jax.jit, static_argnames="axis")
def mean_over_samples(log_probabilities: jax.Array, axis: int = 0) -> jax.Array:
    """Computes the logarithm of the mean probability over the samples along `axis`."""
    number = log_probabilities.shape[axis]
    if number == 1:
        return jnp.squeeze(log_probabilities, axis)
    return log_sum_exp(log_probabilities, axis) - jnp.log(jnp.float32(number))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(logits: jax.Array, axis: int) -> jax.Array:
    """`jax.nn.log_softmax` for logits of any size; NaN where one is infinite."""
    # XLA may fuse a network's last multiplication with the subtraction of the largest
    # logit, without rounding: above 1e9 the largest minus itself is then not 0.
    top = largest(logits, axis, keepdims=True)
    below = jnp.where(logits == top, 0.0, logits - top)
    log_total = jnp.log(jnp.exp(below).sum(axis=axis, keepdims=True))
    return below - jnp.where(jnp.isfinite(top), log_total, jnp.nan)


@log_softmax.defjvp
def _log_softmax_jvp(
    axis: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (logits,), (change,) = primals, tangents
    log_probabilities = log_softmax(logits, axis)
    mean = (jnp.exp(log_probabilities) * change).sum(axis=axis, keepdims=True)
    return log_probabilities, change - mean


@jax.jit
def as_floats(images: Any) -> jax.Array:
    images = jnp.asarray(images)
    if images.dtype == jnp.uint8:
        return unit_range(images)
    return images.astype(jnp.float32)


def unit_range(levels: jax.Array) -> jax.Array:
    """Divides levels 0-255 by 255, in float32, correctly rounded."""
    # XLA's division is an ulp off at half of the levels; the larger product is exact.
    levels = levels.astype(jnp.float32)
    high = round(2**23 / 255) * 2.0**-23
    return levels * high + levels * (1 / 255 - high)


def warn_beyond_pixels(epsilon: float, norm: str) -> None:
    """Warns if an L-infinity ball holds every image, whatever its centre."""
    if norm == "linf" and epsilon > 1:
        warn(
            f"epsilon is {epsilon:g}, but pixels lie in [0, 1], so that every image is "
            f"in the ball. For pixels of 0-255 divide by 255: epsilon={epsilon:g}/255."
        )


def note_values(into: list[Any], images: np.ndarray | jax.Array) -> None:
    """Widens a range by that of images, see `checked_value_range`."""
    kind = "images" if images.ndim == 4 else "other"
    kind = "bytes" if images.dtype == np.uint8 else kind
    widen(into, *checked_value_range(images), kind)


def widen(into: list[Any], low: float, high: float, kind: str) -> None:
    into[:] = min([low, *into[:1]]), max([high, *into[1:2]]), kind


def checked_value_range(images: np.ndarray | jax.Array) -> tuple[float, float]:
    """Rejects NaN, infinities and, in images (rank 4), values outside [0, 1]."""
    # These two reductions copy nothing, and a NaN makes both NaN.
    low, high = float(images.min()), float(images.max())
    if not jnp.issubdtype(images.dtype, jnp.floating):
        return low, high
    if not (np.isfinite(low) and np.isfinite(high)):
        finite = np.isfinite(np.asarray(images)).reshape(len(images), -1).all(axis=1)
        bad = np.flatnonzero(~finite)
        raise ValueError(
            f"images must be finite; {len(bad)} of {len(images)} are not, the first "
            f"{bad[0]}"
        )
    if images.ndim == 4 and (low < 0 or high > 1):
        raise ValueError(
            f"floating images (rank 4) must lie in [0, 1]; got values in [{low:.9g}, "
            f"{high:.9g}] (pass uint8 for 0-255; numpy.clip mends rounding; "
            "normalisation belongs to the classifier, as mean= and std=)"
        )
    return low, high
