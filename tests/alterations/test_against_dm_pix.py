"""The alterations that dm-pix has, too: what its functions give, and at which levels.

None takes the place of ours: brightness adds, contrast and saturation are not exact at
their identity, blur and rotation take 50 to 190 times as long on a CPU.
"""

import dm_pix
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations

from .pictures import apply, assert_near, random_image

# Ours, dm-pix's, its argument for our level, levels, the largest difference.
TABLE = {
    "brightness": (
        alterations.brightness(),
        # It adds: each channel of one colour is multiplied.
        lambda image, level: jnp.clip(dm_pix.adjust_brightness(image, level), 0, 1),
        lambda level: level * 0.5,
        (-0.5, 0.3),
        1e-6,
    ),
    "contrast": (
        alterations.contrast(),
        lambda image, factor: jnp.clip(dm_pix.adjust_contrast(image, factor), 0, 1),
        lambda level: level,
        (0.1, 0.7, 1.0),
        1e-6,
    ),
    "saturation": (
        alterations.saturation(),
        dm_pix.adjust_saturation,
        lambda level: level,
        (0.0, 0.4, 1.0),
        1e-6,
    ),
    # It is black beyond the borders, and ends after 15 pixels.
    "gaussian_blur": (
        alterations.gaussian_blur(0, 3),
        lambda image, sigma: dm_pix.gaussian_blur(image, sigma, 31),
        lambda level: level,
        (0.5, 2.0),
        1e-4,
    ),
    # Outside the outermost centres it is black at once, ours fades: alike on a frame.
    "rotation": (
        alterations.rotation(fill="constant"),
        lambda image, angle: dm_pix.rotate(image, angle, order=1, mode="constant"),
        jnp.deg2rad,
        (-30.0, 25.0),
        1e-5,
    ),
    "rotation, edge": (
        alterations.rotation(fill="edge"),
        lambda image, angle: dm_pix.rotate(image, angle, order=1, mode="nearest"),
        jnp.deg2rad,
        (-30.0, 25.0),
        1e-5,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_values_are_those_of_dm_pix(name):
    ours, theirs, argument, levels, atol = TABLE[name]
    image = np.round(random_image((24, 22, 3)) * 255) / np.float32(255)
    image[(0, 1, -2, -1), :] = image[:, (0, 1, -2, -1)] = 0
    inside = slice(None)
    if name == "brightness":
        image[:] = 0.5
    elif name == "gaussian_blur":
        image, inside = np.pad(image, ((30, 30), (30, 30), (0, 0))), slice(20, -20)
    theirs = jax.jit(theirs)
    for level in levels:
        found, expected = apply(ours, image, level), theirs(image, argument(level))
        assert_near(found[inside, inside], expected[inside, inside], atol=atol)
    same = apply(ours, image, ours.identity)
    np.testing.assert_array_equal(same, image)
