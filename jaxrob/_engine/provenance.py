"""Where a result comes from: versions, devices, key, classifier and data."""

import functools
import hashlib
import platform
import sys
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._runtime.bound import Bound
from jaxrob._runtime.digest import digest, host_array, stable_repr

_PACKAGES = ("jaxrob", "jax", "jaxlib", "flax", "numpy")


def provenance(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None = None,
    mesh: Mesh | None = None,
) -> dict[str, Any]:
    """What a reader needs to repeat a result, as values that JSON can hold."""
    devices = jax.local_devices() if mesh is None else list(mesh.devices.flat)
    return {
        "versions": {name: metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
        },
        "key": None if key is None else host_array(key).tolist(),
        "classifier": classifier_fingerprint(classifier),
        "dataset": {"name": dataset.name, "fingerprint": dataset_fingerprint(dataset)},
    }


def arguments_digest(classifier: Classifier, *arguments: Any) -> str:
    """A digest of a classifier and of values with the same text in every process."""
    with np.printoptions(threshold=sys.maxsize):
        text = stable_repr(arguments)
    return digest([str(classifier_fingerprint(classifier)), text])


def classifier_fingerprint(classifier: Classifier) -> str | None:
    """A digest of the variables and of the name (not the code) of the function.

    Flax modules count with all their fields. None for a function without variables,
    which the name alone would not tell from others.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(classifier.variables)
    if not leaves:
        return None
    return digest(
        [classifier_name(classifier), classifier.outputs]
        + [part for path, leaf in leaves for part in (str(path), host_array(leaf))]
    )


def classifier_name(classifier: Classifier) -> str:
    """The classifier's function, by name, the same in every process."""
    return _name(classifier.apply_fn)


def dataset_fingerprint(dataset: Dataset | BatchedDataset) -> str:
    """A digest of images and labels, whatever the batches they come in."""
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    images, labels, dtype = hashlib.blake2b(), hashlib.blake2b(), None
    for batch in batches:
        dtype = f"{batch.images.dtype}{batch.images.shape[1:]}"
        for first in range(0, len(batch), 4096):
            images.update(np.ascontiguousarray(batch.images[first : first + 4096]))
        labels.update(np.ascontiguousarray(batch.labels))
    return digest([dtype, images.hexdigest(), labels.hexdigest()])


def _name(function: Any) -> str:
    """A name without addresses, so that it is the same in every process."""
    if isinstance(function, functools.partial):
        return _name(function.func)
    if not isinstance(function, Bound):
        return getattr(function, "__qualname__", type(function).__qualname__)
    keywords = stable_repr(function.keywords)
    return f"{_name(function.function)} {keywords}"
