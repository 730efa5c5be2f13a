import colorsys

import jax
import numpy as np
import pytest

from jaxrob.alterations import saturation

from .pictures import apply, random_image

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
