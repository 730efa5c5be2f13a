"""Stochastic variational inference."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import distributions as dist
from numpyro.infer import TraceMeanField_ELBO
from tqdm.auto import tqdm

from jaxrob._dataset import Dataset
from jaxrob._runtime.hosts import is_first, local, put
from jaxrob._runtime.keys import checked_key
from jaxrob._runtime.mesh import along_images, checked_mesh, whole_on
from jaxrob.bayes._model import check_positive, model, noise_bits, pose
from jaxrob.bayes._posterior import Posterior

# Standard deviation of every parameter before the first step.
_INITIAL_SCALE = 0.01
# Parameters up to which a full-rank guide, of their number squared, is sensible.
_MAX_FULL_RANK = 4096


def svi(
    module: Any,
    dataset: Dataset,
    *,
    key: jax.Array,
    head: str = "plain",
    noise_draws: int = 8,
    prior_scale: float = 1.0,
    guide: str = "mean_field",
    epochs: int = 20,
    batch_size: int = 128,
    num_particles: int = 1,
    optimizer: optax.GradientTransformation | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Posterior:
    """A normal approximation of the posterior, by maximising the ELBO.

    The prior of every parameter is normal around 0; mini-batches are weighted by
    N / batch_size, as NumPyro's plates do. The data stay on the device; an epoch is
    one compiled call, but on a CPU, where each step is one.

    Args:
      module: a Flax module, Linen or NNX, called as `module(images)` in evaluation
        mode; variables other than its parameters stay as they are.
      dataset: the training set, N images.
      key: a random key for the parameters' first values, the order of the images and
        the draws from the guide.
      head: "plain", the module returns logits `[B, K]`; "heteroscedastic", it returns
        `[B, 2K]`, the means of the logits and, before softplus, their standard
        deviations.
      noise_draws: draws of a heteroscedastic head's noise for each image, best a power
        of two.
      prior_scale: standard deviation of the prior.
      guide: "mean_field", independent normals; "full_rank", one normal with all
        covariances, for up to 4,096 parameters.
      epochs: passes over the data.
      batch_size: images in a step; what is left over of an epoch is dropped.
      num_particles: draws from the guide in a step; more make it less noisy.
      optimizer: by default Adam, its rate decaying from 1e-2 along a cosine.
      mesh: devices over which the images of each step are split, along all of its
        axes; by default all devices of this process. Each holds all parameters and
        data. Results are those of one device, but for rounding, whether or not the
        devices divide the batch. For several processes see `jaxrob.evaluate`.
      progress: whether a progress bar is shown.

    Returns:
      The posterior.

    Raises:
      TypeError: if `module` is no Flax module, or `dataset` no `Dataset` in memory.
      ValueError: if another argument is outside its range, a heteroscedastic head
        finds an odd number of outputs, or a label is no class of the module.
      FloatingPointError: if the ELBO is no longer finite.

    Source: Kucukelbir, Tran, Ranganath, Gelman and Blei, Automatic differentiation
    variational inference, 2017; the mean-field guide is what Essbai, Bombarda,
    Bonfanti and Gargantini, 2024, section 2.1.1, use.
    """
    if guide not in _GUIDES:
        raise ValueError(f"guide must be one of {tuple(_GUIDES)}; got {guide!r}")
    check_positive(epochs=epochs, num_particles=num_particles)
    mesh = along_images(checked_mesh(mesh))
    init_key, step_key = jax.random.split(checked_key(key))
    likelihood, evidence, num_classes = pose(
        module, dataset, init_key, head, noise_draws, prior_scale, mesh
    )
    if not 1 <= batch_size <= len(dataset):
        raise ValueError(
            f"batch_size must lie in 1 ... {len(dataset)}, the number of images; got "
            f"{batch_size}"
        )
    initial, unravel = ravel_pytree(local(evidence.params))
    if guide == "full_rank" and len(initial) > _MAX_FULL_RANK:
        raise ValueError(
            f'guide "full_rank" is for at most {_MAX_FULL_RANK:,} parameters; the '
            f"module has {len(initial):,}"
        )
    steps = len(dataset) // batch_size
    if optimizer is None:
        optimizer = _default_optimizer(epochs * steps)
    stride = _stride(steps)
    variational = _GUIDES[guide].init(initial)
    state = put((variational, optimizer.init(variational)), whole_on(mesh))
    elbo = np.zeros(epochs, np.float32)
    shown = progress and is_first()
    with (
        jax.set_mesh(mesh),
        tqdm(total=epochs, unit="epoch", disable=not shown) as bar,
    ):
        for epoch in range(epochs):
            batches, keys = _order(
                put(step_key, whole_on(mesh)),
                epoch,
                num_images=len(dataset),
                batch_size=batch_size,
            )
            total = np.float32(0)
            for first in range(0, steps, stride):
                state, total = _steps(
                    state,
                    total,
                    evidence,
                    batches,
                    keys,
                    first,
                    stride=stride,
                    likelihood=likelihood,
                    guide=guide,
                    optimizer=optimizer,
                    num_classes=num_classes,
                    num_particles=num_particles,
                )
            elbo[epoch] = mean = float(total) / steps
            if not np.isfinite(mean):
                raise FloatingPointError(
                    f"the ELBO is {mean} after epoch {epoch + 1}: lower the rate"
                )
            bar.set_postfix(elbo=f"{mean / len(dataset):.4f} per image", refresh=False)
            bar.update()
    location, scale, factor = _GUIDES[guide].moments(local(state[0]))
    return Posterior(
        likelihood,
        unravel(location),
        unravel(scale),
        factor,
        fixed=local(evidence.fixed),
        elbo=elbo,
    )


def _stride(steps: int) -> int:
    """Steps in one compiled call, of the steps of an epoch."""
    # On a CPU, XLA runs the gradients of convolutions eight times slower in a loop.
    return 1 if jax.default_backend() == "cpu" else steps


@functools.partial(jax.jit, static_argnames=("num_images", "batch_size"))
def _order(key, epoch, *, num_images, batch_size):
    """The images of each step of an epoch, and its keys."""
    steps = num_images // batch_size
    order_key, key = jax.random.split(jax.random.fold_in(key, epoch))
    order = jax.random.permutation(order_key, num_images)[: steps * batch_size]
    return order.reshape(steps, batch_size), jax.random.split(key, steps)


@functools.partial(
    jax.jit,
    static_argnames=(
        "stride",
        "likelihood",
        "guide",
        "optimizer",
        "num_classes",
        "num_particles",
    ),
)
def _steps(
    state,
    total,
    evidence,
    batches,
    keys,
    first,
    *,
    stride,
    likelihood,
    guide,
    optimizer,
    num_classes,
    num_particles,
):
    """The state after the steps first ... first + stride - 1, and the ELBOs added."""
    num_images, batch_size = len(evidence.labels), batches.shape[1]

    def loss(variational, index, key):
        guide_key, noise_key = jax.random.split(key)
        bits = noise_bits(likelihood.head, noise_key, (batch_size, num_classes))
        # The plate would draw its images anew, with some twice before others once.
        batch = numpyro.handlers.substitute(model, data={"images": index})
        arguments = likelihood, evidence, bits, batch_size
        loss = TraceMeanField_ELBO(num_particles).loss(
            guide_key, variational, batch, _GUIDES[guide].sample, *arguments
        )
        # For each image, so that the optimiser sees gradients of the usual size.
        return loss / num_images

    def step(number, carry):
        (variational, optimizer_state), total = carry
        value, gradient = jax.value_and_grad(loss)(
            variational, batches[number], keys[number]
        )
        updates, optimizer_state = optimizer.update(
            gradient, optimizer_state, variational
        )
        variational = optax.apply_updates(variational, updates)
        return (variational, optimizer_state), total - value * num_images

    if stride == 1:
        after = step(first, (state, total))
    else:
        after = jax.lax.fori_loop(first, first + stride, step, (state, total))
    # Whole on each device, as before the steps.
    return jax.lax.with_sharding_constraint(after, P())


@functools.lru_cache(maxsize=16)
def _default_optimizer(num_steps: int) -> optax.GradientTransformation:
    # Cached, for another object, though equal, would be compiled anew.
    return optax.adam(optax.cosine_decay_schedule(1e-2, num_steps))


class _Guide(NamedTuple):
    """A family of distributions of the raveled parameters.

    Attributes:
      init: the variational parameters around given parameters `[D]`.
      sample: the NumPyro guide, of the model's arguments.
      moments: location `[D]`, standard deviations `[D]` and, unless independent,
        the covariance's Cholesky factor `[D, D]`, of variational parameters.
    """

    init: Any
    sample: Any
    moments: Any


def _mean_field_init(location):
    return {
        "location": location,
        "raw_scale": jnp.full_like(location, _inverse_softplus(_INITIAL_SCALE)),
    }


def _mean_field_sample(*_):
    scale = jax.nn.softplus(numpyro.param("raw_scale"))
    normal = dist.Normal(numpyro.param("location"), scale)
    numpyro.sample("params", normal.to_event(1))


def _mean_field_moments(variational):
    return variational["location"], jax.nn.softplus(variational["raw_scale"]), None


def _full_rank_init(location):
    return _mean_field_init(location) | {"lower": jnp.zeros((len(location),) * 2)}


def _full_rank_sample(*_):
    variational = {name: numpyro.param(name) for name in ("raw_scale", "lower")}
    normal = dist.MultivariateNormal(
        numpyro.param("location"), scale_tril=_factor(variational)
    )
    numpyro.sample("params", normal)


def _full_rank_moments(variational):
    factor = _factor(variational)
    return variational["location"], jnp.linalg.norm(factor, axis=1), factor


def _factor(variational):
    # Rows in units of their scale, so that one rate suits all of their entries.
    scale = jax.nn.softplus(variational["raw_scale"])
    lower = jnp.tril(variational["lower"], -1)
    return scale[:, None] * (lower + jnp.eye(len(scale)))


def _inverse_softplus(value):
    return float(np.log(np.expm1(value)))


_GUIDES = {
    "mean_field": _Guide(_mean_field_init, _mean_field_sample, _mean_field_moments),
    "full_rank": _Guide(_full_rank_init, _full_rank_sample, _full_rank_moments),
}
