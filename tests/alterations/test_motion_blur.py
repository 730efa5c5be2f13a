import jax
import numpy as np
import pytest
from scipy import stats

from jaxrob.alterations import motion_blur
from jaxrob.alterations._lens import Motion, moved, ready_for_line

from .pictures import apply, random_image, random_key

TOLERANCE = 2e-6


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
        return moved(image, ready_for_line(image, Motion(degrees), width), sigma, width)

    for degrees in (0.0, 33.0, -100.0, 180.0):
        expected = along_a_line(image, degrees, sigma, width)
        np.testing.assert_allclose(found(degrees), expected, atol=TOLERANCE)


def test_without_an_angle_it_moves_along_the_rows_by_parts_of_the_shorter_side():
    image = random_image((30, 10, 3))
    blur = motion_blur(0, 0.5, angle=0, unit="relative")
    found = apply(blur, image, 0.2, random_key(21))
    expected = along_a_line(image, 0.0, 2.0, 7)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


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
