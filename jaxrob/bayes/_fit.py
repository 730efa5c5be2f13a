"""A Bayesian classifier in one call."""

from typing import Any

import jax

from jaxrob._arguments.checks import check_choice, checked_integer
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._keys import checked_key
from jaxrob.bayes._classifier import classifier
from jaxrob.bayes._nuts import nuts
from jaxrob.bayes._svi import svi

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
