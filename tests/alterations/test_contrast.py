import numpy as np
import pytest
from PIL import Image, ImageEnhance

from jaxrob.alterations import contrast

from .pictures import apply, random_image


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
