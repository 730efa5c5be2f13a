"""Alterations of images of any number of channels, such as multispectral ones."""

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations
from jaxrob.alterations import corruptions

CHANNELS = (1, 2, 3, 4, 5, 8, 16)
IMAGE = np.random.default_rng(0).random((12, 14, 16), dtype=np.float32)
# Each channel alone has the same result, because they act on places or on values.
OF_EACH_CHANNEL = {
    one.name: one
    for one in (
        alterations.brightness(-0.5, 0.5),
        alterations.contrast(),
        alterations.gaussian_blur(0, 2),
        alterations.defocus_blur(0, 2),
        alterations.pixelation(),
        alterations.horizontal_translation(-4, 4),
        alterations.vertical_translation(-4, 4, fill="edge"),
        alterations.rotation(-180, 180),
        alterations.zoom(1, 2),
    )
}
NOISE = {
    one.name: one
    for one in (
        alterations.gaussian_noise(0, 0.1),
        alterations.impulse_noise(),
        alterations.shot_noise(),
        alterations.speckle_noise(),
        alterations.elastic_deformation(),
        alterations.motion_blur(0, 3),
    )
}


def at(alteration, share=0.6):
    return alteration.lower + share * (alteration.upper - alteration.lower)


@pytest.mark.parametrize("name", OF_EACH_CHANNEL)
def test_each_channel_is_altered_alone(name):
    alteration = OF_EACH_CHANNEL[name]
    level, apply = at(alteration), jax.jit(alteration.__call__)
    alone = [apply(IMAGE[..., [one]], level) for one in range(16)]
    for number in CHANNELS:
        found = apply(IMAGE[..., :number], level)
        expected = np.concatenate(alone[:number], axis=-1)
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert not np.allclose(found, IMAGE[..., :number], atol=0.01)


# Each number compiles anew.
@pytest.mark.parametrize(
    "number",
    [pytest.param(one, marks=[pytest.mark.slow] * (one != 5)) for one in CHANNELS],
)
@pytest.mark.parametrize("name", NOISE)
def test_noise_takes_any_number_of_channels(name, number):
    alteration, key = NOISE[name], jax.random.key(0)
    image = IMAGE[..., :number]
    found = np.asarray(alteration(image, at(alteration), key))
    same = alteration(image, alteration.identity, key)
    np.testing.assert_array_equal(same, image)
    assert (
        found.shape == image.shape and -1e-6 <= found.min() <= found.max() <= 1 + 1e-6
    )
    assert (found != image).any(axis=(0, 1)).all()


@pytest.mark.parametrize("number", [2, 4, 5, 8, 16])
def test_what_is_about_colours_says_so_before_it_is_traced(number):
    image = IMAGE[..., :number]
    key = jax.random.key(0)
    for alteration, allowed in (
        (alterations.saturation(), "three channels"),
        (alterations.jpeg_compression(), "all that JPEG stores.*Leave it out"),
        (corruptions.snow(), "its luminance"),
        (corruptions.spatter(), "three channels"),
    ):
        name = alteration.name.replace(" ", ".")
        with pytest.raises(ValueError, match=f"{name}: .*{allowed}"):
            alteration(image, at(alteration), key)
    network = jaxrob.Classifier(
        lambda variables, images: images.mean(axis=(1, 2))[:, :2], None
    )
    data = jaxrob.Dataset(np.stack([image] * 4), np.zeros(4, int))
    with pytest.raises(ValueError, match=f"saturation.*got {number}"):
        jaxrob.evaluate(network, data, alterations.saturation(), [1.0])
