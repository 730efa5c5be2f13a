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
def test_is_the_mean_over_a_disk_and_a_mixture_between_whole_radii(upper, radii):
    image, blur = random_image((13, 12, 3)), defocus_blur(0, upper)
    for radius in radii:
        found = apply(blur, image, float(radius))
        expected = convolved(image, disk(radius))
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    one, other = (np.asarray(apply(blur, image, level)) for level in (2.0, 3.0))
    # The share before the disks of 13 and 29 pixels are divided by their sums.
    share = 0.3 * 29 / (0.7 * 13 + 0.3 * 29)
    found, expected = apply(blur, image, 2.3), (1 - share) * one + share * other
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


def test_relative_levels_are_parts_of_the_shorter_side():
    image = random_image((40, 20, 1))
    relative = defocus_blur(0, 0.2, unit="relative")
    found, expected = apply(relative, image, 0.15), convolved(image, disk(3))
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert relative.unit == "of the shorter side"
