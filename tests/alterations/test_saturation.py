import colorsys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob.alterations import saturation

IMAGE = np.float32(np.random.RandomState(0).rand(12, 12, 3))
STRONGER = jax.jit(saturation(0.0, 3.0))


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.5, 3.0])
def test_hue_and_value_stay(factor):
    found = np.asarray(STRONGER(IMAGE, factor))
    for before, after in zip(IMAGE.reshape(-1, 3), found.reshape(-1, 3)):
        hue, saturated, value = colorsys.rgb_to_hsv(*map(float, before))
        saturated = min(1.0, factor * saturated)
        expected = colorsys.hsv_to_rgb(hue, saturated, value)
        np.testing.assert_allclose(after, expected, atol=1e-5)


def test_grey_black_and_white_stay_and_have_finite_gradients():
    image = np.float32([0, 0.5, 1])[None, :, None].repeat(3, axis=-1)
    alter = jax.jit(saturation())
    total = jax.jit(jax.grad(lambda image, level: alter(image, level).sum(), (0, 1)))
    for level in (0.0, 0.5, 1.0, 2.0):
        np.testing.assert_array_equal(alter(image, level), image)
        assert all(np.isfinite(part).all() for part in total(image, level))


def test_the_identity_is_bit_for_bit_and_grey_images_are_refused():
    many = jax.jit(jax.vmap(saturation().at_level, (None, 0)))
    found = many((IMAGE,), jnp.float32([1, 2]))
    np.testing.assert_array_equal(found[0], IMAGE)
    with pytest.raises(ValueError, match="saturation: image must have three channels"):
        saturation()(IMAGE[..., :1], 0.5)
