"""Class folders of images, on disk or in a tar archive."""

import concurrent.futures
import functools
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import numpy as np

from jaxrob._dataset import Dataset
from jaxrob._runtime.checks import checked_flag, checked_integer, checked_path
from jaxrob._runtime.naming import named
from jaxrob.data._decode import SUFFIXES, Expected, decode_image, image_size
from jaxrob.data._files import read_file
from jaxrob.data._tar import read_tar

# Of the decoded images together: 100,000 of ImageNet's at 224 x 224.
MAX_BYTES = 16 << 30
_Parts = tuple[str, ...]
# A file's bytes, read when they are needed.
_Read = Callable[[], bytes]
# Images in one task: small ones decode in less time than threads take to change.
_BATCH = 64


def image_folder(
    path: str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    grey: bool = False,
    *,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Loads images whose folder is their class: `cat/1.png`, `dog/1.png`, ...

    Example::

        dataset = jaxrob.data.image_folder("pictures", size=(64, 64))
        print(dataset.class_names, dataset.images.shape)

    Classes are numbered in the order of their sorted names, images are ordered by
    class and file name. The class folders may lie inside enclosing folders, if these
    hold no other image. Hidden files and folders are left out, and so are other files
    beside the class folders. The first frame of an animation is taken; transparent
    images are laid on white.

    Args:
      path: a folder, or a tar or tar.gz archive (read once, in memory).
      size: height and width to which every image is resized (bicubic, antialiased),
        or None if all have the same size.
      grey: whether to reduce the images to one channel, luma.
      max_bytes: the most that the decoded images may take together, by default 16 GiB.
        Their number and the first one's header tell, before any is decoded. An
        archive's own bytes are limited to as many.

    Returns:
      uint8 images `[N, H, W, 3]`, or `[N, H, W, 1]` if `grey`; the class folders'
      names as `class_names`.

    Raises:
      FileNotFoundError: if there is nothing at `path`.
      ValueError: if there is no image; an image is damaged, claims more pixels than its
        bytes can hold or than about 13,000 x 13,000, lies outside a class folder, or
        differs in size from the first while `size` is None; a class folder holds none,
        or files other than PNG and JPEG; the images take more than `max_bytes`; or the
        archive is damaged, holds links, or unpacks to more than 256 MiB and 100 times
        its size. The message names the file.
      ImportError: if Pillow is missing.
    """
    size = _check_size(size)
    checked_flag("grey", grey)
    max_bytes = checked_integer("max_bytes", max_bytes, at_least=1, at_most=2**62)
    path = checked_path("path", path)
    if path.is_dir():
        entries = _walk(path)
    elif path.is_file():
        entries = _in_archive(path, max_bytes)
    else:
        raise FileNotFoundError(f"{path}: expected a folder or a tar archive there")
    images, class_names = _collected(entries, path)
    order = sorted(images)
    expected = _expected(images, order, path) if size is None else None
    height, width = expected[:2] if expected is not None else cast(tuple, size)
    shape = (len(order), height, width, 1 if grey else 3)
    if math.prod(shape) > max_bytes:
        raise ValueError(
            f"{path}: {len(order)} images of {height}x{width} pixels take "
            f"{math.prod(shape)} bytes; at most max_bytes={max_bytes} are decoded. "
            "Pass size=(height, width) for smaller images, or a larger max_bytes"
        )
    pixels = np.empty(shape, np.uint8)

    def decode(numbers: range) -> None:
        for index in numbers:
            parts = order[index]
            # Popped, so that an archive's bytes do not stay behind.
            data, name = images.pop(parts)(), _name(path, parts)
            pixels[index] = decode_image(data, name, size, grey, expected)

    _in_threads(decode, len(order))
    number = {name: label for label, name in enumerate(class_names)}
    labels = np.array([number[parts[-2]] for parts in order], np.int32)
    return Dataset(pixels, labels, class_names=class_names, name=path.name)


def _in_threads(decode: Callable[[range], None], number: int) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        starts = range(0, number, _BATCH)
        parts = (range(start, min(start + _BATCH, number)) for start in starts)
        for _ in pool.map(decode, parts):
            pass
    finally:
        # After an error, what still waits to be decoded is of no use.
        pool.shutdown(cancel_futures=True)


def _collected(
    entries: Iterable[tuple[_Parts, _Read | None]], path: pathlib.Path
) -> tuple[dict[_Parts, _Read], tuple[str, ...]]:
    """The images, none decoded, and the names of the classes."""
    images: dict[_Parts, _Read] = {}
    others, folders = [], []
    for parts, read in entries:
        if read is None:
            folders.append(parts)
        elif not _is_image(parts[-1]):
            others.append(parts)
        elif parts in images:
            raise ValueError(f"{_name(path, parts)}: twice in the archive")
        else:
            images[parts] = read
    return images, _class_names(path, sorted(images), others, folders)


def _expected(
    images: dict[_Parts, _Read], order: list[_Parts], path: pathlib.Path
) -> Expected:
    """The first image's size, which all must have."""
    name = _name(path, order[0])
    height, width = image_size(images[order[0]](), name)
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
                f"folder; allowed endings are {', '.join(SUFFIXES)}"
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


def _check_size(size: tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, np.ndarray):
        size = tuple(size.tolist())
    wanted = "None or (height, width) in pixels, each an integer of at least 1"
    is_pair = isinstance(size, tuple | list) and len(size) == 2
    if not is_pair or not all(isinstance(side, int | np.integer) for side in size):
        raise ValueError(f"size must be {wanted}; got {named(size)}")
    height, width = (checked_integer("size", side, at_least=1) for side in size)
    return height, width


def _name(path: pathlib.Path, parts: _Parts) -> str:
    return f"{path}/{'/'.join(parts)}"


def _reraise(error: OSError) -> None:
    raise error
