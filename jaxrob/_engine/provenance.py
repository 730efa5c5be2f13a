"""The provenance of a result: versions, devices, key, classifier and data."""

import functools
import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.messages import classifier_wanted, dataset_wanted
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import OnHost, Preprocessed, Score
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.mesh import checked_mesh
from jaxrob._domain import AnyAlteration
from jaxrob._engine.blocks import first_batch
from jaxrob._identity.identity import (
    Fingerprinted,
    contiguous,
    digest,
    host_array,
    host_or_sharded,
    is_identifiable,
    text,
)
from jaxrob._keys import check_key
from jaxrob._metadata import ImageTable
from jaxrob._stored_images import StoredImages
from jaxrob.metrics._groups import effective_groups

_PACKAGES = ("jaxrob", "jax", "jaxlib", "flax", "numpy")
# Images hashed at a time, so that a memory map is read in pieces.
_CHUNK = 4096


def provenance(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None = None,
    mesh: Mesh | None = None,
) -> dict[str, Any]:
    """Returns the facts that a reader needs to repeat a result.

    `Assessment.provenance` holds them, together with the alteration.

    Example::

        source = jaxrob.provenance(classifier, dataset, key)
        pathlib.Path("source.json").write_text(json.dumps(source))

    Args:
      classifier: the classifier.
      dataset: the data. All of it is read, once.
      key: the random key, None if nothing is random.
      mesh: the devices, see `evaluate`.

    Returns:
      Values that JSON can hold, by name:

      * "versions": of Python, jaxrob and the packages that affect results, by name.
      * "devices": their "platform" ("cpu", "gpu" or "tpu"), "kind" and "count".
      * "key": the key's data, a list of integers; or None.
      * "stochastic": whether the classifier's answers depend on the key; in an
        assessment, whether its answers or the alteration do.
      * "classifier": a digest of the variables and of the program of `apply_fn`: its
        operations and constants, as JAX traces them for images of this shape. None
        for a function on the host without a name and version (see
        `Classifier.from_host`), because JAX cannot trace it.
      * "network": its "name" and "class_names", None where they are not given; for a
        network on the host also its "version": a digest of its file or weights, the
        version given, or, of a function in a Python file that the command was given, a
        digest of that file, the files that it read as it was loaded, and some answers;
        and if it has one its "preprocessing": "scale", "mean" and "std".
      * "dataset": the "name"; the "fingerprint", a digest of images and labels,
        whatever the batches (of pictures that are read when needed: of their names,
        their files' bytes, and how they are prepared); "labels", "given" or "own
        answers", those of the network on the unaltered images; for files of pictures
        "reading": how many hidden and system files were skipped, which pictures were
        left out, whether they were decoded at a reduced size, the arguments that
        changed pixels ("preparation"), and of DICOM and NIfTI the "window" and the
        "rescale" that all files agree on (of pictures that are read when needed, those
        of the first); of images in "groups" the "column" that names them, their
        "number", the "largest"'s share of the images, the "effective" number (1 over
        the sum of squared shares) and a "digest"; and "copies", the number of images
        that an earlier one equals, but for one of its own group, where there are any.
    """
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    check_type("dataset", dataset, Dataset | BatchedDataset, dataset_wanted(dataset))
    if key is not None:
        check_key(key)
    devices = checked_mesh(mesh, classifier.variables).devices
    if not isinstance(classifier.apply_fn, Fingerprinted):
        image_shape = first_batch(dataset).images.shape[1:]
        classifier = fingerprinted_classifier(classifier, image_shape)
    is_own, more, table = False, {}, ImageTable()
    if isinstance(dataset, Dataset):
        is_own = dataset.labels is None or dataset._has_pseudo_labels
        if dataset._reading is not None:
            more["reading"] = {**dataset._reading}
        table = dataset._table or table
        if dataset.groups is not None and table.groups is not None:
            more["groups"] = _groups(dataset.groups, table.groups)
    fingerprint, contents = _fingerprint(dataset)
    if copies := _copies(contents, more.get("groups") and table.groups):
        more["copies"] = copies
    return {
        "versions": {**_versions()},
        "devices": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
        },
        "key": None if key is None else host_array(key).tolist(),
        "stochastic": classifier.stochastic,
        "classifier": classifier_fingerprint(classifier),
        "network": _network(classifier),
        "dataset": {
            "name": dataset.name,
            "fingerprint": fingerprint,
            "labels": "own answers" if is_own else "given",
            **more,
        },
    }


def score_facts(score: Score | None) -> dict[str, Any]:
    if score is None:
        return {}
    return {"score": {k: getattr(score, k) for k in ("name", "version", "labels")}}


def arguments_digest(classifier: Classifier, *arguments: Any) -> str:
    return digest([str(classifier_fingerprint(classifier)), text(arguments)])


def classifier_fingerprint(classifier: Classifier) -> str | None:
    """Returns a digest of a fingerprinted classifier's variables and program."""
    # Returns None if a function on the host has no name and version.
    function = classifier.apply_fn
    assert isinstance(function, Fingerprinted)
    if not function.is_identifiable:
        return None
    leaves, _ = jax.tree_util.tree_flatten_with_path(classifier.variables)
    return digest(
        [function.token, classifier.outputs]
        + [part for path, leaf in leaves for part in (str(path), host_or_sharded(leaf))]
    )


def _groups(name: str, groups: np.ndarray) -> dict[str, Any]:
    """Returns what the provenance says of groups: nothing that names one."""
    sizes = np.bincount(groups)
    return {
        "column": name,
        "number": int(np.count_nonzero(sizes)),
        "largest": float(sizes.max() / sizes.sum()),
        "effective": effective_groups(groups),
        "digest": digest([groups]),
    }


@functools.cache
def _versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in _PACKAGES}
    return found | {"python": platform.python_version()}


def _network(classifier: Classifier) -> dict[str, Any]:
    names = classifier.class_names
    found: dict[str, Any] = {"name": classifier.name}
    found["class_names"] = None if names is None else [*names]
    own: Any = getattr(classifier.apply_fn, "function", None)
    if isinstance(own, OnHost):
        found["version"] = own.function.version
    if isinstance(own, OnHost | Preprocessed) and not own.preprocessing.is_none:
        parts = "scale", "mean", "std"
        found["preprocessing"] = {
            one: [*getattr(own.preprocessing, one)] for one in parts
        }
    return found


def alteration_fingerprint(alteration: AnyAlteration) -> str | None:
    """Describes a fingerprinted alteration; None if it has a host callback."""
    # JAX cannot trace a host callback, so the alteration is not identifiable.
    return alteration.description if is_identifiable(alteration) else None


def dataset_fingerprint(dataset: Dataset | BatchedDataset) -> str:
    """Returns a digest of images and labels that does not depend on the batches."""
    return _fingerprint(dataset)[0]


def _fingerprint(dataset: Dataset | BatchedDataset) -> tuple[str, list[Any]]:
    """Returns the digest, and for each image what equal ones share."""
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    images, labels, kind = hashlib.blake2b(), hashlib.blake2b(), ""
    contents: list[Any] = []
    for batch in batches:
        kind = f"{batch.images.dtype}{batch.images.shape[1:]}"
        if isinstance(batch.images, StoredImages):
            images.update(batch.images.fingerprint().encode())
            files = batch.images.store.digests(batch.images.indices)
            contents += map(bytes, files)
        else:
            for first in range(0, len(batch), _CHUNK):
                some = contiguous(batch.images[first : first + _CHUNK])
                images.update(some)
                contents += [hash(one.tobytes()) for one in some]
        if batch.labels is not None:
            labels.update(contiguous(batch.labels))
    return digest([kind, images.hexdigest(), labels.hexdigest()]), contents


def _copies(contents: Sequence[Any], groups: np.ndarray | None) -> int:
    different = len({*contents})
    if groups is None:
        return len(contents) - different
    return len({*zip(contents, groups.tolist())}) - different


# The share of copies from which on intervals are much too narrow.
_MOST_COPIES = 0.01
# Of fewer effective groups little is known of how groups differ.
_FEWEST_GROUPS = 10


def warn_of_dependence(facts: Mapping[str, Any], length: int) -> None:
    effective = facts.get("groups", {}).get("effective", _FEWEST_GROUPS)
    if effective < _FEWEST_GROUPS:
        warn(
            f"the images are worth {effective:.3g} groups of one size: the intervals "
            "for images to come are wide because groups are few; only more groups help"
        )
    copies = facts.get("copies", 0)
    if copies > _MOST_COPIES * length:
        warn(
            f"{copies} of {length} images are copies of others, as if there were more "
            "to go by: the intervals are too narrow. Leave the copies out, or say "
            "which belong together: jaxrob.Dataset(..., metadata=, groups=)"
        )
