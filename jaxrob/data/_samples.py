"""What is done with the samples of a picture: colours, turning, resizing."""

import numpy as np

from jaxrob._arguments.extra import required
from jaxrob.data._source import Samples, Unsuited, scaled

# Luma of ITU-R 601-2, as by Pillow.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def laid_on(
    samples: Samples, background: tuple[int, int, int] | None
) -> np.ndarray | None:
    """Returns the values `[H, W, C]`, transparent ones laid on a colour of 0-255."""
    values, alpha = samples.values, samples.alpha
    if alpha is None or alpha.min() == 1:
        return values
    if background is None:
        return None
    is_bytes = values.dtype == np.uint8
    if is_bytes:
        values = scaled(values, 0, 255)
    if values.shape[-1] == 1:
        values = values.repeat(3, axis=-1)
    alpha = alpha[..., np.newaxis]
    below = np.array(background, np.float32) / 255
    found = (values if samples.is_multiplied else values * alpha) + below * (1 - alpha)
    found = np.clip(found, 0, 1)
    return np.round(255 * found).astype(np.uint8) if is_bytes else found


def in_channels(values: np.ndarray, grey: bool) -> np.ndarray:
    """Returns luma if it is asked for, otherwise the channels as they are."""
    count = values.shape[-1]
    if not grey or count == 1:
        return values
    if count != 3:
        raise Unsuited(
            f"it has {count} channels, and grey=True needs 1, or red, green and blue"
        )
    luma = values @ _LUMA
    if values.dtype == np.uint8:
        luma = np.round(luma).astype(np.uint8)
    return luma.clip(0, 1 if luma.dtype == np.float32 else 255)[..., np.newaxis]


def turned(values: np.ndarray, orientation: int | None) -> np.ndarray:
    """Puts a picture of an orientation, as in EXIF, upright."""
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
    planes = [
        np.asarray(
            pil.fromarray(np.ascontiguousarray(values[..., channel])).resize(
                size, method
            )
        )
        for channel in range(values.shape[-1])
    ]
    found = np.stack(planes, axis=-1)
    # A bicubic filter overshoots at edges.
    return found if found.dtype == np.uint8 else found.clip(0, 1)
