import cmath

import dm_pix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from jaxrob.alterations import rotation

from .pictures import apply, assert_near, random_image

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1 along each axis: measured 4e-6 at 50 pixels.
TOLERANCE = 2e-5

SHAPES = [(28, 28, 1), (50, 50, 3), (3, 5, 3), (1, 9, 1)]
CROP = rotation(fill="crop")
ANGLES = (-180.0, -135.0, -90.0, -33.3, -0.5, 0.0, 10.0, 45.0, 90.0, 121.0, 180.0)


def inscribed(width, height, degrees):
    """Returns the largest scale at which the rotated image's frame fits into itself."""
    turn = cmath.exp(1j * np.deg2rad(degrees))
    frame = [complex(x * width, y * height) * turn for x in (-1, 1) for y in (-1, 1)]
    return min(
        width / max(abs(corner.real) for corner in frame),
        height / max(abs(corner.imag) for corner in frame),
    )


def scipy_crop(image, degrees, side):
    """Returns the window of relative size `side` of the rotated image, float64.

    Points are complex numbers with the imaginary axis up; rotating the content
    anticlockwise means sampling clockwise of each point.
    """
    height, width, channels = image.shape
    x = (np.arange(width) + 0.5 - width / 2) * side
    y = (height / 2 - np.arange(height) - 0.5) * side
    source = (x + 1j * y[:, None]) * cmath.exp(-1j * np.deg2rad(degrees))
    rows = height / 2 - source.imag - 0.5
    columns = source.real + width / 2 - 0.5
    planes = [
        ndimage.map_coordinates(
            image[..., channel].astype(float), [rows, columns], order=1, mode="nearest"
        )
        for channel in range(channels)
    ]
    return np.stack(planes, -1), rows, columns


@pytest.mark.parametrize(
    "fill, mode", [("edge", "nearest"), ("constant", "grid-constant")]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_scipys_rotate(fill, mode, shape):
    image = random_image(shape)
    for degrees in ANGLES:
        truth = ndimage.rotate(
            image.astype(float), degrees, reshape=False, order=1, mode=mode
        )
        assert_near(apply(rotation(fill=fill), image, degrees), truth, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    fill_mode=st.sampled_from([("edge", "nearest"), ("constant", "grid-constant")]),
    degrees=st.floats(-180, 180, width=32),
    seed=st.integers(0, 1000),
)
def test_equals_scipys_rotate_at_any_angle(fill_mode, degrees, seed):
    fill, mode = fill_mode
    image = random_image((28, 28, 1), seed)
    truth = ndimage.rotate(
        image.astype(float), degrees, reshape=False, order=1, mode=mode
    )
    altered = apply(rotation(fill=fill), image, degrees)
    assert_near(altered, truth, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("fill, mode", [("edge", "nearest"), ("constant", "constant")])
def test_equals_dm_pix(fill, mode):
    # dm-pix fills positions outside the outermost pixel centres with black at once,
    # jaxrob fades to black over one pixel. On a black frame both are the same.
    image = np.pad(random_image((24, 22, 3)), ((2, 2), (2, 2), (0, 0)))
    for degrees in (-150.0, -30.0, 90.0):
        truth = dm_pix.rotate(image, np.deg2rad(degrees), order=1, mode=mode)
        # Both are in float32.
        assert_near(
            apply(rotation(fill=fill), image, degrees), truth, atol=2 * TOLERANCE
        )


@pytest.mark.parametrize("fill", ["crop", "edge", "constant"])
@pytest.mark.parametrize("size", [28, 7])
def test_quarter_turns_of_a_square_are_numpys_anticlockwise(fill, size):
    image = random_image((size, size, 3))
    for turns in (-2, -1, 0, 1, 2):
        # cos(90 degrees) is -4e-8 in float32, not 0.
        assert_near(
            apply(rotation(fill=fill), image, 90.0 * turns),
            np.rot90(image, turns),
            atol=TOLERANCE,
        )


@settings(max_examples=25, deadline=None)
@given(
    size=st.sampled_from([28, 7]),
    degrees=st.floats(-180, 180, width=32),
    seed=st.integers(0, 1000),
)
def test_crop_shows_the_inscribed_square(size, degrees, seed):
    image = random_image((size, size, 3), seed)
    angle = np.deg2rad(degrees)
    side = 1 / (abs(np.cos(angle)) + abs(np.sin(angle)))
    truth, _, _ = scipy_crop(image, degrees, side)
    assert_near(apply(CROP, image, degrees), truth, atol=TOLERANCE)


@pytest.mark.parametrize("shape", [(20, 12, 1), (3, 5, 3), (1, 9, 1)])
def test_crop_shows_the_inscribed_rectangle(shape):
    image = random_image(shape)
    for degrees in ANGLES:
        truth, _, _ = scipy_crop(image, degrees, inscribed(shape[1], shape[0], degrees))
        assert_near(apply(CROP, image, degrees), truth, atol=TOLERANCE)


def test_crop_never_samples_outside():
    # On a ramp, interpolation is exact; values clamped at the border, or black, would
    # be off it.
    size = 15
    row, column = np.mgrid[:size, :size]
    ramp = (0.1 + 0.02 * row + 0.03 * column)[..., None].astype(np.float32)
    for degrees in ANGLES:
        angle = np.deg2rad(degrees)
        side = 1 / (abs(np.cos(angle)) + abs(np.sin(angle)))
        _, rows, columns = scipy_crop(ramp, degrees, side)
        assert_near(
            apply(CROP, ramp, degrees)[..., 0],
            0.1 + 0.02 * rows + 0.03 * columns,
            atol=TOLERANCE,
        )


@pytest.mark.parametrize("fill", ["crop", "edge"])
def test_no_border_appears(fill):
    constant = np.full((12, 17, 3), 0.75, np.float32)
    image = 0.2 + 0.6 * random_image((12, 17, 3))
    for degrees in ANGLES:
        # The four weights sum to 1 up to rounding.
        altered = apply(rotation(fill=fill), constant, degrees)
        assert_near(altered, 0.75, atol=1e-6)
        altered = np.asarray(apply(rotation(fill=fill), image, degrees))
        assert altered.min() >= image.min() - 1e-6
        assert altered.max() <= image.max() + 1e-6


def test_by_default_nothing_is_magnified():
    row, column = np.mgrid[:29, :29] - 14
    disk = np.float32(np.hypot(row, column) < 7)[..., None]
    for degrees, magnified in ((15.0, 1.5), (45.0, 2.0)):
        assert apply(rotation(), disk, degrees).sum() == pytest.approx(
            disk.sum(), rel=0.02
        )
        # (cos + sin)^2 is the area's factor.
        found = apply(CROP, disk, degrees).sum() / disk.sum()
        assert found == pytest.approx(magnified, rel=0.02)


def test_identity_is_not_cropped():
    image = random_image((20, 17, 3))
    np.testing.assert_array_equal(apply(CROP, image, 0.0), image)


def test_constant_fills_the_corners_with_black():
    image = np.ones((20, 20, 1), np.float32)
    altered = np.asarray(apply(rotation(fill="constant"), image, 45.0))
    assert altered[0, 0] == altered[0, -1] == altered[-1, 0] == altered[-1, -1] == 0
    assert altered[10, 10] == pytest.approx(1, abs=1e-6)
