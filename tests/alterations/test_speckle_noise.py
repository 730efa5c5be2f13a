import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob.alterations import gaussian_noise, speckle_noise

KEY = jax.random.key(5)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.4])
def test_the_deviation_is_a_share_of_the_value(value):
    found = np.asarray(speckle_noise()(jnp.full((200, 200, 1), value), 0.2, KEY))
    np.testing.assert_allclose(found.std(), 0.2 * value, rtol=0.02)
    np.testing.assert_allclose(found.mean(), value, atol=1e-3)


def test_on_grey_it_is_the_normal_noise_of_that_variance():
    image = jnp.full((32, 32, 3), 0.5)
    expected = gaussian_noise(0.0, 1.0)(image, 0.1**2, KEY)
    np.testing.assert_allclose(speckle_noise()(image, 0.2, KEY), expected, atol=1e-6)


def test_the_identity_is_bit_for_bit():
    image = jax.random.uniform(KEY, (16, 16, 3))
    np.testing.assert_array_equal(speckle_noise()(image, 0.0, KEY), image)
