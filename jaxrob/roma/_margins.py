"""By how much a class is the distinct answer, from log-probabilities.

An input is distinctly misclassified as class c when c is the answer, c is not the class
predicted at the unperturbed input, and its probability is at least delta (Levy and Katz
2022, Definition 3). These events exclude each other for any delta, so their
probabilities add up.
"""

import jax
import jax.numpy as jnp

from jaxrob._keys import classifier_keys
from jaxrob._log_probabilities import mean_over_samples
from jaxrob.roma._pairs import ANY_CLASS, Pairs
from jaxrob.roma._work import Work

#: Statistics take a margin beyond this as this, so that their sums are finite.
LARGEST_MARGIN = 1e15


def log_hic(log_p: jax.Array, excluded: jax.Array) -> jax.Array:
    """The logarithm of the highest incorrect confidence (section 3.2)."""
    is_excluded = jnp.arange(log_p.shape[-1]) == excluded
    return jnp.where(is_excluded, -jnp.inf, log_p).max(axis=-1)


def distinct_margins(log_p: jax.Array, logit_delta: jax.Array) -> jax.Array:
    """By how much each class is the distinct answer: at least 0 if it is."""
    # The smaller of logit p_c - logit delta and log p_c - max over j != c of log p_j.
    # For delta >= 0.5 it is always the first, which is nearly linear in the
    # perturbation and never underflows.
    classes = jnp.arange(log_p.shape[-1])
    best = log_p.argmax(axis=-1, keepdims=True)
    others = jnp.where(classes == best, -jnp.inf, log_p)
    # 1 - p of the best class comes from the others: its own p may round to 1.
    log_rest_of_best = jax.nn.logsumexp(others, axis=-1, keepdims=True)
    not_best = jnp.where(classes == best, -1.0, log_p)
    log_rest = jnp.where(
        classes == best, log_rest_of_best, jnp.log1p(-jnp.exp(not_best))
    )
    rival = jnp.where(
        classes == best,
        others.max(axis=-1, keepdims=True),
        log_p.max(axis=-1, keepdims=True),
    )
    return jnp.minimum(log_p - log_rest - logit_delta, log_p - rival)


def distinct_margin(
    log_p: jax.Array, cls: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`distinct_margins` of one class, differentiable everywhere except on ties."""
    is_class = jnp.arange(log_p.shape[-1]) == cls
    own = jnp.where(is_class, log_p, 0).sum(axis=-1)
    others = jnp.where(is_class, -jnp.inf, log_p)
    logit = own - jax.nn.logsumexp(others, axis=-1)
    return jnp.minimum(logit - logit_delta, own - others.max(axis=-1))


def margins_of_pairs(
    work: Work,
    pairs: Pairs[jax.Array],
    images: jax.Array,
    keys: jax.Array | None = None,
) -> jax.Array:
    """The distinct margins of P pairs on m images each, classified in one batch."""
    log_p = _log_probabilities(work, images, keys)
    one = jax.vmap(_margin_as, (0, 0, 0, None))
    return one(log_p, pairs.classes, pairs.excluded, work.logit_delta)


def nearest_class(
    work: Work,
    pairs: Pairs[jax.Array],
    images: jax.Array,
    keys: jax.Array | None = None,
) -> jax.Array:
    """`[P, m]` the other class with the greatest margin on each image."""
    log_p = _log_probabilities(work, images, keys)
    one = jax.vmap(_nearest, (0, 0, None))
    return one(log_p, pairs.excluded, work.logit_delta).astype(jnp.int32)


def _log_probabilities(
    work: Work, images: jax.Array, keys: jax.Array | None
) -> jax.Array:
    """`[P, m, K]` of images `[P, m, H, W, C]`, by the mean over samples."""
    shape = images.shape[:2]
    own = None
    if work.classifier.stochastic:
        assert keys is not None
        own = jax.vmap(lambda k: classifier_keys(k, jnp.zeros(1, jnp.uint32))[0])
        own = own(keys.reshape(-1))
    flat = images.reshape(-1, *images.shape[2:])
    log_p = mean_over_samples(work.classifier.log_probabilities(flat, own))
    return log_p.reshape(*shape, -1)


def _margin_as(
    log_p: jax.Array, cls: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` margins of a class, or of the nearest one, from `[m, K]`."""
    nearest = _nearest(jax.lax.stop_gradient(log_p), excluded, logit_delta)
    chosen = jnp.where(cls == ANY_CLASS, nearest, cls)
    return jax.vmap(distinct_margin, (0, 0, None))(log_p, chosen, logit_delta)


def _nearest(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` the class with the greatest margin but the excluded one."""
    is_excluded = jnp.arange(log_p.shape[-1]) == excluded
    each = jnp.where(is_excluded, -jnp.inf, distinct_margins(log_p, logit_delta))
    return each.argmax(axis=-1)
