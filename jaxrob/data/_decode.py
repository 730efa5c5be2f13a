"""PNG and JPEG files as arrays."""

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrob._stored_images import Unreadable
from jaxrob.data._oddities import Oddities
from jaxrob.data._orientation import hide_exif, orientation
from jaxrob.data._require import require

SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
# Pillow's transpose that puts an image of each EXIF orientation upright.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
# The orientations whose height is stored as the width.
_TRANSPOSED = (5, 6, 7, 8)
# Nothing can be recognised in fewer pixels a side.
_FEW_PIXELS = 8
# PNG chunks that may hold an orientation.
_PNG_ORIENTATION_CHUNKS = (b"eXIf", b"iTXt", b"tEXt", b"zTXt")
# The byte of a PNG that holds the bits per channel.
_PNG_BIT_DEPTH_OFFSET = 24
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
# Deflate's greatest ratio times the eight pixels in a byte of a black-and-white PNG;
# JPEG stays far below.
_MAX_PIXELS_PER_BYTE = 1032 * 8
# The largest number of pixels of one image, and of all images decoded at the same time:
# about 13,000 x 13,000. It is also Pillow's limit, which programs often switch off.
MAX_PIXELS = 178_956_970


class Expected(NamedTuple):
    """The size that an image must have.

    Attributes:
      height: in pixels.
      width: in pixels.
      why: the end of the message, after the size found.
    """

    height: int
    width: int
    why: str


class Fit(NamedTuple):
    """Turning, resizing and cropping of every image when it is read.

    Attributes:
      resize: height and width, one number for the shorter side, or None.
      crop: height and width of the centre that is kept after resizing, or None.
      interpolation: "bicubic" or "bilinear", both antialiased.
      orientation: "exif" first puts the image upright by its EXIF; "stored" does not.
      dct_scaling: whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size, the least
        that is no smaller than what it is resized to.
    """

    resize: tuple[int, int] | int | None = None
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"
    orientation: str = "exif"
    dct_scaling: bool = False


def image_size(data: bytes, name: str, fit: Fit) -> tuple[int, int]:
    """Returns height and width of a PNG or JPEG, upright, before resizing.

    Raises:
      ValueError: as `decode_image`.
      ImportError: if Pillow is missing.
    """
    with _open(data, name) as image, _PIXEL_BUDGET.reserve(image), _readable(name):
        width, height = _turned(image.size, _orientation(image, data, fit))
        return height, width


def decode_image(
    data: bytes,
    name: str,
    fit: Fit = Fit(),  # noqa: B008 (immutable)
    grey: bool = False,
    expected: Expected | None = None,
) -> tuple[np.ndarray, Oddities]:
    """Decodes one PNG or JPEG.

    It reads the first frame of an animation, blends transparent images with white, cuts
    16 bits a channel to the upper 8, and converts palettes and CMYK to RGB.

    Args:
      data: the file's bytes.
      name: the file's name, for error messages.
      fit: how to turn, resize and crop the image.
      grey: whether to return luma (ITU-R 601-2) instead of RGB.
      expected: the size that the image must have, upright, or None.

    Returns:
      uint8 `[H, W, 3]`, or `[H, W, 1]` if `grey`; and the image's oddities.

    Raises:
      ValueError: if the file is not a whole, undamaged PNG or JPEG, claims more pixels
        than its bytes can hold or than `MAX_PIXELS`, has another size than expected, or
        is smaller than the crop.
        Nothing is decoded before the header is checked.
      ImportError: if Pillow is missing.
    """
    pil = require("PIL.Image", "reading images")
    with _open(data, name) as image, _PIXEL_BUDGET.reserve(image):
        with _readable(name):
            is_png = image.format == "PNG"
            if is_png:
                _verify(pil, data)
            stored = _orientation(image, data, fit)
        width, height = _turned(image.size, stored)
        if expected is not None and (height, width) != expected[:2]:
            raise ValueError(f"{name}: {height}x{width} pixels, {expected.why}")
        with _readable(name):
            wanted = _resized_size((width, height), fit)
            shown = None
            if fit.dct_scaling:
                shown = _scale(image, _turned(wanted, stored))
            is_cmyk, is_animated = image.mode == "CMYK", _is_animated(image)
            is_deep = is_png and data[_PNG_BIT_DEPTH_OFFSET] == 16
            image, is_transparent, brightest = _to_rgb(pil, image, is_deep)
            method = getattr(pil.Resampling, fit.interpolation.upper())
            if shown is not None:
                image = image.resize(_turned(wanted, stored), method, box=shown)
            if stored in _UPRIGHT:
                image = image.transpose(pil.Transpose[_UPRIGHT[stored]])
            if grey:
                image = image.convert("L")
            box = _kept(wanted, fit)
            if wanted != image.size:
                # Whole: Pillow rounds a part in another order, depending on its shape.
                image = image.resize(wanted, method)
            if box != (0, 0, *image.size):
                image = image.crop(box)
            array = np.array(image)
    is_tiny = min(width, height) < _FEW_PIXELS and min(wanted) > min(width, height)
    odd = Oddities(stored, is_transparent, brightest, is_cmyk, is_animated, is_tiny)
    return array[..., np.newaxis] if grey else array, odd


def _orientation(image: Any, data: bytes, fit: Fit) -> int | None:
    """Returns an image's orientation; 1, upright, if it is to be ignored."""
    if fit.orientation == "stored":
        return 1
    if image.format == "PNG":
        pixels = data.find(b"IDAT")
        if any(data.find(one, pixels) > 0 for one in _PNG_ORIENTATION_CHUNKS):
            image.load()  # Reads the chunks after the pixels.
    return orientation(image.info)


def _turned(size: tuple[int, int], stored: int | None) -> tuple[int, int]:
    """Returns the width and height of a stored image when upright, or the reverse."""
    first, second = size
    return (second, first) if stored in _TRANSPOSED else size


def _resized_size(size: tuple[int, int], fit: Fit) -> tuple[int, int]:
    """Returns the width and height after resizing."""
    width, height = size
    if fit.resize is None:
        return size
    if isinstance(fit.resize, int):
        # The longer side is rounded down, as by torchvision.
        shorter = min(height, width)
        width, height = fit.resize * width // shorter, fit.resize * height // shorter
    else:
        height, width = fit.resize
    # A thin image's longer side may have any length.
    if (width, height) != size and width * height > MAX_PIXELS:
        raise ValueError(f"resized, it would have {height}x{width} pixels")
    return width, height


def _scale(
    image: Any, wanted: tuple[int, int]
) -> tuple[float, float, float, float] | None:
    """Lets a JPEG be decoded at a reduced size, if that suffices for a wanted one.

    Pillow picks the least of 1/8, 1/4, 1/2 and 1 that leaves both sides as long as
    wanted.

    Returns:
      The part of the reduced image that shows the picture: its last row and column may
      reach beyond. None if the size is not reduced.
    """
    if image.format == "PNG":
        return None
    size = image.size
    found = image.draft(None, wanted)
    return None if found is None or image.size == size else found[1]


def _is_animated(image: Any) -> bool:
    # A JPEG with further pictures holds other forms of the first, such as its depth.
    return image.format == "PNG" and getattr(image, "is_animated", False)


def _kept(size: tuple[int, int], fit: Fit) -> tuple[int, int, int, int]:
    """Returns left, top, right and bottom of what is kept of a resized image."""
    (width, height), (kept_height, kept_width) = size, fit.crop or size[::-1]
    if height < kept_height or width < kept_width:
        raise ValueError(
            f"{height}x{width} pixels are fewer than crop={fit.crop} keeps; resize= "
            "comes first"
        )
    top, left = round((height - kept_height) / 2), round((width - kept_width) / 2)
    return left, top, left + kept_width, top + kept_height


def _verify(pil: Any, data: bytes) -> None:
    # Decoding does not read a PNG's checksums and end. `verify` does, but the image is
    # unusable afterwards.
    if _PNG_END not in data:
        raise ValueError("truncated: it has no end chunk")
    with pil.open(io.BytesIO(data), formats=_FORMATS) as twin:
        twin.verify()


def _open(data: bytes, name: str) -> Any:
    """Opens an image; only its header is read, and checked."""
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
    """Turns every exception inside into one that names the file."""
    try:
        yield
    except Exception as error:
        # Hostile files raise errors of all kinds in decoders: SyntaxError,
        # struct.error, IndexError, DecompressionBombError and more.
        reason = str(error) or type(error).__name__
        if "<_io.BytesIO" in reason:  # Pillow names its input by the address.
            reason = "its contents are those of neither"
        raise Unreadable(f"{name}: not a readable PNG or JPEG: {reason}") from error


class _PixelBudget:
    """The pixels that all threads together may decode at the same time."""

    def __init__(self) -> None:
        """Starts with `MAX_PIXELS` free."""
        self._free = MAX_PIXELS
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(self, image: Any) -> Iterator[None]:
        """Waits until an image's number of pixels is free, and reserves it."""
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


_PIXEL_BUDGET = _PixelBudget()


def _to_rgb(pil: Any, image: Any, is_deep: bool) -> tuple[Any, bool, int | None]:
    """Converts an image to RGB.

    Pillow returns only the upper 8 bits of images with 16 bits and several channels.

    Returns:
      The image, whether it was transparent, and its largest 16-bit value or None.
    """
    is_transparent, brightest = False, None
    if image.mode.startswith("I"):
        values = np.asarray(image)
        brightest = int(values.max())
        if (clear := image.info.get("transparency")) is not None:
            is_transparent = bool((values == clear).any())
            values = np.where(values == clear, 2**16 - 1, values)
        # Pillow's own conversion clips 16 bits at 255.
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
    if image.mode == "RGB":
        image.load()  # `convert` would copy it.
    else:
        image = image.convert("RGB")
    return image, is_transparent, brightest
