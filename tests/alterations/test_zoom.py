import functools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from jaxrob.alterations import zoom

from .pictures import apply, assert_near, random_image

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1: measured 5e-6 at 50 pixels.
TOLERANCE = 2e-5

SHAPES = [(28, 28, 1), (50, 50, 3), (3, 5, 3), (1, 9, 1)]
FACTORS = (1.0, 1.001, 1.1, 4 / 3, 1.5, 1.99, 2.0)


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


def pillow_zoom(image, factor):
    height, width, channels = image.shape
    x, y = width / 2 * (1 - 1 / factor), height / 2 * (1 - 1 / factor)
    planes = [
        Image.fromarray(np.ascontiguousarray(image[..., channel])).resize(
            (width, height),
            Image.Resampling.BILINEAR,
            box=(x, y, width - x, height - y),
        )
        for channel in range(channels)
    ]
    return np.stack([np.asarray(plane) for plane in planes], -1)


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_scipys_affine_transform(shape):
    image = random_image(shape)
    for factor in FACTORS:
        assert_near(
            apply(zoom(), image, factor), scipy_zoom(image, factor), atol=TOLERANCE
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_pillows_crop_and_resize(shape):
    image = random_image(shape)
    for factor in FACTORS:
        # Pillow takes the box in float32 and rounds between its two passes, so its
        # positions have the same error: the sum of both.
        assert_near(
            apply(zoom(), image, factor), pillow_zoom(image, factor), atol=2 * TOLERANCE
        )


def test_equals_jaxs_scale_and_translate():
    image = random_image((28, 28, 3))
    scaled = jax.jit(
        functools.partial(
            jax.image.scale_and_translate,
            shape=image.shape,
            spatial_dims=(0, 1),
            method="linear",
            antialias=False,
        )
    )
    for factor in FACTORS:
        truth = scaled(
            image,
            scale=np.array([factor, factor], np.float32),
            translation=np.array([14, 14], np.float32) * np.float32(1 - factor),
        )
        # Both have float32 errors.
        assert_near(apply(zoom(), image, factor), truth, atol=2 * TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from([(28, 28, 1), (3, 5, 3)]),
    factor=st.floats(1, 12, width=32),
    seed=st.integers(0, 1000),
)
def test_equals_scipy_at_any_factor(shape, factor, seed):
    image = random_image(shape, seed)
    assert_near(
        apply(zoom(1, 12), image, factor), scipy_zoom(image, factor), atol=TOLERANCE
    )


def test_never_shows_what_lies_outside():
    image = np.ones((7, 10, 3), np.float32)
    for factor in (1.0, 1.0001, 1.3, 2.0):
        # A weight lost because a position fell outside would darken the border; weights
        # sum to 1 up to the rounding of a few products.
        assert_near(apply(zoom(), image, factor), 1, atol=1e-6)
