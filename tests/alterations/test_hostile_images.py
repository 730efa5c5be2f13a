"""Alterations of images that are not float32 in [0, 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob.alterations import corruptions

KEY = jax.random.key(0)
IMAGE = np.random.default_rng(0).random((32, 32, 3), np.float32)
PHYSICAL = (
    "motion_blur", "defocus_blur", "elastic_deformation", "shot_noise", "contrast",
    "impulse_noise", "speckle_noise", "saturation", "pixelation", "jpeg_compression",
)  # fmt: skip
MADE = {name: getattr(alterations, name)() for name in PHYSICAL} | {
    f"corruptions.{name}": getattr(corruptions, name)(32)
    for name in corruptions.__all__
    if name != "frost"
}


def altered(alteration, image):
    return alteration(image, alteration.upper, KEY if alteration.stochastic else None)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_images_of_half_precision_are_altered(name, dtype):
    image = jax.ShapeDtypeStruct(IMAGE.shape, dtype)
    found = jax.eval_shape(lambda image: altered(MADE[name], image), image)
    assert found.shape == IMAGE.shape and jnp.issubdtype(found.dtype, jnp.floating)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    ("image", "says"),
    [
        (IMAGE[..., 0], "the axis of the channels is missing"),
        (IMAGE[None], r"must have the shape \[H, W, C\]"),
        (IMAGE[:0], r"must have the shape \[H, W, C\]"),
        ((IMAGE * 255).astype(np.uint8), "image must be floating, in"),
        (IMAGE > 0.5, "image must be floating, in"),
        (IMAGE.astype(complex), "image must be floating, in"),
        (IMAGE.tolist(), "image must be an array"),
    ],
)
def test_arrays_that_are_not_images_are_rejected(name, image, says):
    with pytest.raises((TypeError, ValueError), match=says):
        altered(MADE[name], image)


@pytest.mark.parametrize(
    "name", ["gaussian_noise", "speckle_noise", "shot_noise", "impulse_noise"]
)
def test_a_key_stands_for_the_same_noise_in_every_precision(name):
    alteration = getattr(alterations, name)()
    for dtype in (jnp.float16, jnp.bfloat16):
        image = jnp.asarray(IMAGE, dtype)
        # From the same values, so that the two results differ by one rounding.
        exact = np.asarray(altered(alteration, image.astype(jnp.float32)))
        found = altered(alteration, image)
        assert found.dtype == dtype
        off = np.abs(np.asarray(found, np.float32) - exact)
        assert (off <= jnp.finfo(dtype).eps / 2 * exact + 1e-7).all()
    # JAX warns about 64-bit types that it does not have enabled.
    found = altered(alteration, IMAGE.astype(np.float64))
    np.testing.assert_array_equal(found, altered(alteration, IMAGE))


def test_noise_on_integers_is_rejected():
    noise = alterations.gaussian_noise(clip=False)
    with pytest.raises(TypeError, match="image must be floating"):
        altered(noise, np.arange(4))


def test_nan_gives_no_photon_count():
    image = IMAGE.copy()
    image[3, 4, 1] = np.nan
    found = np.asarray(altered(alterations.shot_noise(), image))
    assert np.argwhere(np.isnan(found)).tolist() == [[3, 4, 1]]
