"""TIFF files: those that Pillow reads whole, and samples that it would reduce.

Pillow's libtiff unpacks any lossless compression into buffers whose size it knows. It
is given the samples of more than 8 bits, and more or fewer than three of them, as a
grey picture of bytes, which it cannot reduce.
"""

import io
import math
import struct
from typing import Any

import numpy as np

from jaxrob._arguments.extra import required
from jaxrob.data import _tiff_tags as tiff
from jaxrob.data._source import (
    Samples,
    Source,
    check_num_values,
    finite_number,
    in_unit_range,
    scaled,
)
from jaxrob.data._tiff_tags import Tags

_WHITE_IS_0, _BLACK_IS_0, _RGB, _CMYK = 0, 1, 2, 5
# Photometric interpretations whose pictures of bytes Pillow reads: those above, a
# palette, and YCbCr; with the samples of their colours.
_OF_PILLOW = {_WHITE_IS_0: 1, _BLACK_IS_0: 1, _RGB: 3, 3: 1, _CMYK: 4, 6: 3}
# None, LZW, Deflate (two numbers), PackBits, LZMA, Zstandard.
_LOSSLESS = (1, 5, 8, 32946, 32773, 34925, 50000)
_FORMATS = {1: "u", 2: "i", 3: "f"}
_TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
_ASSOCIATED, _UNASSOCIATED = 1, 2
_HORIZONTAL, _FLOATING = 2, 3


def is_for_pillow(tags: Tags, data: bytes) -> bool:
    """Whether Pillow reads all of a picture: bytes of grey or colours, with alpha.

    Raises:
      ValueError: if the tags are damaged, or claim more than is read.
    """
    height, width = tags.number(tiff.HEIGHT), tags.number(tiff.WIDTH)
    samples = tiff.num_samples(tags)
    _check_size(tags, height, width, samples, data)
    if tiff.TILE_OFFSETS in tags.values:
        # A decoder makes room for whole tiles.
        tall, wide = tags.number(tiff.TILE_HEIGHT), tags.number(tiff.TILE_WIDTH)
        _check_size(tags, _padded(height, tall), _padded(width, wide), samples, data)
    places, _ = tiff.segments(tags, data)
    planes = samples if tags.number(tiff.PLANAR, 1) == 2 else 1
    if len(places) != planes * tiff.num_segments(tags, height, width):
        raise ValueError("its number of strips or tiles is not that of its size")
    colours = _OF_PILLOW.get(tags.number(tiff.PHOTOMETRIC, _BLACK_IS_0))
    bits, formats = _bits(tags, samples), tags.numbers(tiff.FORMAT, samples, 1)
    if colours is None or max(bits) > 8 or {*formats} != {1}:
        return False
    extra = _extra(tags, samples, colours)
    return not extra or ({*bits} == {8} and extra in ([_ASSOCIATED], [_UNASSOCIATED]))


def open_tiff(
    tags: Tags,
    data: bytes,
    orientation: int | None,
    value_range: tuple[float, float] | None,
) -> Source:
    """Returns a TIFF of other samples as a source: of 16 bits, floating, or many.

    Raises:
      ValueError: if its kind is not read.
    """
    height, width = tags.number(tiff.HEIGHT), tags.number(tiff.WIDTH)
    count = tiff.num_samples(tags)
    photometric = tags.number(tiff.PHOTOMETRIC, _BLACK_IS_0)
    colours = {_WHITE_IS_0: 1, _BLACK_IS_0: 1, _RGB: 3}.get(photometric)
    if colours is None or count < colours:
        raise ValueError(
            f"its colours (photometric interpretation {photometric}) are not read with "
            f"{count} samples of {_bits(tags, count)[0]} bits: store grey, RGB or "
            "channels without colours"
        )
    dtype = _dtype(tags, count)
    extra = _extra(tags, count, colours)
    alphas = [one for one in extra if one in (_ASSOCIATED, _UNASSOCIATED)]
    if alphas and len(extra) > 1:
        raise ValueError("it has alpha beside other extra samples: store one of them")
    most, least = _stated_range(tags, count, dtype)

    def samples() -> Samples:
        stored = _stored(tags, data, dtype, (height, width, count))
        alpha = None
        if alphas:
            top = most or (1.0 if dtype.kind == "f" else np.iinfo(dtype).max)
            alpha = scaled(stored[..., -1:], 0, float(top))[..., 0]
            stored = stored[..., :-1]
        values, brightest = in_unit_range(stored, value_range, most, least)
        if photometric == _WHITE_IS_0:
            values = (255 if values.dtype == np.uint8 else 1) - values
        is_multiplied = alphas == [_ASSOCIATED]
        return Samples(values, alpha, is_multiplied, brightest)

    return Source(
        *(height, width, height * width * count, samples),
        *(orientation, tags.is_first_of_many),
    )


def _bits(tags: Tags, samples: int) -> list[int]:
    # One bit is TIFF's default.
    return tags.numbers(tiff.BITS, samples, 1)


def _extra(tags: Tags, samples: int, colours: int) -> list[int]:
    """Returns what the samples beyond the colours are: 0, or a kind of alpha."""
    stated = tags.values.get(tiff.EXTRA)
    extra = [0] * (samples - colours) if stated is None else stated.tolist()
    if samples < colours or len(extra) != samples - colours:
        raise ValueError(
            f"it has {samples} samples, and states {colours} colours and {len(extra)} "
            "extra samples"
        )
    return extra


def _padded(length: int, tile: int) -> int:
    return math.ceil(length / max(1, tile)) * tile


def _check_size(tags: Tags, height: int, width: int, samples: int, data: bytes) -> None:
    pixel = samples * math.ceil(max(8, *_bits(tags, samples)) / 8)
    check_num_values(height * width * pixel, (height, width, samples), data)


def _dtype(tags: Tags, samples: int) -> np.dtype:
    """Returns the type of the samples, which must be the same for all."""
    bits, formats = _bits(tags, samples), tags.numbers(tiff.FORMAT, samples, 1)
    kind = _FORMATS.get(formats[0])
    # Packed 12 bits are read by Pillow, as two bytes.
    name = f"{kind}{2 if bits[0] == 12 and samples == 1 else bits[0] / 8:g}"
    if len({*bits}) > 1 or len({*formats}) > 1 or name not in _TYPES:
        raise ValueError(
            f"its samples have {sorted({*bits})} bits of the formats "
            f"{sorted({*formats})}; allowed are integers of 8, 16, 32 or 64 bits, "
            "floating numbers of 16, 32 or 64, and 12 bits in grey"
        )
    return np.dtype(name)


def _stated_range(
    tags: Tags, samples: int, dtype: np.dtype
) -> tuple[float | None, float]:
    """Returns the largest and the smallest value by the tags; None if not stated.

    Some writers state the largest value that a picture happens to have. That of whole
    bits is taken for a limit: another one would make each picture equally bright.
    """
    bits = _bits(tags, samples)[0]
    if dtype.kind == "f":
        most = _only(tags, tiff.MOST_OF_FORMAT)
        least = _only(tags, tiff.LEAST_OF_FORMAT) or 0.0
        if most is not None and not least < most:
            raise ValueError(f"its tags state the range [{least}, {most}]")
        return most, least
    most = _only(tags, tiff.MOST_OF_FORMAT) or _only(tags, tiff.MOST)
    if dtype.kind == "u" and most in [2**used - 1 for used in range(9, min(bits, 32))]:
        return most, 0.0
    return 4095.0 if bits == 12 else None, 0.0


def _only(tags: Tags, tag: int) -> float | None:
    """Returns a tag's value, the same for all samples; None if it is missing."""
    found = tags.values.get(tag)
    if found is None or len({*found.tolist()}) > 1:
        return None
    return finite_number(f"tag {tag}", found[0])


def _stored(
    tags: Tags, data: bytes, dtype: np.dtype, shape: tuple[int, int, int]
) -> np.ndarray:
    """Returns the samples `[H, W, C]` as they are stored."""
    height, width, count = shape
    if _bits(tags, count)[0] == 12:
        with _open(data) as image:
            return np.asarray(image).astype(np.uint16)[..., np.newaxis]
    if tags.number(tiff.COMPRESSION, 1) not in _LOSSLESS:
        raise ValueError(
            f"its compression {tags.number(tiff.COMPRESSION, 1)} is not read with "
            f"{count} samples of {_bits(tags, count)[0]} bits: store it uncompressed, "
            "or with LZW, Deflate, PackBits, LZMA or Zstandard"
        )
    if tags.number(tiff.FILL_ORDER, 1) != 1:
        raise ValueError("its fill order is not read")
    if tags.number(tiff.PLANAR, 1) != 2:
        return _plane(tags, data, dtype, shape, 0)
    planes = [_plane(tags, data, dtype, (height, width, 1), at) for at in range(count)]
    return np.concatenate(planes, axis=-1)


def _plane(
    tags: Tags, data: bytes, dtype: np.dtype, shape: tuple[int, int, int], plane: int
) -> np.ndarray:
    """Returns one plane of samples, by Pillow, as a grey picture of bytes."""
    height, width, count = shape
    pixel = count * dtype.itemsize
    is_tiled = tiff.TILE_OFFSETS in tags.values
    wide = tags.number(tiff.TILE_WIDTH) if is_tiled else width
    padded = math.ceil(width / wide) * wide
    number = tiff.num_segments(tags, height, width)
    places, lengths = (
        one[plane * number :][:number] for one in tiff.segments(tags, data)
    )
    entries = {
        tiff.WIDTH: [padded * pixel],
        tiff.HEIGHT: [height],
        tiff.BITS: [8],
        tiff.COMPRESSION: [tags.number(tiff.COMPRESSION, 1)],
        tiff.PHOTOMETRIC: [_BLACK_IS_0],
        tiff.SAMPLES: [1],
    }
    if is_tiled:
        entries |= {
            tiff.TILE_WIDTH: [wide * pixel],
            tiff.TILE_HEIGHT: [tags.number(tiff.TILE_HEIGHT)],
            tiff.TILE_OFFSETS: places.tolist(),
            tiff.TILE_BYTES: lengths.tolist(),
        }
    else:
        entries |= {
            tiff.STRIP_OFFSETS: places.tolist(),
            tiff.ROWS_PER_STRIP: [
                min(tags.number(tiff.ROWS_PER_STRIP, height), height)
            ],
            tiff.STRIP_BYTES: lengths.tolist(),
        }
    with _open(_with_directory(data, tags.order, entries)) as image:
        rows = np.array(image)
    predictor = tags.number(tiff.PREDICTOR, 1)
    found = np.empty((height, padded, count), dtype)
    for left in range(0, padded, wide):
        part = rows[:, left * pixel : (left + wide) * pixel]
        part = part.reshape(height, wide, count, dtype.itemsize)
        found[:, left : left + wide] = _unpredicted(part, predictor, dtype, tags.order)
    return found[:, :width]


def _unpredicted(
    part: np.ndarray, predictor: int, dtype: np.dtype, order: str
) -> np.ndarray:
    """Returns the samples of rows of bytes: the predictor stored their differences."""
    height, wide, count, size = part.shape
    if predictor == _FLOATING and dtype.kind == "f":
        flat = np.cumsum(part.reshape(height, -1, count), axis=1, dtype=np.uint8)
        # The first bytes of all samples come first.
        planes = flat.reshape(height, size, wide * count).transpose(0, 2, 1)
        values = np.ascontiguousarray(planes).view(">" + dtype.str[1:])
        return values.reshape(height, wide, count).astype(dtype)
    values = np.ascontiguousarray(part).view(order + dtype.str[1:])[..., 0]
    if predictor == _HORIZONTAL and dtype.kind in "ui":
        return np.cumsum(values.astype(dtype), axis=1, dtype=dtype)
    if predictor != 1:
        raise ValueError(f"its predictor {predictor} is not read")
    return values.astype(dtype)


def _open(data: bytes) -> Any:
    pil = required("PIL.Image", "reading images", "experiments")
    return pil.open(io.BytesIO(data), formats=("TIFF",))


def _with_directory(data: bytes, order: str, entries: dict[int, list[int]]) -> bytes:
    """Returns a TIFF with another first directory, at its end, of 32-bit integers."""
    start = len(data) + len(data) % 2
    after = start + 2 + 12 * len(entries) + 4
    head, tail = struct.pack(f"{order}H", len(entries)), b""
    for tag, values in sorted(entries.items()):
        packed = struct.pack(f"{order}{len(values)}L", *values)
        head += struct.pack(f"{order}HHL", tag, 4, len(values))
        if len(values) == 1:
            head += packed
        else:
            head += struct.pack(f"{order}L", after + len(tail))
            tail += packed
    magic = b"II*\0" if order == "<" else b"MM\0*"
    first = magic + struct.pack(f"{order}L", start)
    return first + data[8:] + bytes(start - len(data)) + head + bytes(4) + tail
