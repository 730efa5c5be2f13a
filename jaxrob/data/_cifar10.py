"""CIFAR-10 from its official binary batches, or from folders of images."""

import os
import pathlib

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._dataset import Dataset
from jaxrob.data._files import read_file
from jaxrob.data._image_folder import image_folder
from jaxrob.data._split import check_split
from jaxrob.data._tar import read_tar

_CLASS_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
_BATCHES = {
    "test": ("test_batch.bin",),
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
}
_ARCHIVE = "cifar-10-binary.tar.gz"
_FOLDER = "cifar-10-batches-bin"
_RECORD = 1 + 3 * 32 * 32
_PICKLES = ("cifar-10-batches-py", "cifar-10-python.tar.gz", "data_batch_1")
# The first byte of every pickle of protocol 2 or later; it is not a label.
_PICKLE_MARK = 0x80


def cifar10(directory: str | os.PathLike[str], split: str = "test") -> Dataset:
    """Loads CIFAR-10, photographs of ten kinds of things.

    It looks in this order: for the binary batches (`data_batch_1.bin` to
    `data_batch_5.bin` and `test_batch.bin`) in `directory`, in its folder
    `cifar-10-batches-bin` and in its archive `cifar-10-binary.tar.gz`; then for images
    in class folders, in `train.tar.gz` and `test.tar.gz` or folders `train` and `test`.
    The published version for Python is rejected: it is made of pickles, which can run
    any code when they are loaded.

    Args:
      directory: the folder of one of the above.
      split: "test" (10,000 images) or "train" (50,000).

    Returns:
      uint8 images `[N, 32, 32, 3]`, RGB, and labels 0-9 in the official numbering,
      which is alphabetic. Batches keep the official order; image folders are ordered by
      class.

    Raises:
      FileNotFoundError: if there are no such files.
      ValueError: if the split is unknown, a file is damaged, a label is above 9, or
        there are only pickles.

    Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """
    check_split(split)
    root = checked_path("directory", directory)
    names = _BATCHES[split]
    for place in (root, root / _FOLDER, root / _ARCHIVE):
        found = _contents(place, names)
        missing = [name for name in names if name not in found]
        if place.is_file() and missing:
            raise ValueError(f"{place}: expected {' '.join(missing)} in it")
        if found and missing:
            raise FileNotFoundError(f"{place}: expected {' '.join(missing)} there too")
        if found:
            parsed = [_parse(found[name], f"{place}/{name}") for name in names]
            images, labels = (np.concatenate(parts) for parts in zip(*parsed))
            name = f"cifar10/{split}"
            return Dataset(images, labels, class_names=_CLASS_NAMES, name=name)
    for images in (root / f"{split}.tar.gz", root / split):
        if images.exists():
            return _from_images(images, split)
    for name in _PICKLES:
        if (root / name).exists():
            raise ValueError(_refuse_pickle(root / name))
    raise FileNotFoundError(
        f"{root}: expected {_ARCHIVE}, the folder {_FOLDER}, "
        f"{' '.join(_BATCHES[split])}, or {split}.tar.gz with class folders of images "
        "there"
    )


def _contents(place: pathlib.Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Returns the batches of a folder or an archive."""
    if not place.is_file():
        return {
            name: read_file(place / name) for name in names if (place / name).is_file()
        }
    return {
        parts[-1]: member.contents
        for parts, member in read_tar(place, wanted=names.__contains__)
        if member is not None and member.contents
    }


def _parse(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Parses records of a label and a 32x32 image, stored channel by channel."""
    if data[:1] == bytes([_PICKLE_MARK]):
        raise ValueError(_refuse_pickle(name))
    if not data or len(data) % _RECORD:
        raise ValueError(
            f"{name}: {len(data)} bytes, expected a positive multiple of {_RECORD}"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int32)
    if labels.max() > 9:
        index = int(np.argmax(labels > 9))
        raise ValueError(
            f"{name}: label {labels[index]} in record {index}, expected 0 to 9"
        )
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, labels


def _from_images(path: pathlib.Path, split: str) -> Dataset:
    found = image_folder(path)
    if found.class_names != _CLASS_NAMES:
        raise ValueError(
            f"{path}: class folders {found.class_names}, expected {_CLASS_NAMES}"
        )
    if found.images.shape[1:] != (32, 32, 3):
        raise ValueError(
            f"{path}: images of shape {found.images.shape[1:]}, expected (32, 32, 3)"
        )
    return Dataset(
        found.images, found.labels, class_names=_CLASS_NAMES, name=f"cifar10/{split}"
    )


def _refuse_pickle(name: str | pathlib.Path) -> str:
    return (
        f"{name}: CIFAR-10 for Python, which is made of pickles; they are never "
        f"loaded, because a pickle can run any code. Use the binary version, {_ARCHIVE}"
    )
