"""Stochastic variational inference and its guides, and the No-U-Turn sampler."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS, TraceMeanField_ELBO, init_to_value

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_integer,
)
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._devices.mesh import is_first, local, put, replicated
from jaxrob._engine.execution import progress_bar
from jaxrob._identity.identity import Fingerprinted
from jaxrob._keys import checked_key
from jaxrob.bayes._model import (
    Data,
    Likelihood,
    Problem,
    make_problem,
    model,
    noise_bits,
    present,
)
from jaxrob.bayes._posterior import Posterior, classifier

_INITIAL_SCALE = 0.01

Variational = dict[str, jax.Array]


class Guide(NamedTuple):
    # Returns the variational parameters around given parameters `[D]`.
    init: Callable[[jax.Array], Variational]
    # Location `[D]`, deviations `[D]`, Cholesky factor `[D, D]` or None if independent.
    moments: Callable[[Variational], tuple[jax.Array, jax.Array, jax.Array | None]]


def _mean_field_init(location: jax.Array) -> Variational:
    # The inverse of softplus.
    raw_scale = float(np.log(np.expm1(_INITIAL_SCALE)))
    return {"location": location, "raw_scale": jnp.full_like(location, raw_scale)}


def _mean_field_moments(variational: Variational) -> tuple[jax.Array, jax.Array, None]:
    return variational["location"], jax.nn.softplus(variational["raw_scale"]), None


def _full_rank_init(location: jax.Array) -> Variational:
    lower = jnp.zeros((len(location),) * 2, jnp.float32)
    return _mean_field_init(location) | {"lower": lower}


def _full_rank_moments(
    variational: Variational,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    # Rows in units of their scale, so that one learning rate suits all their entries.
    scale = jax.nn.softplus(variational["raw_scale"])
    lower = jnp.tril(variational["lower"], -1)
    factor = scale[:, None] * (lower + jnp.eye(len(scale), dtype=jnp.float32))
    return variational["location"], jnp.linalg.norm(factor, axis=1), factor


GUIDES = {
    "mean_field": Guide(_mean_field_init, _mean_field_moments),
    "full_rank": Guide(_full_rank_init, _full_rank_moments),
}


# The most parameters for a full-rank guide, whose size is their square.
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
    """Infers a normal approximation of a network's posterior, fast.

    It maximises the ELBO. The prior of every parameter is normal around 0; mini-batches
    are weighted by N / batch_size, as by NumPyro's plates. The data stay on the device.
    An epoch is one compiled call, except on a CPU, where each step is one.

    Example::

        train = jaxrob.data.load("digits", "train")
        module = jaxrob.networks.MLP()
        posterior = jaxrob.bayes.svi(module, train, key=jax.random.key(0))
        classifier = jaxrob.bayes.classifier(posterior, 10, key=jax.random.key(1))

    Args:
      module: a Flax module, Linen or NNX, called as `module(images)` in evaluation
        mode; variables other than its parameters are not changed.
      dataset: the training set, N images.
      key: a random key for the parameters' first values, the order of the images and
        the draws from the guide.
      head: "plain", the module returns logits `[B, K]`; "heteroscedastic", it returns
        `[B, 2K]`, the means of the logits and, before softplus, their standard
        deviations.
      noise_draws: draws of a heteroscedastic head's noise for each image, preferably a
        power of two.
      prior_scale: standard deviation of the prior.
      guide: "mean_field", independent normals; "full_rank", one normal with all
        covariances, for up to 4,096 parameters.
      epochs: passes over the data.
      batch_size: images in a step; an epoch's incomplete last batch is dropped.
      num_particles: draws from the guide in a step; more reduce the gradient's noise.
      optimizer: by default Adam with a cosine decay of its learning rate from 1e-2.
      mesh: devices that share the images of each step, see `jaxrob.evaluate`. Each
        holds all parameters and data; results are those of one, except for rounding.
      progress: whether to show a progress bar.

    Returns:
      The posterior.

    Raises:
      TypeError: if `module` is not a Flax module, or `dataset` is not a `Dataset` in
        memory.
      ValueError: if another argument is outside its range, the number of outputs is odd
        with a heteroscedastic head, or a label is not a class of the module.
      FloatingPointError: if the ELBO is no longer finite.

    Source: Kucukelbir, Tran, Ranganath, Gelman and Blei, Automatic differentiation
    variational inference, 2017; the mean-field guide is what Essbai, Bombarda,
    Bonfanti and Gargantini, 2024, section 2.1.1, use.
    """
    check_choice("guide", guide, GUIDES)
    epochs = checked_integer("epochs", epochs, at_least=1)
    num_particles = checked_integer("num_particles", num_particles, at_least=1)
    check_type("dataset", dataset, Dataset, "a jaxrob.Dataset in memory")
    batch_size = checked_integer(
        "batch_size", batch_size, at_least=1, at_most=len(dataset)
    )
    if optimizer is not None:
        wanted = "an optax.GradientTransformation, such as optax.adam(1e-3)"
        check_type("optimizer", optimizer, optax.GradientTransformation, wanted)
    progress = checked_flag("progress", progress)
    init_key, step_key = jax.random.split(checked_key(key))
    problem = make_problem(
        module, dataset, init_key, head, noise_draws, prior_scale, mesh
    )
    if guide == "full_rank" and len(problem.initial) > _MAX_FULL_RANK:
        raise ValueError(
            f'guide "full_rank" is for at most {_MAX_FULL_RANK:,} parameters; the '
            f"module has {len(problem.initial):,}"
        )
    if optimizer is None:
        optimizer = _default_optimizer(epochs * (len(dataset) // batch_size))
    objective = _Objective(
        problem.present, guide, problem.num_classes, batch_size, num_particles
    )
    variational, elbo = _maximised(
        problem, objective, optimizer, step_key, epochs, progress
    )
    location, scale, factor = jax.jit(GUIDES[guide].moments)(variational)
    return Posterior(
        problem.likelihood,
        problem.unravel(location),
        problem.unravel(scale),
        factor,
        fixed=local(problem.data.fixed),
        elbo=elbo,
    )


class _Objective(NamedTuple):
    """The static settings of a step's ELBO; hashable."""

    likelihood: Likelihood
    guide: str
    num_classes: int
    batch_size: int
    num_particles: int


_State = tuple[Variational, optax.OptState]


def _maximised(
    problem: Problem,
    objective: _Objective,
    optimizer: optax.GradientTransformation,
    key: jax.Array,
    epochs: int,
    progress: bool,
) -> tuple[Variational, np.ndarray]:
    num_images, everywhere = len(problem.data.labels), replicated(problem.mesh)
    steps = num_images // objective.batch_size
    # On a CPU, XLA runs the gradients of convolutions eight times slower in a loop.
    stride = 1 if jax.default_backend() == "cpu" else steps
    variational = GUIDES[objective.guide].init(problem.initial)
    start = variational, optimizer.init(variational)
    # With the rates that it takes now.
    update = present(optimizer.update, *start, variational)
    state = put(start, everywhere)
    elbo = np.zeros(epochs, np.float32)
    with (
        jax.set_mesh(problem.mesh.mesh),
        progress_bar("SVI", progress, "epoch", epochs) as bar,
    ):
        for epoch in range(epochs):
            batches, keys = _order(
                put(key, everywhere),
                epoch,
                num_images=num_images,
                batch_size=objective.batch_size,
            )
            total = np.float32(0)
            for first in range(0, steps, stride):
                state, total = _steps(
                    state,
                    total,
                    problem.data,
                    batches,
                    keys,
                    first,
                    stride=stride,
                    objective=objective,
                    update=update,
                )
            elbo[epoch] = mean = float(total) / steps
            if not np.isfinite(mean):
                raise FloatingPointError(
                    f"the ELBO is {mean} after epoch {epoch + 1}: lower the rate"
                )
            bar.set_postfix(elbo=f"{mean / num_images:.4f} per image", refresh=False)
            bar.update()
    return local(state[0]), elbo


@functools.partial(jax.jit, static_argnames=("num_images", "batch_size"))
def _order(
    key: jax.Array, epoch: jax.Array, *, num_images: int, batch_size: int
) -> tuple[jax.Array, jax.Array]:
    steps = num_images // batch_size
    order_key, key = jax.random.split(jax.random.fold_in(key, epoch))
    order = jax.random.permutation(order_key, num_images)[: steps * batch_size]
    return order.reshape(steps, batch_size), jax.random.split(key, steps)


@functools.partial(jax.jit, static_argnames=("stride", "objective", "update"))
def _steps(
    state: _State,
    total: jax.Array,
    data: Data,
    batches: jax.Array,
    keys: jax.Array,
    first: jax.Array,
    *,
    stride: int,
    objective: _Objective,
    update: Fingerprinted,
) -> tuple[_State, jax.Array]:
    num_images = len(data.labels)

    def step(
        number: jax.Array, carry: tuple[_State, jax.Array]
    ) -> tuple[_State, jax.Array]:
        (variational, optimizer_state), total = carry
        value, gradient = jax.value_and_grad(_loss)(
            variational, batches[number], keys[number], data, objective
        )
        updates, optimizer_state = update(gradient, optimizer_state, variational)
        variational = cast(Variational, optax.apply_updates(variational, updates))
        return (variational, optimizer_state), total - value * num_images

    if stride == 1:
        after = step(first, (state, total))
    else:
        after = jax.lax.fori_loop(first, first + stride, step, (state, total))
    # Replicated on all devices, as before the steps.
    return jax.lax.with_sharding_constraint(after, P())


def _loss(
    variational: Variational,
    index: jax.Array,
    key: jax.Array,
    data: Data,
    objective: _Objective,
) -> jax.Array:
    likelihood, guide, num_classes, batch_size, num_particles = objective
    guide_key, noise_key = jax.random.split(key)
    bits = noise_bits(likelihood.head, noise_key, (batch_size, num_classes))
    # The plate itself would draw images independently, not as an epoch's permutation.
    batch = numpyro.handlers.substitute(model, data={"images": index})

    def sample(*_: Any) -> None:
        location, scale, factor = GUIDES[guide].moments(variational)
        normal = dist.Normal(location, scale).to_event(1)
        if factor is not None:
            normal = dist.MultivariateNormal(location, scale_tril=factor)
        numpyro.sample("params", normal)

    loss = TraceMeanField_ELBO(num_particles).loss(
        guide_key, {}, batch, sample, likelihood, data, bits, batch_size
    )
    # Divided so that gradients have the usual size.
    return cast(jax.Array, loss) / len(data.labels)


@functools.lru_cache(maxsize=16)
def _default_optimizer(num_steps: int) -> optax.GradientTransformation:
    # Cached, because a new optimizer triggers a recompilation.
    return optax.adam(optax.cosine_decay_schedule(1e-2, num_steps))


def nuts(
    module: Any,
    dataset: Dataset,
    *,
    key: jax.Array,
    head: str = "plain",
    noise_draws: int = 8,
    prior_scale: float = 1.0,
    num_warmup: int = 500,
    num_draws: int = 1000,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Posterior:
    """Samples from a network's exact posterior, for small networks and data sets.

    It uses the No-U-Turn sampler. Every step passes all images through the network, up
    to a thousand times. The noise of a heteroscedastic head is drawn once for each
    image.

    Args:
      module: see `svi`.
      dataset: see `svi`.
      key: a random key for the parameters' first values and the sampler.
      head: see `svi`.
      noise_draws: see `svi`.
      prior_scale: see `svi`.
      num_warmup: the first steps, which adapt the sampler and are dropped.
      num_draws: the samples kept, from one chain.
      mesh: devices that share all images, see `svi`.
      progress: whether to show a progress bar.

    Returns:
      The posterior, with the location and scale of the samples.

    Raises:
      TypeError: see `svi`.
      ValueError: see `svi`.
      FloatingPointError: if a sample is not finite.

    Source: Hoffman and Gelman, The No-U-Turn sampler, 2014.
    """
    num_warmup = checked_integer("num_warmup", num_warmup, at_least=1)
    num_draws = checked_integer("num_draws", num_draws, at_least=1)
    progress = checked_flag("progress", progress)
    init_key, noise_key, key = jax.random.split(checked_key(key), 3)
    problem = make_problem(
        module, dataset, init_key, head, noise_draws, prior_scale, mesh
    )
    likelihood, shape = problem.likelihood, (len(dataset), problem.num_classes)
    bits = noise_bits(likelihood.head, noise_key, shape)
    # NumPyro's momenta have JAX's default type, and positions must have it too.
    start = init_to_value(values={"params": problem.initial.astype(float)})
    kernel, shown = NUTS(model, init_strategy=start), progress and is_first()
    begin = kernel.init

    def init(*args: Any, **named: Any) -> Any:
        # NumPyro shows nothing until this is compiled and run.
        with progress_bar("NUTS, first step size", progress, "step"):
            return begin(*args, **named)

    kernel.init = init
    sampler = MCMC(
        kernel, num_warmup=num_warmup, num_samples=num_draws, progress_bar=shown
    )
    with jax.set_mesh(problem.mesh.mesh):
        key, bits = put((key, bits), replicated(problem.mesh))
        sampler.run(key, problem.present, problem.data, bits)
    samples = local(sampler.get_samples()["params"]).astype(problem.initial.dtype)
    if not np.isfinite(samples).all():
        raise FloatingPointError("NUTS returned samples that are not finite")
    divergent = int(sampler.get_extra_fields()["diverging"].sum())
    if divergent:
        warn(
            f"{divergent} of {num_draws} steps of NUTS diverged: the samples may miss "
            "parts of the posterior; a longer warm-up (num_warmup) may help"
        )
    return Posterior(
        likelihood,
        problem.unravel(samples.mean(axis=0)),
        problem.unravel(samples.std(axis=0)),
        samples=jax.vmap(problem.unravel)(samples),
        fixed=local(problem.data.fixed),
    )


_INFERENCE = {"svi": svi, "nuts": nuts}


def fit(
    module: Any,
    dataset: Dataset,
    *,
    key: jax.Array,
    num_samples: int = 10,
    inference: str = "svi",
    **options: Any,
) -> Classifier:
    """Trains a Bayesian classifier: infers a module's posterior and draws from it.

    Example::

        train = jaxrob.data.load("digits", "train")
        module = jaxrob.networks.MLP()
        classifier = jaxrob.bayes.fit(module, train, key=jax.random.key(0))

    Args:
      module: a Flax module, Linen or NNX, that returns logits `[B, K]`, or `[B, 2K]`
        with `head="heteroscedastic"`.
      dataset: the training set.
      key: a random key.
      num_samples: draws from the posterior, T; the 2024 paper, section 5, uses 10.
      inference: "svi", fast; "nuts", exact, for small networks.
      **options: further arguments of `svi` or `nuts`: `head`, `noise_draws`,
        `prior_scale`, `mesh` and `progress` for both; `guide`, `epochs`, `batch_size`
        and `optimizer` for `svi`; `num_warmup` and `num_draws` for `nuts`.

    Returns:
      A classifier of log-probabilities `[T, B, K]`; see `classifier`.

    Raises:
      TypeError: see `svi`.
      ValueError: if `num_samples` is below 1, `inference` is unknown, or `svi` or
        `nuts` rejects an argument.
      FloatingPointError: if the ELBO is no longer finite.

    Source: Essbai, Bombarda, Bonfanti and Gargantini, A framework for including
    uncertainty in robustness evaluation of Bayesian neural network classifiers, 2024,
    sections 2.1 and 5.
    """
    check_choice("inference", inference, _INFERENCE)
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    key, draw_key = jax.random.split(checked_key(key))
    posterior = _INFERENCE[inference](module, dataset, key=key, **options)
    return classifier(posterior, num_samples, key=draw_key)
