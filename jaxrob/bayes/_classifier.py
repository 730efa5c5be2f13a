"""Classifiers from posteriors."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_type
from jaxrob._classifier import Classifier
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.bayes._head import Head, log_probabilities, normals
from jaxrob.bayes._posterior import Posterior, draw


def classifier(
    posterior: Posterior, num_samples: int = 10, *, key: jax.Array
) -> Classifier:
    """Makes a classifier from a posterior; its samples are draws from the posterior.

    The draws w_t, t = 1 ... T, are made once. With a heteroscedastic head, p_t is the
    average over draws of the logits' noise at fixed w_t. The noise of an image is the
    same at every level, so that levels are comparable. It is also the same for every
    w_t: each p_t is as accurate as with independent noise, and their differences, the
    epistemic uncertainty, contain less noise.

    Args:
      posterior: the posterior.
      num_samples: number of draws, T.
      key: a random key for the draws.

    Returns:
      A classifier of log-probabilities `[T, B, K]`, stochastic if the head is
      heteroscedastic.

    Raises:
      ValueError: if `num_samples` is below 1, or above the number of NUTS's samples.
    """
    check_type("posterior", posterior, Posterior, "a jaxrob.bayes.Posterior")
    variables = {
        "params": draw(posterior, num_samples, key),
        "fixed": posterior.fixed,
    }
    return from_draws(variables, *posterior.likelihood)


def from_draws(variables: Any, apply_fn: Callable[..., Any], head: Head) -> Classifier:
    """Returns the classifier of parameters stacked along a leading axis."""
    apply = hashable_partial(apply_draws, apply_fn=apply_fn, head=head)
    return Classifier(apply, variables, stochastic=head.stochastic)


def apply_draws(
    variables: dict[str, Any],
    images: jax.Array,
    keys: jax.Array | None = None,
    *,
    apply_fn: Callable[..., Any],
    head: Head,
) -> jax.Array:
    """Computes logits `[T, B, K]`."""
    params, fixed = variables["params"], variables["fixed"]

    def outputs(params: Any) -> jax.Array:
        return apply_fn(params, fixed, images)

    # Draws are sequential: batched sets of weights turn convolutions into grouped ones,
    # which are several times slower.
    if not head.stochastic:
        return jax.lax.map(outputs, params)
    num_outputs = jax.eval_shape(outputs, jax.tree.map(lambda leaf: leaf[0], params))
    shape = (num_outputs.shape[-1] // 2,)
    bits = jax.vmap(lambda key: jax.random.bits(key, shape, jnp.uint32))(keys)
    noise = normals(bits, head.noise_draws)
    return jax.lax.map(lambda params: log_probabilities(outputs(params), noise), params)
