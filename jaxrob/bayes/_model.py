"""The Bayesian classifier as a NumPyro model, and checks before inference."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import distributions as dist

from jaxrob._arguments.checks import check_type, checked_number
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset, check_labels_below
from jaxrob._devices.hosts import local, put
from jaxrob._devices.mesh import ImageMesh, along_images, checked_mesh, replicated
from jaxrob._identity.hashable_partial import HashablePartial
from jaxrob._pixels import as_floats
from jaxrob._stored_images import StoredImages
from jaxrob.bayes._head import Head, checked_head, log_probabilities, normals
from jaxrob.bayes._network import network


class Likelihood(NamedTuple):
    """The static part of the model: equal for equal modules and heads."""

    apply_fn: HashablePartial
    head: Head


class Data(NamedTuple):
    """The arrays of the model.

    Attributes:
      params: nested dictionaries of D parameters in all; only the structure matters.
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


class Problem(NamedTuple):
    """The input of every kind of inference.

    Attributes:
      likelihood: the network and its head.
      data: the data, replicated on all devices.
      num_classes: number of classes, K.
      initial: `[D]`, the initial parameters, raveled.
      unravel: converts such an array to nested dictionaries.
      mesh: the devices, along one axis.
    """

    likelihood: Likelihood
    data: Data
    num_classes: int
    initial: jax.Array
    unravel: Callable[[jax.Array], Any]
    mesh: ImageMesh


def make_problem(
    module: Any,
    dataset: Dataset,
    key: jax.Array,
    head: str,
    noise_draws: int,
    prior_scale: float,
    mesh: Mesh | None,
) -> Problem:
    """Checks the common arguments of inference, and puts the data on the devices."""
    over = along_images(checked_mesh(mesh))
    check_type("dataset", dataset, Dataset, "a jaxrob.Dataset in memory")
    prior_scale = checked_number("prior_scale", prior_scale, above=0, at_most=2**30)
    checked = checked_head(head, noise_draws)
    apply_fn, params, fixed = network(module, jnp.asarray(dataset.images[0]), key)
    num_outputs = Classifier(
        lambda variables, images: apply_fn(*variables, images), (params, fixed)
    ).num_classes(dataset.images.shape[1:])
    num_classes = checked.num_classes(num_outputs)
    check_labels_below(
        dataset.labels, num_classes, f"labels of {dataset.name}", dataset.class_names
    )
    images: Any = dataset.images
    if isinstance(images, StoredImages):
        images = np.asarray(images)
    data = Data(params, fixed, images, dataset.labels, prior_scale)
    data = put(data, replicated(over))
    params = local(data.params)
    unravel = functools.partial(unraveled, like=params)
    likelihood = Likelihood(apply_fn, checked)
    return Problem(likelihood, data, num_classes, raveled(params), unravel, over)


@jax.jit
def raveled(params: Any) -> jax.Array:
    return ravel_pytree(params)[0]


@jax.jit
def unraveled(flat: jax.Array, like: Any) -> Any:
    return ravel_pytree(like)[1](flat)


def model(
    likelihood: Likelihood,
    data: Data,
    bits: jax.Array | None,
    batch_size: int | None = None,
) -> None:
    """The NumPyro model: sites "params" `[D]`, the parameters raveled, and "labels"."""
    flat, unravel = ravel_pytree(data.params)
    prior = dist.Normal(jnp.zeros(len(flat), jnp.float32), data.prior_scale).to_event(1)
    params = unravel(cast(jax.Array, numpyro.sample("params", prior)))
    with numpyro.plate("images", len(data.labels), batch_size) as index:
        # Splits the images evenly over the devices; XLA then sums over devices where
        # the model sums over images. NumPyro also runs the model eagerly, to find its
        # sites, where uneven splits cannot be padded.
        if isinstance(index, Tracer):
            index = jax.lax.with_sharding_constraint(index, P("images"))
        images = as_floats(data.images[index])
        outputs = likelihood.apply_fn(params, data.fixed, images)
        noise = None if bits is None else normals(bits, likelihood.head.noise_draws)
        labels = dist.CategoricalLogits(log_probabilities(outputs, noise))
        numpyro.sample("labels", labels, obs=data.labels[index])


def noise_bits(head: Head, key: jax.Array, shape: tuple[int, int]) -> jax.Array | None:
    """Draws random bits `[B, K]` for the head's noise; None for a plain head."""
    return jax.random.bits(key, shape, jnp.uint32) if head.stochastic else None
