"""Counted distinct misclassifications, with exact intervals."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob.roma._draws import Statistic, summarise_draws
from jaxrob.roma._estimate import Answers
from jaxrob.roma._margins import log_hic
from jaxrob.roma._work import Inputs, Settings, Work


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
