"""Pseudo-labels: the network's own answers on the unaltered images."""

import dataclasses

import jax
import numpy as np

from jaxrob._curve import Curve
from jaxrob._dataset import BatchedDataset, Dataset, with_pseudo_labels
from jaxrob._devices.kept import Kept
from jaxrob._engine.execution import Execution
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob.alterations import Alteration


def labelled(
    execution: Execution, dataset: Dataset | BatchedDataset
) -> Dataset | BatchedDataset:
    """Returns the data; without labels, with the network's own answers as labels."""
    if not isinstance(dataset, Dataset) or dataset.labels is not None:
        return dataset
    zeros = np.zeros(len(dataset), np.int32)
    with_labels = dataclasses.replace(dataset, labels=zeros)
    return with_pseudo_labels(dataset, unaltered_answers(execution, with_labels))


def unaltered_answers(execution: Execution, dataset: Dataset) -> np.ndarray:
    """Returns a classifier's answers on the unaltered images, int32 `[N]`."""
    # The images come again with their labels.
    execution = dataclasses.replace(execution, kept=Kept(0))
    (curve,) = evaluate_queue(execution, dataset, [Frontier(UNALTERED, np.zeros(1))])
    assert isinstance(curve, Curve)
    return curve.predicted[0].astype(np.int32)


def _as_it_is(image: jax.Array, level: jax.Array) -> jax.Array:
    del level
    return image


#: An alteration that leaves every image as it is.
UNALTERED = Alteration("unaltered", _as_it_is, 0.0, 1.0)
