"""Retraining: making a classifier more robust to the alterations it is weak at.

Every method trains a Flax module by `jaxrob.training.fit`, accepts its settings
(`epochs` or `images_seen`, `checkpoint`, ...), and returns a `jaxrob.Classifier`. The
compiled training step computes the altered images from the originals' bytes; they are
never stored.

Methods can be compared by two schedules. The 2020 paper's is a number of epochs, each
over the method's own input (`input_sizes`): the authors' scripts train for `epochs=30`
with `batch_size=100`. With `images_seen` all methods train on equally many images.
"""

from jaxrob.retraining._methods import (
    data_augmentation,
    limited_data_augmentation,
    limited_network_parallelization,
    network_parallelization,
    parallel,
    weak_alterations,
    worst_level,
)
from jaxrob.retraining._mixture import copies, input_sizes

__all__ = (
    "copies",
    "data_augmentation",
    "input_sizes",
    "limited_data_augmentation",
    "limited_network_parallelization",
    "network_parallelization",
    "parallel",
    "weak_alterations",
    "worst_level",
)
