"""Retraining: making a classifier more robust to the alterations it is weak at.

Every method trains a Flax module by `jaxrob.training.fit`, accepts its settings, and
returns a `jaxrob.Classifier`. Altered images are computed in the training step, never
stored. The 2020 paper trains for `epochs=30`, each over the method's own input
(`input_sizes`), with `batch_size=100`; with `images_seen` all methods train on equally
many images.
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
