"""Counted distinct misclassifications, by class, with exact intervals."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._keys import classifier_keys
from jaxrob._log_probabilities import mean_over_samples
from jaxrob.roma._draws import Array, Inputs, Settings, Statistic, Work, summarise_draws
from jaxrob.roma._estimate import Answers

# The index of no input: here the pairs' keys branch off from those of plain draws.
_PAIRS = 2**32 - 2

#: Uses of random numbers, each with keys of its own. Results depend on these numbers:
#: add new ones at the end.
STARTS, SEARCH, REFINEMENT, MIXTURE, SPLITTING, SCOUTS = range(6)
#: Further runs of splitting.
AGAIN = (6, 7, 8)
#: Further groups of scouts.
MORE_SCOUTS = (9, 10)
#: In place of a class: whichever comes nearest to being the distinct answer.
ANY_CLASS = -1


class Pairs(NamedTuple, Generic[Array]):
    """P pairs of an input and a class."""

    images: Array  # `[P, H, W, C]`, uint8 or float32 in [0, 1]
    indices: Array  # `[P]` uint32, the inputs' indices, which the random keys depend on
    classes: Array  # `[P]` int32, the classes; `ANY_CLASS` for all of them together
    excluded: Array  # `[P]` int32, the class predicted at the input


def pair_keys(
    key: jax.Array, pairs: Pairs[jax.Array], use: int | jax.Array
) -> jax.Array:
    """`[P]` keys that depend on the input, the class and the use alone."""
    key = jax.random.fold_in(key, _PAIRS)

    def one(index: jax.Array, cls: jax.Array) -> jax.Array:
        of_class = jax.random.fold_in(jax.random.fold_in(key, index), cls)
        return jax.random.fold_in(of_class, use)

    return jax.vmap(one)(pairs.indices, pairs.classes.astype(jnp.uint32))


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


#: The status of "count", without a caveat.
COUNTED = {"counted": ""}


def count(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "count": hits among plain draws, with an exact interval."""
    hits = summarise_draws(work, inputs, settings, HITS)
    return counted(hits, settings.num_samples, settings.confidence_level)


def counted(hits: np.ndarray, num_samples: int, confidence_level: float) -> Answers:
    """The answers that `[N]` hits among so many plain draws give."""
    low, high = clopper_pearson(hits, num_samples, confidence_level)
    with np.errstate(divide="ignore"):
        log_p, log_low, log_high = (
            np.log(part) for part in (hits / num_samples, low, high)
        )
    return Answers(
        status=np.full(len(hits), "counted", "U16"),
        log_adversarial_probability=log_p,
        log_low=log_low,
        log_high=log_high,
        hits=np.asarray(hits, np.int64),
        evaluations=np.full(len(hits), num_samples, np.int64),
    )


def observe_hits(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` whether each draw is distinctly misclassified (Definition 3)."""
    hic = log_hic(log_p, excluded)
    own = jnp.take(log_p, excluded, axis=-1)
    return (hic >= jax.nn.log_sigmoid(logit_delta)) & (hic > own)


def count_hits(hits: jax.Array) -> jax.Array:
    """`[b]` the number of hits, from `[b, n]`."""
    return hits.sum(axis=1, dtype=jnp.int32)


#: The number of hits among plain draws.
HITS = Statistic(observe_hits, count_hits)


def clopper_pearson(
    hits: np.ndarray, num_samples: int | np.ndarray, confidence_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The exact confidence interval of a probability (Clopper and Pearson 1934)."""
    hits, num_samples = np.broadcast_arrays(hits, num_samples)
    tail = (1 - confidence_level) / 2
    with np.errstate(invalid="ignore"):
        low = scipy.stats.beta.ppf(tail, hits, num_samples - hits + 1)
        high = scipy.stats.beta.isf(tail, hits + 1, num_samples - hits)
    return np.where(hits == 0, 0.0, low), np.where(hits == num_samples, 1.0, high)
