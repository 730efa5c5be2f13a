"""Labels for images that have none: what the network answers unaltered."""

import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._curve import Curve
from jaxrob._dataset import BatchedDataset, Dataset, with_own_answers
from jaxrob._engine.execution import Execution, progress_bar
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob.alterations import Alteration


def labelled(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None,
    mesh: Mesh,
    batch_size: int | None,
) -> Dataset | BatchedDataset:
    """The data with the network's own answers as labels, if they have none.

    Args:
      classifier: the classifier, pinned and checked against the data.
      dataset: the data.
      key: the random key, None if nothing is random.
      mesh: the devices.
      batch_size: images in a block, or None.
    """
    if not isinstance(dataset, Dataset) or dataset.labels is not None:
        return dataset
    with progress_bar("unaltered", False) as bar:
        (curve,) = evaluate_queue(
            classifier,
            dataclasses.replace(dataset, labels=np.zeros(len(dataset), np.int32)),
            [Frontier(_UNALTERED, np.zeros(1))],
            Execution(key, mesh, bar, batch_size),
        )
    assert isinstance(curve, Curve)
    return with_own_answers(dataset, curve.predicted[0])


def _as_it_is(image: jax.Array, level: jax.Array) -> jax.Array:
    del level
    return image


_UNALTERED = Alteration("unaltered", _as_it_is, 0.0, 1.0)
