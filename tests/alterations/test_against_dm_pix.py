"""The alterations that dm-pix has, too: what its functions give.

None takes the place of ours: brightness adds, contrast and saturation are not exact at
their identity, blur and rotation take 50 to 190 times as long on a CPU.
"""

import functools

import dm_pix
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations

from .pictures import apply, assert_near, random_image


def rotate(mode):
    turn = functools.partial(dm_pix.rotate, order=1, mode=mode)
    return lambda image, level: turn(image, jnp.deg2rad(level))


# Ours, dm-pix's, levels, the largest difference.
TABLE = (
    # What adds multiplies a picture of one colour, here 0.5.
    (
        alterations.brightness,
        lambda x, y: dm_pix.adjust_brightness(x, y / 2),
        0.3,
        1e-6,
    ),
    (alterations.contrast, dm_pix.adjust_contrast, 0.7, 1e-6),
    (alterations.saturation, dm_pix.adjust_saturation, 0.4, 1e-6),
    # It ends after 15 pixels.
    (alterations.gaussian_blur, lambda x, y: dm_pix.gaussian_blur(x, y, 31), 2.0, 1e-4),
    # Outside the outermost centres it is black at once, ours fades: alike on a frame.
    (alterations.rotation, rotate("constant"), 25.0, 2e-5),
    (lambda: alterations.rotation(fill="edge"), rotate("nearest"), -30.0, 2e-5),
)


@pytest.mark.parametrize(("make", "theirs", "level", "atol"), TABLE)
def test_values_are_those_of_dm_pix(make, theirs, level, atol):
    ours, frame = make(), ((25, 25), (25, 25), (0, 0))
    image = np.round(random_image((24, 22, 3)) * 255) / np.float32(255)
    image = np.pad(image, frame)
    if ours.name == "brightness":
        image[:] = 0.5
    expected = jax.jit(lambda *both: theirs(*both).clip(0, 1))(image, level)
    assert_near(apply(ours, image, level), expected, atol=atol)
    np.testing.assert_array_equal(apply(ours, image, ours.identity), image)
