"""MAITE's data sets as ours."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._adapters.samples import as_array
from jaxrob._arguments.checks import checked_names
from jaxrob._arguments.naming import named, wrong_type
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob.maite._metadata import checked_metadata, class_names_in


def dataset(
    source: Any,
    *,
    class_names: Sequence[str] | None = None,
    max_bytes: int = 1 << 30,
) -> Dataset | BatchedDataset:
    """A data set of MAITE's, as `jaxrob.assess` and the others take it.

    Example::

        test = jaxrob.maite.dataset(maite_dataset)

    Args:
      source: a `maite.protocols.image_classification.Dataset`: each item is an image
        `[C, H, W]`, uint8 or floating in [0, 1], a one-hot label `[K]`, and metadata.
      class_names: one name for each class; by default those of `index2label` in the
        metadata.
      max_bytes: see `jaxrob.Dataset.from_items`.

    Returns:
      The data set, images `[N, H, W, C]`. Its name is the id in the metadata.

    Raises:
      TypeError: if `source` has no metadata, or an item is no such triple.
      ValueError: if a label is not one-hot, `index2label` leaves classes out, or as
        `jaxrob.Dataset.from_items`.
    """
    metadata = checked_metadata("source", source)
    if not (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        raise wrong_type("source", "a data set of MAITE's, with items", source)
    if class_names is None:
        class_names = class_names_in("source", metadata)
    else:
        class_names = checked_names("class_names", class_names)
    return Dataset.from_items(
        _Items(source, None if class_names is None else len(class_names)),
        class_names,
        metadata["id"],
        channels_first=True,
        max_bytes=max_bytes,
    )


def class_of(target: Any, name: str) -> tuple[int, int]:
    """Returns the class of a one-hot label, and the number of classes.

    Args:
      target: the label, `[K]`.
      name: what messages call it.

    Raises:
      TypeError: if it holds no numbers.
      ValueError: if it is not one-hot.
    """
    label = np.asarray(as_array(target))
    if label.dtype.kind not in "biuf":
        raise wrong_type(name, "one-hot", target)
    is_one_hot = label.ndim == 1 and (label == 1).sum() == 1 == np.count_nonzero(label)
    if not is_one_hot:
        raise ValueError(f"{name} must be one-hot, [K]; got {named(label)}")
    return int(label.argmax()), len(label)


@dataclasses.dataclass(frozen=True, eq=False)
class _Items:
    """MAITE's items as pairs of an image and an integer.

    Attributes:
      source: the data set.
      num_classes: the number of classes, if it is known.
    """

    source: Any
    num_classes: int | None

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
