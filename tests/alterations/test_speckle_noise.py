import numpy as np

from jaxrob.alterations import gaussian_noise, speckle_noise

from .pictures import apply, random_key

SHAPE = (100, 100, 3)


def test_the_deviation_is_a_share_of_the_value():
    image = np.zeros(SHAPE, np.float32) + np.float32([0.0, 0.1, 0.4])
    found = np.asarray(apply(speckle_noise(), image, 0.2, random_key(5)), np.float64)
    for channel, value in enumerate((0.0, 0.1, 0.4)):
        one = found[..., channel]
        np.testing.assert_allclose(one.std(), 0.2 * value, rtol=0.03)
        np.testing.assert_allclose(one.mean(), value, atol=2e-3)
    same = apply(speckle_noise(), image, 0.0, random_key(5))
    np.testing.assert_array_equal(same, image)


def test_on_grey_it_is_the_normal_noise_of_that_variance():
    image, key = np.full(SHAPE, 0.5, np.float32), random_key(5)
    expected = apply(gaussian_noise(0.0, 1.0), image, 0.1**2, key)
    found = apply(speckle_noise(), image, 0.2, key)
    np.testing.assert_allclose(found, expected, atol=1e-6)
