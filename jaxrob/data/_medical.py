"""DICOM files, read by pydicom, and NIfTI volumes, by nibabel."""

import gzip
import io
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.texts import required
from jaxrob._files import most_unpacked
from jaxrob.data._source import (
    MAX_FILE_BYTES,
    Samples,
    Shown,
    Source,
    Unsuited,
    check_num_values,
    finite_number,
    pillow,
    range_text,
    scaled,
)

DICOM_SUFFIXES = (".dcm",)
# What files begin with, after 128 bytes for other uses.
_MAGIC = b"DICM"
HEAD_BYTES = 132
_DEFLATED = b"1.2.840.10008.1.2.1.99"
# Implicit and explicit little endian, explicit big endian.
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_RUN_LENGTHS = "1.2.840.10008.1.2.5"
# Baseline JPEG, and JPEG 2000, without and with loss.
_OF_PILLOW = tuple(f"1.2.840.10008.1.2.4.{number}" for number in (50, 90, 91))
_MONOCHROME = ("MONOCHROME1", "MONOCHROME2")
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
# Two bytes of run lengths unpack to at most 128.
_MOST_PER_BYTE = 64
_FIX = (
    "pass value_range=(low, high), the values after rescaling that become 0 and 1, "
    "such as (-160, 240) for a CT"
)
# Where files of an enhanced kind may say what others say once for all frames.
_GROUPS = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_RESCALING = "PixelValueTransformationSequence"


def is_dicom(data: bytes) -> bool:
    return data[HEAD_BYTES - len(_MAGIC) : HEAD_BYTES] == _MAGIC


def open_dicom(
    data: bytes,
    slice_at: tuple[int, int] | None,
    value_range: tuple[float, float] | None,
) -> Source:
    elements, (frames, height, width, count) = _read(data)
    index = _frame(frames, slice_at)
    photometric = elements.get("PhotometricInterpretation")
    allowed = _MONOCHROME if count == 1 else _COLOURS
    if photometric not in allowed:
        raise ValueError(
            f"its PhotometricInterpretation is {photometric} with {count} samples a "
            f"pixel; allowed are {', '.join(allowed)}"
        )
    rescale = _rescale(elements) if count == 1 else ""
    text, low, high = "", -math.inf, math.inf
    if value_range is not None:
        text, (low, high) = range_text(*value_range), value_range
    elif count == 1:
        text, low, high = _window(elements)

    def samples() -> Samples:
        pixels = required("pydicom.pixels", "reading DICOM files", "medical")
        stored = _pixels(elements, index, (height, width, count))
        if count == 3:
            black, white = value_range or (0, 2 ** _bits(elements)[1] - 1)
            return Samples(scaled(stored, black, white))
        values = np.asarray(pixels.apply_modality_lut(stored, elements), np.float64)
        if not np.isfinite(values).all():
            raise ValueError("its rescaled values are not finite")
        if value_range is not None:
            unit = scaled(values, low, high)
        elif elements.get("VOILUTSequence"):
            most = 2 ** int(elements.VOILUTSequence[0].LUTDescriptor[2]) - 1
            unit = scaled(pixels.apply_voi(values.astype(np.int64), elements), 0, most)
        else:
            unit = pixels.apply_windowing(values, _in_unit(elements)).astype(np.float32)
        outside = float(np.mean((values < low) | (values > high)))
        least, largest = float(values.min()), float(values.max())
        shown = Shown(text, rescale, least, largest, outside, float(unit.mean()))
        return Samples(1 - unit if photometric == "MONOCHROME1" else unit, shown=shown)

    return Source(height, width, height * width * count, samples)


def elements_of(data: bytes, keywords: Sequence[str]) -> tuple[str, ...]:
    """Returns elements of a file as text, empty where it has none."""
    pydicom = required("pydicom", "reading DICOM files", "medical")
    for keyword in keywords:
        if not is_dicom(data) or pydicom.datadict.tag_for_keyword(keyword) is None:
            raise Unsuited(
                f"metadata: {keyword!r} is no DICOM element, nor in a CSV of labels"
            )
    elements = pydicom.dcmread(io.BytesIO(data), stop_before_pixels=True)
    return tuple(str(elements.get(keyword, "")) for keyword in keywords)


def num_frames(data: bytes) -> int:
    return _read(data)[1][0]


def _read(data: bytes) -> tuple[Any, tuple[int, int, int, int]]:
    """Returns a file's elements; and its frames, rows, columns and samples."""
    pydicom = required("pydicom", "reading DICOM files", "medical")
    if _DEFLATED in data:
        # It would be unpacked whole, whatever its size.
        raise ValueError(
            "a deflated DICOM file: store it uncompressed, such as by dcmconv +te"
        )
    if not is_dicom(data):
        raise ValueError("it has no DICM at byte 128, as every DICOM file has")
    elements = pydicom.dcmread(io.BytesIO(data))
    if "PixelData" not in elements:
        raise ValueError("it has no pixel data")
    frames, count = elements.get("NumberOfFrames"), elements.get("SamplesPerPixel", 1)
    frames = 1 if frames is None else int(frames)
    shape = frames, int(elements.Rows), int(elements.Columns), int(count)
    allocated, _ = _bits(elements)
    check_num_values(math.prod(shape[1:]) * allocated // 8, shape[1:], data)
    if shape[3] not in (1, 3) or shape[0] < 1:
        raise ValueError(f"it has {shape[0]} frames of {shape[3]} samples a pixel")
    syntax = elements.file_meta.get("TransferSyntaxUID")
    if syntax not in (*_PLAIN, _RUN_LENGTHS, *_OF_PILLOW):
        name = getattr(syntax, "name", syntax)
        raise ValueError(
            f"its transfer syntax is {name}: decompress it, such as by gdcmconv --raw"
        )
    return elements, shape


def _frame(frames: int, slice_at: tuple[int, int] | None) -> int:
    axis, at = slice_at or (0, frames - 1)
    if axis != 0 or at >= frames or (slice_at is None and frames > 1):
        raise ValueError(
            f"it has {frames} frames and slice_at={slice_at}: pass slice_at=(0, index),"
            " which picks one, or read all by jaxrob.data.slices"
        )
    return at


def _pixels(elements: Any, index: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Returns a frame's stored values, without the bits that are not used."""
    pydicom = required("pydicom.pixels", "reading DICOM files", "medical")
    syntax = elements.file_meta.TransferSyntaxUID
    plugin = ""
    if syntax not in _PLAIN:
        plugin = "pydicom" if syntax == _RUN_LENGTHS else "pillow"
        _check_frame(elements, index, shape)
    array = pydicom.pixel_array(elements, index=index, decoding_plugin=plugin)
    if array.size != math.prod(shape):
        raise ValueError(f"its pixels have the shape {array.shape}, not {shape}")
    if shape[-1] == 1:
        unused = 8 * array.dtype.itemsize - _bits(elements)[1]
        array = (array << unused) >> unused
    return array.reshape(shape)


def _check_frame(elements: Any, index: int, shape: tuple[int, int, int]) -> None:
    """Rejects a compressed frame that would unpack to more than is read."""
    encaps = required("pydicom.encaps", "reading DICOM files", "medical")
    offsets = None
    if "ExtendedOffsetTable" in elements:
        offsets = elements.ExtendedOffsetTable, elements.ExtendedOffsetTableLengths
    number = int(elements.get("NumberOfFrames") or 1)
    frame = encaps.get_frame(
        elements.PixelData, index, extended_offsets=offsets, number_of_frames=number
    )
    if elements.file_meta.TransferSyntaxUID == _RUN_LENGTHS:
        if len(frame) * _MOST_PER_BYTE > MAX_FILE_BYTES:
            raise ValueError(
                f"its frame may unpack to more than {MAX_FILE_BYTES} bytes: see dcmdrle"
            )
        return
    with pillow().open(io.BytesIO(frame), formats=("JPEG", "JPEG2000")) as image:
        if image.size != shape[1::-1]:
            sides = "x".join(map(str, image.size[::-1]))
            raise ValueError(f"its frame has {sides} pixels, not {shape[:2]}")


def _rescale(elements: Any) -> str:
    if elements.get("ModalityLUTSequence"):
        return _table(elements, "ModalityLUTSequence")
    for name in _GROUPS:
        if any(_RESCALING in group for group in elements.get(name, ())):
            raise ValueError(
                f"its {name} rescales frames: store them singly, as by dcm4che's emf2sf"
            )
    pair = "RescaleSlope", "RescaleIntercept"
    names = [name for name in pair if name in elements]
    if not names:
        return ""
    if len(names) == 1:
        raise ValueError(f"it has {names[0]}, but no {pair[names[0] == pair[0]]}")
    slope, intercept = (finite_number(name, elements.get(name)) for name in names)
    if slope == 0:
        raise ValueError("its RescaleSlope is 0")
    return f"RescaleSlope {slope:.10g}, RescaleIntercept {intercept:.10g}"


def _window(elements: Any) -> tuple[str, float, float]:
    """Says what shows the values, its table or first window, and the ends of it."""
    if elements.get("VOILUTSequence"):
        return _table(elements, "VOILUTSequence"), -math.inf, math.inf
    names = "WindowCenter", "WindowWidth"
    listed = [np.ravel(elements.get(name)).tolist() or [None] for name in names]
    try:
        center, width = (
            finite_number(name, values[0]) for name, values in zip(names, listed)
        )
        if len(listed[0]) != len(listed[1]):
            raise ValueError("it has other numbers of WindowCenter and WindowWidth")
    except ValueError as error:
        raise ValueError(f"{error}: {_FIX}") from error
    text = f"WindowCenter {center:.10g}, WindowWidth {width:.10g}"
    function = elements.get("VOILUTFunction") or "LINEAR"
    if function == "SIGMOID":
        return f"{text} (SIGMOID)", -math.inf, math.inf
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    else:
        text += f" ({function})"
    return text, center - width / 2, center + width / 2


def _in_unit(elements: Any) -> Any:
    """Returns the windows of a file whose values have one bit: pydicom ends at 1."""
    view = required("pydicom", "reading DICOM files", "medical").Dataset()
    view.PhotometricInterpretation, view.PixelRepresentation = "MONOCHROME2", 0
    view.BitsStored = 1
    for name in ("WindowCenter", "WindowWidth", "VOILUTFunction"):
        if elements.get(name) not in (None, ""):
            view[name] = elements[name]
    return view


def _table(elements: Any, name: str) -> str:
    data = elements[name].value[0].get("LUTData")
    data = data if isinstance(data, bytes) else str(data).encode()
    return f"{name} (CRC-32 {zlib.crc32(data):08x})"


def _bits(elements: Any) -> tuple[int, int]:
    allocated, stored = int(elements.BitsAllocated), int(elements.BitsStored)
    high = int(elements.get("HighBit", stored - 1))
    if allocated not in (8, 16, 32) or not 1 <= stored <= allocated:
        raise ValueError(f"its values use {stored} of {allocated} bits")
    if high != stored - 1:
        raise ValueError(f"its HighBit is {high}, with {stored} BitsStored")
    return allocated, stored


NIFTI_SUFFIXES = (".nii", ".nii.gz")
# The axis that is left out of a slice, unless another is asked for.
NIFTI_AXIS = 2
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
        contents = head + stream.read(max(0, needed - len(head)))
        # gzip verifies the checksum at the end.
        if len(contents) != needed or stream.read(1):
            raise ValueError(f"its header says {needed} bytes; other are there")
    return contents


def num_slices(data: bytes, axis: int) -> int:
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
        raise ValueError(f"its cal_min and cal_max do not say what is black: {_FIX}")
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
        unit = scaled(plane[..., np.newaxis], low, high)
        least, most = float(plane.min()), float(plane.max())
        shown = Shown(window, rescale, least, most, outside, float(unit.mean()))
        return Samples(unit, shown=shown)

    return Source(height, width, height * width, samples)


def _check_size(header: Any, shape: tuple[int, ...], most: int) -> int:
    """Returns the bytes of a file by its header, at most those that are there."""
    needed = math.prod(shape) * header.get_data_dtype().itemsize
    needed += int(header["vox_offset"])
    if needed > most:
        raise ValueError(f"its header says {needed} bytes; at most {most} are there")
    return needed


def _header(data: bytes) -> tuple[Any, tuple[int, ...]]:
    nibabel = required("nibabel", "reading NIfTI files", "medical")
    kinds = nibabel.Nifti1Header, nibabel.Nifti2Header
    kind = next((form for form in kinds if form.may_contain_header(data)), None)
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
    dtype = header.get_data_dtype()
    offset = finite_number("offset", header["vox_offset"])
    if dtype.kind not in "uif" or dtype.itemsize > 8:
        raise ValueError(f"its values are {dtype}; integers and floats are read")
    if offset < kind.sizeof_hdr or offset != int(offset):
        raise ValueError(f"its values begin at byte {offset:g}, inside its header")
    return header, shape


def _index(shape: tuple[int, ...], slice_at: tuple[int, int] | None) -> Any:
    if len(shape) == 2 and slice_at is None:
        return ...
    if len(shape) != 3 or slice_at is None:
        raise ValueError(
            f"its shape is {shape}: pass slice_at=(axis, index) of a volume of 3 axes, "
            "or read all by jaxrob.data.slices"
        )
    axis, at = slice_at
    if at >= shape[axis]:
        raise ValueError(f"slice_at={slice_at}: axis {axis} has {shape[axis]} slices")
    return tuple(at if other == axis else slice(None) for other in range(3))
