"""Labels for images that have none: what the network answers unaltered."""

import dataclasses

import jax
import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._curve import Curve
from jaxrob._dataset import BatchedDataset, Dataset, with_own_answers
from jaxrob._engine.execution import Execution
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob.alterations import Alteration


def labelled(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    execution: Execution,
) -> Dataset | BatchedDataset:
    """The data with the network's own answers as labels, if they have none.

    Args:
      classifier: the classifier, pinned and checked against the data.
      dataset: the data.
      execution: how the images are evaluated; not reduced.
    """
    if not isinstance(dataset, Dataset) or dataset.labels is not None:
        return dataset
    zeros = np.zeros(len(dataset), np.int32)
    with_labels = dataclasses.replace(dataset, labels=zeros)
    own = unaltered_answers(classifier, with_labels, execution)
    return with_own_answers(dataset, own)


def unaltered_answers(
    classifier: Classifier, dataset: Dataset, execution: Execution
) -> np.ndarray:
    """`[N]` int32, the classes that a classifier answers on the images as they are.

    Args:
      classifier: the classifier, pinned and checked against the data.
      dataset: the images with labels, which decide nothing.
      execution: how the images are evaluated; not reduced.
    """
    frontiers = [Frontier(UNALTERED, np.zeros(1))]
    (curve,) = evaluate_queue(classifier, dataset, frontiers, execution)
    assert isinstance(curve, Curve)
    return curve.predicted[0].astype(np.int32)


def _as_it_is(image: jax.Array, level: jax.Array) -> jax.Array:
    del level
    return image


#: An alteration that leaves every image as it is.
UNALTERED = Alteration("unaltered", _as_it_is, 0.0, 1.0)
