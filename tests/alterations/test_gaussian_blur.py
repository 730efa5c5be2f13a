import jax
import numpy as np
import pytest
from scipy import ndimage

from jaxrob.alterations import gaussian_blur

from .pictures import apply, assert_near, random_image

# Twice the sum of two errors: the kernel is truncated at 5 times the range's upper end,
# beyond which lies a share of 6e-7 along each axis, and sums in float32 of values up to
# 1 have errors of a few 1e-7.
TOLERANCE = 3e-6


def scipy_blur(image, sigma):
    """Blurs in float64, with a kernel so wide that its truncation does not matter."""
    return ndimage.gaussian_filter(
        image.astype(np.float64), (sigma, sigma, 0), mode="nearest", truncate=10
    )


def test_equals_scipy_where_sigma_exceeds_the_image():
    image = random_image((13, 9, 3))
    for sigma in (0.5, 5.0, 12.0, 30.0):
        blurred = apply(gaussian_blur(0, 30), image, sigma)
        assert_near(blurred, scipy_blur(image, sigma), atol=TOLERANCE)


@pytest.mark.slow
def test_slope_in_sigma_is_scipys():
    image = random_image((13, 9, 3))

    def energy(sigma):
        return (gaussian_blur()(image, sigma) ** 2).sum()

    slope = jax.jit(jax.grad(energy))
    for sigma in (0.5, 1.0, 1.9):
        step = 1e-4
        high, low = (
            (scipy_blur(image, sigma + side) ** 2).sum() for side in (step, -step)
        )
        # The central difference is accurate to step**2; float32 sums of 351 squares to
        # 1e-4 of the slope.
        np.testing.assert_allclose(slope(sigma), (high - low) / (2 * step), rtol=1e-3)
