"""A picture before its pixels are read, and what is done with them."""

import errno
import os
import pathlib
from collections.abc import Callable
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import required
from jaxrob._files import open_file

# The most values of one picture, and of all decoded at the same time, about 13,000 x
# 13,000 pixels: Pillow's limit, which programs often switch off.
MAX_PIXELS = 178_956_970


class Unsuited(ValueError):
    """A whole picture that does not fit an argument, or others; never left out."""


class Shown(NamedTuple):
    """How the values of a DICOM or NIfTI picture became [0, 1]."""

    window: str  # What became 0 and 1, such as "WindowCenter 40, WindowWidth 400"
    rescale: str  # What was done before, such as "RescaleSlope 1, ..."; may be empty
    least: float  # The lowest value, rescaled
    most: float  # The highest
    outside: float  # The share of the values that lie beyond the window
    mean: float  # Of the values in [0, 1]


class Samples(NamedTuple):
    values: np.ndarray  # `[H, W, C]`, uint8 in 0-255 or float32 in [0, 1]
    alpha: np.ndarray | None = None  # Float32 `[H, W]` in [0, 1]; None if opaque
    is_multiplied: bool = False  # Whether the values were multiplied with alpha
    brightest: int | None = None  # The largest value of 16 bits that may use fewer
    shown: Shown | None = None  # Of DICOM and NIfTI


class Source(NamedTuple):
    """A picture in a file, before its pixels are read."""

    height: int  # In pixels, as stored
    width: int  # In pixels, as stored
    num_values: int  # Of all values that decoding holds, for the limit
    samples: Callable[[], Samples]  # Decodes the pixels
    orientation: int | None = 1  # As in EXIF, from 1 to 8; None if it is damaged
    is_first_of_many: bool = False  # The others are not read.


def check_num_values(number: int, shape: tuple[int, ...], data: bytes) -> None:
    """Rejects a picture that is too large, or claims more than its file holds."""
    if min(shape) < 1 or number > MAX_PIXELS:
        size = "x".join(map(str, shape))
        raise ValueError(
            f"the header says {size} values, which take {number} bytes; {len(data)} "
            f"bytes are there, and at most {MAX_PIXELS} are read"
        )


def in_unit_range(
    values: np.ndarray,
    value_range: tuple[float, float] | None,
    most: float | None = None,
    least: float = 0.0,
) -> tuple[np.ndarray, int | None]:
    kind, is_deep = values.dtype.kind, False
    if value_range is not None:
        if values.dtype == np.uint8:
            raise has_8_bits(value_range)
        low, high = value_range
    elif values.dtype == np.uint8:
        return values, None
    elif most is not None:
        low, high = least, most
    elif kind == "u":
        high = np.iinfo(values.dtype).max
        low, is_deep = 0, values.dtype == np.uint16
    elif kind == "f":
        low, high = 0.0, 1.0
    else:
        raise Unsuited(
            f"its values are signed integers, {values.min()} to {values.max()}: pass "
            "value_range=(low, high), the values that become 0 and 1"
        )
    lowest, highest = float(values.min()), float(values.max())
    if not (np.isfinite(lowest) and np.isfinite(highest)):
        raise ValueError("it holds NaN or infinity")
    if not low <= lowest <= highest <= high:
        raise Unsuited(
            f"its values lie in [{lowest:g}, {highest:g}], not in the range "
            f"[{low:g}, {high:g}]: pass value_range=(low, high)"
        )
    return scaled(values, low, high), int(highest) if is_deep else None


def has_8_bits(value_range: tuple[float, float]) -> Unsuited:
    return Unsuited(
        f"its values have 8 bits, of which 0 and 255 are the ends; value_range="
        f"{value_range} is for pictures of more: leave it out"
    )


def scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Maps `low` to 0 and `high` to 1, float32; values beyond become these."""
    # A channel at a time, because float64, in which the quotient is exact before it is
    # rounded, takes much memory.
    out = np.empty(values.shape, np.float32)
    for channel in range(values.shape[-1]):
        shifted = values[..., channel].astype(np.float64) - low
        out[..., channel] = np.clip(shifted / (high - low), 0, 1)
    return out


def range_text(low: float, high: float) -> str:
    return f"value_range=({low:.10g}, {high:.10g})"


def finite_number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"its {name} is {value!r}, no finite number")
    return number


# Luma of ITU-R 601-2, as by Pillow.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def transparent() -> Unsuited:
    return Unsuited(
        "transparent in places, and what shows there is unknown: pass "
        'background="white", or the colour on which the network saw such pictures'
    )


def laid_on(samples: Samples, background: tuple[int, int, int] | None) -> np.ndarray:
    """Returns the values `[H, W, C]`, transparent ones laid on a colour of 0-255."""
    values, alpha = samples.values, samples.alpha
    if alpha is None or alpha.min() == 1:
        return values
    if background is None:
        raise transparent()
    is_bytes = values.dtype == np.uint8
    if is_bytes:
        values = scaled(values, 0, 255)
    if values.shape[-1] == 1:
        values = values.repeat(3, axis=-1)
    alpha = alpha[..., np.newaxis]
    below = np.array(background, np.float32) / 255
    laid = (values if samples.is_multiplied else values * alpha) + below * (1 - alpha)
    laid = np.clip(laid, 0, 1)
    return np.round(255 * laid).astype(np.uint8) if is_bytes else laid


def in_channels(values: np.ndarray, grey: bool) -> np.ndarray:
    count = values.shape[-1]
    if not grey or count == 1:
        return values
    if count != 3:
        raise Unsuited(f"it has {count} channels; grey=True needs 1 or 3")
    luma = values @ _LUMA
    if values.dtype == np.uint8:
        luma = np.round(luma).astype(np.uint8)
    return luma.clip(0, 1 if luma.dtype == np.float32 else 255)[..., np.newaxis]


def turned(values: np.ndarray, orientation: int | None) -> np.ndarray:
    if orientation is None or orientation == 1:
        return values
    if orientation in (5, 6, 7, 8):
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    return values[:, ::-1] if orientation in (2, 3, 6, 7) else values


def resized(
    values: np.ndarray, size: tuple[int, int], interpolation: str
) -> np.ndarray:
    """Resizes each channel by Pillow, antialiased, floating numbers as such."""
    if size == values.shape[1::-1]:
        return values
    pil = required("PIL.Image", "reading images", "experiments")
    method = getattr(pil.Resampling, interpolation.upper())
    planes = map(np.ascontiguousarray, np.moveaxis(values, -1, 0))
    resized = [pil.fromarray(plane).resize(size, method) for plane in planes]
    stacked = np.stack(list(map(np.asarray, resized)), axis=-1)
    # A bicubic filter overshoots at edges.
    return stacked if stacked.dtype == np.uint8 else stacked.clip(0, 1)


def pillow() -> Any:
    if required("PIL.ImageFile", "reading images", "experiments").LOAD_TRUNCATED_IMAGES:
        raise Unsuited(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES must be False, or what a truncated "
            "picture lacks would be black or grey; got True"
        )
    return required("PIL.Image", "reading images", "experiments")


# Far above any image or batch; a larger claim is a bomb or a mistake.
MAX_FILE_BYTES = 256 << 20


def read_file(path: pathlib.Path) -> bytes:
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: not a regular file, nothing is there") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(
            f"{path}: not a regular file but a link that leads to itself"
        ) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise ValueError(f"{path}: {size} bytes; at most {MAX_FILE_BYTES} are read")
        return file.read()


def is_gzip(file: BufferedIOBase) -> bool:
    """Returns whether a file begins like a gzip stream, and rewinds it."""
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return is_packed


_FILES = ("thumbs.db", "ehthumbs.db", "desktop.ini", "dicomdir")


def is_of_system(parts: tuple[str, ...]) -> bool:
    """Whether a system keeps a file for itself: hidden, or by its name."""
    return (
        any(part.startswith(".") or part == "__MACOSX" for part in parts)
        or "".join(parts[-1:]).lower() in _FILES
    )
