"""Images and parameters that alterations reject, and images of half precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob._command.catalogue import NAMES
from jaxrob.alterations import corruptions

from .pictures import random_image, random_key

MAKERS = {name: getattr(alterations, name) for name in NAMES} | {
    f"corruptions.{name}": functools.partial(getattr(corruptions, name), 64)
    for name in corruptions.__all__
    if name != "frost"
}
SHAPE = (32, 32, 3)


def altered(alteration, image):
    key = random_key(0) if alteration.stochastic else None
    return alteration(image, alteration.upper, key)


@pytest.mark.parametrize("name", [name for name in MAKERS if "jpeg" not in name])
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


# Beyond the levels that a function names.
BEYOND = {
    "brightness": [(-1.01, 0.5)],
    "contrast": [(-0.1, 1.0)],
    "defocus_blur": [(-1, 1), (0, 1001)],
    "elastic_deformation": [(-1, 1)],
    "gaussian_blur": [(-1, 2), (0, 10_001)],
    "gaussian_noise": [(-0.1, 1)],
    "impulse_noise": [(0.0, 1.5)],
    "jpeg_compression": [(0, 101), (-1, 100)],
    "motion_blur": [(-1, 1), (0, 1001)],
    "pixelation": [(0.5, 2.0)],
    "zoom": [(0.5, 2), (-1, 2)],
}


def rejects(name, parameter):
    return pytest.raises(
        ValueError, match=f"{name.replace('_', '[_ ]')}: {parameter} must"
    )


@pytest.mark.parametrize("name", NAMES)
def test_ranges_that_are_empty_or_without_the_identity_or_too_large(name):
    make = getattr(alterations, name)
    lower, upper, identity = (
        getattr(make(), end) for end in ("lower", "upper", "identity")
    )
    between = [(identity + end) / 2 for end in (lower, upper)]
    wrong = [(upper, lower), (identity, identity), *BEYOND.get(name, ())]
    wrong += [(between[1], upper)] * (upper > identity)
    wrong += [(lower, between[0])] * (lower < identity)
    for ends in wrong:
        with rejects(name, "(lower|upper)"):
            make(*ends)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        *(("motion_blur", "angle", angle) for angle in (-1, 181, float("nan"))),
        *(("elastic_deformation", "smoothness", wrong) for wrong in (0, -1, 1e300)),
        ("defocus_blur", "unit", "mm"),
        ("rotation", "fill", "nearest"),
        ("horizontal_translation", "fill", "reflect"),
        ("vertical_translation", "unit", "pixels"),
    ],
)
def test_other_parameters(name, parameter, value):
    with rejects(name, parameter):
        getattr(alterations, name)(**{parameter: value})
