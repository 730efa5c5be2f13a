"""Inference by name, and the No-U-Turn sampler."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer import MCMC, NUTS, init_to_value

from jaxrob._arguments.checks import check_choice, checked_flag, checked_integer
from jaxrob._arguments.warnings import warn
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._devices.hosts import is_first, local, put
from jaxrob._devices.mesh import replicated
from jaxrob._keys import checked_key
from jaxrob.bayes._model import make_problem, model, noise_bits
from jaxrob.bayes._posterior import Posterior, classifier
from jaxrob.bayes._svi import svi


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
    start = init_to_value(values={"params": problem.initial})
    kernel = NUTS(model, init_strategy=start)
    sampler = MCMC(
        kernel,
        num_warmup=num_warmup,
        num_samples=num_draws,
        progress_bar=progress and is_first(),
    )
    with jax.set_mesh(problem.mesh.mesh):
        key, bits = put((key, bits), replicated(problem.mesh))
        sampler.run(key, likelihood, problem.data, bits)
    samples = local(sampler.get_samples()["params"])
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
