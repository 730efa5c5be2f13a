"""PNG files of 16 bits a channel: Pillow keeps only the upper 8 of several channels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrob.data._source import Samples, Source, check_num_values, in_unit_range, scaled

_MAGIC = b"\x89PNG\r\n\x1a\n"
# The byte of a PNG that holds the bits per channel.
_BIT_DEPTH_OFFSET = 24
# By Pillow's raw mode.
_CHANNELS = {"I;16B": 1, "LA;16B": 2, "RGB;16B": 3, "RGBA;16B": 4}


def has_16_bits(data: bytes) -> bool:
    """Whether a PNG has 16 bits a channel."""
    return data.startswith(_MAGIC) and data[_BIT_DEPTH_OFFSET:][:1] == b"\x10"


def open_png16(
    data: bytes,
    image: Any,
    reopen: Callable[[], Any],
    orientation: int | None,
    value_range: tuple[float, float] | None,
) -> Source:
    """Returns a PNG of 16 bits a channel as a source."""
    # The chunk sBIT says how many bits a camera had. By the PNG specification the
    # values are stretched to all 16 nevertheless, so that it changes nothing.
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
    """Returns the values, uint16 `[H, W, C]`."""
    # Pillow's raw modes pick bytes: "16B" the upper, "16L" the lower of a value of
    # which the upper comes first. One pixel of grey and alpha has as many bytes as one
    # of RGBA.
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
    image.tile = [one._replace(args=raw) for one in image.tile]
    return image
