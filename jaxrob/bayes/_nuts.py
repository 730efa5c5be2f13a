"""The No-U-Turn sampler."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer import MCMC, NUTS, init_to_value

from jaxrob._arguments.checks import checked_flag, checked_integer
from jaxrob._arguments.warnings import warn
from jaxrob._dataset import Dataset
from jaxrob._devices.hosts import is_first, local, put
from jaxrob._devices.mesh import replicated
from jaxrob._keys import checked_key
from jaxrob.bayes._model import make_problem, model, noise_bits
from jaxrob.bayes._posterior import Posterior


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
