import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from jaxrob.alterations import defocus_blur

from .pictures import apply, random_image

# Spectra of images of values up to 1 have errors of some 1e-7 of their sum.
TOLERANCE = 5e-6


def disk(radius):
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    kernel = np.float64(x**2 + y**2 <= radius**2)
    return kernel / kernel.sum()


def convolved(image, kernel):
    planes = [
        ndimage.convolve(np.float64(image[..., k]), kernel, mode="mirror")
        for k in range(image.shape[-1])
    ]
    return np.stack(planes, -1)


# The first range uses shifts, the second a spectrum.
@pytest.mark.parametrize(("upper", "radii"), [(4, (1, 2, 4)), (9, (1, 5, 9))])
@pytest.mark.parametrize("shape", [(24, 31, 3), (13, 12, 1)])
def test_is_the_mean_over_a_disk_at_whole_radii(upper, radii, shape):
    image = random_image(shape)
    for radius in radii:
        found = apply(defocus_blur(0, upper), image, float(radius))
        expected = convolved(image, disk(radius))
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)


@pytest.mark.parametrize("upper", [3, 8])
def test_between_them_is_a_mixture(upper):
    image = random_image((20, 20, 3))
    blur = defocus_blur(0, upper)
    one, other = (np.asarray(apply(blur, image, level)) for level in (2.0, 3.0))
    found = np.asarray(apply(blur, image, 2.3))
    # The share before the disks of 13 and 29 pixels are divided by their sums.
    share = 0.3 * 29 / (0.7 * 13 + 0.3 * 29)
    expected = (1 - share) * one + share * other
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("upper", [4.0, 12.0])
def test_radius_0_is_the_image_and_gradients_are_finite(upper):
    image = jnp.asarray(random_image((17, 16, 3)))
    blur = defocus_blur(0, upper)
    np.testing.assert_array_equal(apply(blur, image, 0.0), image)
    slope = jax.jit(
        jax.grad(
            lambda x, r: jnp.square(blur.at_level(blur.prepared(x), r)).sum(), (0, 1)
        )
    )
    for radius in (0.0, 0.6, upper):
        assert all(np.isfinite(part).all() for part in slope(image, radius))


def test_relative_levels_are_parts_of_the_shorter_side():
    image = random_image((40, 20, 3))
    relative = defocus_blur(0, 0.2, unit="relative")
    found = apply(relative, image, 0.15)
    np.testing.assert_allclose(
        found, apply(defocus_blur(0, 4), image, 3.0), atol=TOLERANCE
    )
    assert relative.unit == "of the shorter side"
