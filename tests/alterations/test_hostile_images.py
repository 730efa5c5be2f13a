"""What the corruptions do with images that are not float32 in [0, 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob.alterations import common

KEY = jax.random.key(0)
IMAGE = np.random.default_rng(0).random((32, 32, 3), np.float32)
PHYSICAL = (
    "motion_blur", "defocus_blur", "elastic_deformation", "shot_noise", "contrast",
    "impulse_noise", "speckle_noise", "saturation", "pixelation", "jpeg_compression",
)  # fmt: skip
MADE = {name: getattr(alterations, name)() for name in PHYSICAL} | {
    f"common.{name}": getattr(common, name)(32)
    for name in common.__all__
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
def test_what_is_no_image_is_refused(name, image, says):
    with pytest.raises((TypeError, ValueError), match=says):
        altered(MADE[name], image)


def test_what_is_no_number_is_no_count():
    image = IMAGE.copy()
    image[3, 4, 1] = np.nan
    found = np.asarray(altered(alterations.shot_noise(), image))
    assert np.argwhere(np.isnan(found)).tolist() == [[3, 4, 1]]
