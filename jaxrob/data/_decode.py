"""Files of pictures as arrays."""

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.texts import required
from jaxrob._stored_images import Unreadable
from jaxrob.data import _medical
from jaxrob.data._formats import (
    MAGIC,
    ORIENTATION,
    check_webp,
    directory,
    has_16_bits,
    is_for_pillow,
    is_tiff,
    open_npy,
    open_png16,
    open_tiff,
    read_tiff,
)
from jaxrob.data._preparation import Fit, Oddities
from jaxrob.data._source import (
    MAX_PIXELS,
    Source,
    Unsuited,
    has_8_bits,
    in_channels,
    laid_on,
    pillow,
    resized,
    transparent,
    turned,
)

SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff", ".webp", ".bmp"),
    *(".ppm", ".pgm", ".npy"),
    *(*_medical.DICOM_SUFFIXES, *_medical.NIFTI_SUFFIXES),
)
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "PPM")
# Whose further pictures are frames of an animation.
_ANIMATED = ("PNG", "WEBP")
_UPRIGHT = {
    **{2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"},
    **{6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"},
}
# The orientations whose height is stored as the width.
_TRANSPOSED = (5, 6, 7, 8)
_EXIF = b"Exif\0\0"
# PNG chunks that may hold an orientation.
_PNG_NOTES = (b"eXIf", b"iTXt", b"tEXt", b"zTXt")
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
# Deflate's greatest ratio times the eight pixels in a byte of a black-and-white PNG.
_MAX_PIXELS_PER_BYTE = 1032 * 8


class Expected(NamedTuple):
    """What all pictures of a data set must have."""

    size: tuple[int, int] | None  # Height and width, upright; None if any will do
    channels: int
    dtype: np.dtype  # uint8 or float32
    why: str = ""  # The end of a message


def decode_image(
    data: bytes,
    name: str,
    fit: Fit = Fit(),  # noqa: B008 (immutable)
    grey: bool = False,
    expected: Expected | None = None,
) -> tuple[np.ndarray, Oddities]:
    with readable(name):
        if not data:
            raise ValueError("it is empty")
        source = _source(data, name, fit)
    if source is None:
        array, odd = _of_bytes(data, name, fit, grey, expected)
    else:
        array, odd = _of_samples(source, name, fit, grey, expected)
    channels, dtype = array.shape[-1], array.dtype
    if expected and (channels, dtype) != (expected.channels, expected.dtype):
        kinds = _kind(channels, dtype), _kind(expected.channels, expected.dtype)
        raise Unsuited(f"{name}: read as {kinds[0]}, expected {kinds[1]}{expected.why}")
    return array, odd


def _source(data: bytes, name: str, fit: Fit) -> Source | None:
    """Returns a picture that Pillow would not read whole; None if it would."""
    lower = name.lower()
    # Files of other names are said to be DICOM by their contents alone.
    is_unnamed = not lower.endswith(SUFFIXES) and _medical.is_dicom(data)
    if lower.endswith(_medical.DICOM_SUFFIXES) or is_unnamed:
        return _medical.open_dicom(data, fit.slice_at, fit.value_range)
    if lower.endswith(_medical.NIFTI_SUFFIXES):
        return _medical.open_nifti(data, fit.slice_at, fit.value_range)
    if data.startswith(MAGIC):
        return open_npy(data, fit.value_range)
    if is_tiff(data):
        tiff = read_tiff(data)
        if not is_for_pillow(tiff):
            stored = tiff.orientation if fit.orientation == "exif" else 1
            return open_tiff(tiff, data, stored, fit.value_range)
    elif has_16_bits(data):
        _verify(data)
        with _open(data, name) as image:
            stored = _orientation(image, data, fit)
        image = _open(data, name)
        return open_png16(
            data, image, lambda: _open(data, name), stored, fit.value_range
        )
    if fit.value_range is not None:
        raise has_8_bits(fit.value_range)
    return None


def _of_bytes(
    data: bytes, name: str, fit: Fit, grey: bool, expected: Expected | None
) -> tuple[np.ndarray, Oddities]:
    pil = required("PIL.Image", "reading images", "experiments")
    with _open(data, name) as image, _PIXEL_BUDGET.reserve(image.width * image.height):
        with readable(name):
            is_animated = image.format in _ANIMATED and image.is_animated
            if image.format == "PNG":
                _verify(data)
            if image.format == "TIFF":
                stored, is_animated, image = _laid_back(image, data, fit)
            else:
                stored = _orientation(image, data, fit)
        upright = _turned(image.size, stored)
        _check_size(upright, name, expected)
        with readable(name):
            target = _resized_size(upright, fit)
            reduced, size_stored = None, _turned(target, stored)
            if fit.dct_scaling and image.format == "JPEG":
                size, drafted = image.size, image.draft(None, size_stored)
                reduced = drafted[1] if drafted and image.size != size else None
            is_cmyk = image.mode == "CMYK"
            image = _to_rgb(pil, image, fit.background)
            method = getattr(pil.Resampling, fit.interpolation.upper())
            if reduced is not None:
                image = image.resize(size_stored, method, box=reduced)
            if stored in _UPRIGHT:
                image = image.transpose(pil.Transpose[_UPRIGHT[stored]])
            if grey:
                image = image.convert("L")
            box = _kept(target, fit)
            if target != image.size:
                # Whole: Pillow rounds a part in another order, depending on its shape.
                image = image.resize(target, method)
            if box != (0, 0, *image.size):
                image = image.crop(box)
            array = np.array(image)
    is_enlarged = target[0] > upright[0] or target[1] > upright[1]
    odd = Oddities(stored, None, is_cmyk, is_animated, is_enlarged)
    return array[..., np.newaxis] if grey else array, odd


def _of_samples(
    source: Source, name: str, fit: Fit, grey: bool, expected: Expected | None
) -> tuple[np.ndarray, Oddities]:
    stored = source.orientation
    upright = _turned((source.width, source.height), stored)
    _check_size(upright, name, expected)
    with _PIXEL_BUDGET.reserve(source.num_values), readable(name):
        target = _resized_size(upright, fit)
        box = _kept(target, fit)
        samples = source.samples()
        values = laid_on(samples, fit.background)
        values = in_channels(turned(values, stored), grey)
        values = resized(values, target, fit.interpolation)
        values = values[box[1] : box[3], box[0] : box[2]]
        if values.shape[-1] == 1 and not grey:
            values = values.repeat(3, axis=-1)
    odd = Oddities(
        stored,
        samples.brightest,
        is_animated=source.is_first_of_many,
        is_enlarged=target[0] > upright[0] or target[1] > upright[1],
        shown=samples.shown,
    )
    return np.ascontiguousarray(values), odd


def _check_size(size: tuple[int, int], name: str, expected: Expected | None) -> None:
    if expected and expected.size and expected.size != size[::-1]:
        found, wanted = ("x".join(map(str, one)) for one in (size[::-1], expected.size))
        raise ValueError(f"{name}: {found} pixels, expected {wanted}{expected.why}")


def _kind(channels: int, dtype: np.dtype) -> str:
    bits = "8 bits" if dtype == np.uint8 else "more than 8 bits"
    return f"{channels} channel{'s' * (channels != 1)} of {dtype} ({bits} a value)"


def _laid_back(image: Any, data: bytes, fit: Fit) -> tuple[int | None, bool, Any]:
    """Returns a TIFF's orientation, whether it has pages, and it as it is stored."""
    # Pillow puts TIFFs upright on its own, when it loads them.
    pil = required("PIL.Image", "reading images", "experiments")
    tiff = read_tiff(data)
    image.load()
    if tiff.orientation in _UPRIGHT:
        back = {6: 8, 8: 6}.get(tiff.orientation, tiff.orientation)
        image = image.transpose(pil.Transpose[_UPRIGHT[back]])
    stored = tiff.orientation if fit.orientation == "exif" else 1
    return stored, tiff.is_first_of_many, image


def _orientation(image: Any, data: bytes, fit: Fit) -> int | None:
    if fit.orientation == "stored" or (
        # Pillow would load it to read the chunks after the pixels.
        image.format == "PNG" and not any(note in data for note in _PNG_NOTES)
    ):
        return 1
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
        if exif := image.info.get("exif", b"").removeprefix(_EXIF):
            directory(exif)
    except Exception:
        return None
    return orientation if orientation in range(1, 9) else None


def _turned(size: tuple[int, int], stored: int | None) -> tuple[int, int]:
    return (size[1], size[0]) if stored in _TRANSPOSED else size


def _resized_size(size: tuple[int, int], fit: Fit) -> tuple[int, int]:
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


def _kept(size: tuple[int, int], fit: Fit) -> tuple[int, int, int, int]:
    (width, height), (kept_height, kept_width) = size, fit.crop or size[::-1]
    if height < kept_height or width < kept_width:
        raise ValueError(
            f"{height}x{width} pixels are fewer than crop={fit.crop}: pass resize="
        )
    top, left = round((height - kept_height) / 2), round((width - kept_width) / 2)
    return left, top, left + kept_width, top + kept_height


def _verify(data: bytes) -> None:
    # Decoding reads no checksums; `verify` does, but leaves the image unusable.
    if _PNG_END not in data:
        raise ValueError("truncated: it has no end chunk")
    pil = required("PIL.Image", "reading images", "experiments")
    with pil.open(io.BytesIO(data), formats=_FORMATS) as twin:
        twin.verify()


def _open(data: bytes, name: str) -> Any:
    """Opens an image; only its header is read, and checked."""
    with readable(name):
        pil = pillow()
        check_webp(data)
        try:
            image = pil.open(io.BytesIO(data), formats=_FORMATS)
        except Exception:
            # It may be the EXIF alone that is damaged: a JPEG is opened without.
            image = pil.open(
                io.BytesIO(data.replace(_EXIF, b"hide\0\0")), formats=_FORMATS
            )
            image.info["exif"] = b"damaged"
        # Pillow would cut off or round what has more than 8 bits.
        plain = (image.mode, (image.mode, 255))
        if image.format == "PPM" and image.tile[0][3] not in plain:
            raise ValueError("its values do not end at 255: store it as PNG")
        width, height = image.size
        most = min(_MAX_PIXELS_PER_BYTE * len(data), MAX_PIXELS)
        if width * height > most:
            raise ValueError(
                f"the header says {height}x{width} pixels; {len(data)} bytes can hold "
                f"{_MAX_PIXELS_PER_BYTE * len(data)}, and at most {MAX_PIXELS} are read"
            )
        return image


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns every exception inside into one that names the file."""
    try:
        yield
    except (ImportError, Unreadable):
        raise
    except Unsuited as error:
        raise Unsuited(f"{name}: {error}") from error
    except Exception as error:
        # Hostile files raise errors of all kinds in decoders, SyntaxError too.
        reason = str(error) or type(error).__name__
        if "<_io.BytesIO" in reason:  # Pillow names its input by the address.
            reason = "its contents are those of no format that is read"
        raise Unreadable(f"{name}: not a readable picture: {reason}") from error


class _PixelBudget:
    """The pixels that all threads together may decode at the same time."""

    def __init__(self) -> None:
        self._free = MAX_PIXELS
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(self, pixels: int) -> Iterator[None]:
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


def _to_rgb(pil: Any, image: Any, background: tuple[int, int, int] | None) -> Any:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if background is not None:
            image = pil.alpha_composite(pil.new("RGBA", image.size, background), image)
        elif image.getchannel("A").getextrema()[0] < 255:
            raise transparent()
    if image.mode != "RGB":
        return image.convert("RGB")
    image.load()  # `convert` would copy it.
    return image
