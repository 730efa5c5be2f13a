"""Training at the levels with the highest loss."""

from collections.abc import Sequence
from typing import Any

import jax

from jaxrob._arguments.checks import checked_integer
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import mixture
from jaxrob.retraining._parts import check, on_half, originals
from jaxrob.training import fit


def worst_level(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    candidates: int = 4,
    **training: Any,
) -> Classifier:
    """Trains a more robust network at the levels with the highest loss.

    It is `data_augmentation` at the worst of several random levels: `candidates` levels
    are drawn for each copy, and the step trains on the one with the highest loss under
    the current parameters. A step takes `candidates` more forward passes. Only copies
    that are trained on count as images seen.

    Example::

        train = jaxrob.data.load("digits", "train")
        alterations = [jaxrob.alterations.gaussian_blur(0.0, 2.0)]
        classifier = jaxrob.retraining.worst_level(
            jaxrob.networks.MLP(), train, alterations, key=jax.random.key(0), epochs=5
        )

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      candidates: levels for each copy, at least 1; with one it is data augmentation.
      **training: see `data_augmentation`.

    Returns:
      The retrained classifier.

    Raises:
      TypeError: as `data_augmentation`.
      ValueError: as `data_augmentation`, or if `candidates` is below 1.
      FloatingPointError: if the loss is no longer finite.

    Source: worst-of-k training of Engstrom, Tran, Tsipras, Schmidt and Madry, Exploring
    the landscape of spatial robustness, 2019, here for any alteration.
    """
    check(module, dataset, alterations, "random", key, training)
    candidates = checked_integer("candidates", candidates, at_least=1)
    shape = dataset.images.shape
    subsets = originals(shape) + on_half(shape, alterations, key)
    batches = mixture(subsets, candidates=candidates)
    return fit(module, dataset, key=key, batches=batches, **training)
