"""The Bayesian classifier as a NumPyro model."""

import math
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import distributions as dist

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._runtime.bound import Bound
from jaxrob._runtime.hosts import put
from jaxrob._runtime.mesh import whole_on
from jaxrob.bayes._head import Head, checked_head, log_probabilities, normals
from jaxrob.bayes._network import as_images, network


class Likelihood(NamedTuple):
    """What of the model is fixed before tracing: equal for equal modules and heads."""

    apply_fn: Bound
    head: Head


class Evidence(NamedTuple):
    """What the posterior depends on.

    Attributes:
      params: nested dictionaries, D parameters in all; their values do not matter.
      fixed: the module's other variables.
      images: `[N, ...]`, on the device.
      labels: int32 `[N]`, on the device.
      prior_scale: standard deviation of every parameter's prior.
    """

    params: Any
    fixed: Any
    images: jax.Array
    labels: jax.Array
    prior_scale: float


def pose(
    module: Any,
    dataset: Dataset,
    key: jax.Array,
    head: str,
    noise_draws: int,
    prior_scale: float,
    mesh: Mesh,
) -> tuple[Likelihood, Evidence, int]:
    """Checks the arguments that every kind of inference has, and puts data in place.

    Returns:
      The likelihood, the evidence (with the parameters as initialised) and the number
      of classes.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a jaxrob.Dataset in memory; got {type(dataset).__name__}"
        )
    if not 0 < prior_scale < math.inf:
        raise ValueError(f"prior_scale must be positive and finite; got {prior_scale}")
    head = checked_head(head, noise_draws)
    apply_fn, params, fixed = network(module, jnp.asarray(dataset.images[0]), key)
    num_outputs = Classifier(
        lambda variables, images: apply_fn(*variables, images), (params, fixed)
    ).num_classes(dataset.images.shape[1:])
    num_classes = head.num_classes(num_outputs)
    if dataset.labels.max() >= num_classes:
        raise ValueError(
            f"labels of {dataset.name} must be below the module's number of classes, "
            f"{num_classes}; got {dataset.labels.max()}"
        )
    evidence = Evidence(
        params,
        fixed,
        dataset.images,
        dataset.labels,
        float(prior_scale),
    )
    return Likelihood(apply_fn, head), put(evidence, whole_on(mesh)), num_classes


def model(
    likelihood: Likelihood,
    evidence: Evidence,
    bits: jax.Array | None,
    batch_size: int | None = None,
) -> None:
    """The NumPyro model: sites "params" `[D]`, the parameters raveled, and "labels".

    Args:
      likelihood: the network and its head.
      evidence: the data.
      bits: random uint32 `[B, K]` for the noise of the images in the batch, None with
        a plain head.
      batch_size: images in the batch, B; all of them if None.
    """
    flat, unravel = ravel_pytree(evidence.params)
    prior = dist.Normal(jnp.zeros(len(flat)), evidence.prior_scale).to_event(1)
    params = unravel(numpyro.sample("params", prior))
    with numpyro.plate("images", len(evidence.labels), batch_size) as index:
        # Each device takes its part of the images, as evenly as can be, and XLA adds
        # up over the devices where the model does over the images. Where NumPyro runs
        # the model eagerly, to see its sites, nothing would be padded.
        if isinstance(index, jax.core.Tracer):
            index = jax.lax.with_sharding_constraint(index, P("images"))
        images = as_images(evidence.images[index])
        outputs = likelihood.apply_fn(params, evidence.fixed, images)
        noise = None if bits is None else normals(bits, likelihood.head.noise_draws)
        logits = log_probabilities(likelihood.head, outputs, noise)
        numpyro.sample(
            "labels", dist.Categorical(logits=logits), obs=evidence.labels[index]
        )


def noise_bits(head: Head, key: jax.Array, shape: tuple[int, int]) -> jax.Array | None:
    """Random bits `[B, K]` for the head's noise, if it has any."""
    return jax.random.bits(key, shape, jnp.uint32) if head.stochastic else None


def check_positive(**numbers: int) -> None:
    """Refuses whole numbers below 1, by their names."""
    for name, number in numbers.items():
        if operator.index(number) < 1:
            raise ValueError(f"{name} must be at least 1; got {number}")
