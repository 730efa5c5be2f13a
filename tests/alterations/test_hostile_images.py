"""Alterations of images that are not float32 in [0, 1]."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob.alterations import corruptions

from .pictures import random_image, random_key

PAPERS = ("gaussian_blur", "zoom", "rotation", "horizontal_translation")
PHYSICAL = (
    "motion_blur", "defocus_blur", "elastic_deformation", "shot_noise", "contrast",
    "impulse_noise", "speckle_noise", "saturation", "pixelation", "jpeg_compression",
)  # fmt: skip
MAKERS = {name: getattr(alterations, name) for name in (*PAPERS, *PHYSICAL)} | {
    f"corruptions.{name}": functools.partial(getattr(corruptions, name), 64)
    for name in corruptions.__all__
    if name != "frost"
}
SHAPE = (32, 32, 3)


def altered(alteration, image):
    key = random_key(0) if alteration.stochastic else None
    return alteration(image, alteration.upper, key)


# The others are the library's alterations, by severity.
OWN_CODE = (
    "brightness", "elastic_transform", "fog", "glass_blur", "motion_blur", "snow",
    "spatter",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [*PHYSICAL[:-1], *(f"corruptions.{name}" for name in OWN_CODE)]
)
def test_images_of_half_precision_are_altered(name):
    random_key(0)
    image = jax.ShapeDtypeStruct(SHAPE, jnp.bfloat16)
    found = jax.eval_shape(lambda image: altered(MAKERS[name](), image), image)
    assert found.shape == SHAPE and jnp.issubdtype(found.dtype, jnp.floating)


@pytest.mark.parametrize("name", MAKERS)
def test_an_image_without_channels_is_rejected(name):
    with pytest.raises(ValueError, match="image must .*channels"):
        altered(MAKERS[name](), random_image((32, 32)))


IMAGE = random_image((4, 4, 3))


@pytest.mark.parametrize("name", ["contrast", "shot_noise", "corruptions.fog"])
@pytest.mark.parametrize(
    ("image", "error"),
    [
        (IMAGE[None], ValueError),
        (IMAGE[:0], ValueError),
        (np.uint8(255 * IMAGE), TypeError),
        (IMAGE > 0.5, TypeError),
        (IMAGE.tolist(), TypeError),
    ],
)
def test_arrays_that_are_not_images_are_rejected(name, image, error):
    with pytest.raises(error, match="image must"):
        altered(MAKERS[name](), image)


def test_noise_on_integers_is_rejected():
    with pytest.raises(TypeError, match="image must be floating"):
        altered(alterations.gaussian_noise(clip=False), np.arange(4))


@pytest.mark.slow
def test_a_key_stands_for_the_same_noise_in_every_precision():
    key, image = random_key(0), random_image((12, 12, 3))
    noises = [
        getattr(alterations, name)()
        for name in ("gaussian_noise", "speckle_noise", "shot_noise", "impulse_noise")
    ]

    @jax.jit
    def at_all(image):
        return [noise(image, noise.upper, key) for noise in noises]

    half = image.astype(jnp.bfloat16)
    # From the same values, so that the two results differ by one rounding.
    for exact, found in zip(at_all(np.float32(half)), at_all(half)):
        assert found.dtype == jnp.bfloat16
        off = np.abs(np.float32(found) - np.asarray(exact))
        assert (off <= float(jnp.finfo(jnp.bfloat16).eps) / 2 * exact + 1e-7).all()
