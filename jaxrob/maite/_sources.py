"""MAITE's data sets and models as ours."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_choice, check_type
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Preprocessing
from jaxrob._classifiers.samples import as_array
from jaxrob._dataset import BatchedDataset, Dataset, names_of


def dataset(
    source: Any, *, class_names: Sequence[str] | None = None, max_bytes: int = 1 << 30
) -> Dataset | BatchedDataset:
    """A data set of MAITE's, as `jaxrob.assess` and the others take it.

    Example::

        test = jaxrob.maite.dataset(maite_dataset)

    Args:
      source: a `maite.protocols.image_classification.Dataset`: each item is an image
        `[C, H, W]`, uint8 or floating in [0, 1], a one-hot label `[K]`, and metadata.
      class_names: one name for each class; by default those of `index2label` in the
        metadata. The same names in another order are rejected.
      max_bytes: see `jaxrob.Dataset.from_items`.

    Returns:
      The data set, images `[N, H, W, C]`. Its name is the id in the metadata.

    Raises:
      TypeError: if `source` has no metadata, or an item is no such triple.
      ValueError: if a label is not one-hot, `index2label` leaves classes out, or as
        `jaxrob.Dataset.from_items`.
    """
    metadata = _metadata_of("source", source)
    if not (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        raise wrong_type("source", "a data set of MAITE's, with items", source)
    class_names = _class_names("source", source, class_names)
    return Dataset.from_items(
        _Items(source, None if class_names is None else len(class_names)),
        class_names,
        metadata["id"],
        channels_first=True,
        max_bytes=max_bytes,
    )


def classifier(
    model: Any,
    outputs: str,
    pixels: str,
    num_classes: int | None = None,
    *,
    batch_size: int | None = None,
    version: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Classifier:
    """A model of MAITE's, as `jaxrob.assess` and the others take it.

    Example::

        classifier = jaxrob.maite.classifier(model, "probabilities", "bytes")

    It runs on the host, without gradients. MAITE's protocol leaves open what a model
    returns and which pixels it takes, so both must be said.

    Args:
      model: a `maite.protocols.image_classification.Model`. It is called with a list of
        NumPy arrays `[C, H, W]`. An image's answer must not depend on its batch.
      outputs: what it returns for each image: "logits", "probabilities", "sigmoid" or
        "scores", see `jaxrob.Classifier`.
      pixels: what it takes: "bytes", uint8 in 0-255 (altered images are clipped and
        rounded), or "unit", float32 in [0, 1]. Its normalisation is its own affair.
      num_classes: number of classes; by default that of `index2label` in its metadata.
      batch_size: see `jaxrob.Classifier.from_torch`.
      version: identifies it in a journal, together with the id in its metadata, see
        `jaxrob.Classifier.from_host`.
      class_names: one name for each output; by default those of `index2label`.

    Raises:
      TypeError: if it is no function with metadata.
      ValueError: if the number of classes is not known, `index2label` leaves classes
        out, or as `jaxrob.Classifier.from_host`.
    """
    metadata = _metadata_of("model", model)
    check_type("model", model, Callable, "a model of MAITE's, which can be called")
    check_choice("pixels", pixels, ("bytes", "unit"))
    class_names = _class_names("model", model, class_names)
    if num_classes is None:
        if class_names is None:
            raise ValueError(
                "num_classes must be given where the model's metadata has no "
                "index2label; got None"
            )
        num_classes = len(class_names)
    return Classifier.from_host(
        functools.partial(_called, model, pixels == "bytes"),
        num_classes,
        outputs,
        name=metadata["id"],
        version=version,
        batch_size=batch_size,
        preprocessing=Preprocessing(channels_first=True),
        class_names=class_names,
    )


def class_of(target: Any, name: str) -> tuple[int, int]:
    """The class of a one-hot label `[K]`, and K; `name` is what messages call it."""
    label = np.asarray(as_array(target))
    if label.dtype.kind not in "biuf":
        raise wrong_type(name, "one-hot", target)
    is_one_hot = label.ndim == 1 and (label == 1).sum() == 1 == np.count_nonzero(label)
    if not is_one_hot:
        raise ValueError(f"{name} must be one-hot, [K]; got {named(label)}")
    return int(label.argmax()), len(label)


@dataclasses.dataclass(frozen=True, eq=False)
class _Items:
    source: Any
    num_classes: int | None  # if it is known

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        item = self.source[index]
        if not isinstance(item, tuple) or len(item) != 3:
            raise wrong_type(f"item {index}", "(image, label, metadata)", item)
        label, num_classes = class_of(item[1], f"the label of item {index}")
        if num_classes != (self.num_classes or num_classes):
            raise ValueError(
                f"the label of item {index} must have {self.num_classes} classes, one "
                f"for each name; got {num_classes}"
            )
        return item[0], label


def _called(model: Any, takes_bytes: bool, images: np.ndarray) -> np.ndarray:
    if takes_bytes:
        images = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
    found = model([*images])
    if not hasattr(found, "__len__") or len(found) != len(images):
        raise ValueError(
            f"the model must return a sequence of {len(images)} outputs, one for "
            f"each image; got {named(found)}"
        )
    return np.stack([np.asarray(as_array(row)) for row in found])


def _metadata_of(name: str, value: Any) -> Mapping[str, Any]:
    metadata = getattr(value, "metadata", None)
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("id"), str):
        raise wrong_type(name, "one of MAITE's, with metadata and a text as id", value)
    return metadata


def _class_names(name: str, value: Any, given: Any) -> tuple[str, ...] | None:
    """Those given, or in `index2label` in the order of the classes 0, 1, 2, ..."""
    if given is not None:
        return names_of(value, given, name, "")
    names = value.metadata.get("index2label")
    if not names:
        return None
    if not isinstance(names, Mapping) or {*names} != {*range(len(names))}:
        raise ValueError(
            f"{name}: index2label must name the classes 0, 1, 2, ... without a gap; "
            f"got {named(names)}: pass class_names="
        )
    return tuple(str(names[index]) for index in range(len(names)))
