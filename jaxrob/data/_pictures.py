"""Pictures, slices of a volume, and arrays as data sets."""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    checked_array,
    checked_integer,
    checked_path,
    checked_text,
)
from jaxrob._arguments.texts import required, warn
from jaxrob._dataset import Dataset
from jaxrob._files import damage_of, read_npz
from jaxrob._stored_images import Failed, Store, StoredImages, Unreadable
from jaxrob.data import _medical
from jaxrob.data._classes import checked_class_names
from jaxrob.data._decode import Expected, decode_image, readable
from jaxrob.data._preparation import (
    MAX_BYTES,
    Oddities,
    Preparation,
    as_read,
    checked_preparation,
    first_names,
    warn_of,
)
from jaxrob.data._source import read_file

# The provenance names at most so many pictures left out, and files skipped.
_MOST_NAMED = 100


def slices(
    path: str | os.PathLike[str],
    axis: int | None = None,
    indices: Sequence[int] | np.ndarray | None = None,
    *,
    labels: Any = None,
    size: tuple[int, int] | None = None,
    grey: bool = False,
    value_range: tuple[float, float] | None = None,
) -> Dataset:
    """Loads slices of a NIfTI volume, or frames of a DICOM file, as images.

    Example::

        scan = jaxrob.data.slices("scan.nii.gz", indices=range(40, 80), grey=True)

    A slice is the array that nibabel gives for it, rows first, not turned by the file's
    affine matrix. A `jaxrob.RobustnessWarning` says if nearly nothing is seen.

    Args:
      path: a file `.nii`, `.nii.gz` or `.dcm`, or a DICOM file of another name.
      axis: the axis of the volume that is left out of a slice, 0, 1 or 2, by default 2;
        0 for the frames of a DICOM file.
      indices: those of the slices along that axis; by default all.
      labels: `[N]` integers, one for each of these slices, or None.
      size: see `image_folder`.
      grey: see `image_folder`.
      value_range: see `image_folder`.

    Returns:
      float32 images `[N, H, W, 3]` in [0, 1], or `[N, H, W, 1]` if `grey`.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if it is damaged, or too large; its values have no range or window; it
        has no such axis or slice; or the slices take more than 1 GiB.
      ImportError: if pydicom or nibabel is missing.
    """
    path = checked_path("path", path)
    name, lower = str(path), path.name.lower()
    is_nifti = lower.endswith(_medical.NIFTI_SUFFIXES)
    is_dicom = lower.endswith(_medical.DICOM_SUFFIXES) or (
        not is_nifti and path.exists() and _medical.is_dicom(read_file(path))
    )
    if not is_dicom and not is_nifti:
        raise ValueError(
            f"path must be a .nii, .nii.gz or .dcm, or DICOM by its bytes; got {name!r}"
        )
    if axis is None:
        axis = 0 if is_dicom else _medical.NIFTI_AXIS
    axis = checked_integer("axis", axis, at_least=0, at_most=0 if is_dicom else 2)
    preparation = checked_preparation(size=size, grey=grey, value_range=value_range)
    fit = preparation.fit
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file there")
    data = read_file(path)
    with readable(name):
        if is_dicom:
            number = _medical.num_frames(data)
        else:
            data = _medical.unpacked(data)  # Once, not for every slice.
            number = _medical.num_slices(data, axis)
    if indices is None:
        indices = range(number)
    chosen = checked_array(
        "indices", np.asarray(indices), "N", "integers", at_least=0, at_most=number - 1
    )
    images, odd = [], {}
    for index in chosen.tolist():
        at = fit._replace(slice_at=(axis, index))
        image, odd[f"slice {index}"] = decode_image(data, name, at, grey)
        if image.nbytes * len(chosen) > MAX_BYTES:
            raise ValueError(
                f"{path}: {len(chosen)} slices take more than {MAX_BYTES} bytes. Take "
                "fewer (indices=), or smaller ones (size=, grey=True)"
            )
        images.append(image)
    warn_of(path, odd, len(chosen))
    which = {"axis": axis, "indices": chosen.tolist()}
    reading = {"slices": which, **as_read(preparation, odd.values(), is_all=True)}
    return Dataset(np.stack(images), labels, name=path.name, _reading=reading)


def npz(
    path: str | os.PathLike[str],
    images: str = "images",
    labels: str | None = "labels",
    *,
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
) -> Dataset:
    """Loads images and labels from a file written by `numpy.savez`.

    Example::

        test = jaxrob.data.npz("digits.npz", images="x_test", labels="y_test")

    Args:
      path: the file, compressed or not. Nothing in it is unpickled.
      images: the name of the array of images, `[N, H, W, C]`, or `[N, H, W]` of one
        channel; uint8 or floating in [0, 1].
      labels: the name of the array of labels, `[N]` or `[N, 1]` integers from 0; None
        for images without labels.
      class_names: see `image_folder`.

    Raises:
      FileNotFoundError: if there is no such file.
      TypeError: if the arrays have another type, see `Dataset`.
      ValueError: if the file is damaged, unpacks to more than 256 MiB and 100 times its
        size or lacks an array, or as `Dataset`.
    """
    path = checked_path("path", path)
    needed = [checked_text("images", images)]
    if labels is not None:
        needed.append(checked_text("labels", labels))
    names = checked_class_names(class_names)
    with damage_of(f"{path}: not a readable npz file"):
        arrays = read_npz(path, may_be_compressed=True)
    for name in needed:
        if name not in arrays:
            raise ValueError(
                f"{path}: it has no array {name!r}; it has {', '.join(sorted(arrays))}"
            )
    pixels, numbers = arrays[images], None if labels is None else arrays[labels]
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if numbers is not None and numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    return Dataset(pixels, numbers, class_names=names, name=path.stem)


class Pictures(NamedTuple):
    """Picture files in the order of a data set, undecoded."""

    path: pathlib.Path  # Where they are, for messages and the data set's name
    names: Sequence[str]  # Their names, which identify them beside their bytes
    contents: Callable[[int], bytes]  # A file's bytes; raises ValueErrors
    where: Callable[[int], str]  # A file's path for messages
    skipped: Sequence[str]  # The names of hidden and system files


def as_dataset(
    pictures: Pictures,
    labels: np.ndarray | None,
    class_names: tuple[str, ...] | None,
    preparation: Preparation,
) -> Dataset:
    shape, expected, first = _expected(pictures, preparation)
    store = _store(pictures, preparation, shape, expected)
    stored = StoredImages(store, np.arange(len(store.names)))
    images: Any = stored
    file_names = np.array(pictures.names, object)
    left_out: list[Failed] = []
    if preparation.leaves_out:
        in_memory, left_out = stored.readable()
        is_kept = np.ones(len(stored), bool)
        is_kept[[failed.place for failed in left_out]] = False
        stored[is_kept].warn_of_odd()
        images = stored if in_memory is None else in_memory
        if left_out:
            images, file_names, lost = images[is_kept], file_names[is_kept], set()
            if labels is not None:
                lost = {*labels.tolist()} - {*labels[is_kept].tolist()}
                labels = labels[is_kept]
            _warn_of_left_out(pictures, left_out, sorted(lost), class_names)
    elif stored.nbytes <= preparation.max_bytes:
        images = np.asarray(stored)
        stored.warn_of_odd()
    reading = _reading(pictures, preparation, left_out)
    # Of pictures that are read when needed the first is known.
    odd = list(stored.odd().values()) or [first]
    reading |= as_read(preparation, odd, is_all=bool(stored.odd()))
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
    pil = required("PIL.features", "reading images", "experiments")
    fit, grey = preparation.fit, preparation.grey

    def decode(index: int, data: bytes) -> tuple[np.ndarray, Oddities | None]:
        image, odd = decode_image(data, pictures.where(index), fit, grey, expected)
        return image, None if odd == Oddities() else odd

    def warn_of_odd(odd: dict[int, Oddities], number: int) -> None:
        named = {pictures.names[index]: oddities for index, oddities in odd.items()}
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
        *size, channels = image.shape
        why = f", as {name} has: resize by size=(height, width), read other kinds apart"
        upright = None if fit.crop or fit.resize else (size[0], size[1])
        return image.shape, Expected(upright, channels, image.dtype, why), odd
    raise ValueError(f"{pictures.path}: none of its pictures is readable. {first}")


def _warn_of_left_out(
    pictures: Pictures,
    left_out: Sequence[Failed],
    lost: Sequence[int],
    class_names: tuple[str, ...] | None,
) -> None:
    names = first_names([pictures.names[failed.place] for failed in left_out])
    message = (
        f"{pictures.path}: {len(left_out)} of {len(pictures.names)} pictures are "
        f"unreadable and were left out: {names}. The first: {left_out[0].why}."
    )
    if lost:
        classes = [class_names[at] if class_names else f"class {at}" for at in lost]
        message += f" No picture is left of {first_names(classes)}."
    warn(message)


def _reading(
    pictures: Pictures, preparation: Preparation, left_out: Sequence[Failed]
) -> dict[str, Any]:
    notes: dict[str, Any] = {"skipped_files": len(pictures.skipped)}
    if pictures.skipped:
        notes["skipped_names"] = list(pictures.skipped[:_MOST_NAMED])
    if preparation.fit.dct_scaling:
        notes["decoding"] = "JPEG at 1/2, 1/4 or 1/8 where that suffices (DCT scaling)"
    if preparation.leaves_out:
        names = [pictures.names[failed.place] for failed in left_out[:_MOST_NAMED]]
        counts = {"number": len(left_out), "of": len(pictures.names)}
        notes["left_out"] = counts | {"names": names}
    return notes
