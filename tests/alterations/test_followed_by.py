"""An alteration followed by a fixed function that does not depend on the level."""

import io
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import RobustnessWarning, alterations, strategies
from jaxrob.alterations import corruptions, followed_by, presets
from jaxrob.alterations.corruptions._severity import truncation_to_bytes

from .pictures import random_image, random_key

IMAGE = random_image((32, 32, 3))


def halved(image):
    return image / 2


def test_it_is_named_after_both_and_takes_the_same_levels():
    found = followed_by(alterations.gaussian_blur(0, 2), halved)
    assert found.name == "gaussian blur followed by halved"
    assert (found.lower, found.upper, found.unit) == (0, 2, "px")


def test_every_level_but_the_identity_goes_through_the_function():
    found = followed_by(alterations.brightness(-0.5, 0.5), halved)
    levels, images = np.float32([-0.25, 0, 1e-6]), np.stack([IMAGE, 1 - IMAGE])
    over_images = jax.vmap(found, (0, None))
    altered = np.asarray(jax.jit(jax.vmap(over_images, (None, 0)))(images, levels))
    np.testing.assert_array_equal(altered[1], images)
    np.testing.assert_allclose(altered[0], images * 0.75 / 2, atol=1e-6)
    np.testing.assert_allclose(altered[2], images / 2, atol=1e-6)
    grey = np.full((2, 2, 1), 0.5, np.float32)
    slope = jax.jit(jax.grad(lambda level: found(grey, level).sum()))
    # d/dl of (1 + l) / 2 / 2 for each of four pixels; at the identity it is the image.
    assert slope(0.2) == pytest.approx(1.0) and np.isfinite(slope(0.0))


def test_a_corruption_draws_as_it_does_alone():
    noise = corruptions.gaussian_noise(32)
    found = followed_by(noise, halved, "noise of two")
    assert (found.name, found.stochastic) == ("noise of two", True)
    key = random_key(3)
    both = jax.jit(lambda: (found(IMAGE, 3.0, key), noise(IMAGE, 3.0, key) / 2))
    np.testing.assert_allclose(*both(), atol=1e-6)


def test_levels_of_one_effect_stay_one():
    jpeg = followed_by(alterations.jpeg_compression(), halved)
    assert list(jpeg.canonical([0, 0.2, 0.4, 10.2])) == [0, 0.25, 0.25, 10]


def test_published_form_is_what_pillow_stores():
    """ImageNet-C truncates to bytes, then saves an optimized JPEG of quality 85."""
    contrast = corruptions.contrast(64)
    published = next(one for one in presets_of_files(64) if one.name == contrast.name)
    contrast, published = jax.jit(contrast), jax.jit(published)
    for level in (0.5, 1.0, 5.0):
        altered = np.asarray(contrast(IMAGE, level))
        file = io.BytesIO()
        stored = Image.fromarray(np.uint8(255 * altered.astype(np.float64)))
        stored.save(file, "jpeg", quality=85, optimize=True)
        expected = np.asarray(Image.open(file))
        found = np.asarray(published(IMAGE, level)) * 255
        np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_array_equal(published(IMAGE, 0.0), IMAGE)


def test_bytes_are_kept_by_truncation():
    found = jax.jit(truncation_to_bytes)(np.float32(np.arange(256) / 255))
    np.testing.assert_array_equal(np.rint(np.asarray(found) * 255), np.arange(256))


def presets_of_files(size):
    with warnings.catch_warnings():
        # Frost may be missing.
        warnings.simplefilter("ignore", RobustnessWarning)
        return presets.imagenet_c(size, published=True)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"corruption": halved}, TypeError),
        ({"fixed": 3}, TypeError),
        ({"fixed": lambda: 0}, TypeError),
        ({"fixed": lambda image, level: image}, TypeError),
        ({"fixed": alterations.zoom()}, TypeError),
        ({"name": ""}, ValueError),
    ],
)
def test_wrong_arguments(change, error):
    given = {"corruption": alterations.gaussian_blur(), "fixed": halved}
    (name,) = change
    with pytest.raises(error, match=f"{name} must"):
        followed_by(**(given | change))


def test_functions_that_return_other_shapes_are_rejected():
    dim = alterations.brightness(-1, 0)
    for fixed, error in (
        (lambda image: image[:3], ValueError),
        (lambda image: jnp.uint8(255 * image), TypeError),
    ):
        with pytest.raises(error, match="fixed must return"):
            jax.eval_shape(followed_by(dim, fixed), IMAGE, -0.5)


def test_the_jump_beside_the_identity_is_named():
    """Rounding down darkens values just above the classifier's threshold."""
    labels = np.arange(100) % 2
    pixels = np.float32((100.5 + 2 * labels) / 255)
    dataset = jaxrob.Dataset(np.tile(pixels[:, None, None, None], (1, 8, 8, 1)), labels)

    def answers(variables, images):
        above = 1e4 * (images.mean((1, 2, 3)) - 102.25 / 255)
        return jnp.stack([0 * above, above], axis=1)

    dim = followed_by(alterations.brightness(-0.001, 0), truncation_to_bytes)
    words = "truncation to bytes"
    with pytest.warns(RobustnessWarning, match=f"is followed by {words} at any level"):
        result = jaxrob.assess(
            jaxrob.Classifier(answers), dataset, dim, strategy=strategies.Uniform(65)
        )
    assert result.provenance["settings"] == {"followed by": words}
