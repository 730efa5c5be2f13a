"""Alterations of images of any number of channels, such as multispectral ones."""

import jax
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob.alterations import corruptions

from .pictures import apply, random_image, random_key

# Each channel alone has the same result, because they act on places or on values.
OF_EACH_CHANNEL = [
    alterations.brightness(-0.5, 0.5),
    alterations.contrast(),
    alterations.gaussian_blur(0, 2),
    alterations.defocus_blur(0, 2),
    alterations.pixelation(),
    alterations.horizontal_translation(-4, 4),
    alterations.vertical_translation(-4, 4, fill="edge"),
    alterations.rotation(-180, 180),
    alterations.zoom(1, 2),
]
NOISE = [
    alterations.gaussian_noise(0, 0.1),
    alterations.impulse_noise(),
    alterations.shot_noise(),
    alterations.speckle_noise(),
    alterations.elastic_deformation(),
    alterations.motion_blur(0, 3),
]


def at(alteration):
    return alteration.lower + 0.6 * (alteration.upper - alteration.lower)


@pytest.mark.slow
def test_each_channel_is_altered_alone_or_by_noise_of_its_own():
    image, key = random_image((12, 14, 5)), random_key(0)

    @jax.jit
    def altered(image):
        return [one(image, at(one)) for one in OF_EACH_CHANNEL]

    alone = [altered(image[..., [channel]]) for channel in range(5)]
    for index, found in enumerate(altered(image)):
        expected = np.concatenate([one[index] for one in alone], axis=-1)
        name = OF_EACH_CHANNEL[index].name
        np.testing.assert_allclose(found, expected, atol=2e-6, err_msg=name)
        assert not np.allclose(found, image, atol=0.01), name
    for noise in NOISE:
        found = np.asarray(apply(noise, image, at(noise), key))
        assert found.shape == image.shape
        assert -1e-6 <= found.min() and found.max() <= 1 + 1e-6, noise.name
        assert (found != image).any(axis=(0, 1)).all(), noise.name


@pytest.mark.parametrize(
    ("alteration", "number"),
    [
        (alterations.saturation(), 1),
        (alterations.jpeg_compression(), 2),
        (corruptions.saturate(), 1),
        (corruptions.saturate(), 4),
        (corruptions.snow(), 2),
        (corruptions.spatter(), 1),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_is_about_colours_says_so_before_it_is_traced(alteration, number):
    with pytest.raises(ValueError, match=f"{alteration.name.replace(' ', '.')}: image"):
        alteration(random_image((32, 32, number)), 0.5, random_key(0))
