"""Slices of NIfTI volumes, through nibabel."""

import gzip
import io
import math
from typing import Any

import numpy as np

from jaxrob._arguments.extra import required
from jaxrob._files.regular import most_unpacked
from jaxrob.data._source import (
    Samples,
    Shown,
    Source,
    check_num_values,
    finite_number,
    range_text,
    scaled,
)

SUFFIXES = (".nii", ".nii.gz")
# The axis that is left out of a slice, unless another is asked for.
AXIS = 2
# Of the longer of two headers.
_HEADER_BYTES = 540


def unpacked(data: bytes) -> bytes:
    """Returns a file's bytes, unpacked if it is a gzip stream, as far as it may be."""
    if data[:2] != b"\x1f\x8b":
        _check_size(*_header(data), len(data))
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        head = stream.read(_HEADER_BYTES)
        needed = _check_size(*_header(head), most_unpacked(len(data)))
        found = head + stream.read(max(0, needed - len(head)))
        # gzip verifies the checksum at the end.
        if len(found) != needed or stream.read(1):
            raise ValueError(f"its header says {needed} bytes; other are there")
    return found


def num_slices(data: bytes, axis: int) -> int:
    """Returns the number of slices of a volume along an axis; raises ValueErrors."""
    shape = _header(data)[1]
    if len(shape) != 3:
        raise ValueError(f"its shape is {shape}; only volumes of 3 axes have slices")
    return shape[axis]


def open_nifti(
    data: bytes,
    slice_at: tuple[int, int] | None,
    value_range: tuple[float, float] | None,
) -> Source:
    """Returns a slice of a volume as a source, its first remaining axis the rows."""
    data = unpacked(data)
    header, shape = _header(data)
    index = _index(shape, slice_at)
    low, high = value_range or (float(header["cal_min"]), float(header["cal_max"]))
    window = f"cal_min {low:.10g}, cal_max {high:.10g}"
    window = window if value_range is None else range_text(low, high)
    if not -math.inf < low < high < math.inf:
        raise ValueError(
            "its header does not say which values are black and white (cal_min and "
            "cal_max): pass value_range=(low, high), such as (-160, 240) for a CT"
        )
    slope, intercept = header.get_slope_inter()
    slope, intercept = 1.0 if slope is None else slope, intercept or 0.0
    rescale = f"scl_slope {slope:.10g}, scl_inter {intercept:.10g}"
    nibabel = required("nibabel", "reading NIfTI files", "medical")
    spec = shape, header.get_data_dtype(), int(header["vox_offset"]), slope, intercept
    values = nibabel.arrayproxy.ArrayProxy(io.BytesIO(data), spec)[index]
    height, width = values.shape
    check_num_values(values.size, values.shape, data)

    def samples() -> Samples:
        plane = np.asarray(values, np.float64)
        if not np.isfinite(plane).all():
            raise ValueError("it holds NaN or infinity")
        outside = float(np.mean((plane < low) | (plane > high)))
        found = scaled(plane[..., np.newaxis], low, high)
        ends = float(plane.min()), float(plane.max())
        shown = Shown(window, rescale, *ends, outside, float(found.mean()))
        return Samples(found, shown=shown)

    return Source(height, width, height * width, samples)


def _check_size(header: Any, shape: tuple[int, ...], most: int) -> int:
    """Returns the bytes of a file by its header, at most those that are there."""
    needed = math.prod(shape) * header.get_data_dtype().itemsize
    needed += int(header["vox_offset"])
    if needed > most:
        raise ValueError(f"its header says {needed} bytes; at most {most} are there")
    return needed


def _header(data: bytes) -> tuple[Any, tuple[int, ...]]:
    """Returns a header, and the shape without axes of length 1 at the end."""
    nibabel = required("nibabel", "reading NIfTI files", "medical")
    kinds = nibabel.Nifti1Header, nibabel.Nifti2Header
    kind = next((one for one in kinds if one.may_contain_header(data)), None)
    if kind is None or len(data) < kind.sizeof_hdr:
        raise ValueError("it does not begin with the header of a NIfTI file")
    header = kind(data[: kind.sizeof_hdr], check=False)
    if header["magic"].item() != kind.single_magic:
        raise ValueError("its header is not that of a NIfTI file with its values (n+1)")
    shape = header.get_data_shape()
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) < 2 or min(shape) < 1:
        raise ValueError(f"its header says the shape {shape}")
    dtype, offset = (
        header.get_data_dtype(),
        finite_number("offset", header["vox_offset"]),
    )
    if dtype.kind not in "uif" or dtype.itemsize > 8:
        raise ValueError(f"its values are {dtype}; integers and floats are read")
    if offset < kind.sizeof_hdr or offset != int(offset):
        raise ValueError(f"its values begin at byte {offset:g}, inside its header")
    return header, shape


def _index(shape: tuple[int, ...], slice_at: tuple[int, int] | None) -> Any:
    """Returns the index of a slice, or of all of a picture."""
    if len(shape) == 2 and slice_at is None:
        return ...
    if len(shape) != 3 or slice_at is None:
        raise ValueError(
            f"its shape is {shape}: pass slice_at=(axis, index), which picks a picture "
            "of a volume of 3 axes, or read all by jaxrob.data.slices"
        )
    axis, at = slice_at
    if at >= shape[axis]:
        raise ValueError(
            f"slice_at={slice_at}, but its axis {axis} has {shape[axis]} slices"
        )
    return tuple(at if one == axis else slice(None) for one in range(3))
