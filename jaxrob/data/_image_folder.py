"""Class folders of images, on disk or in a tar archive."""

import concurrent.futures
import functools
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    checked_flag,
    checked_integer,
    checked_path,
)
from jaxrob._arguments.naming import named
from jaxrob._dataset import Dataset
from jaxrob.data._classes import checked_class_names, numbered, read_labels
from jaxrob.data._decode import SUFFIXES, Expected, Fit, decode_image, image_size
from jaxrob.data._files import read_file
from jaxrob.data._oddities import Oddities, warn_of
from jaxrob.data._tar import read_tar

# The limit of the decoded bytes: 100,000 ImageNet images at 224 x 224.
MAX_BYTES = 16 << 30
_Parts = tuple[str, ...]
# The value of `labels` for class folders.
FOLDERS = "folders"
# Reads a file's bytes when they are needed.
_Read = Callable[[], bytes]
_LARGEST_SIDE = 2**14
# Files that Windows leaves in folders, as other systems leave hidden files.
_WINDOWS_FILES = ("thumbs.db", "desktop.ini")
# Images in one task: small ones decode in less time than switching threads takes.
_BATCH = 64


def image_folder(
    path: str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    grey: bool = False,
    *,
    resize: int | None = None,
    crop: int | tuple[int, int] | None = None,
    interpolation: str = "bicubic",
    labels: str | os.PathLike[str] | None = FOLDERS,
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
    orientation: str = "exif",
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Loads images whose folder is their class: `cat/1.png`, `dog/1.png`, ...

    A file of labels may give the classes instead, or there may be no labels.

    Example::

        dataset = jaxrob.data.image_folder("pictures", size=(64, 64))
        print(dataset.class_names, dataset.images.shape)
        dataset = jaxrob.data.image_folder("photographs", resize=256, crop=224)

    Classes are numbered in the order of their sorted names; images are ordered by class
    and file name. The class folders may lie inside enclosing folders, if these hold no
    other image. Hidden files and folders, Thumbs.db and desktop.ini are ignored, and so
    are other files beside the class folders. Only the first frame of an animation is
    read. Images with an EXIF orientation, such as those of phones, are put upright, and
    transparent images are blended with white: not all loaders used in training do so. A
    `jaxrob.RobustnessWarning` counts these images, and images of 16 bits a channel that
    use only 12 or 14.

    Args:
      path: a folder, or a tar or tar.gz archive (read once, in memory).
      size: height and width to which every image is resized (bicubic, antialiased),
        or None if all have the same size.
      grey: whether to reduce the images to one channel, luma.
      resize: the shorter side, in pixels, to which every image is resized, keeping its
        proportions (the longer side is rounded down); in place of `size`.
      crop: height and width of the centre that is kept after resizing, or one number
        for both; by default the whole image. Levels in pixels refer to this size.
      interpolation: that of `size` and `resize`, "bicubic" or "bilinear", antialiased.
      labels: "folders"; the path of a CSV file whose rows hold the path of an image
        inside the folder, and its class as a name or an index (a first row that names
        no image is a header; images without a row are not read); or None for images
        without labels, in any folders. Then `jaxrob.assess` measures stability.
      class_names: the classes in the order of the network's outputs, if that is not the
        order of the sorted names: a sequence, or the path of a text file with a name on
        each line or of a JSON file with a list, or an object of names and indices.
        Names without images are allowed.
      orientation: "exif" puts every image upright by its EXIF before its size is
        checked; "stored" reads it as it is stored, as torchvision's loader does.
      max_bytes: the limit of the decoded images' bytes together, by default 16 GiB. It
        is checked before decoding, by the number of images and the header of the first.
        An archive's own bytes have the same limit.

    Returns:
      uint8 images `[N, H, W, 3]`, or `[N, H, W, 1]` if `grey`; the class folders'
      names as `class_names`.

    Raises:
      FileNotFoundError: if there is nothing at `path`.
      ValueError: if there is no image; an image is damaged, claims more pixels than its
        bytes can hold or than about 13,000 x 13,000, lies outside a class folder, or
        differs in size from the first while `size` is None; a class folder holds no
        image, or files other than PNG and JPEG; a class is not in `class_names`; a row
        of the file of labels names no image, or repeats one; the images take more than
        `max_bytes`; or the archive is damaged, holds links, or unpacks to more than
        256 MiB and 100 times its size. The message names the file.
      ImportError: if Pillow is missing.
    """
    fit = _checked_fit(_checked_size(size), resize, crop, interpolation, orientation)
    if labels is not None and not (isinstance(labels, str) and labels == FOLDERS):
        labels = checked_path("labels", labels)
    names = checked_class_names(class_names)
    checked_flag("grey", grey)
    max_bytes = checked_integer("max_bytes", max_bytes, at_least=1, at_most=2**62)
    path = checked_path("path", path)
    if path.is_dir():
        entries = _walk(path)
    elif path.is_file():
        entries = _in_archive(path, max_bytes)
    else:
        raise FileNotFoundError(f"{path}: expected a folder or a tar archive there")
    images, folders = _collected(entries, path, labels == FOLDERS)
    order, classes = sorted(images), None
    if labels == FOLDERS:
        classes, names = [parts[-2] for parts in order], names or folders
    elif labels is not None:
        rows = read_labels(pathlib.Path(labels), {"/".join(p): p for p in order})
        order, classes = list(rows), list(rows.values())
    numbers, names = numbered(classes, names, path)
    expected = None
    if fit.crop is None and not isinstance(fit.resize, tuple):
        expected = _expected(images, order, path, fit)
    height, width = cast(tuple, expected[:2] if expected else fit.crop or fit.resize)
    shape = (len(order), height, width, 1 if grey else 3)
    if math.prod(shape) > max_bytes:
        raise ValueError(
            f"{path}: {len(order)} images of {height}x{width} pixels take "
            f"{math.prod(shape)} bytes; at most max_bytes={max_bytes} are decoded. "
            "Pass size=(height, width) for smaller images, or max_bytes=... for more"
        )
    pixels = np.empty(shape, np.uint8)
    odd: list[Oddities] = []

    def decode(numbers: range) -> None:
        for index in numbers:
            parts = order[index]
            # Popped, so that an archive's bytes are freed.
            data, name = images.pop(parts)(), _name(path, parts)
            pixels[index], found = decode_image(data, name, fit, grey, expected)
            if found != Oddities():
                odd.append(found)

    _in_threads(decode, len(order))
    warn_of(path, odd, len(order))
    return Dataset(pixels, numbers, class_names=names, name=path.name)


def _in_threads(decode: Callable[[range], None], number: int) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        starts = range(0, number, _BATCH)
        parts = (range(start, min(start + _BATCH, number)) for start in starts)
        for _ in pool.map(decode, parts):
            pass
    finally:
        # After an error, waiting tasks are useless.
        pool.shutdown(cancel_futures=True)


def _collected(
    entries: Iterable[tuple[_Parts, _Read | None]],
    path: pathlib.Path,
    in_folders: bool,
) -> tuple[dict[_Parts, _Read], tuple[str, ...]]:
    """Returns the images, undecoded, and the class folders' names if they are used."""
    images: dict[_Parts, _Read] = {}
    others, folders = [], []
    for parts, read in entries:
        if read is None:
            folders.append(parts)
        elif not _is_image(parts[-1]):
            if parts[-1].lower() not in _WINDOWS_FILES:
                others.append(parts)
        elif parts in images:
            raise ValueError(f"{_name(path, parts)}: twice in the archive")
        else:
            images[parts] = read
    if not in_folders and not images:
        raise ValueError(f"{path}: no PNG or JPEG in it")
    if not in_folders:
        return images, ()
    return images, _class_names(path, sorted(images), others, folders)


def _expected(
    images: dict[_Parts, _Read], order: list[_Parts], path: pathlib.Path, fit: Fit
) -> Expected:
    """Returns the first image's size, which all images must have."""
    name = _name(path, order[0])
    height, width = image_size(images[order[0]](), name, fit)
    return Expected(
        height,
        width,
        f"but {name} has {height}x{width}; pass size=(height, width) to resize all "
        "images",
    )


def _in_archive(
    path: pathlib.Path, max_bytes: int
) -> Iterator[tuple[_Parts, _Read | None]]:
    total = 0
    for parts, data in read_tar(path, _is_image):
        if data is not None:
            total += len(data)
        if total > max_bytes:
            raise ValueError(
                f"{path}: its images take more than max_bytes={max_bytes}, undecoded; "
                "unpack it into a folder, or pass a larger max_bytes"
            )
        yield parts, None if data is None else functools.partial(bytes, data)


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _class_names(
    path: pathlib.Path,
    images: list[_Parts],
    others: list[_Parts],
    folders: list[_Parts],
) -> tuple[str, ...]:
    """Checks that all images lie in sibling folders; returns these folders' names."""
    if not images:
        raise ValueError(f"{path}: no PNG or JPEG in it; expected class folders")
    for parts in images:
        if len(parts) < 2:
            raise ValueError(f"{_name(path, parts)}: image outside a class folder")
        if parts[:-2] != images[0][:-2]:
            raise ValueError(
                f"{_name(path, parts)}: its class folder is no sibling of that of "
                f"{_name(path, images[0])}; expected all class folders in one place"
            )
    root = images[0][:-2]
    depth = len(root)
    for parts in others:
        if parts[:depth] == root and len(parts) >= depth + 2:
            raise ValueError(
                f"{_name(path, parts)}: neither PNG nor JPEG by its name, in a class "
                f"folder; allowed endings are {', '.join(SUFFIXES)}. Convert it, or "
                "move it away"
            )
    names = {parts[-2] for parts in images}
    for parts in folders:
        if parts[:-1] == root and len(parts) > depth and parts[-1] not in names:
            raise ValueError(f"{_name(path, parts)}: class folder without an image")
    return tuple(sorted(names))


def _walk(path: pathlib.Path) -> Iterator[tuple[_Parts, _Read | None]]:
    """Yields the visible files and folders below a folder, in sorted order."""
    visited = set()
    for folder, folders, files in os.walk(path, onerror=_reraise, followlinks=True):
        target = os.path.realpath(folder)
        if target in visited:
            raise ValueError(f"{folder}: a link to a folder that is read already")
        visited.add(target)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        parts = pathlib.Path(folder).relative_to(path).parts
        for name in folders:
            yield (*parts, name), None
        for name in sorted(name for name in files if not name.startswith(".")):
            file = pathlib.Path(folder, name)
            yield (*parts, name), functools.partial(read_file, file)


def _checked_fit(
    size: tuple[int, int] | None,
    resize: Any,
    crop: Any,
    interpolation: Any,
    orientation: Any,
) -> Fit:
    """Returns how images are turned, resized and cropped; checks the arguments."""
    check_choice("orientation", orientation, ("exif", "stored"))
    check_choice("interpolation", interpolation, ("bicubic", "bilinear"))
    if isinstance(crop, int | np.integer) and not isinstance(crop, bool):
        crop = (crop, crop)
    crop = _checked_size(crop, "crop")
    if resize is not None:
        resize = checked_integer("resize", resize, at_least=1, at_most=_LARGEST_SIDE)
        if size is not None:
            raise ValueError(
                f"resize must be None beside size, which says the same; got {resize}"
            )
        if crop is None:
            raise ValueError(
                "crop must be given with resize, which leaves the longer sides as they "
                "come; got None"
            )
    return Fit(resize or size, crop, interpolation, orientation)


def _checked_size(size: Any, argument: str = "size") -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, np.ndarray) and size.ndim == 1:
        size = tuple(size.tolist())
    wanted = "None or (height, width) in pixels, each an integer of at least 1"
    is_pair = isinstance(size, tuple | list) and len(size) == 2
    if not is_pair or not all(isinstance(side, int | np.integer) for side in size):
        raise ValueError(f"{argument} must be {wanted}; got {named(size)}")
    height, width = (checked_integer(argument, side, at_least=1) for side in size)
    return height, width


def _name(path: pathlib.Path, parts: _Parts) -> str:
    return f"{path}/{'/'.join(parts)}"


def _reraise(error: OSError) -> None:
    raise error
