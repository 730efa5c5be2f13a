"""A softmax's logarithm that no scale of the logits upsets."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(logits: jax.Array, axis: int) -> jax.Array:
    """`jax.nn.log_softmax` for logits of any size; NaN where one is infinite.

    A network that multiplies last may see its product and the subtraction of the
    largest logit fused, without the rounding between them. Beyond 1e9 the difference
    of the largest logit and itself is then not 0, and its exponential overflows.
    """
    largest = logits.max(axis=axis, keepdims=True)
    below = jnp.where(logits == largest, 0.0, logits - largest)
    log_total = jnp.log(jnp.exp(below).sum(axis=axis, keepdims=True))
    return below - jnp.where(jnp.isfinite(largest), log_total, jnp.nan)


@log_softmax.defjvp
def _log_softmax_jvp(
    axis: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (logits,), (change,) = primals, tangents
    found = log_softmax(logits, axis)
    mean = (jnp.exp(found) * change).sum(axis=axis, keepdims=True)
    return found, change - mean
