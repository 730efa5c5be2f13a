"""Picture files as a data set: decoded now, or when they are needed."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import required, warn
from jaxrob._dataset import Dataset
from jaxrob._stored_images import Failed, Store, StoredImages, Unreadable
from jaxrob.data._decode import Expected, decode_image, kind_text
from jaxrob.data._oddities import Oddities, first_names, warn_of
from jaxrob.data._preparation import Preparation, as_found, as_prepared

# The provenance names at most so many pictures left out, and files skipped.
_MOST_NAMED = 100


class Pictures(NamedTuple):
    """Picture files in the order of a data set, undecoded."""

    path: pathlib.Path  # Where they are, for messages and the data set's name
    names: Sequence[str]  # Their names, which identify them beside their bytes
    # Returns a file's bytes, by its index; raises ValueErrors.
    contents: Callable[[int], bytes]
    where: Callable[[int], str]  # Returns a file's path for messages, by its index
    skipped: Sequence[str]  # The names of hidden and system files that were passed over


def as_dataset(
    pictures: Pictures,
    labels: np.ndarray | None,
    class_names: tuple[str, ...] | None,
    preparation: Preparation,
) -> Dataset:
    """Returns pictures as a data set."""
    # Pictures of at most `max_bytes` are decoded now; others if unreadable ones are
    # left out, as their number must be known.
    shape, expected, first = _expected(pictures, preparation)
    store = _store(pictures, preparation, shape, expected)
    stored = StoredImages(store, np.arange(len(store.names)))
    images: Any = stored
    file_names = np.array(pictures.names, object)
    left_out: list[Failed] = []
    if preparation.leaves_out:
        in_memory, left_out = stored.readable()
        kept = np.ones(len(stored), bool)
        kept[[one.place for one in left_out]] = False
        lost = () if labels is None else {*labels.tolist()} - {*labels[kept].tolist()}
        _warn_of_left_out(pictures, left_out, sorted(lost), class_names)
        stored[kept].warn_of_odd()
        images = stored if in_memory is None else in_memory
        if left_out:
            images, file_names = images[kept], file_names[kept]
            labels = None if labels is None else labels[kept]
    elif stored.nbytes <= preparation.max_bytes:
        images = np.asarray(stored)
        stored.warn_of_odd()
    reading = _reading(pictures, preparation, left_out)
    # Of pictures that are read when needed the first is known.
    odd = list(stored.odd().values()) or [first]
    reading |= as_prepared(preparation)
    shown = [one.shown for one in odd]
    reading |= as_found(preparation, shown, is_all=bool(stored.odd()))
    return Dataset(
        images,
        labels,
        class_names=class_names,
        name=pictures.path.absolute().name,
        _reading=reading,
        _file_names=file_names,
    )


def _store(
    pictures: Pictures,
    preparation: Preparation,
    shape: tuple[int, ...],
    expected: Expected,
) -> Store:
    """Returns the files as a store, whose images have one shape."""
    pil = required("PIL.features", "reading images", "experiments")
    fit, grey = preparation.fit, preparation.grey

    def decode(index: int, data: bytes) -> tuple[np.ndarray, Oddities | None]:
        name = pictures.where(index)
        image, odd = decode_image(data, name, fit, grey, expected)
        return image, None if odd == Oddities() else odd

    def warn_of_odd(odd: dict[int, Oddities], number: int) -> None:
        named = {pictures.names[index]: one for index, one in odd.items()}
        warn_of(pictures.path, named, number)

    parts = ("pil", "libjpeg_turbo", "jpg")
    versions = ", ".join(f"{part} {pil.version(part)}" for part in parts)
    return Store(
        pictures.names,
        pictures.where,
        shape,
        expected.dtype,
        pictures.contents,
        decode,
        f"{fit} grey={grey} {versions}",
        warn_of_odd,
        preparation.max_bytes,
    )


def _expected(
    pictures: Pictures, preparation: Preparation
) -> tuple[tuple[int, ...], Expected, Oddities]:
    """Returns the first readable picture's shape, what all must have, and oddities."""
    fit, first = preparation.fit, None
    for index in range(len(pictures.names)):
        name = pictures.where(index)
        try:
            try:
                data = pictures.contents(index)
            except ValueError as error:
                raise Unreadable(str(error)) from error
            image, odd = decode_image(data, name, fit, preparation.grey)
        except Unreadable as error:
            if not preparation.leaves_out:
                raise
            first = first or error
            continue
        height, width, channels = image.shape
        is_resized = fit.crop is not None or fit.resize is not None
        why = (
            f"but {name} has {height}x{width}; pass size=(height, width) to resize "
            "all images"
        )
        why_kind = (
            f"but {name} as {kind_text(channels, image.dtype)}. Store all pictures "
            "alike, or read them apart"
        )
        size = None if is_resized else (height, width)
        expected = Expected(size, channels, image.dtype, why, why_kind)
        return image.shape, expected, odd
    raise ValueError(
        f"{pictures.path}: none of its {len(pictures.names)} pictures is readable. "
        f"{first}"
    )


def _warn_of_left_out(
    pictures: Pictures,
    left_out: Sequence[Failed],
    lost: Sequence[int],
    class_names: tuple[str, ...] | None,
) -> None:
    if not left_out:
        return
    number = len(pictures.names)
    message = (
        f"{pictures.path}: {len(left_out)} of {number} pictures are unreadable and "
        "were left out: "
        f"{first_names([pictures.names[one.place] for one in left_out])}. "
        f"Answers are about the other {number - len(left_out)}. The first: "
        f"{left_out[0].why}."
    )
    if lost:
        names = [class_names[one] if class_names else f"class {one}" for one in lost]
        message += f" No picture is left of {first_names(names)}."
    warn(message)


def _reading(
    pictures: Pictures, preparation: Preparation, left_out: Sequence[Failed]
) -> dict[str, Any]:
    """Returns what the provenance says about reading: values that JSON can hold."""
    found: dict[str, Any] = {"skipped_files": len(pictures.skipped)}
    if pictures.skipped:
        found["skipped_names"] = list(pictures.skipped[:_MOST_NAMED])
    if preparation.fit.dct_scaling:
        found["decoding"] = "JPEG at 1/2, 1/4 or 1/8 where that suffices (DCT scaling)"
    if preparation.leaves_out:
        names = [pictures.names[one.place] for one in left_out[:_MOST_NAMED]]
        found["left_out"] = {
            "number": len(left_out),
            "of": len(pictures.names),
            "names": names,
        }
    return found
