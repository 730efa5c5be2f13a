"""A second network beside the original, trained only on altered images."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.checks import check_type
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import mixture
from jaxrob.retraining._parts import Subset, check, on_all, on_half
from jaxrob.retraining._weak import find_weak, original
from jaxrob.training import fit
from jaxrob.training._step import num_outputs


def network_parallelization(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    classifier: Classifier | None = None,
    levels: str = "random",
    **training: Any,
) -> Classifier:
    """Puts a network trained only on altered copies beside the original (NP).

    The copies are those of `data_augmentation`; the networks are joined by `parallel`.

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      classifier: the original; by default one is trained first with the same settings.
      levels: see `data_augmentation`.
      **training: see `data_augmentation`, for the second network; its epochs hold no
        originals.

    Returns:
      Both networks in parallel, see `parallel`.

    Raises:
      TypeError: as `data_augmentation`.
      ValueError: as `data_augmentation`, or if the classifier's outputs are "scores" or
        its number of classes differs from the module's.
      FloatingPointError: if the loss is no longer finite.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section VI.C.
    """
    check(module, dataset, alterations, levels, key, training)
    if classifier is not None:
        _check_fits(classifier, module, dataset, key, training)
    else:
        classifier = original(module, dataset, key, training)
    subsets = on_half(dataset.images.shape, alterations, key)
    return parallel(
        classifier, _second(module, dataset, subsets, key, levels, training)
    )


def limited_network_parallelization(
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
    """Puts a network trained where the original is weak beside the original (LNP).

    It is trained only on the copies of `limited_data_augmentation`; the networks are
    joined by `parallel`.

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      threshold: see `limited_data_augmentation`.
      classifier: the original; by default one is trained first with the same settings.
      validation: see `limited_data_augmentation`.
      robustness: the original's robustness to each alteration, if known; then
        `threshold` and `validation` are not used.
      levels: see `data_augmentation`.
      **training: see `network_parallelization`.

    Returns:
      Both networks in parallel, see `parallel`.

    Raises:
      TypeError: as `data_augmentation`.
      ValueError: as `limited_data_augmentation` and `network_parallelization`.
      FloatingPointError: if the loss is no longer finite.

    Source: Arcaini et al., 2020, section VI.D.
    """
    check(module, dataset, alterations, levels, key, training)
    if classifier is not None:
        _check_fits(classifier, module, dataset, key, training)
    weak, classifier, dataset = find_weak(
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
    if classifier is None:
        classifier = original(module, dataset, key, training)
    subsets = on_all(dataset.images.shape, weak)
    return parallel(
        classifier, _second(module, dataset, subsets, key, levels, training)
    )


def parallel(first: Classifier, second: Classifier) -> Classifier:
    """Joins two classifiers: each class gets the higher of its two outputs.

    The class answered is the one that either classifier is surest of. The maxima of two
    rows of probabilities add up to at least 1, so they are scaled down to a
    distribution: the answer is the paper's, and attacks and uncertainty work, since
    there are confidences and gradients. If the outputs of both are "sigmoid", the
    maximum is that of the activations (the paper's max layer), otherwise that of the
    probabilities.

    Args:
      first: a classifier.
      second: a classifier of the same classes. If both have several samples, they must
        have the same number.

    Returns:
      The classifier C_o || C_par; both classifiers' variables are its leaves.

    Raises:
      TypeError: if one is not a classifier.
      ValueError: if the outputs of one are "scores", which cannot be compared.

    Source: Arcaini et al., 2020, section VI.C.
    """
    _check_compares("first", first)
    _check_compares("second", second)
    sigmoid = first.outputs == second.outputs == "sigmoid"
    return Classifier(
        _max_of_activations if sigmoid else _max_of_log_probabilities,
        (first, second),
        "sigmoid" if sigmoid else "logits",
        first.stochastic or second.stochastic,
    )


def _check_compares(name: str, classifier: Any) -> None:
    check_type(name, classifier, Classifier, "a jaxrob.Classifier")
    if classifier.outputs == "scores":
        raise ValueError(
            f'{name} must not have outputs="scores": those of two classifiers do not '
            "compare"
        )


def _check_fits(
    classifier: Any,
    module: Any,
    dataset: Dataset,
    key: jax.Array,
    training: dict[str, Any],
) -> None:
    """Rejects an original that cannot be joined with the new network."""
    _check_compares("classifier", classifier)
    image_shape = dataset.images.shape[1:]
    number = classifier.num_classes(image_shape)
    own = num_outputs(module, image_shape, training.get("outputs", "logits"), key)
    if number != own:
        raise ValueError(
            f"classifier must have the classes of the new network, which returns {own} "
            f"for images of the shape {image_shape}; it returns {number}"
        )


def _max_of_activations(
    both: tuple[Classifier, Classifier],
    images: jax.Array,
    keys: jax.Array | None = None,
) -> jax.Array:
    return jnp.maximum(*(each.raw_outputs(images, keys) for each in both))


def _max_of_log_probabilities(
    both: tuple[Classifier, Classifier],
    images: jax.Array,
    keys: jax.Array | None = None,
) -> jax.Array:
    # Used as logits, whose softmax scales the probabilities to a sum of 1.
    return jnp.maximum(*(each.log_probabilities(images, keys) for each in both))


def _second(
    module: Any,
    dataset: Dataset,
    subsets: list[Subset],
    key: jax.Array,
    levels: str,
    training: dict[str, Any],
) -> Classifier:
    """Trains the network beside the original."""
    # Its initial parameters differ from those of an original trained with this key.
    key = jax.random.fold_in(key, 1)
    return fit(module, dataset, key=key, batches=mixture(subsets, levels), **training)
