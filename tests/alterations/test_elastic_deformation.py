import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from jaxrob.alterations import elastic_deformation
from jaxrob.alterations._geometric import Displacement, displaced, smooth
from jaxrob.alterations._resample import warped

from .pictures import random_image, random_key


def test_the_field_is_smoothed_as_by_scipy():
    uniform = np.random.default_rng(1).uniform(-1, 1, (2, 21, 30)).astype(np.float32)
    sigmas = 0.4, 3.0, 60.0
    fields = jax.jit(lambda *both: [smooth(Displacement(*both), at) for at in sigmas])
    for sigma, found in zip(sigmas, fields(*uniform)):
        for one, plane in zip(found, uniform):
            expected = ndimage.gaussian_filter(
                np.float64(plane), sigma, mode="reflect", truncate=3
            )
            np.testing.assert_allclose(one, expected, atol=2e-6)


def test_positions_are_those_of_scipys_map_coordinates():
    image = random_image((15, 22, 3))
    # Also far beyond the edges.
    by = np.random.default_rng(2).normal(0, 20, (2, 15, 22)).astype(np.float32)
    found = jax.jit(lambda by: warped(image, *displaced(Displacement(*by))))(by)
    places = np.mgrid[:15, :22] + np.float64(by)
    for channel in range(3):
        expected = ndimage.map_coordinates(
            np.float64(image[..., channel]), places, order=1, mode="reflect"
        )
        np.testing.assert_allclose(np.asarray(found)[..., channel], expected, atol=3e-5)


@pytest.mark.slow
def test_the_level_is_the_root_mean_square_of_the_displacement():
    image, deform = np.zeros((48, 64, 1)), elastic_deformation(0, 1, smoothness=2)

    @jax.jit
    @jax.vmap
    def fields(key):
        ((_, field),) = deform.prepared(image, key)
        return jnp.stack(field)

    found = np.asarray(fields(jax.random.split(random_key(21), 100)))
    # Means of some thousands of independent places.
    np.testing.assert_allclose(np.sqrt(np.square(found).mean((0, 2, 3))), 1, rtol=0.03)
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=0.05)
    # The mirrored edges move more.
    inner = np.sqrt(np.square(found[..., 20:28, 20:44]).mean((0, 2, 3)))
    assert (inner < 1).all() and (inner > 0.7).all()


def test_relative_levels_are_parts_of_the_shorter_side():
    image, key = random_image((40, 20, 3)), random_key(21)
    relative = elastic_deformation(0, 0.1, smoothness=0.2, unit="relative")
    pixels = elastic_deformation(0, 2, smoothness=4)
    both = jax.jit(lambda: (relative(image, 0.05, key), pixels(image, 1.0, key)))
    np.testing.assert_allclose(*both(), atol=1e-5)
