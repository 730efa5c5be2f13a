"""Pictures that Pillow does not read whole: TIFF, PNG of 16 bits, arrays; WebP."""

import io
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import required
from jaxrob._files import npy_array
from jaxrob.data._source import (
    MAX_PIXELS,
    Samples,
    Source,
    check_num_values,
    finite_number,
    in_unit_range,
    scaled,
)

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_USED = (
    *(254, 256, 257, 258, 259, 262, 273, 274, 277, 278, 279, 281, 284, 317, 322, 323),
    *(324, 325, 338, 339, 340, 341, 32997, 32998),
)
_SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _STRIPS = _USED[:7]
ORIENTATION, _SAMPLES, _ROWS, _STRIP_BYTES, _MOST, _PLANAR, _PREDICTOR = _USED[7:14]
_TILE_WIDTH, _TILE_HEIGHT, _TILES, _TILE_BYTES, _EXTRA, _FORMAT = _USED[14:20]
_LEAST_OF_FORMAT, _MOST_OF_FORMAT, *_DEPTHS = _USED[20:]
# Samples by photometric interpretation; a palette, CMYK and YCbCr of bytes alone.
_WHITE_IS_0, _DEEP = 0, (0, 1, 2)
_COLOURS = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3}
# None, LZW, Deflate (two numbers), PackBits, LZMA, Zstandard: imagecodecs unpacks no
# more of these than a strip or tile has room for.
_LOSSLESS = (1, 5, 8, 32946, 32773, 34925, 50000)
_ASSOCIATED, _UNASSOCIATED = 1, 2


class Tiff(NamedTuple):
    """The first picture of a file: its checked tags by number, and what they say."""

    tags: Any
    shape: tuple[int, int, int]
    photometric: int
    extra: list[int]  # The samples beyond the colours: 0, or a kind of alpha
    orientation: int | None
    is_first_of_many: bool


def is_tiff(data: bytes) -> bool:
    return data[:4] in _MAGIC


def read_tiff(data: bytes) -> Tiff:
    pages, is_first_of_many, at = {}, False, None
    while at != 0 and not is_first_of_many:
        page = directory(data, at)
        if page.offset in pages:
            raise ValueError("its directories lead in a circle, or are truncated")
        is_first_of_many = bool(pages) and not page.get(_SUBFILE, 0) & 1
        pages[page.offset], at = page, page.next
    tags = next(iter(pages.values()))
    height, width = _number(tags, _HEIGHT), _number(tags, _WIDTH)
    shape = height, width, _number(tags, _SAMPLES, 1)
    _check_segments(tags, shape, data)
    photometric = _number(tags, _PHOTOMETRIC, 1)
    rest = shape[2] - _COLOURS.get(photometric, shape[2] + 1)
    extra = _numbers(tags, _EXTRA, (0,) * rest)
    if len(extra) != rest:
        raise ValueError(
            f"its colours (photometric interpretation {photometric}) are not read with "
            f"{shape[2]} samples, {len(extra)} of them extra"
        )
    turn = _number(tags, ORIENTATION, 1)
    turn = turn if 1 <= turn <= 8 else None
    return Tiff(tags, shape, photometric, extra, turn, is_first_of_many)


def directory(data: bytes, at: int | None = None) -> Any:
    """Returns the tags at a place, by default the first ones, as Pillow reads them."""
    # Pillow passes over damaged ones: those that are used here raise a ValueError.
    plugin = required("PIL.TiffImagePlugin", "reading images", "experiments")
    is_big, order = b"+" in data[:4], ">" if data[:1] == b"M" else "<"
    # Pillow knows BigTIFF by the third byte alone.
    head = b"II+\0" + data[4:16] if is_big else data[:8]
    tags: Any = plugin.ImageFileDirectory_v2(head, data[:2])
    start: Any = tags.next if at is None else at
    stream = io.BytesIO(data)
    stream.seek(start)
    tags.load(stream)
    size, wide = (20, 8) if is_big else (12, 2)
    number = np.ndarray(1, f"{order}u{wide}", data, start).item()
    stated = np.ndarray(number, f"{order}u2", data, start + wide, size).tolist()
    for tag in _USED:
        if stated.count(tag) != (tag in tags):
            raise ValueError(f"its tag {tag} is damaged, or comes twice")
    return tags


def is_for_pillow(tiff: Tiff) -> bool:
    bits = {*_numbers(tiff.tags, _BITS, (1,))}
    if max(bits) > 8 or {*_numbers(tiff.tags, _FORMAT, (1,))} != {1}:
        return False
    is_alpha = tiff.extra in ([_ASSOCIATED], [_UNASSOCIATED])
    return not tiff.extra or (bits == {8} and is_alpha)


def open_tiff(
    tiff: Tiff,
    data: bytes,
    orientation: int | None,
    value_range: tuple[float, float] | None,
) -> Source:
    purpose = "reading TIFF files of more than 8 bits or of other channels"
    tifffile = required("tifffile", purpose, "tiff")
    # Without it tifffile unpacks by functions that know no limit.
    required("imagecodecs", purpose, "tiff")
    tags, (height, width, count) = tiff.tags, tiff.shape
    page = tifffile.TiffFile(io.BytesIO(data)).pages.first
    dtype, bits = page.dtype, page.bitspersample
    compression = _number(tags, _COMPRESSION, 1)
    if (
        tiff.photometric not in _DEEP
        or dtype is None
        or dtype.kind not in "uif"
        or bits not in (8, 12, 16, 32, 64)
        or compression not in _LOSSLESS
        # Without compression readers differ in whether a predictor counts.
        or compression == 1 != _number(tags, _PREDICTOR, 1)
        or math.prod(page.shaped) != math.prod(tiff.shape)
    ):
        raise ValueError(
            f"{count} samples of {bits} bits, format {page.sampleformat}, photometric "
            f"interpretation {tiff.photometric}, compression {compression} are not "
            "read: store grey, RGB or channels without colours, integers or floating "
            "numbers, uncompressed or with LZW, Deflate, PackBits, LZMA or Zstandard"
        )
    alphas = [kind for kind in tiff.extra if kind in (_ASSOCIATED, _UNASSOCIATED)]
    if alphas and len(tiff.extra) > 1:
        raise ValueError("it has alpha beside other extra samples: store one of them")
    most, least = _stated_range(tags, dtype, bits)

    def samples() -> Samples:
        planes = page.asarray(maxworkers=1).reshape(page.shaped)[:, 0]
        stored = np.moveaxis(planes, 0, 2).reshape(tiff.shape)
        alpha = None
        if alphas:
            top = most or (1.0 if dtype.kind == "f" else np.iinfo(dtype).max)
            alpha = scaled(stored[..., -1:], 0, float(top))[..., 0]
            stored = stored[..., :-1]
        values, brightest = in_unit_range(stored, value_range, most, least)
        if tiff.photometric == _WHITE_IS_0:
            values = (255 if values.dtype == np.uint8 else 1) - values
        return Samples(values, alpha, alphas == [_ASSOCIATED], brightest)

    number = height * width * count
    return Source(height, width, number, samples, orientation, tiff.is_first_of_many)


def _check_segments(tags: Any, shape: tuple[int, int, int], data: bytes) -> None:
    """Rejects strips or tiles that are too large, or are not all in the file."""
    # A decoder makes room for whole tiles, and leaves what is missing black.
    height, width, count = shape
    if any(_numbers(tags, tag, (1,)) != [1] for tag in _DEPTHS):
        raise ValueError("it is a volume, not a picture")
    segments = _STRIPS, _STRIP_BYTES
    tall, wide = min(_number(tags, _ROWS, height), height), width
    if _TILES in tags:
        segments = _TILES, _TILE_BYTES
        tall, wide = _number(tags, _TILE_HEIGHT), _number(tags, _TILE_WIDTH)
    rows, columns = math.ceil(height / max(1, tall)), math.ceil(width / max(1, wide))
    pixel = count * math.ceil(max(8, *_numbers(tags, _BITS, (1,))) / 8)
    check_num_values(rows * tall * columns * wide * pixel, (*shape, tall, wide), data)
    places, lengths = (_numbers(tags, tag) for tag in segments)
    planes = count if _number(tags, _PLANAR, 1) == 2 else 1
    if not len(places) == len(lengths) == planes * rows * columns:
        raise ValueError("its number of strips or tiles is not that of its size")
    if any(at < 8 or at + size > len(data) for at, size in zip(places, lengths)):
        raise ValueError("truncated: its pixels lie beyond its end")


def _stated_range(tags: Any, dtype: np.dtype, bits: int) -> tuple[float | None, float]:
    # Some writers state the largest value that a picture happens to have. That of whole
    # bits is taken for a limit: another one would make each picture equally bright.

    def only(tag: int) -> float | None:
        values = {*_numbers(tags, tag, ())}
        return finite_number(f"tag {tag}", *values) if len(values) == 1 else None

    most, least = only(_MOST_OF_FORMAT), 0.0
    if dtype.kind == "f":
        least = only(_LEAST_OF_FORMAT) or 0.0
        if most is not None and not least < most:
            raise ValueError(f"its tags state the range [{least}, {most}]")
        return most, least
    most = most or only(_MOST)
    if dtype.kind == "u" and most in [2**used - 1 for used in range(9, min(bits, 32))]:
        return most, least
    return 4095.0 if bits == 12 else None, least


def _number(tags: Any, tag: int, default: int | None = None) -> int:
    values = _numbers(tags, tag, None if default is None else (default,))
    if len({*values}) != 1 or not isinstance(values[0], int):
        raise ValueError(f"its tag {tag} must be one integer")
    return values[0]


def _numbers(tags: Any, tag: int, default: tuple[int, ...] | None = None) -> list[Any]:
    """Returns a tag's values; Pillow gives one alone, or bytes, as such."""
    values = tags.get(tag, default)
    if values is None:
        raise ValueError(f"it has no tag {tag}")
    return [*values] if isinstance(values, tuple | bytes) else [values]


_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_BIT_DEPTH_OFFSET = 24
_CHANNELS = {"I;16B": 1, "LA;16B": 2, "RGB;16B": 3, "RGBA;16B": 4}


def has_16_bits(data: bytes) -> bool:
    return data.startswith(_PNG_MAGIC) and data[_BIT_DEPTH_OFFSET:][:1] == b"\x10"


def open_png16(
    data: bytes,
    image: Any,
    reopen: Callable[[], Any],
    orientation: int | None,
    value_range: tuple[float, float] | None,
) -> Source:
    # Whatever the chunk sBIT says, PNG stretches values to all 16 bits.
    width, height = image.size

    channels = _CHANNELS[image.tile[0].args]
    check_num_values(2 * width * height * channels, (height, width, channels), data)

    def samples() -> Samples:
        stored = _stored(image, reopen)
        alpha = None
        if (clear := image.info.get("transparency")) is not None:
            alpha = (stored != np.asarray(clear)).any(axis=-1).astype(np.float32)
        if stored.shape[-1] in (2, 4):
            alpha = scaled(stored[..., -1:], 0, 65535)[..., 0]
            stored = stored[..., :-1]
        values, brightest = in_unit_range(stored, value_range)
        return Samples(values, alpha, brightest=brightest)

    return Source(height, width, width * height * channels, samples, orientation)


def _stored(image: Any, reopen: Callable[[], Any]) -> np.ndarray:
    # Pillow's raw modes pick bytes: "16B" the upper, "16L" the lower. A pixel of grey
    # and alpha has as many bytes as one of RGBA.
    if image.mode.startswith("I"):
        return np.asarray(image).astype(np.uint16)[..., np.newaxis]
    if image.tile[0].args == "LA;16B":
        array = np.asarray(_as(image, "RGBA"))
        return np.ascontiguousarray(array).view(">u2").astype(np.uint16)
    mode = image.mode
    with reopen() as twin:
        low = np.asarray(_as(twin, f"{mode};16L")).astype(np.uint16)
    high = np.asarray(_as(image, f"{mode};16B")).astype(np.uint16)
    return (high << 8) | low


def _as(image: Any, raw: str) -> Any:
    image.tile = [tile._replace(args=raw) for tile in image.tile]
    return image


MAGIC = b"\x93NUMPY"


def open_npy(data: bytes, value_range: tuple[float, float] | None) -> Source:
    array = npy_array(data, "it")
    if array.dtype.kind not in "uif" or array.ndim not in (2, 3) or not array.size:
        raise ValueError(
            f"it is {array.dtype} {array.shape}; expected numbers [H, W] or [H, W, C]"
        )
    array = array[..., None] if array.ndim == 2 else array
    check_num_values(array.nbytes, array.shape, data)
    native = array.dtype.newbyteorder("=")

    def samples() -> Samples:
        values, brightest = in_unit_range(array.astype(native), value_range)
        return Samples(values, brightest=brightest)

    height, width, _ = array.shape
    return Source(height, width, array.size, samples)


# Pillow takes eight bytes for each pixel when it opens a WebP, however few it has.
_MOST_PIXELS = MAX_PIXELS // 4


def check_webp(data: bytes) -> None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return
    width, height = _size(data[12:16], data[20:34])
    if width * height > _MOST_PIXELS:
        raise ValueError(f"{height}x{width} pixels; of a WebP at most {_MOST_PIXELS}")


def _size(kind: bytes, body: bytes) -> tuple[int, int]:
    """Returns width and height by the first chunk, of a kind."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(body[at : at + size], "little")

    if kind == b"VP8X":
        return number(4, 3) + 1, number(7, 3) + 1
    if kind == b"VP8L":
        bits = number(1, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return number(6, 2) & 0x3FFF, number(8, 2) & 0x3FFF
    raise ValueError("a WebP without a picture at its start")
