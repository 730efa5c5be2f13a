"""Uncertainty of predictions, from the probabilities of posterior samples.

All functions except `unknown_threshold` take log-probabilities `[S, ..., K]` of S
posterior samples and K classes, and return `[...]`. Below, p_t are the probabilities of
sample t, and their mean over the samples, p, is the prediction.

Example::

    log_p = classifier.log_probabilities(images)  # [S, B, K]
    print(jaxrob.uncertainty.aleatoric(log_p))  # [B]

There are two decompositions: the variance, each part divided by 1 - 1/K, `aleatoric +
epistemic = total`; and the entropy, in nats: the mean entropy of the samples
(aleatoric) plus `mutual_information` (epistemic) is `predictive_entropy`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.checks import check_type, checked_share
from jaxrob._arguments.messages import wrong_type

__all__ = (
    "aleatoric",
    "epistemic",
    "mutual_information",
    "predictive_entropy",
    "total",
    "unknown_threshold",
)

# How far rounding may put a log-probability above 0.
_SLACK = 1e-3


def aleatoric(log_probabilities: jax.Array) -> jax.Array:
    """Aleatoric uncertainty in [0, 1], which remains with any number of samples.

    `(1 - mean_t sum_k p_tk**2) / (1 - 1/K)`, the trace of Kwon et al. (2020).
    """
    log_probabilities, largest = _checked(log_probabilities)
    squares = jnp.sum(jnp.exp(2 * log_probabilities), axis=-1)
    return _share((1 - jnp.mean(squares, axis=0)) / largest)


def epistemic(log_probabilities: jax.Array) -> jax.Array:
    """Epistemic uncertainty in [0, 1]: 0 if all samples agree.

    `mean_t |p_t - p|**2 / (1 - 1/K)`, the trace of Kwon et al. (2020).
    """
    log_probabilities, largest = _checked(log_probabilities)
    samples = jnp.exp(log_probabilities)
    squares = jnp.sum((samples - jnp.mean(samples, axis=0)) ** 2, axis=-1)
    return _share(jnp.mean(squares, axis=0) / largest)


def total(log_probabilities: jax.Array) -> jax.Array:
    """Aleatoric and epistemic uncertainty in [0, 1]: `(1 - |p|**2) / (1 - 1/K)`."""
    log_probabilities, largest = _checked(log_probabilities)
    mean = jnp.mean(jnp.exp(log_probabilities), axis=0)
    return _share((1 - jnp.sum(mean**2, axis=-1)) / largest)


def predictive_entropy(log_probabilities: jax.Array) -> jax.Array:
    """The entropy of the prediction, `-sum_k p_k log p_k`."""
    log_probabilities, _ = _checked(log_probabilities)
    return _entropy(jnp.mean(jnp.exp(log_probabilities), axis=0))


def mutual_information(log_probabilities: jax.Array) -> jax.Array:
    """`predictive_entropy` minus the mean entropy of the samples.

    That of the class and the parameters (Houlsby et al., 2011), known as BALD.
    """
    log_probabilities, _ = _checked(log_probabilities)
    samples = jnp.exp(log_probabilities)
    information = _entropy(jnp.mean(samples, axis=0)) - _entropy(samples).mean(axis=0)
    return jnp.maximum(information, 0.0)  # rounding may leave the range


def unknown_threshold(alpha: float) -> float:
    """The uncertainty above which a prediction is "unknown", 2024 paper, section 3."""
    # As it is written: 1 - 0.9 is less than 0.1.
    return round(1.0 - checked_share("alpha", alpha), 15)


def _share(uncertainty: jax.Array) -> jax.Array:
    return jnp.clip(uncertainty, 0.0, 1.0)  # rounding may leave the range


def _entropy(probabilities: jax.Array) -> jax.Array:
    """Computes the entropy over the last axis, in nats; 0 log 0 is 0."""
    # Two wheres, because the unused branch also enters the gradient; backends treat
    # subnormal numbers differently.
    some = probabilities > jnp.finfo(probabilities.dtype).tiny
    logs = jnp.log(jnp.where(some, probabilities, 1.0))
    return -jnp.sum(probabilities * logs, axis=-1)


def _checked(log_probabilities: jax.Array) -> tuple[jax.Array, float]:
    """Returns them in float32 at least, and the largest variance of K classes."""
    allowed = "an array [S, ..., K] of floating numbers"
    check_type("log_probabilities", log_probabilities, jax.Array | np.ndarray, allowed)
    if not jnp.issubdtype(log_probabilities.dtype, jnp.floating):
        raise wrong_type("log_probabilities", allowed, log_probabilities)
    shape = log_probabilities.shape
    if len(shape) < 2 or shape[-1] < 2 or 0 in shape:
        raise ValueError(
            f"log_probabilities must be [S, ..., K] of 2 classes or more; got {shape}"
        )
    # Traced values are unknown. NaN is allowed: it marks rows that are no distribution.
    is_traced = isinstance(log_probabilities, Tracer)
    if not is_traced and (largest := float(jnp.nanmax(log_probabilities))) > _SLACK:
        raise ValueError(
            f"log_probabilities must be at most 0; got {largest:g} (take "
            "jax.nn.log_softmax of logits, jnp.log of probabilities)"
        )
    dtype = jnp.promote_types(log_probabilities.dtype, jnp.float32)
    return log_probabilities.astype(dtype), 1 - 1 / shape[-1]
