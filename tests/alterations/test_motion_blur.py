import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrob.alterations import motion_blur
from jaxrob.alterations._motion_blur import Motion, moved, ready

from .pictures import apply, random_image

KEY = jax.random.key(21)
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
@pytest.mark.parametrize("degrees", [0.0, 33.0, -100.0, 180.0])
def test_is_half_a_gaussian_along_a_line(sigma, width, degrees):
    image = random_image((22, 19, 3))
    motion = Motion(jnp.float32(degrees))

    @jax.jit
    def found(image):
        return moved(image, ready(image, motion, width), sigma, width)

    expected = along_a_line(image, degrees, sigma, width)
    np.testing.assert_allclose(found(image), expected, atol=TOLERANCE)


def test_without_an_angle_it_moves_along_the_rows():
    image = random_image((9, 30, 3))
    found = apply(motion_blur(0, 4, angle=0), image, 2.0, KEY)
    expected = along_a_line(image, 0.0, 2.0, 7)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)


def test_directions_are_even_within_the_angle():
    blur = motion_blur(0, 20, angle=30)
    point = jnp.zeros((61, 61, 1)).at[30, 50].set(1.0)

    @jax.jit
    @jax.vmap
    def slopes(key):
        # The position of the farthest tap.
        image = blur.at_level(blur.prepared(point, key), 10.0)
        return image[:, 25, 0].argmax() - 30

    drop = np.asarray(slopes(jax.random.split(KEY, 400)))
    degrees = np.rad2deg(np.arctan2(-drop, 25))
    # Rows are whole numbers, so the angle is accurate to about two degrees.
    assert abs(degrees).max() <= 32
    assert stats.kstest(degrees / 30, "uniform", (-1, 2)).statistic < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("upper", [4.0, 40.0])
def test_level_0_is_the_image_and_gradients_are_finite(upper):
    image = jnp.asarray(random_image((17, 16, 3)))
    blur = motion_blur(0, upper)
    np.testing.assert_array_equal(apply(blur, image, 0.0, KEY), image)

    def energy(image, level):
        return jnp.square(blur.at_level(blur.prepared(image, KEY), level)).sum()

    slope = jax.jit(jax.grad(energy, (0, 1)))
    for level in (0.0, 0.6, upper):
        assert all(np.isfinite(part).all() for part in slope(image, level))


def test_range_does_not_change_the_picture():
    image = random_image((20, 20, 3))
    short, long = (apply(motion_blur(0, up), image, 1.5, KEY) for up in (2.0, 5.0))
    np.testing.assert_allclose(short, long, atol=TOLERANCE)


def test_relative_levels_are_parts_of_the_shorter_side():
    image = random_image((40, 20, 3))
    found = apply(motion_blur(0, 0.2, unit="relative"), image, 0.15, KEY)
    np.testing.assert_allclose(
        found, apply(motion_blur(0, 4), image, 3.0, KEY), atol=TOLERANCE
    )
