"""Training on original and altered images together."""

from collections.abc import Sequence
from typing import Any

import jax

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import mixture
from jaxrob.retraining._parts import check, on_all, on_half, originals
from jaxrob.retraining._weak import find_weak
from jaxrob.training import fit


def data_augmentation(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    levels: str = "random",
    **training: Any,
) -> Classifier:
    """Trains a more robust network on the images and altered copies of them (DA).

    For each alteration, half of the images are drawn at random and copied: four times
    if levels lie on both sides of the identity, else (and for rotation) twice, see
    `copies` and `input_sizes`. The network is trained from scratch, because training
    only on copies makes a network forget the originals.

    Example::

        train = jaxrob.data.load("digits", "train")
        alterations = [jaxrob.alterations.gaussian_blur(0.0, 2.0)]
        classifier = jaxrob.retraining.data_augmentation(
            jaxrob.networks.MLP(), train, alterations, key=jax.random.key(0), epochs=5
        )

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      levels: "random": drawn uniformly from the range in each epoch. "grid": the ends
        of the range and the points halfway there, as in the authors' scripts.
      **training: further settings of `jaxrob.training.fit`; an epoch is a pass over
        originals and copies.

    Returns:
      The retrained classifier.

    Raises:
      TypeError: if `alterations` is not a sequence of alterations.
      ValueError: if `alterations` is empty, `levels` is neither of the above, or as
        `jaxrob.training.fit`.
      FloatingPointError: if the loss is no longer finite.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section VI.A. The
    paper does not state how levels are drawn.
    """
    check(module, dataset, alterations, levels, key, training)
    shape = dataset.images.shape
    subsets = originals(shape) + on_half(shape, alterations, key)
    return fit(module, dataset, key=key, batches=mixture(subsets, levels), **training)


def limited_data_augmentation(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    threshold: float = 0.8,
    classifier: Classifier | None = None,
    validation: Dataset | None = None,
    robustness: Sequence[float] | None = None,
    levels: str = "random",
    **training: Any,
) -> Classifier:
    """Trains on the images and on copies altered where the original is weak (LDA).

    Only alterations to which the original network's robustness is below 100 % are used.
    Every image is copied for each of them, as often as by `data_augmentation`.

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      threshold: the lowest accepted accuracy, for the original's robustness.
      classifier: the original; by default one is trained first with the same settings.
      validation: images on which the original's robustness is measured, at 41 levels of
        each alteration; needed with `classifier`. By default a random tenth of the data
        set, on which no network is then trained. (The paper uses its test set.)
      robustness: the original's robustness to each alteration, if known; then
        `threshold`, `classifier` and `validation` are not used.
      levels: see `data_augmentation`.
      **training: see `data_augmentation`.

    Returns:
      The retrained classifier.

    Raises:
      TypeError: as `data_augmentation`.
      ValueError: as `data_augmentation`; if the robustness is 100 % for all
        alterations, does not fit them, or cannot be measured without `validation`.
      FloatingPointError: if the loss is no longer finite.

    Source: Arcaini et al., 2020, section VI.B.
    """
    check(module, dataset, alterations, levels, key, training)
    weak, _, dataset = find_weak(
        module,
        dataset,
        alterations,
        key=key,
        threshold=threshold,
        classifier=classifier,
        validation=validation,
        robustness=robustness,
        training=training,
    )
    shape = dataset.images.shape
    subsets = originals(shape) + on_all(shape, weak)
    return fit(module, dataset, key=key, batches=mixture(subsets, levels), **training)
