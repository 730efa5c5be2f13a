"""Random images and keys, one compiled program per alteration, absolute tolerances."""

import functools

import jax
import numpy as np

from jaxrob.alterations import Alteration

apply = jax.jit(Alteration.__call__, static_argnums=0)
assert_near = functools.partial(np.testing.assert_allclose, rtol=0)
# Made by the first test that needs it, since it starts a device.
random_key = functools.cache(jax.random.key)


def by_channel(function, image):
    """Applies it to each channel in float64, as `[H, W]`."""
    planes = np.moveaxis(np.float64(image), -1, 0)
    return np.stack([function(plane) for plane in planes], -1)


def random_image(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, np.float32)
