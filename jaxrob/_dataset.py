"""The labelled inputs on which a classifier is assessed."""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.checks import (
    check_index,
    checked_array,
    checked_images,
    checked_integer,
    checked_names,
    checked_text,
    plain_array,
)
from jaxrob._arguments.messages import TO_RENUMBER, named, numbered, wrong_type
from jaxrob._classifiers.samples import (
    ItemBatches,
    Parts,
    check_source,
    checked_parts,
    class_names_of,
    read_batch,
    read_items,
)
from jaxrob._identity.identity import digest, object_bytes
from jaxrob._metadata import ImageTable, checked_metadata, table_of
from jaxrob._numbers import note_values, widen
from jaxrob._stored_images import StoredImages

_NO_BATCH = "no batch"
# The largest value of images divided by 255 twice, up to rounding.
_DIVIDED_TWICE = 1.001 / 255
# That of images which are probably of fewer bits, such as 0 to 16, as a share of white.
_DARK = 64 / 255


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """The labelled images on which a classifier is assessed, as arrays.

    uint8 images stay uint8 until they are on the device, where they are divided by 255.
    Images that do not fit an array are for `Dataset.from_batches`.

    Example::

        digits = sklearn.datasets.load_digits()
        images = np.float32(digits.images / 16)[..., None]
        dataset = jaxrob.Dataset(images, digits.target, name="digits")
        few = dataset[:100]

    Attributes:
      images: `[N, H, W, C]`, uint8 in 0-255 or floating in [0, 1]; or any other array
        `[N, ...]` of finite values that the classifier takes (an array of rank 4 counts
        as images). A JAX array stays on its devices. A `numpy.memmap` is checked while
        it is read, and must have this machine's types. The pictures of a large folder
        (`jaxrob.data.image_folder`) are no array: slices and index arrays read nothing,
        and `numpy.asarray` reads. Arrays are not copied: do not fill one with other
        images afterwards.
      labels: `[N]` integers, the index of the right class, or texts, its name, where
        there are class names: they become integers. None if unknown: then
        `jaxrob.evaluate` and `assess` use the network's own answers on the unaltered
        images, and robustness is stability. For a `jaxrob.Score`, also any array `[N,
        ...]`, such as masks, or a list with an entry for each image: an array, such as
        boxes, or a list or dict of arrays, texts and numbers, which are not copied.
      class_names: one name for each class, in the order of the network's outputs, or
        None.
      name: the data set's name in reports.
      metadata: columns of one value for each image, texts or numbers, by name, such as
        `{"patient": ..., "scanner": ...}`; or None. Results keep them, for
        `Assessment.by`.
      groups: the column of which images with one value belong together: patches of a
        patient, frames of a scene, copies. Intervals for images to come then are of
        groups, and results keep no value of it; None if all images are independent.

    Raises:
      TypeError: if the images or labels have another type, or are masked.
      ValueError: if the data set is empty, lengths differ, a value is NaN, infinite or
        outside its range, a text is not the name of one class, `groups` is no column,
        or an image has no group.
    """

    images: Any = dataclasses.field(repr=False)
    labels: Any = dataclasses.field(default=None, repr=False)
    class_names: tuple[str, ...] | None = None
    name: str = "dataset"
    metadata: Any = dataclasses.field(default=None, kw_only=True, repr=False)
    groups: str | None = dataclasses.field(default=None, kw_only=True)
    # Whether the labels are the assessed network's own answers on unaltered images.
    _has_pseudo_labels: bool = dataclasses.field(default=False, init=False, repr=False)
    # For the provenance: how files of pictures were read.
    _reading: Mapping[str, Any] | None = dataclasses.field(
        default=None, kw_only=True, repr=False
    )
    # `[N]`, the names of the files that the images were read from, or None.
    _file_names: np.ndarray | None = dataclasses.field(
        default=None, kw_only=True, repr=False
    )
    # Of the images read so far: the lowest and the highest value, and their kind.
    _range: list[Any] = dataclasses.field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        images = self.images
        if not isinstance(images, StoredImages):
            images = checked_images(images)
            if not isinstance(images, np.memmap):
                note_values(self._range, images)
        elif not len(images):
            raise ValueError("images is empty; at least one is needed")
        class_names = _checked_class_names(self.class_names, self.name)
        labels = self.labels
        if labels is not None:
            labels = checked_any_labels(labels, len(images), class_names)
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "class_names", class_names)
        metadata = checked_metadata(self.metadata, self.groups, len(images))
        object.__setattr__(self, "metadata", metadata)
        if self._file_names is not None and len(self._file_names) != len(images):
            # Of other images, by `dataclasses.replace`.
            object.__setattr__(self, "_file_names", None)

    def __repr__(self) -> str:
        labels, names = self.labels, ""
        if labels is not None:
            kind = f"{labels.dtype}{[*labels.shape]}"
            labels = f"list of {len(labels)}" if labels.dtype == object else kind
        if self.class_names is not None:
            names = f" {len(self.class_names)} class names,"
        images = f"{self.images.dtype}{[*self.images.shape]}"
        return f"Dataset(images={images}, labels={labels},{names} name={self.name!r})"

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: slice | np.ndarray) -> "Dataset":
        """The inputs at `index` (a slice, or an integer or boolean array)."""
        check_index(index, len(self))
        labels = None if self.labels is None else self.labels[index]
        names = None if self._file_names is None else self._file_names[index]
        metadata = self.metadata and {n: one[index] for n, one in self.metadata.items()}
        return dataclasses.replace(
            self,
            images=self.images[index],
            labels=labels,
            metadata=metadata,
            _file_names=names,
        )

    @functools.cached_property
    def _table(self) -> ImageTable | None:
        return table_of(self.metadata, self.groups)

    @staticmethod
    def from_items(
        items: Any,
        class_names: Sequence[str] | None = None,
        name: str = "dataset",
        *,
        image: str = "image",
        label: str = "label",
        channels_first: bool | None = None,
        max_bytes: int = 1 << 30,
    ) -> "Dataset | BatchedDataset":
        """A data set from single images with their labels, of any library.

        Such as a `torch.utils.data.Dataset`, a `datasets.Dataset` of Hugging Face, a
        `grain.MapDataset`, or a `tf.data.Dataset` before it is batched.

        Example::

            source = torchvision.datasets.CIFAR10("data", train=False)
            dataset = jaxrob.Dataset.from_items(source, channels_first=False)

        Args:
          items: a sequence, which need only have a length and take indices, or an
            iterable that can be read more than once, in the same order. Each item is
            `(image, label)` or a mapping. An image is an array or a tensor `[H, W, C]`,
            or one of Pillow's, grey or RGB, all of one shape. A label is an integer, a
            text where there are class names, or for a `Score` whatever `Dataset` takes
            as an entry of a list, with tensors and Pillow's pictures in place of
            arrays. Arrays of the image's height and width, such as masks, become one
            array `[N, ...]`; others, such as boxes, stay a list.
          class_names: one name for each class; by default those that the items carry:
            `features[label].names` (Hugging Face), `classes` (torchvision) or
            `class_names` (Keras), also of a `dataset` that they are made of. The same
            names in another order are rejected. A `target_transform` renumbers them; of
            another transform or a wrapper it is not seen: set its own `classes`.
          name: the data set's name in reports.
          image: the key of the image, where an item is a mapping.
          label: the key of the label.
          channels_first: whether arrays are `[C, H, W]`, as torch has them; images with
            fewer rows than channels are rejected by default. True and False also say
            that arrays `[H, W]` are images of one channel. It does not concern Pillow's
            images.
          max_bytes: the largest size of all images, and of labels that are arrays, that
            is kept in memory. More are read again in every pass, as by `from_batches`.

        Raises:
          TypeError: if `items` is an iterator or a mapping of splits, or an item has no
            image and label.
          ValueError: if there are no items or endlessly many, images differ in shape or
            type, labels in kind, images seem to have their channels first, a value is
            outside its range (normalisation belongs to the classifier), or the first
            item is another one when it is read again.
        """
        parts = checked_parts(image, label, channels_first)
        allowed = "a sequence or an iterable of (image, label)"
        check_source("items", items, allowed, has_items=True)
        max_bytes = checked_integer("max_bytes", max_bytes, at_least=0, at_most=2**63)
        names = names_of(items, class_names, name, parts.label)
        arrays = read_items(items, parts, name, max_bytes)
        if arrays is None:
            return BatchedDataset(ItemBatches(items, parts, name), names, name)
        return Dataset(*arrays, names, name)

    @staticmethod
    def from_batches(
        batches: Iterable[Any],
        class_names: Sequence[str] | None = None,
        name: str = "dataset",
        *,
        image: str = "image",
        label: str = "label",
        channels_first: bool | None = None,
    ) -> "BatchedDataset":
        """A data set larger than memory, read again in every pass over it.

        From a `torch.utils.data.DataLoader`, a `grain.DataLoader`, a batched
        `tf.data.Dataset`, or a class of your own; in place of a `Dataset`.

        Example::

            class Batches:
                def __iter__(self):
                    for path in sorted(pathlib.Path("batches").glob("*.npz")):
                        with np.load(path) as batch:
                            yield batch["images"], batch["labels"]

            dataset = jaxrob.Dataset.from_batches(Batches())

        Args:
          batches: an iterable of `(images, labels)` or mappings: arrays as `Dataset`
            takes them, tensors, or lists of what `from_items` takes. Batches may differ
            in length, but not in type. Every pass must give the same batches in the
            same order, so it must neither shuffle nor augment. Evaluation reads it on a
            thread of its own, a little ahead.
          class_names: see `from_items`.
          name: the data set's name in reports.
          image: the key of the images, where a batch is a mapping.
          label: the key of the labels.
          channels_first: whether images are `[B, C, H, W]`, see `from_items`.

        Raises:
          TypeError: if `batches` is not iterable, or only once, as an iterator is.
          ValueError: if it has no end.
        """
        parts = checked_parts(image, label, channels_first)
        names = names_of(batches, class_names, name, parts.label)
        return BatchedDataset(batches, names, name, parts)


@dataclasses.dataclass(frozen=True, eq=False)
class BatchedDataset:
    """A data set that is read batch by batch, see `Dataset.from_batches`."""

    source: Iterable[Any] = dataclasses.field(repr=False)  # an iterable of batches
    class_names: tuple[str, ...] | None = None  # one name for each class, or None
    name: str = "dataset"  # what reports call the data set
    # Where a batch has its images and labels.
    _parts: Parts = dataclasses.field(default=Parts(), repr=False)
    # One digest for each batch; after the last, `_NO_BATCH`.
    _digests: list[str] = dataclasses.field(
        default_factory=list, init=False, repr=False
    )
    # As that of a `Dataset`.
    _range: list[Any] = dataclasses.field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        allowed = "an iterable of (images, labels)"
        check_source("batches", self.source, allowed, has_items=False)
        class_names = _checked_class_names(self.class_names, self.name)
        object.__setattr__(self, "class_names", class_names)

    def batches(self) -> Iterator[Dataset]:
        """Yields each batch, checked, as a `Dataset`."""
        first, index = None, -1
        for index, batch in enumerate(self.source):
            try:
                images, labels = read_batch(batch, self._parts)
                _check_given(labels)
                data = Dataset(images, labels, self.class_names, self.name)
            except (TypeError, ValueError) as error:
                raise type(error)(f"batch {index} of {self.name}: {error}") from error
            # uint8 images among floating ones would be read as floats up to 255.
            of = "names" if isinstance(labels[0], str) else f"type {data.labels.dtype}"
            kind = data.images.shape[1:], data.images.dtype, of
            first = first or kind
            if kind != first:
                now, before = (
                    f"images of shape {shape} and type {dtype}, labels of {of}"
                    for shape, dtype, of in (kind, first)
                )
                raise ValueError(f"batch {index} of {self.name}: {now} after {before}")
            self._check_same(index, digest([data.images, data.labels]))
            if data._range:
                widen(self._range, *data._range)
            yield data
        if first is None:
            raise ValueError(f"{self.name} is empty: its iterable gave no batch")
        self._check_same(index + 1, _NO_BATCH)

    def _check_same(self, index: int, batch_digest: str) -> None:
        if index == len(self._digests):
            self._digests.append(batch_digest)
        elif self._digests[index] != batch_digest:
            raise ValueError(
                f"batches of {self.name} must be the same on every pass; batch {index} "
                "is not what it was before. Leave out shuffling and random "
                "augmentation."
            )


def with_pseudo_labels(dataset: Dataset, predicted: np.ndarray) -> Dataset:
    """Returns the images with a network's answers as labels, marked as such."""
    labelled = dataclasses.replace(dataset, labels=predicted)
    object.__setattr__(labelled, "_has_pseudo_labels", True)
    return labelled


def value_doubt(dataset: "Dataset | BatchedDataset") -> str | None:
    """Describes a likely mistake in the range of the values read so far, or None."""
    images = getattr(dataset, "images", None)
    is_stored = isinstance(images, StoredImages)
    noted = images.value_range() if is_stored else dataset._range
    if not noted:
        return None
    (low, high, kind), labels = noted, getattr(dataset, "labels", None)
    numbers = [] if labels is None or labels.dtype == object else labels.ravel()
    if low == high and len(numbers) and np.ptp(numbers) > 0:
        return f"all values of {dataset.name} are {low:g}. Look at how they are read."
    if kind == "bytes" and high == 1:
        return (
            f"{dataset.name} holds bytes of 0 and 1 alone, which are nearly black. If "
            "they were divided before they became bytes, pass floats in [0, 1]; if they"
            " are black and white, multiply by 255."
        )
    most = {"bytes": 255, "images": 1}.get(kind, 0)
    if not 0 < high <= _DARK * most:
        return None
    reason = f"If {high:g} is white, divide by it as floats, so that the highest is 1."
    if most == 1 and high <= _DIVIDED_TWICE:
        reason = "If they were divided by 255 twice, divide once."
    return (
        f"the images of {dataset.name} are nearly black: no value is above {high:.3g} "
        f"of {most}. {reason}"
    )


def checked_labels(
    labels: Any, length: int, class_names: tuple[str, ...] | None
) -> np.ndarray:
    original, allowed = labels, "an array [N] of integers (for a score numbers [N, 1])"
    if not isinstance(labels, list | tuple):
        labels = plain_array("labels", labels, allowed)
    labels = plain_array("labels", numbered(labels, class_names), allowed)
    if labels.shape != (length,):
        raise ValueError(
            f"labels must have the shape ({length},), as images; got {named(original)}"
        )
    if labels.dtype.kind == "f":
        raise wrong_type("labels", allowed, original)
    labels = checked_array("labels", labels, "N", "integers", at_least=0)
    high = int(labels.max())
    if high > np.iinfo(np.int32).max:
        raise ValueError(f"labels must be class indices, which are int32; got {high}")
    if class_names is not None and high >= len(class_names):
        raise ValueError(
            f"labels must be below the {len(class_names)} class names; got {high}"
        )
    return labels.astype(np.int32)


def checked_any_labels(
    labels: Any, length: int, class_names: tuple[str, ...] | None
) -> np.ndarray:
    """Returns class indices int32 `[length]`, or labels that only a score takes."""
    # Entries of a list become those of an array of objects `[length]`.
    is_list = isinstance(labels, list | tuple)
    is_list |= isinstance(labels, np.ndarray) and labels.dtype == object
    if is_list and any(map(has_parts, labels)):
        for index, label in enumerate(labels):
            try:
                object_bytes(label)
            except TypeError as error:
                raise TypeError(f"labels[{index}]: {error}") from error
        labels = np.fromiter(labels, object, len(labels))
    elif getattr(labels, "ndim", 1) > 1:
        if not isinstance(labels, np.memmap):
            labels = plain_array("labels", labels, "an array [N, ...]")
        if labels.dtype.kind not in "biuf":
            raise wrong_type("labels", "an array [N, ...] of real numbers", labels)
    else:
        return checked_labels(labels, length, class_names)
    if len(labels) != length:
        raise ValueError(f"labels must be {length}, as images; got {len(labels)}")
    return labels


def are_classes(labels: Any) -> bool:
    """Whether labels are class indices `[N]`, not masks, boxes or the like."""
    return getattr(labels, "ndim", 0) == 1 and labels.dtype != object


def has_parts(label: Any) -> bool:
    return isinstance(label, list | tuple | Mapping) or np.ndim(label) > 0


def check_labels_below(
    labels: np.ndarray,
    num_classes: int,
    name: str,
    class_names: Sequence[str] | None = None,
) -> None:
    if labels is None:
        raise ValueError(f"{name} are missing, and this needs them; got None")
    if not are_classes(labels):
        is_list = labels.dtype == object
        what = f"a list of {len(labels)}" if is_list else f"the shape {labels.shape}"
        raise ValueError(
            f"{name} must be class indices [N], from 0; got {what}. Of one-hot labels "
            "take argmax, of [N, 1] labels[:, 0]; masks, boxes and the like need score="
        )
    highest = int(labels.max())
    if highest >= num_classes:
        which = ""
        from_1 = ". They begin at 1: subtract 1" if labels.min() == 1 else ""
        if class_names is not None:
            which = f", the class {class_names[highest]!r} of {len(class_names)}"
        raise ValueError(
            f"{name} must be below the classifier's {num_classes} classes (from 0); "
            f"got {highest}{which}{from_1}"
        )


def images_and_labels(images: Any, labels: Any) -> tuple[np.ndarray | jax.Array, Any]:
    """Returns `images` and `labels`, or the arrays of a data set given as `images`."""
    if isinstance(images, BatchedDataset):
        raise TypeError(
            "images must be an array or a jaxrob.Dataset in memory; got "
            f"{named(images)}"
        )
    if isinstance(labels, Dataset | BatchedDataset):
        raise TypeError(
            f"labels must be an array; got {named(labels)}: say images=dataset alone"
        )
    if not isinstance(images, Dataset):
        return images, labels
    if labels is not None:
        raise TypeError(
            f"labels must be left out beside a data set, which has its own; got "
            f"{named(labels)} beside images={named(images)}"
        )
    return images.images, images.labels


def given_images(images: Any, labels: Any, *, may_lack_labels: bool = False) -> Dataset:
    """Returns images and labels given as separate arguments, checked, as a data set."""
    source, (images, labels) = images, images_and_labels(images, labels)
    if isinstance(images, StoredImages):
        stored, images = images, np.asarray(images)
        stored.warn_of_odd()
        if isinstance(source, Dataset):
            source = dataclasses.replace(source, images=images)
    if isinstance(source, Dataset):
        if labels is not None:
            return source
        if not may_lack_labels:
            raise TypeError(f"images must have labels here; {source.name} has none")
    images = np.asarray(checked_images(images))
    if labels is None and may_lack_labels:
        labels = np.zeros(len(images), int)
    _check_given(labels)
    return Dataset(images, labels)


def _check_given(labels: Any) -> None:
    """Rejects missing labels, where pseudo-labels are of no use."""
    if labels is None:
        raise wrong_type("labels", "an array [N] of integers", labels)


def names_of(
    source: Any, class_names: Any, name: Any, label: str
) -> tuple[str, ...] | None:
    asked, own = _checked_class_names(class_names, name), class_names_of(source, label)
    given, there = [*(asked or ())], [*(own or ())]
    if sorted(given) != sorted(there):  # However they are written.
        given, there = (
            [re.sub(r"[\s_-]", "", one).casefold() for one in names]
            for names in (given, there)
        )
    if asked and own and given != there and sorted(given) == sorted(there):
        index = [a == b for a, b in zip(given, there)].index(False)
        raise ValueError(
            f"class_names must be in the order of the source's own; class {index} of "
            f"{named(source)} is {own[index]!r}, and {asked[index]!r} was given. "
            f"{TO_RENUMBER}"
        )
    return asked or own


def _checked_class_names(class_names: Any, name: Any) -> tuple[str, ...] | None:
    """Returns the class names, checked together with the data set's name."""
    checked_text("name", name)
    return None if class_names is None else checked_names("class_names", class_names)
