"""MNIST from its four official files."""

import os
import pathlib

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._dataset import Dataset
from jaxrob.data._idx import read_idx
from jaxrob.data._split import check_split

_PREFIX = {"test": "t10k", "train": "train"}


def mnist(directory: str | os.PathLike[str], split: str = "test") -> Dataset:
    """Loads MNIST's handwritten digits, or any data set published in the same files.

    Example::

        train = jaxrob.data.mnist("data/mnist", "train")

    Args:
      directory: the folder of `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`,
        `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`, each plain or gzipped
        with the ending `.gz`. Only the two files of the split are needed.
      split: "test" (10,000 images) or "train" (60,000).

    Returns:
      uint8 images `[N, 28, 28, 1]` in the official order, labels 0-9.

    Raises:
      FileNotFoundError: if a file is missing; the message names it.
      ValueError: if the split is unknown, or a file is damaged or holds other data.

    Source: LeCun, Cortes and Burges, the MNIST database of handwritten digits.
    """
    check_split(split)
    folder = checked_path("directory", directory)
    images_path = _find(folder, f"{_PREFIX[split]}-images-idx3-ubyte")
    labels_path = _find(folder, f"{_PREFIX[split]}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dtype != np.uint8 or images.shape[1:] != (28, 28) or len(images) == 0:
        raise ValueError(
            f"{images_path}: {images.dtype} of shape {images.shape}, expected uint8 "
            "of shape (N, 28, 28)"
        )
    if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{labels_path}: {labels.dtype} of shape {labels.shape}, expected uint8 "
            f"of shape {images.shape[:1]}, one label for each image"
        )
    if labels.max() > 9:
        raise ValueError(f"{labels_path}: label {labels.max()}, expected 0 to 9")
    return Dataset(
        images[..., np.newaxis],
        labels.astype(np.int32),
        class_names=tuple("0123456789"),
        name=f"mnist/{split}",
    )


def _find(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder}: expected the file {name} or {name}.gz there")
