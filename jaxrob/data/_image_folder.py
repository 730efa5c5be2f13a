"""Class folders of images, on disk or in a tar archive."""

import concurrent.futures
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from jaxrob._dataset import Dataset
from jaxrob._runtime.checks import checked_flag, checked_integer, checked_path
from jaxrob._runtime.naming import named
from jaxrob.data._decode import SUFFIXES, decode_image
from jaxrob.data._files import read_file
from jaxrob.data._tar import read_tar

_Parts = tuple[str, ...]
# Images in one task: small ones decode in less time than threads take to change.
_BATCH = 64


def image_folder(
    path: str | os.PathLike[str],
    size: tuple[int, int] | None = None,
    grey: bool = False,
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

    Returns:
      uint8 images `[N, H, W, 3]`, or `[N, H, W, 1]` if `grey`; the class folders'
      names as `class_names`.

    Raises:
      FileNotFoundError: if there is nothing at `path`.
      ValueError: if there is no image; an image is damaged, claims an absurd size,
        lies outside a class folder, or differs in size from the first while `size`
        is None; a class folder holds none, or files other than PNG and JPEG; or the
        archive is damaged or holds links. The message names the file.
      ImportError: if Pillow is missing.
    """
    size = _check_size(size)
    checked_flag("grey", grey)
    path = checked_path("path", path)
    if path.is_dir():
        entries = _walk(path)
    elif path.is_file():
        entries = (
            (parts, None if data is None else functools.partial(bytes, data))
            for parts, data in read_tar(path)
        )
    else:
        raise FileNotFoundError(f"{path}: expected a folder or a tar archive there")
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        return _decode_all(entries, path, size, grey, pool)
    finally:
        # After an error, what still waits to be decoded is of no use.
        pool.shutdown(cancel_futures=True)


def _decode_all(
    entries: Iterable[tuple[_Parts, Callable[[], bytes] | None]],
    path: pathlib.Path,
    size: tuple[int, int] | None,
    grey: bool,
    pool: concurrent.futures.Executor,
) -> Dataset:
    images: set[_Parts] = set()
    others, folders, batch, batches = [], [], [], []
    for parts, read in entries:
        if read is None:
            folders.append(parts)
        elif not parts[-1].lower().endswith(SUFFIXES):
            others.append(parts)
        elif parts in images:
            raise ValueError(f"{_name(path, parts)}: twice in the archive")
        else:
            images.add(parts)
            batch.append((parts, read))
            if len(batch) == _BATCH:
                batches.append(pool.submit(_decode, batch, path, size, grey))
                batch = []
    batches.append(pool.submit(_decode, batch, path, size, grey))
    class_names = _class_names(path, sorted(images), others, folders)

    decoded = dict(pair for future in batches for pair in future.result())
    batches.clear()
    order = sorted(images)
    shape = decoded[order[0]].shape
    pixels = np.empty((len(order), *shape), np.uint8)
    for index, parts in enumerate(order):
        # Popped, so that no second copy of the data set stays behind.
        image = decoded.pop(parts)
        if image.shape != shape:
            raise ValueError(
                f"{_name(path, parts)}: {image.shape[0]}x{image.shape[1]} pixels, but "
                f"{_name(path, order[0])} has {shape[0]}x{shape[1]}; pass "
                "size=(height, width) to resize all images"
            )
        pixels[index] = image
    number = {name: label for label, name in enumerate(class_names)}
    labels = np.array([number[parts[-2]] for parts in order], np.int32)
    return Dataset(pixels, labels, class_names=class_names, name=path.name)


def _decode(
    batch: list[tuple[_Parts, Callable[[], bytes]]],
    path: pathlib.Path,
    size: tuple[int, int] | None,
    grey: bool,
) -> list[tuple[_Parts, np.ndarray]]:
    return [
        (parts, decode_image(read(), _name(path, parts), size, grey))
        for parts, read in batch
    ]


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


def _walk(path: pathlib.Path) -> Iterator[tuple[_Parts, Callable[[], bytes] | None]]:
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
    wanted = "None or (height, width) in pixels"
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise TypeError(f"size must be {wanted}; got {named(size)}")
    height, width = (checked_integer("size", side, at_least=1) for side in size)
    return height, width


def _name(path: pathlib.Path, parts: _Parts) -> str:
    return f"{path}/{'/'.join(parts)}"


def _reraise(error: OSError) -> None:
    raise error
