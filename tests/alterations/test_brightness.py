import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from jaxrob.alterations import brightness

from .pictures import apply


def random_bytes(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def pillow_brightness(image, level):
    image = Image.fromarray(image.squeeze())
    return np.asarray(ImageEnhance.Brightness(image).enhance(1 + level))


@settings(max_examples=25, deadline=None)
@given(
    channels=st.sampled_from([1, 3]),
    level=st.floats(-0.5, 0.5, width=32),
    seed=st.integers(0, 1000),
)
def test_equals_pillows_enhancer(channels, level, seed):
    image = random_bytes((28, 28, channels), seed)
    altered = apply(brightness(), (image / 255).astype(np.float32), level)
    # Pillow drops the fraction of a byte; 1e-3 of a byte is float32's rounding.
    excess = np.asarray(altered).squeeze() * 255 - pillow_brightness(image, level)
    assert excess.min() > -1e-3
    assert excess.max() < 1 + 1e-3


@pytest.mark.parametrize("level, factor", [(-1.0, 0), (-0.5, 0.5), (1.0, 2), (3.0, 4)])
def test_level_is_a_relative_change(level, factor):
    # Values and factors that float32 holds exactly, so that no tolerance is needed.
    image = np.float32([0, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1]).reshape(2, 3, 1)
    expected = np.minimum(image * factor, 1)
    np.testing.assert_array_equal(apply(brightness(-1, 3), image, level), expected)


def test_the_lowest_level_is_black():
    image = np.ones((2, 3, 1), np.float32)
    assert not np.any(apply(brightness(-1, 0), image, -1.0))
