"""Data sets with names: scikit-learn's digits, MNIST, breast histology, CIFAR-10."""

import gzip
import importlib.util
import math
import os
import pathlib
import re
import sys
import zlib
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_choice, checked_integer, checked_path
from jaxrob._arguments.texts import required
from jaxrob._dataset import Dataset
from jaxrob._files import most_unpacked, open_file
from jaxrob.data._image_folder import image_folder
from jaxrob.data._source import is_gzip, read_file
from jaxrob.data._tar import read_tar

_TEST_IMAGES = 500


def digits(split: str = "test", size: int = 28) -> Dataset:
    """Loads the 1,797 handwritten digits that come with scikit-learn.

    The originals, 8x8 pixels of 17 grey values, are enlarged (bicubic). The split is
    stratified by class, and always the same.

    Args:
      split: "test" (500 images) or "train" (1,297).
      size: height and width of the images, 1 to 1,024 pixels; 8 leaves them unchanged.

    Returns:
      uint8 images `[N, size, size, 1]`, labels 0-9.

    Raises:
      ValueError: if the split is unknown or the size is below 1.
      ImportError: if scikit-learn or Pillow is missing.

    Source: Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI machine
    learning repository, 1998 (its test part).
    """
    _check_split(split)
    size = checked_integer("size", size, at_least=1, at_most=1024)
    originals, labels = _original_digits()
    test = _stratified(labels, _TEST_IMAGES)
    chosen = test if split == "test" else ~test
    pixels = np.round(originals[chosen] * (255 / 16)).astype(np.uint8)
    pixels = pixels.reshape(-1, 8, 8)
    pil = required("PIL.Image", "the digits data set", "experiments")
    resized = [
        pil.fromarray(image).resize((size, size), pil.Resampling.BICUBIC)
        for image in pixels
    ]
    return Dataset(
        np.stack(list(map(np.asarray, resized)))[..., np.newaxis],
        labels[chosen].astype(np.int32),
        class_names=tuple("0123456789"),
        name=f"digits/{split}",
    )


def _original_digits() -> tuple[np.ndarray, np.ndarray]:
    """Reads scikit-learn's file itself: to import the rest takes a second."""
    package = importlib.util.find_spec("sklearn")
    path = pathlib.Path(package.origin or "" if package else "").parent
    path /= "datasets/data/digits.csv.gz"
    if not path.exists():
        module = required("sklearn.datasets", "the digits data set", "experiments")
        return module.load_digits(return_X_y=True)
    with gzip.open(path, "rt") as lines:
        rows = np.loadtxt(lines, delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)


def _stratified(labels: np.ndarray, number: int) -> np.ndarray:
    """Returns a mask of `number` elements that keeps the classes' proportions."""
    quota = np.bincount(labels) * number / len(labels)
    counts = np.floor(quota).astype(int)
    largest = np.argsort(counts - quota, kind="stable")
    counts[largest[: number - counts.sum()]] += 1
    # NumPy promises that this generator's stream never changes.
    order = np.random.RandomState(0).permutation(len(labels))
    mask = np.zeros(len(labels), bool)
    for label, count in enumerate(counts):
        mask[order[labels[order] == label][:count]] = True
    return mask


_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Reads one IDX file, the format of MNIST and its relatives, plain or gzipped."""
    # Compression is recognised by the first bytes, not by the file's name.
    path = str(checked_path("path", path))
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if is_gzip(file):
                return _parsed(gzip.GzipFile(fileobj=file), most_unpacked(size))
            return _parsed(file, size)
        except (EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: not a readable IDX file: {error}") from error


def _parsed(stream: Any, most: int) -> np.ndarray:
    """Reads a stream of at most `most` bytes, as many as its header says."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES:
        raise ValueError(f"its magic number 0x{magic.hex()} is not that of IDX")
    dtype, rank = np.dtype(_DTYPES[magic[2]]), magic[3]
    shape = tuple(np.frombuffer(stream.read(4 * rank), ">u4").tolist())
    # NumPy multiplies the other dimensions even if one is 0, of which it has 64.
    room = math.prod(max(side, 1) for side in shape) * dtype.itemsize
    needed = math.prod(shape) * dtype.itemsize
    if not 1 <= len(shape) == rank <= 64 or needed > most or room > sys.maxsize:
        raise ValueError(
            f"its header says {needed} bytes, the shape {shape}; at most {most} may be "
            "there: unpack it first if that is meant"
        )
    data = stream.read(needed)
    # Reading past the end also makes gzip verify its checksum.
    if len(data) < needed or stream.read(1):
        raise ValueError(f"it has other than the {needed} bytes of its shape {shape}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


_PREFIX = {"test": "t10k", "train": "train"}


def mnist(directory: str | os.PathLike[str], split: str = "test") -> Dataset:
    """Loads MNIST's handwritten digits, or any data set published in the same files.

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
    _check_split(split)
    folder = checked_path("directory", directory)
    images_path = _find(folder, f"{_PREFIX[split]}-images-idx3-ubyte")
    labels_path = _find(folder, f"{_PREFIX[split]}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dtype != np.uint8 or images.shape[1:] != (28, 28) or not len(images):
        raise ValueError(
            f"{images_path}: {images.dtype} {images.shape}, expected uint8 (N, 28, 28)"
        )
    if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{labels_path}: {labels.dtype} {labels.shape}, expected uint8 "
            f"{images.shape[:1]}"
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


_NAME = re.compile(r".*_class([01])\.png", re.IGNORECASE | re.DOTALL)


def idc_patches(directory: str | os.PathLike[str]) -> Dataset:
    """Loads patches of breast histology, 50x50 pixels, by the class in their names.

    Args:
      directory: the folder of `..._class0.png`, which are benign, and `..._class1.png`,
        malignant. Hidden files, and others than pictures, are ignored.

    Returns:
      uint8 images `[N, 50, 50, 3]`, RGB, in the order of the sorted file names; labels
      0 (benign) and 1 (malignant).

    Raises:
      FileNotFoundError: if there is no such folder.
      ValueError: if the folder holds no patch, a picture's name has no class, or one is
        damaged or of another size.
      ImportError: if Pillow is missing.

    Source: Cruz-Roa et al., Automatic detection of invasive ductal carcinoma in whole
    slide images with convolutional neural networks, 2014, as in Arcaini et al., Dealing
    with robustness of convolutional neural networks for image classification, 2020.
    """
    folder = checked_path("directory", directory)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: expected a folder of ..._class0.png and ..._class1.png there"
        )
    loaded = image_folder(folder, labels=None, max_bytes=2**62)
    _check_shape(folder, loaded, (50, 50, 3))
    classes = []
    assert loaded._file_names is not None
    for name in loaded._file_names.tolist():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{folder / name}: expected ..._class0.png or _class1.png")
        classes.append(int(match[1]))
    names = "benign", "malignant"
    return Dataset(loaded.images, classes, class_names=names, name="idc")


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

    Args:
      directory: the folder of the binary batches (`data_batch_1.bin` to
        `data_batch_5.bin` and `test_batch.bin`), of their folder `cifar-10-batches-bin`
        or their archive `cifar-10-binary.tar.gz`; or else of images in class folders,
        in `train.tar.gz` and `test.tar.gz` or folders `train` and `test`. The version
        for Python is rejected: it is made of pickles, which can run any code.
      split: "test" (10,000 images) or "train" (50,000).

    Returns:
      uint8 images `[N, 32, 32, 3]`, RGB, and labels 0-9 in the official numbering,
      which is alphabetic. Image folders are ordered by class.

    Raises:
      FileNotFoundError: if there are no such files.
      ValueError: if the split is unknown, a file is damaged, a label is above 9, or
        there are only pickles.

    Source: Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """
    _check_split(split)
    root = checked_path("directory", directory)
    names = _BATCHES[split]
    for place in (root, root / _FOLDER, root / _ARCHIVE):
        batches = _contents(place, names)
        missing = [name for name in names if name not in batches]
        if place.is_file() and missing:
            raise ValueError(f"{place}: expected {' '.join(missing)} in it")
        if batches and missing:
            raise FileNotFoundError(f"{place}: expected {' '.join(missing)} there too")
        if batches:
            parsed = [_parse(batches[name], f"{place}/{name}") for name in names]
            images, labels = (np.concatenate(parts) for parts in zip(*parsed))
            name = f"cifar10/{split}"
            return Dataset(images, labels, class_names=_CLASS_NAMES, name=name)
    for images in (root / f"{split}.tar.gz", root / split):
        if images.exists():
            return _from_images(images, split)
    for name in _PICKLES:
        if (root / name).exists():
            raise _refused(root / name)
    raise FileNotFoundError(
        f"{root}: expected {_ARCHIVE}, the folder {_FOLDER}, "
        f"{' '.join(_BATCHES[split])}, or {split}.tar.gz of class folders there"
    )


def _contents(place: pathlib.Path, names: tuple[str, ...]) -> dict[str, bytes]:
    if not place.is_file():
        paths = [place / name for name in names]
        return {path.name: read_file(path) for path in paths if path.is_file()}
    return {
        parts[-1]: member.contents
        for parts, member in read_tar(place, wanted=names.__contains__)
        if member is not None and member.contents
    }


def _parse(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    if data[:1] == bytes([_PICKLE_MARK]):
        raise _refused(name)
    if not data or len(data) % _RECORD:
        raise ValueError(f"{name}: {len(data)} bytes, no multiple of {_RECORD}")
    records = np.frombuffer(data, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int32)
    if labels.max() > 9:
        index = int(np.argmax(labels > 9))
        raise ValueError(f"{name}: label {labels[index]} in record {index}, above 9")
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


def _from_images(path: pathlib.Path, split: str) -> Dataset:
    loaded = image_folder(path)
    if loaded.class_names != _CLASS_NAMES:
        raise ValueError(
            f"{path}: class folders {loaded.class_names}, expected {_CLASS_NAMES}"
        )
    _check_shape(path, loaded, (32, 32, 3))
    return Dataset(
        loaded.images, loaded.labels, class_names=_CLASS_NAMES, name=f"cifar10/{split}"
    )


def _check_shape(path: pathlib.Path, loaded: Dataset, shape: tuple[int, ...]) -> None:
    if loaded.images.shape[1:] != shape or loaded.images.dtype != np.uint8:
        found = f"{loaded.images.dtype} {loaded.images.shape[1:]}"
        raise ValueError(f"{path}: {found}, expected uint8 {shape}")


def _refused(name: str | pathlib.Path) -> ValueError:
    return ValueError(
        f"{name}: CIFAR-10 for Python is made of pickles, which are never loaded, as "
        f"they can run any code. Use the binary version, {_ARCHIVE}"
    )


def _check_split(split: str) -> None:
    check_choice("split", split, ("test", "train"))


NAMES = ("digits", "mnist", "cifar10", "idc")
_VARIABLE = "JAXROB_DATA_DIR"


def load(
    name: str, split: str = "test", data_dir: str | os.PathLike[str] | None = None
) -> Dataset:
    """Loads a data set by its name: uint8 images `[N, H, W, C]`.

    Example::

        train = jaxrob.data.load("digits", "train")

    Args:
      name: "digits" (embedded), "mnist", "cifar10" or "idc".
      split: "test" or "train"; "idc" has "test" only.
      data_dir: the folder that holds the folders `mnist`, `cifar10` and `idc/images`,
        as `mnist`, `cifar10` and `idc_patches` take them. None stands for the
        environment variable JAXROB_DATA_DIR. "digits" needs neither.

    Raises:
      ValueError: if the name or split is unknown, or a file is damaged.
      FileNotFoundError: if the data are missing; the message names the folder searched.
      ImportError: if an optional dependency is missing.
    """
    check_choice("name", name, NAMES)
    _check_split(split)
    if data_dir is not None:
        data_dir = checked_path("data_dir", data_dir)
    if name == "idc" and split != "test":
        raise ValueError(f"split must be 'test' for 'idc', got {split!r}")
    if name == "digits":
        return digits(split)
    root = data_dir if data_dir is not None else os.environ.get(_VARIABLE)
    place = "idc/images" if name == "idc" else name
    if not root:
        raise FileNotFoundError(
            f"{name} needs files: pass data_dir or set {_VARIABLE} to the folder that "
            f"holds the folder {place}; the data set 'digits' needs nothing"
        )
    folder = pathlib.Path(root, place)
    try:
        if name == "idc":
            return idc_patches(folder)
        return (mnist if name == "mnist" else cifar10)(folder, split)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error} (data_dir or {_VARIABLE} is {os.fspath(root)!r}); 'digits' needs "
            "nothing"
        ) from error
