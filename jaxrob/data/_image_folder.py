"""Class folders of images, on disk or in a tar archive."""

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from jaxrob._arguments.checks import checked_names, checked_path, checked_text
from jaxrob._dataset import Dataset
from jaxrob._files import open_file
from jaxrob.data._classes import (
    check_looks,
    check_sorted,
    checked_class_names,
    numbered,
    read_labels,
)
from jaxrob.data._decode import SUFFIXES, readable
from jaxrob.data._medical import HEAD_BYTES, elements_of, is_dicom
from jaxrob.data._pictures import Pictures, as_dataset
from jaxrob.data._preparation import MAX_BYTES, checked_preparation
from jaxrob.data._source import is_of_system, read_file
from jaxrob.data._tar import Member, read_member, read_tar

_Parts = tuple[str, ...]
FOLDERS = "folders"
_ENDINGS = ", ".join(SUFFIXES)
# Of such names files are opened to see if they are DICOM: "IM000001", "x.IMA".
_OF_DICOM = re.compile(r"[^.]+|.+\.(\d+|ima|dicom|dic)", re.IGNORECASE)
_WANTED = f"{_ENDINGS}; in a folder also DICOM files without an ending"
_ON_DISK = Member(0, 0)


def image_folder(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = FOLDERS,
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
    size: int | tuple[int, int] | None = None,
    grey: bool = False,
    resize: int | None = None,
    crop: int | tuple[int, int] | None = None,
    interpolation: str = "bicubic",
    orientation: str = "exif",
    dct_scaling: bool = False,
    unreadable: str = "error",
    max_bytes: int = MAX_BYTES,
    background: str | None = None,
    value_range: tuple[float, float] | None = None,
    slice_at: tuple[int, int] | None = None,
    metadata: Sequence[str] = (),
    groups: str | None = None,
) -> Dataset:
    """Loads images whose folder is their class: `cat/1.png`, `dog/1.png`, ...

    Example::

        dataset = jaxrob.data.image_folder("pictures", size=(64, 64))
        print(dataset.class_names, dataset.images.shape)
        dataset = jaxrob.data.image_folder("photographs", resize=256, crop=224)

    Classes are numbered in the order of their sorted names; numbered folders in
    another order are an error. Images are ordered by class and file name. The class
    folders may lie inside enclosing folders, if these hold no other image. Files beside
    them are ignored; hidden and system files are skipped, and named in the provenance.

    Images that take at most `max_bytes` together are decoded now. More are decoded in
    every round of a search, on all cores, a little ahead of the devices;
    `dataset.images` is then not an array, but `dataset[::100]` works without reading,
    and `numpy.asarray(dataset.images[:9])` reads nine. Files are identified, in
    journals too, by names and bytes; one that changes during a run is an error.

    The contents say which of PNG, JPEG, TIFF, WebP, BMP and PPM a file is; `.npy` ones
    hold an array `[H, W]` or `[H, W, C]`; `.dcm` and `.nii(.gz)` need the extra
    `medical`, TIFF of more than 8 bits the extra `tiff`. On disk, DICOM files are also
    recognised by their contents if they have no ending, a number (as in
    `1.2.840.113619.3`) or `.ima`. Pictures of more than 8 bits a value become float32
    in [0, 1]. All pictures must be of one kind; those of another number of channels
    than 1, 3, or 4 with transparency keep them all.

    Only the first frame or page is read, CMYK is converted without a colour profile,
    and images with an EXIF orientation are put upright: not all loaders used in
    training do so. A `jaxrob.RobustnessWarning` counts these images, those of 16 bits
    that use only 12 or 14, those that resizing enlarged, and DICOM or NIfTI files of
    different windows or in which nearly nothing is seen; of more than `max_bytes` at
    the end of a run.

    Args:
      path: a folder, or a tar archive, whose images are read where they stand in it; or
        a tar.gz archive, which is read into memory. For the layout of WebDataset see
        `tar_shards`.
      labels: "folders"; the path of a CSV file whose rows hold the path of an image
        inside the folder, and its class as a name or an index (a first row that names
        neither is a header; images without a row are not read); or None for images
        without labels, in any folders. Then `jaxrob.assess` measures stability.
      class_names: the classes in the order of the network's outputs, if that is not the
        order of the sorted names: a sequence, or the path of a text file with a name on
        each line or of a JSON file with a list, or an object of names and indices.
        Names without images are allowed.
      size: height and width to which every image is resized, or one number for both;
        None if all have the same size.
      grey: whether to reduce the images to one channel, luma.
      resize: the shorter side, in pixels, to which every image is resized, keeping its
        proportions (the longer side is rounded down); in place of `size`.
      crop: height and width of the centre that is kept after resizing, or one number
        for both; by default the whole image. Levels in pixels refer to this size.
      interpolation: that of `size` and `resize`, "bicubic" or "bilinear", antialiased.
      orientation: "exif" puts every image upright by its EXIF before its size is
        checked; "stored" reads it as it is stored, as torchvision's loader does.
      dct_scaling: whether JPEG files are decoded at 1/2, 1/4 or 1/8 of their size, the
        least at which no side is shorter than `resize` or `size` asks: faster for large
        originals, but of other pixels, as the provenance says.
      unreadable: "error" rejects a damaged image, or one smaller than the crop;
        "leave_out" leaves them out, with a warning, and names them in the provenance,
        but no whole image of another kind. All images are decoded once more, now.
      max_bytes: the largest size of all decoded images together at which they are kept
        in memory, by default 1 GiB; also of a tar.gz archive's images, undecoded.
      background: the colour on which transparent pictures are laid: a name or number
        such as "white" or "#ff8800". Without it they are rejected.
      value_range: the stored values that become 0 and 1, for pictures of more than 8
        bits: (0, 4095) for 12 bits in 16. By default what the file says: all its bits,
        or the tags of a TIFF; of floating numbers [0, 1], unless tags say otherwise. A
        value outside is an error. Of DICOM and NIfTI the values are those after
        rescaling (RescaleSlope, scl_slope), such as (-160, 240) in Hounsfield units for
        a CT, and values beyond become 0 or 1; by default DICOM's first window, or
        NIfTI's cal_min and cal_max.
      slice_at: (axis, index) of the picture in each volume: of a NIfTI file, or (0,
        index) of the frames of a DICOM file. `slices` reads all of one file.
      metadata: names of columns of the CSV file of `labels`, by its first row, that the
        data set keeps, such as ("patient", "scanner"); see `jaxrob.Dataset`. Without
        such a file, keywords of DICOM elements: ("PatientID", "Manufacturer").
      groups: the column by which images belong together, or None.

    Returns:
      Images `[N, H, W, 3]`, or `[N, H, W, 1]` if `grey`, or with the channels of
      multispectral pictures; uint8, or float32 in [0, 1] for pictures of more than 8
      bits; the class folders' names as `class_names`.

    Raises:
      FileNotFoundError: if there is nothing at `path`.
      ValueError: if there is no image; an image is damaged (beyond `max_bytes` when it
        is read), has more than about 13,000 x 13,000 pixels, lies outside a class
        folder, differs in size or kind from the first, is transparent without
        `background`, or has values outside their range, or no valid window; a class
        folder holds no image, or files of other endings; a class is not in
        `class_names`; a row of the file of labels names no image, or repeats one; or
        the archive is damaged, holds links, or unpacks to more than `max_bytes`, or 256
        MiB and 100 times its size. The message names the file.
      ImportError: if the package that reads a picture is missing.
    """
    prepared = checked_preparation(
        size=size,
        grey=grey,
        resize=resize,
        crop=crop,
        interpolation=interpolation,
        orientation=orientation,
        dct_scaling=dct_scaling,
        unreadable=unreadable,
        max_bytes=max_bytes,
        background=background,
        value_range=value_range,
        slice_at=slice_at,
    )
    if labels is not None and not (isinstance(labels, str) and labels == FOLDERS):
        labels = checked_path("labels", labels)
    names = checked_class_names(class_names)
    columns = checked_names("metadata", metadata) if len(metadata) else ()
    if groups is not None:
        columns = tuple(dict.fromkeys((*columns, checked_text("groups", groups))))
    path = checked_path("path", path)
    if path.is_dir():
        entries = _walk(path)
    elif path.is_file():
        entries = _in_archive(path, prepared.max_bytes)
    else:
        raise FileNotFoundError(f"{path}: expected a folder or a tar archive there")
    images, folders, skipped = _collected(entries, path, labels == FOLDERS)
    order, classes, rows = sorted(images), None, {}
    places = [_name(path, parts) for parts in order]
    if labels == FOLDERS:
        if names is None:
            check_looks(folders, path)
            check_sorted(folders, path)
        classes, names = [parts[-2] for parts in order], names or folders
    elif labels is not None:
        by_name = {"/".join(parts): parts for parts in order}
        rows = read_labels(pathlib.Path(labels), by_name, columns)
        order, classes = list(rows), [one.label for one in rows.values()]
        places = [one.place for one in rows.values()]
    numbers, names = numbered(classes, names, path, places)

    def contents(parts: _Parts) -> bytes:
        if (member := images[parts]) is _ON_DISK:
            return read_file(path.joinpath(*parts))
        return read_member(path, member)

    def values(name: str) -> tuple[str, ...]:
        parts = tuple(name.split("/"))
        if rows:
            return rows[parts].values
        with readable(_name(path, parts)):
            return elements_of(contents(parts), columns)

    pictures = Pictures(
        path,
        ["/".join(parts) for parts in order],
        lambda index: contents(order[index]),
        lambda index: _name(path, order[index]),
        skipped,
    )
    dataset = as_dataset(pictures, numbers, names, prepared)
    if not columns or dataset._file_names is None:
        return dataset
    # Pictures that cannot be read may have been left out.
    kept = map(values, dataset._file_names)
    table = {name: np.array(one) for name, one in zip(columns, zip(*kept))}
    return dataclasses.replace(dataset, metadata=table, groups=groups)


def _collected(
    entries: Iterable[tuple[_Parts, Member | None]],
    path: pathlib.Path,
    in_folders: bool,
) -> tuple[dict[_Parts, Member], tuple[str, ...], list[str]]:
    """Returns the images by their paths' parts, class folders, and files skipped."""
    images: dict[_Parts, Member] = {}
    others, folders, skipped = [], [], []
    for parts, member in entries:
        if is_of_system(parts):
            skipped.append("/".join(parts))
        elif member is None:
            folders.append(parts)
        elif not _is_image(parts[-1]) and not _is_dicom(path, parts, member):
            others.append(parts)
        elif parts in images:
            raise ValueError(f"{_name(path, parts)}: twice in the archive")
        else:
            images[parts] = member
    if not in_folders and not images:
        raise ValueError(f"{path}: no picture in it ({_WANTED})")
    names = _class_names(path, sorted(images), others, folders) if in_folders else ()
    return images, names, skipped


def _in_archive(
    path: pathlib.Path, max_bytes: int
) -> Iterator[tuple[_Parts, Member | None]]:
    total = 0
    for parts, member in read_tar(path, lambda name: False, later=_is_image):
        if member is not None and member.contents is not None:
            total += member.size
        if total > max_bytes:
            raise ValueError(
                f"{path}: its images, undecoded, take more than max_bytes={max_bytes}. "
                "Unpack it, uncompress it to a .tar, or pass a larger max_bytes"
            )
        yield parts, member


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _is_dicom(path: pathlib.Path, parts: _Parts, member: Member) -> bool:
    if member is not _ON_DISK or not _OF_DICOM.fullmatch(parts[-1]):
        return False
    # What cannot be read counts as no picture, as its name says.
    with contextlib.suppress(OSError, ValueError):
        with open_file(path.joinpath(*parts)) as file:
            return is_dicom(file.read(HEAD_BYTES))
    return False


def _class_names(
    path: pathlib.Path,
    images: list[_Parts],
    others: list[_Parts],
    folders: list[_Parts],
) -> tuple[str, ...]:
    """Checks that all images lie in sibling folders; returns these folders' names."""
    if not images:
        raise ValueError(f"{path}: no picture in it ({_WANTED}), in class folders")
    for parts in images:
        if len(parts) < 2:
            raise ValueError(
                f"{_name(path, parts)}: image outside a class folder. Of a table with "
                'classes say labels="labels.csv", without any labels=None, of '
                "WebDataset's archives tar_shards"
            )
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
                f"{_name(path, parts)}: no picture by its name, in a class folder; "
                f"allowed endings are {_WANTED}. Convert it, or move it away"
            )
    names = {parts[-2] for parts in images}
    for parts in folders:
        if parts[:-1] == root and len(parts) > depth and parts[-1] not in names:
            raise ValueError(f"{_name(path, parts)}: class folder without an image")
    return tuple(sorted(names))


def _walk(path: pathlib.Path) -> Iterator[tuple[_Parts, Member | None]]:
    visited = set()
    for folder, folders, files in os.walk(path, onerror=_reraise, followlinks=True):
        target = os.path.realpath(folder)
        if target in visited:
            raise ValueError(f"{folder}: a link to a folder that is read already")
        visited.add(target)
        folders.sort()
        parts = pathlib.Path(folder).relative_to(path).parts
        for name in folders:
            yield (*parts, name), None
        folders[:] = (name for name in folders if not is_of_system((name,)))
        for name in sorted(files):
            yield (*parts, name), _ON_DISK


def _name(path: pathlib.Path, parts: _Parts) -> str:
    return f"{path}/{'/'.join(parts)}"


def _reraise(error: OSError) -> None:
    raise error
