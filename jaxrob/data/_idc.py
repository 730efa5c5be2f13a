"""Patches of breast histology with and without invasive ductal carcinoma."""

import concurrent.futures
import os
import pathlib
import re

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._dataset import Dataset
from jaxrob.data._decode import Expected, decode_image, kind_text
from jaxrob.data._files import read_file
from jaxrob.data._oddities import Oddities, warn_of

_NAME = re.compile(r".*_class([01])\.png", re.IGNORECASE | re.DOTALL)
_BYTES = np.dtype(np.uint8)
_KIND = f"expected {kind_text(3, _BYTES)}"
_PATCH = Expected((50, 50), 3, _BYTES, "expected 50x50", _KIND)


def idc_patches(directory: str | os.PathLike[str]) -> Dataset:
    """Loads patches of breast histology, 50x50 pixels, by the class in their names.

    `..._class0.png` is benign, `..._class1.png` malignant. Hidden files are ignored.

    Args:
      directory: the folder of the patches.

    Returns:
      uint8 images `[N, 50, 50, 3]`, RGB, in the order of the sorted file names;
      labels 0 (benign) and 1 (malignant).

    Raises:
      FileNotFoundError: if there is no such folder.
      ValueError: if the folder holds no patch, a file's name has no class, or a file
        is damaged or of another size.
      ImportError: if Pillow is missing.

    Source: Cruz-Roa et al., Automatic detection of invasive ductal carcinoma in whole
    slide images with convolutional neural networks, 2014; the data set of Arcaini et
    al., Dealing with robustness of convolutional neural networks for image
    classification, 2020, section IV.
    """
    folder = checked_path("directory", directory)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: expected a folder of ..._class0.png and ..._class1.png there"
        )
    paths = sorted(
        (path for path in folder.iterdir() if not path.name.startswith(".")),
        key=lambda path: path.name,
    )
    if not paths:
        raise ValueError(
            f"{folder}: empty, expected ..._class0.png and ..._class1.png in it"
        )
    labels = np.array([_label(path) for path in paths], np.int32)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        images, odd = zip(*pool.map(_read, paths))
    warn_of(folder, dict(zip(map(str, paths), odd)), len(paths))
    images = np.stack(images)
    return Dataset(images, labels, class_names=("benign", "malignant"), name="idc")


def _label(path: pathlib.Path) -> int:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(
            f"{path}: no class in the name, expected ..._class0.png or ..._class1.png"
        )
    return int(match[1])


def _read(path: pathlib.Path) -> tuple[np.ndarray, Oddities]:
    return decode_image(read_file(path), str(path), expected=_PATCH)
