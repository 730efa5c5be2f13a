"""PNG and JPEG files as arrays."""

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrob.data._oddities import Oddities
from jaxrob.data._orientation import hide_exif, orientation
from jaxrob.data._require import require

SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
# How a picture of each orientation is put upright: names of Pillow's.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
# Of these the height is stored as the width.
_ON_THEIR_SIDE = (5, 6, 7, 8)
# Chunks of a PNG that may say an orientation.
_PNG_SAYS = (b"eXIf", b"iTXt", b"tEXt", b"zTXt")
# Where a PNG says how many bits a channel has.
_PNG_BITS = 24
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
      orientation: "exif" puts it upright first, as its EXIF says; "stored" does not.
    """

    resize: tuple[int, int] | int | None = None
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"
    orientation: str = "exif"


def image_size(data: bytes, name: str, fit: Fit) -> tuple[int, int]:
    """Height and width of a PNG or JPEG, upright, before it is resized.

    Raises:
      ValueError: as `decode_image`.
      ImportError: if Pillow is missing.
    """
    with _open(data, name) as image, _ROOM.of(image), _readable(name):
        return _upright_size(image, _orientation(image, data, fit))


def decode_image(
    data: bytes,
    name: str,
    fit: Fit = Fit(),  # noqa: B008 (immutable)
    grey: bool = False,
    expected: Expected | None = None,
) -> tuple[np.ndarray, Oddities]:
    """Decodes one PNG or JPEG.

    The first frame of an animation is taken. A transparent image is laid on white, 16
    bits a channel are cut to the upper 8, and a palette or CMYK becomes RGB.

    Args:
      data: the file's bytes.
      name: the file, for error messages.
      fit: whether it is put upright, how it is resized and cropped.
      grey: whether to return luma (ITU-R 601-2) instead of RGB.
      expected: the size that the image must have, upright, or None.

    Returns:
      uint8 `[H, W, 3]`, or `[H, W, 1]` if `grey`; and what else was seen of it.

    Raises:
      ValueError: if the file is not a whole, undamaged PNG or JPEG, claims more pixels
        than its bytes can hold or than `MAX_PIXELS`, has another size than expected, or
        is smaller than the part to keep.
        Nothing is decoded before the header is checked.
      ImportError: if Pillow is missing.
    """
    pil = require("PIL.Image", "reading images")
    with _open(data, name) as image, _ROOM.of(image):
        with _readable(name):
            is_png = image.format == "PNG"
            if is_png:
                _verify(pil, data)
            stored = _orientation(image, data, fit)
        height, width = _upright_size(image, stored)
        if expected is not None and (height, width) != expected[:2]:
            raise ValueError(f"{name}: {height}x{width} pixels, {expected.why}")
        with _readable(name):
            is_deep = is_png and data[_PNG_BITS] == 16
            image, is_transparent, brightest = _to_rgb(pil, image, is_deep)
            if stored in _UPRIGHT:
                image = image.transpose(pil.Transpose[_UPRIGHT[stored]])
            if grey:
                image = image.convert("L")
            image = _fitted(pil, image, fit)
            array = np.array(image)
    odd = Oddities(stored, is_transparent, brightest)
    return array[..., np.newaxis] if grey else array, odd


def _orientation(image: Any, data: bytes, fit: Fit) -> int | None:
    """How a picture is stored: 1, upright, where that is not to be looked at."""
    if fit.orientation == "stored":
        return 1
    pixels = data.find(b"IDAT")
    if image.format == "PNG" and any(data.find(one, pixels) > 0 for one in _PNG_SAYS):
        image.load()  # What stands below the pixels is known only then.
    return orientation(image.info)


def _upright_size(image: Any, stored: int | None) -> tuple[int, int]:
    width, height = image.size
    return (width, height) if stored in _ON_THEIR_SIDE else (height, width)


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
    with _readable(name):
        data, exif = hide_exif(data)
        image = pil.open(io.BytesIO(data), formats=_FORMATS)
        if exif:
            image.info["exif"] = exif
        width, height = image.size
        most = min(_MAX_PIXELS_PER_BYTE * len(data), MAX_PIXELS)
        if width * height > most:
            raise ValueError(
                f"the header says {height}x{width} pixels; {len(data)} bytes can hold "
                f"{_MAX_PIXELS_PER_BYTE * len(data)}, and at most {MAX_PIXELS} are read"
            )
        return image


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    """Says of whatever goes wrong inside that the file is not readable."""
    try:
        yield
    except Exception as error:
        # Hostile files lead decoders to errors of all kinds: SyntaxError, struct.error,
        # IndexError, DecompressionBombError and more.
        reason = str(error) or type(error).__name__
        if "<_io.BytesIO" in reason:  # Pillow names what it was given, by its address.
            reason = "its contents are those of neither"
        raise ValueError(f"{name}: not a readable PNG or JPEG: {reason}") from error


class _Room:
    """Pixels that may be decoded at the same time, whatever the number of threads."""

    def __init__(self) -> None:
        """Room for `MAX_PIXELS`."""
        self._free = MAX_PIXELS
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def of(self, image: Any) -> Iterator[None]:
        """Waits until as many pixels as an image has are free, and takes them."""
        pixels = image.size[0] * image.size[1]
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


def _to_rgb(pil: Any, image: Any, is_deep: bool) -> tuple[Any, bool, int | None]:
    """The picture in RGB, whether it was transparent, and its largest value of 16 bits.

    Of 16 bits and several channels Pillow gives the upper 8 alone.
    """
    is_transparent, brightest = False, None
    if image.mode.startswith("I"):
        values = np.asarray(image)
        brightest = int(values.max())
        if (clear := image.info.get("transparency")) is not None:
            is_transparent = bool((values == clear).any())
            values = np.where(values == clear, 2**16 - 1, values)
        # Pillow's own conversion would clip 16 bits at 255.
        image = pil.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
        return image, is_transparent, brightest
    if is_deep:
        upper = max(most for _, most in image.convert("RGB").getextrema())
        brightest = (upper << 8) + 255 if upper else 0
    if image.has_transparency_data:
        image = image.convert("RGBA")
        is_transparent = image.getchannel("A").getextrema()[0] < 255
        white = pil.new("RGBA", image.size, "white")
        image = pil.alpha_composite(white, image)
    return image.convert("RGB"), is_transparent, brightest
