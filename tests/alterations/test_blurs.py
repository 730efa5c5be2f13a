import jax
import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from jaxrob.alterations import defocus_blur, gaussian_blur, motion_blur, pixelation
from jaxrob.alterations._lens import moved, ready_for_line

from .pictures import apply, assert_near, by_channel, random_image, random_key

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
    expected = image.reshape(6, 4, 9, 4, 3).mean((1, 3)).repeat(4, 0).repeat(4, 1)
    np.testing.assert_allclose(apply(PIXELATE, image, 4.0), expected, atol=1e-6)
    np.testing.assert_array_equal(apply(PIXELATE, image, 1.0), image)


# Spectra of images of values up to 1 have errors of some 1e-7 of their sum.
DISK_TOLERANCE = 5e-6


def disk(radius):
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    kernel = np.float64(x**2 + y**2 <= radius**2)
    return kernel / kernel.sum()


def convolved(image, kernel):
    return by_channel(
        lambda plane: ndimage.convolve(plane, kernel, mode="mirror"), image
    )


# The first range uses shifts, the second a spectrum.
@pytest.mark.parametrize(("upper", "radii"), [(4, (1, 2, 4)), (9, (1, 5, 9))])
def test_is_the_mean_over_a_disk_and_a_mixture_between_whole_radii(upper, radii):
    image, blur = random_image((13, 12, 3)), defocus_blur(0, upper)
    for radius in radii:
        found = apply(blur, image, float(radius))
        expected = convolved(image, disk(radius))
        np.testing.assert_allclose(found, expected, atol=DISK_TOLERANCE)
    one, other = (np.asarray(apply(blur, image, level)) for level in (2.0, 3.0))
    # The share before the disks of 13 and 29 pixels are divided by their sums.
    share = 0.3 * 29 / (0.7 * 13 + 0.3 * 29)
    found, expected = apply(blur, image, 2.3), (1 - share) * one + share * other
    np.testing.assert_allclose(found, expected, atol=DISK_TOLERANCE)


def test_relative_levels_are_parts_of_the_shorter_side():
    image = random_image((40, 20, 1))
    relative = defocus_blur(0, 0.2, unit="relative")
    found, expected = apply(relative, image, 0.15), convolved(image, disk(3))
    np.testing.assert_allclose(found, expected, atol=DISK_TOLERANCE)
    assert relative.unit == "of the shorter side"


LINE_TOLERANCE = 2e-6


def along_a_line(image, degrees, sigma, width):
    """Adds tap after tap, from rows and columns clipped to the image."""
    height, across, _ = image.shape
    total, sum_of_weights = np.zeros(image.shape), 0.0
    for tap in range(width):
        weight = stats.norm.pdf(tap, scale=sigma)
        y = np.ceil(tap * np.sin(np.deg2rad(degrees)) - 0.5).astype(int)
        x = np.ceil(tap * np.cos(np.deg2rad(degrees)) - 0.5).astype(int)
        rows = np.clip(np.arange(height) + y, 0, height - 1)
        columns = np.clip(np.arange(across) + x, 0, across - 1)
        total += weight * image[rows][:, columns]
        sum_of_weights += weight
    return total / sum_of_weights


# The second has so many taps that it uses a spectrum.
@pytest.mark.parametrize(("sigma", "width"), [(4.0, 13), (50.0, 121)])
def test_is_half_a_gaussian_along_a_line(sigma, width):
    image = random_image((22, 19, 3))

    @jax.jit
    def found(degrees):
        return moved(image, ready_for_line(image, degrees, width), sigma, width)

    for degrees in (0.0, 33.0, -100.0, 180.0):
        expected = along_a_line(image, degrees, sigma, width)
        np.testing.assert_allclose(found(degrees), expected, atol=LINE_TOLERANCE)


def test_without_an_angle_it_moves_along_the_rows_by_parts_of_the_shorter_side():
    image = random_image((30, 10, 3))
    blur = motion_blur(0, 0.5, angle=0, unit="relative")
    found = apply(blur, image, 0.2, random_key(21))
    expected = along_a_line(image, 0.0, 2.0, 7)
    np.testing.assert_allclose(found, expected, atol=LINE_TOLERANCE)


def test_directions_are_even_within_the_angle():
    blur = motion_blur(0, 10, angle=30)
    corner = np.zeros((1, 1, 1), np.float32)

    @jax.jit
    @jax.vmap
    def farthest(key):
        ((_, line),) = blur.prepared(corner, key)
        return line.rows[-1], line.columns[-1]

    rows, columns = farthest(jax.random.split(random_key(21), 400))
    degrees = np.rad2deg(np.arctan2(rows, columns))
    # Rows are whole numbers, so the angle is accurate to about two degrees.
    assert abs(degrees).max() <= 32
    assert stats.kstest(degrees / 30, "uniform", (-1, 2)).statistic < 0.12
