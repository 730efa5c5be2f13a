"""PNG and JPEG files as arrays."""

import io
from typing import Any

import numpy as np

from jaxrob.data._require import require

SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
# Deflate's greatest ratio times the eight pixels in a byte of a black-and-white PNG;
# JPEG stays far below.
_MAX_PIXELS_PER_BYTE = 1032 * 8


def decode_image(
    data: bytes, name: str, size: tuple[int, int] | None = None, grey: bool = False
) -> np.ndarray:
    """Decodes one PNG or JPEG.

    The first frame of an animation is taken. A transparent image is laid on white, 16
    bits a channel are cut to the upper 8, and a palette or CMYK becomes RGB.

    Args:
      data: the file's bytes.
      name: the file, for error messages.
      size: height and width to resize to (bicubic, antialiased), or None.
      grey: whether to return luma (ITU-R 601-2) instead of RGB.

    Returns:
      uint8 `[H, W, 3]`, or `[H, W, 1]` if `grey`.

    Raises:
      ValueError: if the file is not a whole, undamaged PNG or JPEG, or claims more
        pixels than its bytes can hold.
      ImportError: if Pillow is missing.
    """
    pil = require("PIL.Image", "reading images")
    try:
        with pil.open(io.BytesIO(data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > _MAX_PIXELS_PER_BYTE * len(data):
                raise ValueError(
                    f"the header says {height}x{width} pixels, more than "
                    f"{len(data)} bytes can hold"
                )
            if image.format == "PNG":
                # Decoding alone leaves PNG's checksums and end unread; checking them
                # uses the opened image up.
                if _PNG_END not in data:
                    raise ValueError("truncated: it has no end chunk")
                with pil.open(io.BytesIO(data), formats=_FORMATS) as twin:
                    twin.verify()
            image = _to_rgb(pil, image)
        if grey:
            image = image.convert("L")
    # Hostile files lead decoders to errors of all kinds: SyntaxError, struct.error,
    # IndexError, DecompressionBombError and more.
    except Exception as error:
        raise ValueError(f"{name}: not a readable PNG or JPEG: {error}") from error
    if size is not None and size != (height, width):
        image = image.resize((size[1], size[0]), pil.Resampling.BICUBIC)
    array = np.array(image)
    return array[..., np.newaxis] if grey else array


def _to_rgb(pil: Any, image: Any) -> Any:
    if image.mode.startswith("I"):
        # Pillow's own conversion would clip 16 bits at 255.
        image = pil.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        white = pil.new("RGBA", image.size, "white")
        image = pil.alpha_composite(white, image)
    return image.convert("RGB")
