import numpy as np
import pytest
from PIL import Image

from jaxrob.alterations import pixelation

from .pictures import apply, random_image

PIXELATE = pixelation(1.0, 60.0)


@pytest.mark.parametrize("length", [1.3, 2.1, 3.7, 8.0, 60.0])
def test_as_pillow_makes_it_smaller_and_larger(length):
    image = np.random.RandomState(0).randint(0, 256, (41, 56, 3)).astype(np.uint8)
    size = [max(1, int(side / length)) for side in (56, 41)]
    picture = Image.fromarray(image).resize(size, Image.Resampling.BOX)
    expected = picture.resize((56, 41), Image.Resampling.BOX)
    found = np.asarray(apply(PIXELATE, np.float32(image) / 255, length)) * 255
    # Pillow rounds after each axis. None of the lengths puts the edge of a new pixel on
    # an old one's centre, where its rounding decides which new pixel counts it.
    assert np.abs(found - np.asarray(expected, float)).max() < 1.001


def test_whole_blocks_are_their_means_and_the_identity_is_bit_for_bit():
    image = random_image((24, 36, 3))
    means = image.reshape(6, 4, 9, 4, 3).mean((1, 3))
    expected = means.repeat(4, 0).repeat(4, 1)
    np.testing.assert_allclose(apply(PIXELATE, image, 4.0), expected, atol=1e-6)
    np.testing.assert_array_equal(apply(PIXELATE, image, 1.0), image)
