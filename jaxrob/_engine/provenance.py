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
from jaxrob._runtime.checks import check_type
from jaxrob._runtime.digest import contiguous, digest, host_array, stable_repr
from jaxrob._runtime.keys import check_key
from jaxrob._runtime.mesh import checked_mesh

_PACKAGES = ("jaxrob", "jax", "jaxlib", "flax", "numpy")
# Images hashed at a time: those of a memory map are read as they are needed.
_CHUNK = 4096


def provenance(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None = None,
    mesh: Mesh | None = None,
) -> dict[str, Any]:
    """What a reader needs to repeat a result, to be kept beside it.

    `Assessment.provenance` holds it, together with the alteration. Results of the same
    provenance were computed from the same classifier, data and key, by the same
    versions, on the same kind and number of devices.

    Example::

        source = jaxrob.provenance(classifier, dataset, key)
        pathlib.Path("source.json").write_text(json.dumps(source))

    Args:
      classifier: the classifier.
      dataset: the data. All of it is read, once.
      key: the random key, None if nothing is random.
      mesh: the devices; by default all devices of this process.

    Returns:
      Values that JSON can hold, by name:

      * "versions": of Python, jaxrob and the packages that results depend on, by name.
      * "devices": their "platform" ("cpu", "gpu" or "tpu"), "kind" and "count".
      * "key": the key's data, a list of integers; or None.
      * "classifier": a digest of the variables, of the name of `apply_fn` and of the
        fields of a Flax module; not of the code. None for a classifier without
        variables, of which the name alone tells too little.
      * "dataset": the "name", and the "fingerprint", a digest of images and labels that
        does not depend on the batches they come in.
    """
    check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    check_type("dataset", dataset, Dataset | BatchedDataset, "a jaxrob.Dataset")
    if key is not None:
        check_key("key", key)
    if mesh is not None:
        mesh = checked_mesh(mesh)
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
    """A digest of a classifier and other arguments, the same in every process.

    Args:
      classifier: the classifier.
      *arguments: values whose `repr` tells them apart.
    """
    with np.printoptions(threshold=sys.maxsize):
        text = stable_repr(arguments)
    return digest([str(classifier_fingerprint(classifier)), text])


def classifier_fingerprint(classifier: Classifier) -> str | None:
    """A digest of the variables and of the name (not the code) of the function.

    The fields of a Flax module count too. None for a function without variables: its
    name alone does not tell it from other functions.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(classifier.variables)
    if not leaves:
        return None
    return digest(
        [classifier_name(classifier), classifier.outputs]
        + [part for path, leaf in leaves for part in (str(path), host_array(leaf))]
    )


def classifier_name(classifier: Classifier) -> str:
    """The name of the classifier's function, the same in every process."""
    return _function_name(classifier.apply_fn)


def dataset_fingerprint(dataset: Dataset | BatchedDataset) -> str:
    """A digest of images and labels, whatever the batches they come in."""
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    images, labels, kind = hashlib.blake2b(), hashlib.blake2b(), ""
    for batch in batches:
        kind = f"{batch.images.dtype}{batch.images.shape[1:]}"
        for first in range(0, len(batch), _CHUNK):
            images.update(contiguous(batch.images[first : first + _CHUNK]))
        labels.update(contiguous(batch.labels))
    return digest([kind, images.hexdigest(), labels.hexdigest()])


def _function_name(function: Any) -> str:
    """A function's name, without addresses, and the keywords that `bind` fixed."""
    if isinstance(function, functools.partial):
        return _function_name(function.func)
    if isinstance(function, Bound):
        keywords = stable_repr(function.keywords)
        return f"{_function_name(function.function)} {keywords}"
    return getattr(function, "__qualname__", type(function).__qualname__)
