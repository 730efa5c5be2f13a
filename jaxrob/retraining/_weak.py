"""The alterations to which a classifier is not fully robust."""

from collections.abc import Sequence
from typing import Any, cast

import jax
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
from jaxrob.retraining._mixture import check_alterations
from jaxrob.strategies import Uniform
from jaxrob.training import fit

# The share of the training data that is held out if no validation data are given.
_HELD_OUT = 0.1


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

    The paper measures the robustness on its test set, so that the limited methods learn
    from their test images. Use images that are used neither for testing nor training.

    Args:
      classifier: the original classifier.
      dataset: images on which to measure.
      alterations: the alterations.
      key: a random key for noise.
      threshold: the lowest accepted accuracy.
      levels: the number of evenly spaced levels of each alteration.
      mesh: see `jaxrob.assess`.

    Returns:
      The weak alterations, in their order, possibly an empty tuple.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section VI.B.
    """
    check_alterations(alterations)
    levels = checked_integer("levels", levels, at_least=2)
    found = assess(
        classifier,
        dataset,
        tuple(alterations),
        threshold,
        strategy=Uniform(levels),
        key=key,
        mesh=mesh,
    )
    assessments = cast(tuple[Assessment, ...], found)
    return below_one(alterations, [one.robustness for one in assessments])


def below_one(
    alterations: Sequence[Alteration], robustness: Sequence[float]
) -> tuple[Alteration, ...]:
    values = checked_array("robustness", robustness, "...", at_least=0, at_most=1)
    if values.shape != (len(alterations),):
        raise ValueError(
            f"robustness must have one number for each of the {len(alterations)} "
            f"alterations; got the shape {values.shape}"
        )
    return tuple(one for one, value in zip(alterations, values) if value < 1)


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
    # The arguments are those of `limited_data_augmentation`, with the settings of `fit`
    # as `training`.
    threshold = checked_share("threshold", threshold)
    if classifier is not None:
        check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    if validation is not None:
        check_type("validation", validation, Dataset, "a jaxrob.Dataset")
    if robustness is None:
        if validation is None:
            if classifier is not None:
                raise ValueError(
                    "validation must be given with a classifier, images that it was "
                    "not trained on (or else its robustness); got None"
                )
            dataset, validation = _split(dataset, key)
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
            "alterations must hold one to which the original's robustness is below "
            "100 %; it is 100 % for all, so there is nothing to mend"
        )
    return weak, classifier, dataset


def original(
    module: Any, dataset: Dataset, key: jax.Array, training: dict[str, Any]
) -> Classifier:
    training = {k: value for k, value in training.items() if k != "on_epoch"}
    if training.get("checkpoint") is not None:
        training["checkpoint"] = f"{training['checkpoint']}-original"
    return fit(module, dataset, key=key, **training)


def _split(dataset: Dataset, key: jax.Array) -> tuple[Dataset, Dataset]:
    """Splits a data set into nine tenths and a random tenth."""
    order = host_generator(key).permutation(len(dataset))
    held_out = max(1, int(_HELD_OUT * len(dataset)))
    return dataset[np.sort(order[held_out:])], dataset[np.sort(order[:held_out])]
