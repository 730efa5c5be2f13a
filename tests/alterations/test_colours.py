import colorsys

import jax
import numpy as np
import pytest
from PIL import Image, ImageEnhance

from jaxrob.alterations import brightness, contrast, saturation

from .pictures import apply, random_image


@pytest.mark.parametrize("level", [-0.5, -0.123, 0.0, 0.3, 0.5])
def test_equals_pillows_enhancer(level):
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 3), np.uint8)
    enhanced = ImageEnhance.Brightness(Image.fromarray(image)).enhance(1 + level)
    altered = apply(brightness(-1, 3), (image / 255).astype(np.float32), level)
    # Pillow drops the fraction of a byte; 1e-3 of a byte is float32's rounding.
    excess = np.asarray(altered) * 255 - np.asarray(enhanced)
    assert excess.min() > -1e-3
    assert excess.max() < 1 + 1e-3


@pytest.mark.parametrize("factor", [0.0, 0.3, 0.8, 1.0, 1.4])
def test_a_grey_image_is_as_pillow_makes_it(factor):
    image = np.random.RandomState(0).randint(60, 180, (20, 24, 1)).astype(np.uint8)
    enhanced = ImageEnhance.Contrast(Image.fromarray(image[..., 0])).enhance(factor)
    found = np.asarray(apply(contrast(0.0, 2.0), np.float32(image) / 255, factor)) * 255
    # Pillow rounds the mean, and truncates the result.
    assert np.abs(found[..., 0] - np.asarray(enhanced, float)).max() <= 1.6


def test_every_channel_keeps_its_mean_and_the_identity_its_bits():
    image = random_image((16, 16, 3))
    found = np.asarray(apply(contrast(0.0, 2.0), image, 0.4))
    np.testing.assert_allclose(found.mean((0, 1)), image.mean((0, 1)), atol=1e-6)
    np.testing.assert_allclose(found.std((0, 1)), 0.4 * image.std((0, 1)), rtol=1e-5)
    np.testing.assert_array_equal(apply(contrast(0.0, 2.0), image, 1.0), image)


STRONGER = saturation(0.0, 3.0)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.5, 3.0])
def test_hue_and_value_stay(factor):
    image = random_image((12, 12, 3))
    found = np.asarray(apply(STRONGER, image, factor))
    for before, after in zip(image.reshape(-1, 3), found.reshape(-1, 3)):
        hue, saturated, value = colorsys.rgb_to_hsv(*map(float, before))
        saturated = min(1.0, factor * saturated)
        expected = colorsys.hsv_to_rgb(hue, saturated, value)
        np.testing.assert_allclose(after, expected, atol=1e-5)
    if factor == 1:
        np.testing.assert_array_equal(found, image)


def test_grey_black_and_white_stay_and_have_finite_gradients():
    image = np.float32([0, 0.5, 1])[None, :, None].repeat(3, axis=-1)

    @jax.jit
    def altered_and_slopes(image, level):
        total = jax.grad(lambda *both: STRONGER(*both).sum(), (0, 1))
        return STRONGER(image, level), total(image, level)

    for level in (0.0, 0.5, 1.0, 2.0):
        altered, slopes = altered_and_slopes(image, level)
        np.testing.assert_array_equal(altered, image)
        assert all(np.isfinite(part).all() for part in slopes)
