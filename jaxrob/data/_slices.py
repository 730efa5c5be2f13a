"""All slices of one volume, or frames of one DICOM file, as pictures."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_integer, checked_path
from jaxrob._dataset import Dataset
from jaxrob.data import _medical
from jaxrob.data._decode import decode_image, readable
from jaxrob.data._oddities import warn_of
from jaxrob.data._preparation import (
    MAX_BYTES,
    as_found,
    as_prepared,
    checked_preparation,
)
from jaxrob.data._source import read_file


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

    A slice is the array that nibabel gives for it: the first axis that remains is that
    of the rows. It is not turned by the file's affine matrix. A
    `jaxrob.RobustnessWarning` says if nearly nothing is seen by the window or range.

    Args:
      path: a file `.nii`, `.nii.gz` or `.dcm`, or a DICOM file of another name.
      axis: the axis of the volume that is left out of a slice, 0, 1 or 2, by default 2;
        0 for the frames of a DICOM file.
      indices: those of the slices along that axis; by default all.
      labels: `[N]` integers, one for each of these slices, or None.
      size: as for `image_folder`.
      grey: as for `image_folder`.
      value_range: as for `image_folder`.

    Returns:
      float32 images `[N, H, W, 3]` in [0, 1], or `[N, H, W, 1]` if `grey`.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if it is damaged, or too large; its values have no range or window; it
        has no such axis or slice; or the slices take more than 1 GiB. The message names
        the file.
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
            "path must end in .nii, .nii.gz or .dcm, or be a DICOM file of any name; "
            f"got {name!r}"
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
        # Unpacked once, not for every slice.
        data = data if is_dicom else _medical.unpacked(data)
        number = (
            _medical.num_frames(data) if is_dicom else _medical.num_slices(data, axis)
        )
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
    reading = {"slices": which, **as_prepared(preparation)}
    shown = [one.shown for one in odd.values()]
    reading |= as_found(preparation, shown, is_all=True)
    return Dataset(np.stack(images), labels, name=path.name, _reading=reading)
