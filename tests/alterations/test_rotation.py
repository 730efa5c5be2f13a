import cmath

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from jaxrob.alterations import rotation

from .pictures import apply, assert_near, random_image

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1 along each axis: measured 4e-6 at 50 pixels.
TOLERANCE = 2e-5

CROP = rotation(fill="crop")
angles = st.floats(-180, 180, width=32) | st.sampled_from(
    [-180.0, -135.0, -90.0, 0.0, 45.0, 90.0, 180.0]
)
seeds = st.integers(0, 1000)


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
    # No border appears: the pixels that are shown lie in the image.
    for positions, size in ((rows, height), (columns, width)):
        assert positions.min() > -0.5 and positions.max() < size - 0.5
    planes = [
        ndimage.map_coordinates(
            image[..., channel].astype(float), [rows, columns], order=1, mode="nearest"
        )
        for channel in range(channels)
    ]
    return np.stack(planes, -1)


@settings(max_examples=25, deadline=None)
@given(
    fill_mode=st.sampled_from([("edge", "nearest"), ("constant", "grid-constant")]),
    degrees=angles,
    seed=seeds,
)
def test_equals_scipys_rotate(fill_mode, degrees, seed):
    fill, mode = fill_mode
    image = random_image((13, 9, 3), seed)
    truth = ndimage.rotate(
        image.astype(float), degrees, reshape=False, order=1, mode=mode
    )
    altered = apply(rotation(fill=fill), image, degrees)
    assert_near(altered, truth, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(degrees=angles, seed=seeds)
def test_crop_shows_the_inscribed_rectangle(degrees, seed):
    image = random_image((9, 13, 3), seed)
    truth = scipy_crop(image, degrees, inscribed(13, 9, degrees))
    assert_near(apply(CROP, image, degrees), truth, atol=TOLERANCE)


def test_identity_is_not_cropped():
    image = random_image((9, 13, 3))
    np.testing.assert_array_equal(apply(CROP, image, 0.0), image)


def test_by_default_nothing_is_magnified():
    assert rotation() == rotation(-180, 180, fill="edge")
