"""Slices of NIfTI volumes, through nibabel."""

import math
import zlib
from typing import Any, NamedTuple

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
# The sizes of both headers, and what each file begins with behind its header's start.
_HEADERS = {348: "Nifti1Header", 540: "Nifti2Header"}
_MAGIC = {348: (344, b"n+1\0"), 540: (4, b"n+2\0")}
_IS_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


class Volume(NamedTuple):
    """The header of a volume, checked.

    Attributes:
      shape: without the axes of length 1 at the end; of 2 or more axes.
      dtype: of the stored values.
      offset: where they begin.
      slope: the factor from stored values to values.
      intercept: what is added to the product.
      display: the values that the header shows as black and white, or None.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    slope: float
    intercept: float
    display: tuple[float, float] | None


def unpacked(data: bytes) -> bytes:
    """Returns a file's bytes, unpacked if it is a gzip stream, as far as it may be.

    Raises:
      ValueError: if it is damaged, too large, or longer than its header says.
    """
    if data[:2] != _IS_GZIP:
        return data
    most = most_unpacked(len(data))
    try:
        head = zlib.decompressobj(31).decompress(data, max(_HEADERS))
        volume = read_header(head)
        needed = volume.offset + math.prod(volume.shape) * volume.dtype.itemsize
        if needed > most:
            raise ValueError(
                f"its header says {needed} bytes; {len(data)} may unpack to {most}"
            )
        stream = zlib.decompressobj(31)
        found = stream.decompress(data, needed)
        # The end holds the checksum.
        more = stream.decompress(stream.unconsumed_tail, _CHUNK)
        if more:
            raise ValueError(f"its header says {needed} bytes, but it unpacks to more")
        if not stream.eof:
            raise ValueError(
                f"truncated: its header says {needed} bytes, unpacked; {len(found)} "
                "and no end are there"
            )
    except zlib.error as error:
        raise ValueError(f"not a whole gzip stream: {error}") from error
    return found


def read_header(data: bytes) -> Volume:
    """Reads the header of a volume.

    Raises:
      ValueError: if it is no NIfTI header, or describes no numbers in a volume.
    """
    nibabel = required("nibabel", "reading NIfTI files", "medical")
    number = next(
        (
            size
            for size in _HEADERS
            for order in ("little", "big")
            if int.from_bytes(data[:4], order) == size
        ),
        0,
    )
    if not number or len(data) < number:
        raise ValueError("it does not begin with the header of a NIfTI file")
    at, magic = _MAGIC[number]
    if data[at : at + 4] != magic:
        raise ValueError("its header is not that of a NIfTI file with its values (n+1)")
    header: Any = getattr(nibabel, _HEADERS[number])(data[:number], check=False)
    dim = header["dim"].tolist()
    shape = dim[1 : dim[0] + 1] if 2 <= dim[0] <= 7 else [0]
    if min(shape) < 1:
        raise ValueError(f"its header says the dimensions {dim}")
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    dtype = header.get_data_dtype()
    if dtype.kind not in "uif" or dtype.itemsize > 8:
        raise ValueError(f"its values are {dtype}; integers and floats are read")
    offset = finite_number("offset", header["vox_offset"])
    if offset < number or offset != int(offset):
        raise ValueError(f"its values begin at byte {offset:g}, inside its header")
    slope, intercept = header.get_slope_inter()
    display = float(header["cal_min"]), float(header["cal_max"])
    return Volume(
        *(tuple(shape), dtype, int(offset)),
        *(1.0 if slope is None else slope, intercept or 0.0),
        display if -math.inf < display[0] < display[1] < math.inf else None,
    )


def num_slices(data: bytes, axis: int) -> int:
    """Returns the number of slices of a volume along an axis.

    Raises:
      ValueError: as `read_header`, or if there is no such axis.
    """
    shape = read_header(unpacked(data)).shape
    if len(shape) != 3:
        raise ValueError(f"its shape is {shape}; only volumes of 3 axes have slices")
    return shape[axis]


def open_nifti(
    data: bytes,
    slice_at: tuple[int, int] | None,
    value_range: tuple[float, float] | None,
) -> Source:
    """Returns a slice of a volume as a source, its first remaining axis the rows.

    Args:
      data: the file's bytes, compressed or not.
      slice_at: the axis and the index; None if the volume is one picture.
      value_range: the values that become 0 and 1, those beyond the nearer one; None for
        what the header shows as black and white.

    Raises:
      ValueError: if it is damaged or too large, there is no such slice, or nothing says
        the range of its values.
    """
    data = unpacked(data)
    volume = read_header(data)
    shape, number = volume.shape, math.prod(volume.shape)
    needed = volume.offset + number * volume.dtype.itemsize
    if needed > len(data):
        raise ValueError(f"its header says {needed} bytes, but it has {len(data)}")
    index = _index(shape, slice_at)
    ends = value_range or volume.display
    if ends is None:
        raise ValueError(
            "its header does not say which values are black and white (cal_min and "
            "cal_max): pass value_range=(low, high), such as (-160, 240) for a CT"
        )
    low, high = ends
    window = f"cal_min {low:.10g}, cal_max {high:.10g}"
    window = window if value_range is None else range_text(low, high)
    rescale = f"scl_slope {volume.slope:.10g}, scl_inter {volume.intercept:.10g}"
    stored = np.frombuffer(data, volume.dtype, number, volume.offset)
    plane = stored.reshape(shape, order="F")[index]
    check_num_values(plane.size, plane.shape, data)

    def samples() -> Samples:
        values = plane.astype(np.float64) * volume.slope + volume.intercept
        if not np.isfinite(values).all():
            raise ValueError("it holds NaN or infinity")
        outside = float(np.mean((values < low) | (values > high)))
        found = scaled(values[..., np.newaxis], low, high)
        most = float(values.max())
        about = window, rescale, float(values.min()), most, outside
        return Samples(found, shown=Shown(*about, float(found.mean())))

    height, width = plane.shape
    return Source(height, width, plane.size, samples)


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
