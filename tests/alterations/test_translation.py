import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
FILL_MODES = [("edge", "nearest"), ("constant", "grid-constant")]
# Symmetric and asymmetric, and with the identity at either end.
RANGES = [(-4.0, 4.0), (-2.0, 6.5), (0.0, 5.0), (-7.25, 0.0)]

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
@pytest.mark.parametrize("fill, mode", FILL_MODES)
@pytest.mark.parametrize("shape", [(28, 28, 1), (5, 8, 3)])
def test_equals_scipys_shift(axis, fill, mode, shape):
    image = random_image(shape)
    alteration = TRANSLATIONS[axis](-9, 9, fill=fill)
    for level in (-9.0, -4.0, -1.7, -0.01, 0.0, 0.5, 3.25, 9.0):
        shift = [0, 0, 0]
        shift[axis] = level
        truth = ndimage.shift(image.astype(float), shift, order=1, mode=mode)
        assert_near(apply(alteration, image, level), truth, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    axis=st.integers(0, 1),
    fill_mode=st.sampled_from(FILL_MODES),
    level=st.floats(-9, 9, width=32),
    seed=st.integers(0, 1000),
)
def test_equals_scipys_shift_at_any_level(axis, fill_mode, level, seed):
    fill, mode = fill_mode
    image = random_image((5, 8, 3), seed)
    shift = [0, 0, 0]
    shift[axis] = level
    truth = ndimage.shift(image.astype(float), shift, order=1, mode=mode)
    altered = apply(TRANSLATIONS[axis](-9, 9, fill=fill), image, level)
    assert_near(altered, truth, atol=TOLERANCE)


@both_axes
@pytest.mark.parametrize("fill", ["edge", "constant"])
def test_whole_pixels_move_exactly_right_and_down(axis, fill):
    image = np.swapaxes(random_image((28, 28, 3)), 0, axis)
    alteration = TRANSLATIONS[axis](-6, 6, fill=fill)
    for pixels in (1, 4, 6):
        expected = np.roll(image, pixels, axis)
        np.moveaxis(expected, axis, 0)[:pixels] = (
            np.moveaxis(image, axis, 0)[:1] if fill == "edge" else 0
        )
        np.testing.assert_array_equal(apply(alteration, image, float(pixels)), expected)
        expected = np.roll(image, -pixels, axis)
        np.moveaxis(expected, axis, 0)[-pixels:] = (
            np.moveaxis(image, axis, 0)[-1:] if fill == "edge" else 0
        )
        np.testing.assert_array_equal(
            apply(alteration, image, float(-pixels)), expected
        )


@both_axes
@pytest.mark.parametrize("lower, upper", RANGES)
def test_crop_equals_pillows_resize_of_the_moved_window(axis, lower, upper):
    image = random_image((28, 24, 3))
    alteration = TRANSLATIONS[axis](lower, upper, fill="crop")
    for level in np.linspace(lower, upper, 6):
        if level == 0:
            continue
        # Pillow rounds the box to float32 too: the sum of both errors.
        assert_near(
            apply(alteration, image, level),
            pillow_resize(image, *boxes(image.shape, axis, lower, upper, level)),
            atol=2 * TOLERANCE,
        )


@both_axes
def test_crop_equals_slicing_the_window_out(axis):
    # At whole pixels NumPy can cut out the window. Interpolation across the window's
    # border uses the image's pixels there, so only the output pixels between the
    # window's outermost pixel centres are compared.
    image = random_image((28, 28, 3))
    alteration = TRANSLATIONS[axis](-4, 4, fill="crop")
    for level in (-4, -3, 1, 4):
        begin = 4 - level
        cut = np.take(image, np.arange(begin, begin + 20), axis)
        cut = np.take(cut, np.arange(4, 24), 1 - axis)
        truth = np.asarray(pillow_resize_to(cut, 28))
        assert_near(
            apply(alteration, image, float(level))[1:-1, 1:-1],
            truth[1:-1, 1:-1],
            atol=2 * TOLERANCE,
        )


def pillow_resize_to(image, size):
    planes = [
        Image.fromarray(np.ascontiguousarray(plane)).resize(
            (size, size), Image.Resampling.BILINEAR
        )
        for plane in np.moveaxis(image, -1, 0)
    ]
    return np.stack([np.asarray(plane) for plane in planes], -1)


@pytest.mark.slow
@both_axes
@pytest.mark.parametrize("lower, upper", RANGES)
def test_crop_equals_scipy_at_the_windows_pixel_centres(axis, lower, upper):
    image = random_image((28, 24, 1))
    for level in (lower or 0.5, upper or -0.5):
        centres = [
            begin + (np.arange(size) + 0.5) / size * (end - begin) - 0.5
            for size, (begin, end) in zip(
                image.shape[:2], boxes(image.shape, axis, lower, upper, level)
            )
        ]
        truth = ndimage.map_coordinates(
            image[..., 0].astype(float),
            np.meshgrid(*centres, indexing="ij"),
            order=1,
            mode="nearest",
        )
        altered = apply(TRANSLATIONS[axis](lower, upper, fill="crop"), image, level)[
            ..., 0
        ]
        assert_near(altered, truth, atol=TOLERANCE)


@both_axes
@pytest.mark.parametrize("fill", ["crop", "edge"])
def test_no_border_appears(axis, fill):
    constant = np.full((20, 17, 3), 0.75, np.float32)
    image = 0.2 + 0.6 * random_image((20, 17, 3))
    for level in (-6.0, -0.3, 0.0, 2.5, 6.0):
        alteration = TRANSLATIONS[axis](-6, 6, fill=fill)
        # Weights sum to 1 up to the rounding of a few products.
        np.testing.assert_allclose(apply(alteration, constant, level), 0.75, atol=1e-6)
        altered = np.asarray(apply(alteration, image, level))
        assert altered.min() >= image.min() - 1e-6
        assert altered.max() <= image.max() + 1e-6


@both_axes
def test_crop_moves_content_right_and_down(axis):
    # A bright spot's centroid, in the window's magnified pixels.
    image = np.zeros((21, 21, 1), np.float32)
    image[9:12, 9:12] = 1

    def centroid(level):
        alteration = TRANSLATIONS[axis](-3, 3, fill="crop")
        altered = np.asarray(apply(alteration, image, level))[..., 0]
        return ndimage.center_of_mass(altered)

    magnification = 21 / (21 - 6)
    for level in (-3.0, -1.0, 2.0, 3.0):
        moved = centroid(level)
        # Sampling the spot's edges leaves its centroid uncertain by a small part of
        # a pixel.
        assert moved[axis] - 10 == pytest.approx(level * magnification, abs=0.1)
        assert moved[1 - axis] == pytest.approx(10, abs=1e-3)


@both_axes
def test_identity_is_not_cropped(axis):
    image = random_image((20, 17, 3))
    alteration = TRANSLATIONS[axis](fill="crop")
    np.testing.assert_array_equal(apply(alteration, image, 0.0), image)


@both_axes
def test_by_default_the_image_does_not_jump_beside_the_identity(axis):
    image = random_image((28, 28, 1))
    found = np.asarray(apply(TRANSLATIONS[axis](), image, 1e-3))
    # A thousandth of a pixel mixes neighbours, which differ by at most 1.
    assert np.abs(found - image).max() < 2e-3
    cropped = apply(TRANSLATIONS[axis](fill="crop"), image, 1e-3)
    assert np.abs(cropped - image).max() > 0.2


@pytest.mark.slow
@both_axes
@pytest.mark.parametrize("fill", ["crop", "edge", "constant"])
def test_relative_levels_are_parts_of_the_axis(axis, fill):
    image = random_image((20, 30, 3))
    size = image.shape[axis]
    relative = TRANSLATIONS[axis](-0.2, 0.1, fill=fill, unit="relative")
    pixels = TRANSLATIONS[axis](-0.2 * size, 0.1 * size, fill=fill)
    for part in (-0.2, -0.05, 0.1):
        assert_near(
            apply(relative, image, part),
            apply(pixels, image, part * size),
            atol=TOLERANCE,
        )
    assert "width" in horizontal_translation(unit="relative").unit
    assert "height" in vertical_translation(unit="relative").unit


@both_axes
def test_crop_refuses_a_range_as_long_as_the_image(axis):
    image = np.zeros((8, 8, 1), np.float32)
    with pytest.raises(ValueError, match="crop"):
        TRANSLATIONS[axis](-4, 4, fill="crop")(image, 1.0)
    jax.eval_shape(TRANSLATIONS[axis](-4, 3.9, fill="crop"), image, 1.0)
    jax.eval_shape(TRANSLATIONS[axis](-4, 4, fill="edge"), image, 1.0)
