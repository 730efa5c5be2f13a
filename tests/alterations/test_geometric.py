import cmath

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from jaxrob.alterations import (
    elastic_deformation,
    horizontal_translation,
    rotation,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._geometric import Displacement, displaced, smooth
from jaxrob.alterations._resample import warped

from .pictures import apply, assert_near, random_image, random_key
from .test_forms import sampled

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1: measured 4e-6 at 50 pixels.
TOLERANCE = 2e-5

TRANSLATIONS = [vertical_translation, horizontal_translation]  # in the axes' order
# Each axis has the code of both.
FILL_MODES = [("edge", "nearest"), ("constant", "grid-constant")]

both_axes = pytest.mark.parametrize("axis", [0, 1], ids=["vertical", "horizontal"])


def window(size, lower, upper, level):
    """Start and length: it moves against the content, to the near end at `upper`."""
    length = size - (upper - lower)
    begin = (upper - level) / (upper - lower) * (size - length)
    return begin, length


def boxes(shape, axis, lower, upper, level):
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
    """Points are complex numbers, their imaginary axis up; samples turn clockwise."""
    height, width, _ = image.shape
    x = (np.arange(width) + 0.5 - width / 2) * side
    y = (height / 2 - np.arange(height) - 0.5) * side
    source = (x + 1j * y[:, None]) * cmath.exp(-1j * np.deg2rad(degrees))
    rows = height / 2 - source.imag - 0.5
    columns = source.real + width / 2 - 0.5
    # No border appears: the pixels that are shown lie in the image.
    for positions, size in ((rows, height), (columns, width)):
        assert positions.min() > -0.5 and positions.max() < size - 0.5
    return sampled(image, rows, columns, "nearest")


@settings(max_examples=25, deadline=None)
@given(fill_mode=st.sampled_from(FILL_MODES), degrees=angles, seed=seeds)
def test_equals_scipys_rotate(fill_mode, degrees, seed):
    fill, mode = fill_mode
    image = random_image((13, 9, 3), seed)
    truth = ndimage.rotate(
        image.astype(float), degrees, reshape=False, order=1, mode=mode
    )
    assert_near(apply(rotation(fill=fill), image, degrees), truth, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(degrees=angles, seed=seeds)
def test_crop_shows_the_inscribed_rectangle(degrees, seed):
    image = random_image((9, 13, 3), seed)
    truth = scipy_crop(image, degrees, inscribed(13, 9, degrees))
    assert_near(apply(CROP, image, degrees), truth, atol=TOLERANCE)


def test_by_default_nothing_is_magnified():
    assert rotation() == rotation(-180, 180, fill="edge")


FACTORS = (1.0, 1.001, 1.1, 4 / 3, 1.5, 1.99, 2.0, 5.3, 12.0)


def scipy_zoom(image, factor):
    """In float64: output pixel i shows (i + 0.5 - centre) / factor + centre - 0.5."""
    centre = np.array(image.shape[:2]) / 2
    offset = (0.5 - centre) / factor + centre - 0.5
    return ndimage.affine_transform(
        image.astype(np.float64),
        [1 / factor, 1 / factor, 1],
        offset=[*offset, 0],
        order=1,
        mode="nearest",
    )


@pytest.mark.parametrize("factor", FACTORS)
def test_equals_scipys_affine_transform(factor):
    image = random_image((13, 9, 3))
    found = apply(zoom(1, 12), image, factor)
    assert_near(found, scipy_zoom(image, factor), atol=TOLERANCE)


def test_the_field_is_smoothed_as_by_scipy():
    uniform = np.random.default_rng(1).uniform(-1, 1, (2, 21, 30)).astype(np.float32)
    sigmas = 0.4, 3.0, 60.0
    fields = jax.jit(lambda *both: [smooth(Displacement(*both), at) for at in sigmas])
    for sigma, found in zip(sigmas, fields(*uniform)):
        for one, plane in zip(found, uniform):
            expected = ndimage.gaussian_filter(
                np.float64(plane), sigma, mode="reflect", truncate=3
            )
            np.testing.assert_allclose(one, expected, atol=2e-6)


def test_positions_are_those_of_scipys_map_coordinates():
    image = random_image((15, 22, 3))
    # Also far beyond the edges.
    by = np.random.default_rng(2).normal(0, 20, (2, 15, 22)).astype(np.float32)
    found = jax.jit(lambda by: warped(image, *displaced(Displacement(*by))))(by)
    places = np.mgrid[:15, :22] + np.float64(by)
    np.testing.assert_allclose(found, sampled(image, *places, "reflect"), atol=3e-5)


@pytest.mark.slow
def test_the_level_is_the_root_mean_square_of_the_displacement():
    image, deform = np.zeros((48, 64, 1)), elastic_deformation(0, 1, smoothness=2)

    @jax.jit
    @jax.vmap
    def fields(key):
        ((_, field),) = deform.prepared(image, key)
        return jnp.stack(field)

    found = np.asarray(fields(jax.random.split(random_key(21), 100)))
    # Means of some thousands of independent places.
    np.testing.assert_allclose(np.sqrt(np.square(found).mean((0, 2, 3))), 1, rtol=0.03)
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=0.05)
    # The mirrored edges move more.
    inner = np.sqrt(np.square(found[..., 20:28, 20:44]).mean((0, 2, 3)))
    assert (inner < 1).all() and (inner > 0.7).all()


def test_relative_levels_are_parts_of_the_shorter_side():
    image, key = random_image((40, 20, 3)), random_key(21)
    relative = elastic_deformation(0, 0.1, smoothness=0.2, unit="relative")
    pixels = elastic_deformation(0, 2, smoothness=4)
    both = jax.jit(lambda: (relative(image, 0.05, key), pixels(image, 1.0, key)))
    np.testing.assert_allclose(*both(), atol=1e-5)
