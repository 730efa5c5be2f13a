import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from jaxrob.alterations import gaussian_blur

from .pictures import apply, assert_near, random_image

# Twice the sum of two errors: the kernel is truncated at 5 times the range's upper end,
# beyond which lies a share of 6e-7 along each axis, and sums in float32 of values up to
# 1 have errors of a few 1e-7.
TOLERANCE = 3e-6

SHAPES = [(28, 28, 1), (28, 28, 3), (50, 50, 3), (3, 5, 3), (1, 9, 1), (9, 1, 3)]


def scipy_blur(image, sigma):
    """Blurs in float64, with a kernel so wide that its truncation does not matter."""
    return ndimage.gaussian_filter(
        image.astype(np.float64), (sigma, sigma, 0), mode="nearest", truncate=10
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_scipy_over_the_papers_range(shape):
    image = random_image(shape)
    for sigma in (1e-3, 0.04, 0.1, 0.25, 0.4, 0.75, 1.0, 1.3, 2.0):
        blurred = apply(gaussian_blur(0, 2), image, sigma)
        assert_near(blurred, scipy_blur(image, sigma), atol=TOLERANCE)


@pytest.mark.parametrize("shape", [(28, 28, 1), (3, 5, 3), (1, 9, 1)])
def test_equals_scipy_where_sigma_exceeds_the_image(shape):
    image = random_image(shape)
    for sigma in (0.5, 5.0, 12.0, 30.0):
        blurred = apply(gaussian_blur(0, 30), image, sigma)
        assert_near(blurred, scipy_blur(image, sigma), atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from([(28, 28, 1), (3, 5, 3)]),
    sigma=st.floats(0, 2, width=32),
    seed=st.integers(0, 1000),
)
def test_equals_scipy_at_any_sigma(shape, sigma, seed):
    image = random_image(shape, seed)
    # SciPy divides by sigma**2, which must not underflow.
    truth = scipy_blur(image, sigma) if sigma > 1e-3 else image
    assert_near(apply(gaussian_blur(), image, sigma), truth, atol=TOLERANCE)


def test_range_does_not_change_the_blur():
    image = random_image((28, 28, 3))
    narrow = apply(gaussian_blur(0, 1), image, 1.0)
    wide = apply(gaussian_blur(0, 2), image, 1.0)
    assert_near(narrow, wide, atol=TOLERANCE)


def test_range_narrower_than_a_pixel():
    image = random_image((28, 28, 3))
    blurred = apply(gaussian_blur(0, 0.15), image, 0.15)
    np.testing.assert_allclose(blurred, scipy_blur(image, 0.15), atol=TOLERANCE)


def test_channels_do_not_mix():
    image = random_image((28, 28, 3))
    blurred = apply(gaussian_blur(), image, 1.5)
    for channel in range(3):
        alone = apply(gaussian_blur(), image[..., [channel]], 1.5)
        np.testing.assert_allclose(blurred[..., [channel]], alone, atol=TOLERANCE)


def test_slope_in_sigma_is_scipys():
    image = random_image((28, 28, 1))

    def energy(sigma):
        return (gaussian_blur()(image, sigma) ** 2).sum()

    slope = jax.jit(jax.grad(energy))
    for sigma in (0.5, 1.0, 1.9):
        step = 1e-4
        high, low = (
            (scipy_blur(image, sigma + side) ** 2).sum() for side in (step, -step)
        )
        # The central difference is accurate to step**2; float32 sums of 784 squares to
        # 1e-4 of the slope.
        np.testing.assert_allclose(slope(sigma), (high - low) / (2 * step), rtol=1e-3)
