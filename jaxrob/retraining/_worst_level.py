"""Training at the levels that hurt most."""

from collections.abc import Sequence
from typing import Any

import jax

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import check, mixture, on_half, originals
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
    """Data augmentation at the worst of several random levels.

    As `data_augmentation`, but for each copy `candidates` levels are drawn, and it is
    trained on at the one where its loss under the present parameters is highest. A
    step takes `candidates` forward passes more; only what is trained on counts as an
    image seen.

    Args:
      module: a Flax Linen module, see `jaxrob.training.fit`.
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
    check(dataset, alterations, "random")
    if candidates < 1:
        raise ValueError(f"candidates must be at least 1; got {candidates}")
    parts = originals(dataset) + on_half(dataset, alterations, key)
    feed = mixture(parts, candidates=candidates)
    return fit(module, dataset, key=key, feed=feed, **training)
