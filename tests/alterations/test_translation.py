import jax
import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from jaxrob.alterations import (
    horizontal_translation,
    vertical_translation,
)

from .pictures import apply, assert_near, random_image

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1: measured 4e-6 at 50 pixels.
TOLERANCE = 2e-5

TRANSLATIONS = [vertical_translation, horizontal_translation]  # in the axes' order
# Each axis has the code of both.
FILL_MODES = [("edge", "nearest"), ("constant", "grid-constant")]

both_axes = pytest.mark.parametrize("axis", [0, 1], ids=["vertical", "horizontal"])


def window(size, lower, upper, level):
    """Returns the window's start and length, in pixels.

    Over the range the content moves from `lower` to `upper` relative to the frame, so
    the window moves by as much the other way: it touches the far end of the image at
    `lower` and the near end at `upper`.
    """
    length = size - (upper - lower)
    begin = (upper - level) / (upper - lower) * (size - length)
    return begin, length


def boxes(shape, axis, lower, upper, level):
    """Returns the windows of both axes; the other axis is cropped about its centre."""
    begin, length = window(shape[axis], lower, upper, level)
    other = shape[1 - axis]
    kept = other * length / shape[axis]
    spans = [(begin, begin + length), ((other - kept) / 2, (other + kept) / 2)]
    return spans if axis == 0 else spans[::-1]


def pillow_resize(image, rows, columns):
    height, width, channels = image.shape
    planes = [
        Image.fromarray(np.ascontiguousarray(image[..., channel])).resize(
            (width, height),
            Image.Resampling.BILINEAR,
            box=(columns[0], rows[0], columns[1], rows[1]),
        )
        for channel in range(channels)
    ]
    return np.stack([np.asarray(plane) for plane in planes], -1)


@both_axes
def test_pixels_move_right_and_down_and_whole_ones_exactly(axis):
    fill, mode = FILL_MODES[axis]
    image = random_image((5, 8, 3))
    alteration = TRANSLATIONS[axis](-9, 9, fill=fill)
    for pixels in (-9, -4, -1, 1, 2, 7):
        shift = [0, 0, 0]
        shift[axis] = pixels
        expected = ndimage.shift(image, shift, order=0, mode=mode)
        np.testing.assert_array_equal(apply(alteration, image, float(pixels)), expected)
    shift[axis] = -2.3
    expected = ndimage.shift(image.astype(float), shift, order=1, mode=mode)
    assert_near(apply(alteration, image, -2.3), expected, atol=TOLERANCE)


@pytest.mark.parametrize(
    "axis, lower, upper, unit", [(0, -7.25, 1.0, "px"), (1, -2.0, 6.5, "relative")]
)
def test_crop_equals_pillows_resize_of_the_moved_window(axis, lower, upper, unit):
    image = random_image((28, 24, 3))
    size = 1 if unit == "px" else image.shape[axis]
    alteration = TRANSLATIONS[axis](lower / size, upper / size, fill="crop", unit=unit)
    for level in np.linspace(lower, upper, 6):
        # Pillow rounds the box to float32 too: the sum of both errors.
        assert_near(
            apply(alteration, image, np.float32(level / size)),
            pillow_resize(image, *boxes(image.shape, axis, lower, upper, level)),
            atol=2 * TOLERANCE,
        )
    # The identity is not cropped.
    np.testing.assert_array_equal(apply(alteration, image, np.float32(0)), image)


@both_axes
def test_by_default_nothing_is_cropped(axis):
    assert TRANSLATIONS[axis]() == TRANSLATIONS[axis](-4, 4, fill="edge", unit="px")


@both_axes
def test_crop_refuses_a_range_as_long_as_the_image(axis):
    image = np.zeros((8, 8, 1), np.float32)
    with pytest.raises(ValueError, match="crop"):
        TRANSLATIONS[axis](-4, 4, fill="crop")(image, 1.0)
    jax.eval_shape(TRANSLATIONS[axis](-4, 3.9, fill="crop"), image, 1.0)
    jax.eval_shape(TRANSLATIONS[axis](-4, 4, fill="edge"), image, 1.0)
