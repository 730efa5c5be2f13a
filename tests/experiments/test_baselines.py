"""The baselines of jaxrob's speed alter images in the same way."""

import jax
import numpy as np
import pytest
from common import baselines

from jaxrob import alterations

DETERMINISTIC = [a for a in alterations.presets.cnn_2020() if not a.stochastic]


@pytest.mark.slow
@pytest.mark.parametrize("alteration", DETERMINISTIC, ids=lambda a: a.name)
def test_opencv_alters_as_jaxrob(alteration):
    # Smooth, because rounding matters most at edges.
    y, x = np.mgrid[:20, :24][..., None] / 20
    image = (127 + 60 * np.sin(4 * x + 3 * y) + 60 * y).astype(np.uint8)
    for level in (alteration.lower, alteration.upper):
        theirs = baselines.opencv_alter(alteration, image.shape, float(level))(image)
        ours = jax.jit(alteration)(image.astype(np.float32) / 255, level)
        off = np.abs(theirs.reshape(image.shape) - 255 * np.asarray(ours))
        # OpenCV rounds to bytes, and positions to 1/32 of a pixel.
        assert off.max() < 2


def test_opencv_noise_has_the_variance():
    noise = next(a for a in alterations.presets.cnn_2020() if a.stochastic)
    image = np.full((200, 200, 1), 128, np.uint8)
    altered = baselines.opencv_alter(noise, image.shape, noise.upper)(image)
    assert np.var(altered / 255) == pytest.approx(noise.upper, rel=0.05)
    assert altered.mean() == pytest.approx(128, abs=0.5)
