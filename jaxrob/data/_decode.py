"""PNG and JPEG files as arrays."""

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrob.data._require import require

SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
# Deflate's greatest ratio times the eight pixels in a byte of a black-and-white PNG;
# JPEG stays far below.
_MAX_PIXELS_PER_BYTE = 1032 * 8
# Of one image, and of all that are decoded at the same time: some 13,000 x 13,000. It
# is also Pillow's limit, which programs often switch off.
MAX_PIXELS = 178_956_970


class Expected(NamedTuple):
    """What size an image must have.

    Attributes:
      height: in pixels.
      width: likewise.
      why: what a message says after the size found.
    """

    height: int
    width: int
    why: str


class Fit(NamedTuple):
    """What becomes of the size of every image, as it is read.

    Attributes:
      resize: height and width, one number for the shorter side, or None.
      crop: height and width of the middle part that is kept then, or None.
      interpolation: "bicubic" or "bilinear", both antialiased.
    """

    resize: tuple[int, int] | int | None = None
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"


def image_size(data: bytes, name: str) -> tuple[int, int]:
    """Height and width of a PNG or JPEG, as its header states them.

    Raises:
      ValueError: as `decode_image`.
      ImportError: if Pillow is missing.
    """
    with _open(data, name) as image:
        return image.size[1], image.size[0]


def decode_image(
    data: bytes,
    name: str,
    fit: Fit = Fit(),  # noqa: B008 (immutable)
    grey: bool = False,
    expected: Expected | None = None,
) -> np.ndarray:
    """Decodes one PNG or JPEG.

    The first frame of an animation is taken. A transparent image is laid on white, 16
    bits a channel are cut to the upper 8, and a palette or CMYK becomes RGB.

    Args:
      data: the file's bytes.
      name: the file, for error messages.
      fit: how it is resized and cropped.
      grey: whether to return luma (ITU-R 601-2) instead of RGB.
      expected: the size that the image must have, or None.

    Returns:
      uint8 `[H, W, 3]`, or `[H, W, 1]` if `grey`.

    Raises:
      ValueError: if the file is not a whole, undamaged PNG or JPEG, claims more pixels
        than its bytes can hold or than `MAX_PIXELS`, has another size than expected, or
        is smaller than the part to keep.
        Nothing is decoded before the header is checked.
      ImportError: if Pillow is missing.
    """
    pil = require("PIL.Image", "reading images")
    with _open(data, name) as image:
        width, height = image.size
        if expected is not None and (height, width) != expected[:2]:
            raise ValueError(f"{name}: {height}x{width} pixels, {expected.why}")
        try:
            if image.format == "PNG":
                _verify(pil, data)
            with _ROOM.of(width * height):
                image = _to_rgb(pil, image)
                if grey:
                    image = image.convert("L")
                image = _fitted(pil, image, fit)
                array = np.array(image)
        except Exception as error:
            raise _unreadable(name, error) from error
    return array[..., np.newaxis] if grey else array


def _fitted(pil: Any, image: Any, fit: Fit) -> Any:
    width, height = image.size
    wanted = fit.resize
    if isinstance(wanted, int):
        # As torchvision does it: the longer side is rounded down.
        shorter = min(height, width)
        wanted = (wanted * height // shorter, wanted * width // shorter)
    if wanted is not None and wanted != (height, width):
        # A thin picture's longer side may be of any length.
        if wanted[0] * wanted[1] > MAX_PIXELS:
            raise ValueError(f"resized, it would have {wanted[0]}x{wanted[1]} pixels")
        method = getattr(pil.Resampling, fit.interpolation.upper())
        image = image.resize((wanted[1], wanted[0]), method)
    if fit.crop is None:
        return image
    (width, height), (kept_height, kept_width) = image.size, fit.crop
    if height < kept_height or width < kept_width:
        raise ValueError(
            f"{height}x{width} pixels are fewer than crop={fit.crop} keeps; resize= "
            "comes first"
        )
    top, left = round((height - kept_height) / 2), round((width - kept_width) / 2)
    return image.crop((left, top, left + kept_width, top + kept_height))


def _verify(pil: Any, data: bytes) -> None:
    # Decoding alone leaves PNG's checksums and end unread; checking them uses the
    # opened image up.
    if _PNG_END not in data:
        raise ValueError("truncated: it has no end chunk")
    with pil.open(io.BytesIO(data), formats=_FORMATS) as twin:
        twin.verify()


def _open(data: bytes, name: str) -> Any:
    """An image of which only the header was read, and checked."""
    pil = require("PIL.Image", "reading images")
    try:
        image = pil.open(io.BytesIO(data), formats=_FORMATS)
        width, height = image.size
        most = min(_MAX_PIXELS_PER_BYTE * len(data), MAX_PIXELS)
        if width * height > most:
            raise ValueError(
                f"the header says {height}x{width} pixels; {len(data)} bytes can hold "
                f"{_MAX_PIXELS_PER_BYTE * len(data)}, and at most {MAX_PIXELS} are read"
            )
        return image
    except Exception as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> ValueError:
    # Hostile files lead decoders to errors of all kinds: SyntaxError, struct.error,
    # IndexError, DecompressionBombError and more.
    reason = str(error) or type(error).__name__
    if "<_io.BytesIO" in reason:  # Pillow names what it was given, by its address.
        reason = "its contents are those of neither"
    return ValueError(f"{name}: not a readable PNG or JPEG: {reason}")


class _Room:
    """Pixels that may be decoded at the same time, whatever the number of threads."""

    def __init__(self) -> None:
        """Room for `MAX_PIXELS`."""
        self._free = MAX_PIXELS
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def of(self, pixels: int) -> Iterator[None]:
        """Waits until so many pixels are free, and takes them."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


_ROOM = _Room()


def _to_rgb(pil: Any, image: Any) -> Any:
    if image.mode.startswith("I"):
        # Pillow's own conversion would clip 16 bits at 255.
        image = pil.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        white = pil.new("RGBA", image.size, "white")
        image = pil.alpha_composite(white, image)
    return image.convert("RGB")
