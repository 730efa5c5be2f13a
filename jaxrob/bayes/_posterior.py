"""The posterior of a network's parameters, and the classifier of its draws."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._classifier import Classifier
from jaxrob._identity.digest import hashable_partial
from jaxrob._keys import checked_key
from jaxrob.bayes._model import Head, Likelihood, log_probabilities, normals


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """A network and the distribution of its parameters.

    Attributes:
      likelihood: the network and its head.
      location: nested dictionaries of the parameters' means.
      scale: nested dictionaries of their standard deviations.
      factor: `[D, D]`, with a full-rank guide: the lower Cholesky factor of the
        covariance of the D parameters, raveled in the order of `jax.tree.leaves`.
      samples: nested dictionaries, with NUTS: the draws along a leading axis.
      fixed: nested dictionaries of the module's other variables.
      elbo: `[epochs]`, with SVI: the mean of the evidence lower bound over the steps
        of each epoch, in nats for the whole data set.
    """

    likelihood: Likelihood = dataclasses.field(repr=False)
    location: Any = dataclasses.field(repr=False)
    scale: Any = dataclasses.field(repr=False)
    factor: jax.Array | None = dataclasses.field(default=None, repr=False)
    samples: Any = dataclasses.field(default=None, repr=False)
    fixed: Any = dataclasses.field(default_factory=dict, repr=False)
    elbo: np.ndarray | None = None

    @property
    def num_parameters(self) -> int:
        """Trainable parameters: of the guide with SVI, of the network with NUTS."""
        count = sum(leaf.size for leaf in jax.tree.leaves(self.location))
        if self.samples is not None:
            return count
        if self.factor is not None:
            return count + count * (count + 1) // 2
        return 2 * count


def draw(posterior: Posterior, num_samples: int, key: jax.Array) -> Any:
    """Draws parameters from the posterior, stacked along a leading axis."""
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    key = checked_key(key)
    if posterior.samples is not None:
        available = len(jax.tree.leaves(posterior.samples)[0])
        if num_samples > available:
            raise ValueError(
                f"num_samples must be at most {available}, the samples that NUTS drew; "
                f"got {num_samples}"
            )
        return _chosen(posterior.samples, key, num_samples)
    location, scale, factor = posterior.location, posterior.scale, posterior.factor
    return _drawn(location, scale, factor, key, num_samples)


# One program each: an operation on its own is compiled for itself.
@functools.partial(jax.jit, static_argnames="num_samples")
def _chosen(samples: Any, key: jax.Array, num_samples: int) -> Any:
    available = len(jax.tree.leaves(samples)[0])
    chosen = jax.random.choice(key, available, (num_samples,), replace=False)
    return jax.tree.map(lambda leaf: leaf[chosen], samples)


@functools.partial(jax.jit, static_argnames="num_samples")
def _drawn(
    location: Any,
    scale: Any,
    factor: jax.Array | None,
    key: jax.Array,
    num_samples: int,
) -> Any:
    location, unravel = ravel_pytree(location)
    normal = jax.random.normal(key, (num_samples, len(location)), jnp.float32)
    if factor is not None:
        deviation = jnp.matmul(normal, factor.T, precision="highest")
    else:
        deviation = normal * ravel_pytree(scale)[0]
    return jax.vmap(unravel)(location + deviation)


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
