"""DA, LDA, NP and LNP of the 2020 paper, what they call weak, and the worst level."""

import functools
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_type,
    checked_array,
    checked_integer,
    checked_share,
)
from jaxrob._assessment.assess import assess
from jaxrob._assessment.assessment import Assessment
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._keys import host_generator
from jaxrob.alterations import Alteration
from jaxrob.retraining._mixture import (
    Subset,
    check,
    check_alterations,
    mixture,
    on_all,
    on_half,
    originals,
)
from jaxrob.strategies import Uniform
from jaxrob.training import fit
from jaxrob.training._step import num_outputs

# The share of the training data that is held out if no validation data are given.
_HELD_OUT = 0.1


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

    For each alteration, half of the images are drawn at random and copied, see
    `copies`, because training only on copies makes a network forget the originals. An
    NNX module starts from its weights, a Linen one from random ones.

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

    Raises:
      TypeError: if `alterations` is not a sequence of alterations.
      ValueError: if `alterations` is empty, `levels` is neither of the above, or as
        `jaxrob.training.fit`.
      FloatingPointError: if the loss is no longer finite.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section VI.A, which
    does not state how levels are drawn.
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

    Raises:
      ValueError: if the robustness is 100 % for all alterations, does not fit them, or
        cannot be measured without `validation`. Others as `data_augmentation`.

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

    Raises:
      ValueError: if the classifier's outputs are "scores" or its number of classes
        differs from the module's. Others as `data_augmentation`.

    Source: Arcaini et al., 2020, section VI.C.
    """
    check(module, dataset, alterations, levels, key, training)
    if classifier is not None:
        _check_fits(classifier, module, dataset, key, training)
    else:
        classifier = original(module, dataset, key, training)
    subsets = on_half(dataset.images.shape, alterations, key)
    second = _second(module, dataset, subsets, key, levels, training)
    return parallel(classifier, second)


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

    Raises:
      ValueError: as `limited_data_augmentation` and `network_parallelization`.

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
    second = _second(module, dataset, subsets, key, levels, training)
    return parallel(classifier, second)


def parallel(first: Classifier, second: Classifier) -> Classifier:
    """Joins two classifiers: each class gets the higher of its two outputs.

    The class answered is the one that either classifier is surest of. If the outputs of
    both are "sigmoid", the maximum is that of the activations (the paper's max layer),
    otherwise that of the probabilities, scaled down to a distribution, for attacks and
    uncertainty.

    Args:
      first: a classifier.
      second: a classifier of the same classes, and number of samples if both have
        several.

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
    outputs = "raw_outputs" if sigmoid else "log_probabilities"
    return Classifier(
        functools.partial(_largest, outputs),
        (first, second),
        "sigmoid" if sigmoid else "logits",
        first.stochastic or second.stochastic,
    )


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

    It is `data_augmentation` at the worst of several random levels for each copy: the
    one with the highest loss under the current parameters. Only copies that are trained
    on count as images seen.

    Args:
      module: a Flax Linen or NNX module, see `jaxrob.training.fit`.
      dataset: the training set.
      alterations: the alterations.
      key: a random key.
      candidates: levels for each copy, at least 1; each takes a forward pass.
      **training: see `data_augmentation`.

    Raises:
      ValueError: if `candidates` is below 1. Others as `data_augmentation`.

    Source: worst-of-k training of Engstrom, Tran, Tsipras, Schmidt and Madry, Exploring
    the landscape of spatial robustness, 2019, here for any alteration.
    """
    check(module, dataset, alterations, "random", key, training)
    candidates = checked_integer("candidates", candidates, at_least=1)
    shape = dataset.images.shape
    subsets = originals(shape) + on_half(shape, alterations, key)
    batches = mixture(subsets, candidates=candidates)
    return fit(module, dataset, key=key, batches=batches, **training)


def weak_alterations(
    classifier: Classifier,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    threshold: float = 0.8,
    levels: int = 41,
    mesh: Mesh | None = None,
) -> tuple[Alteration, ...]:
    """The alterations that the limited methods train on: robustness below 100 %.

    Args:
      classifier: the original classifier.
      dataset: images on which to measure. Use images for neither testing nor training:
        the paper's test set lets the limited methods learn from their test images.
      alterations: the alterations.
      key: a random key for noise.
      threshold: the lowest accepted accuracy.
      levels: the number of evenly spaced levels of each alteration.
      mesh: see `jaxrob.assess`.

    Returns:
      The weak alterations, in their order, possibly an empty tuple.

    Source: Arcaini et al., 2020, section VI.B.
    """
    check_alterations(alterations)
    levels = checked_integer("levels", levels, at_least=2)
    results = assess(
        classifier,
        dataset,
        tuple(alterations),
        threshold,
        strategy=Uniform(levels),
        key=key,
        mesh=mesh,
    )
    assessments = cast(tuple[Assessment, ...], results)
    return below_one(alterations, [assessment.robustness for assessment in assessments])


def _check_compares(name: str, classifier: Any) -> None:
    check_type(name, classifier, Classifier, "a jaxrob.Classifier")
    if classifier.outputs == "scores":
        raise ValueError(f'{name} must not have outputs="scores", which do not compare')


def _check_fits(
    classifier: Any,
    module: Any,
    dataset: Dataset,
    key: jax.Array,
    training: dict[str, Any],
) -> None:
    _check_compares("classifier", classifier)
    image_shape = dataset.images.shape[1:]
    number = classifier.num_classes(image_shape)
    own = num_outputs(module, image_shape, training.get("outputs", "logits"), key)
    if number != own:
        raise ValueError(
            f"classifier must have the {own} classes of the new network for images of "
            f"the shape {image_shape}; it returns {number}"
        )


def _largest(
    outputs: str,
    both: tuple[Classifier, Classifier],
    images: jax.Array,
    keys: jax.Array | None = None,
) -> jax.Array:
    # Of log probabilities used as logits, softmax scales the sum to 1.
    return jnp.maximum(*(getattr(each, outputs)(images, keys) for each in both))


def _second(
    module: Any,
    dataset: Dataset,
    subsets: list[Subset],
    key: jax.Array,
    levels: str,
    training: dict[str, Any],
) -> Classifier:
    # Its initial parameters differ from those of an original trained with this key.
    key = jax.random.fold_in(key, 1)
    return fit(module, dataset, key=key, batches=mixture(subsets, levels), **training)


def below_one(
    alterations: Sequence[Alteration], robustness: Sequence[float]
) -> tuple[Alteration, ...]:
    axes = {"N": len(alterations)}
    shares = checked_array(
        "robustness", robustness, "N", at_least=0, at_most=1, axes=axes
    )
    return tuple(one for one, share in zip(alterations, shares) if share < 1)


def find_weak(
    module: Any,
    dataset: Dataset,
    alterations: Sequence[Alteration],
    *,
    key: jax.Array,
    threshold: float,
    classifier: Classifier | None,
    validation: Dataset | None,
    robustness: Sequence[float] | None,
    training: dict[str, Any],
) -> tuple[tuple[Alteration, ...], Classifier | None, Dataset]:
    """Returns the weak alterations, the original if known, and the training data."""
    threshold = checked_share("threshold", threshold)
    if classifier is not None:
        check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    if validation is not None:
        check_type("validation", validation, Dataset, "a jaxrob.Dataset")
    if robustness is None:
        if validation is None:
            if classifier is not None:
                raise ValueError(
                    "validation or robustness must be given with a classifier; got None"
                )
            order = host_generator(key).permutation(len(dataset))
            held_out = max(1, int(_HELD_OUT * len(dataset)))
            validation = dataset[np.sort(order[:held_out])]
            dataset = dataset[np.sort(order[held_out:])]
        if classifier is None:
            classifier = original(module, dataset, key, training)
        weak = weak_alterations(
            classifier,
            validation,
            alterations,
            key=key,
            threshold=threshold,
            mesh=training.get("mesh"),
        )
    else:
        weak = below_one(alterations, robustness)
    if not weak:
        raise ValueError(
            "alterations must hold one to which the original's robustness is below 1"
        )
    return weak, classifier, dataset


def original(
    module: Any, dataset: Dataset, key: jax.Array, training: dict[str, Any]
) -> Classifier:
    training = {k: value for k, value in training.items() if k != "on_epoch"}
    if training.get("checkpoint") is not None:
        training["checkpoint"] = f"{training['checkpoint']}-original"
    return fit(module, dataset, key=key, **training)
