"""Ranges in another unit, and images and parameters that alterations reject."""

import dataclasses
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import RobustnessWarning, alterations, data
from jaxrob._command.catalogue import NAMES
from jaxrob._dataset import value_doubt
from jaxrob._engine.preflight import _check_images, _check_values
from jaxrob.alterations import corruptions
from jaxrob.alterations._alteration import doubts

from .pictures import random_image, random_key

SHAPE = (28, 28, 1)
RIGHT = alterations.horizontal_translation
DATA = jaxrob.Dataset(
    np.random.default_rng(0).integers(0, 256, (12, *SHAPE), dtype=np.uint8),
    np.arange(12) % 3,
)
CLASSIFIER = jaxrob.Classifier(
    lambda variables, images: 9 * images.reshape(len(images), -1)[:, :3], None
)


@pytest.mark.parametrize(
    "alteration, text",
    [
        (alterations.gaussian_noise(0, 25), "0.000384"),
        (alterations.gaussian_noise(0, 25, clip=False), "deviation of 5"),
        (alterations.gaussian_blur(0, 28), "28 x 28 px"),
        (RIGHT(-28, 0), "out of sight"),
        (RIGHT(-0.2, 1.0, unit="relative"), "out of sight"),
        (alterations.rotation(-np.pi / 12, np.pi / 12), "-15, 15"),
        (alterations.rotation(0, np.pi), "0, 180"),
        (alterations.rotation(), "a range .*-180, 180"),
        (alterations.rotation(-15), "both ends .*-15, 180"),
        (alterations.brightness(-0.5, 50), "100, 0.5"),
        (alterations.rescale(alterations.gaussian_noise(0, 25), 0, 1), "variance"),
    ],
)
def test_ranges_in_another_unit(alteration, text):
    (found,) = doubts(alteration, SHAPE)
    assert re.match(f"{alteration.name}: .*{text}", found)


@pytest.mark.parametrize(
    "alteration",
    [
        *alterations.presets.cnn_2020(),
        *alterations.presets.asap_2022("idc"),
        *alterations.presets.bnn_2024(),
        alterations.gaussian_noise(0, 0.3),
        alterations.gaussian_blur(0, 8.0),
        alterations.brightness(-1, 4.0),
        RIGHT(-10, 10),
        alterations.rotation(-0.5, 0.5),
        alterations.rotation(-1.047, 3),
        alterations.rotation(0, 0.26),
        alterations.rotation(-15, 15),
        # A user's own.
        jaxrob.Alteration("gaussian noise", lambda x, level: x, 0.0, 25.0),
    ],
    ids=lambda one: f"{one.name} {one.lower:.3g} {one.upper:.3g}",
)
def test_usual_ranges_are_not_doubted(alteration):
    assert doubts(alteration, SHAPE) == doubts(alteration, (50, 50, 3)) == []


def test_a_users_alteration_may_define_doubts():
    def darkens_all(lower, upper, shape):
        return f"{shape[1]} columns are black" if upper >= shape[1] else None

    def covering(upper):
        about = alterations.About("black columns", doubt=darkens_all)
        return jaxrob.Alteration("bar", lambda x, level: x, 0.0, upper, about=about)

    expected = ["bar: 28 columns are black"]
    assert doubts(covering(27.0), SHAPE) == doubts(covering(99.0), (28,)) == []
    bar = covering(28.0)
    assert doubts(bar, SHAPE) == doubts(dataclasses.replace(bar), SHAPE) == expected
    both = alterations.compose([alterations.gaussian_noise(0, 25), bar], name="both")
    others = alterations.rescale(bar, 0, 1), alterations.followed_by(bar, jnp.sqrt)
    assert all(doubts(one, SHAPE) == expected for one in others)
    first, second = doubts(both, SHAPE)
    assert first.startswith("gaussian noise: a variance") and [second] == expected
    # `about` is not part of the computation.
    silent = dataclasses.replace(bar, about=alterations.About())
    assert bar == silent and hash(bar) == hash(silent)
    assert bar.description == silent.description


@pytest.mark.parametrize(
    ("parts", "error", "name"),
    [
        ({"level": 3}, TypeError, "level"),
        ({"parameters": ["fill"]}, TypeError, "parameters"),
        ({"parameters": {"fill": None}}, TypeError, "parameters: fill"),
        ({"parameters": {"a": math.nan}}, ValueError, "parameters: a"),
        ({"parameters": {1: 2}}, TypeError, "parameters: names"),
        ({"words": {"fill": 3}}, TypeError, "words: fill"),
        ({"words": {1: "x"}}, TypeError, "words: names"),
        ({"words": {"level": "another"}}, ValueError, "words"),
        ({"doubt": "always"}, TypeError, "doubt"),
        ({"size_matters": 1}, TypeError, "size_matters"),
    ],
)
def test_wrong_descriptions(parts, error, name):
    with pytest.raises(error, match=f"about: {name}"):
        alterations.About(**parts)


def test_about_must_not_be_a_text():
    with pytest.raises(TypeError, match="own: about"):
        jaxrob.Alteration("own", lambda x, level: x, 0.0, 1.0, about="a text")  # pyright: ignore


def own(fn, **parts):
    return jaxrob.Alteration("own", fn, 0.0, 1.0, **parts)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (
            lambda x, level: x + (level > 0.4) * (1 - x) * (1 + level),
            r"leaves \[0, 1\].* to 2, first at level 0\.5",
        ),
        (lambda x, level: x - (level > 0.6), r"leaves \[0, 1\].* first at level 1\."),
        (
            lambda x, level: x * jnp.sqrt(1 - level * (level > 0.6) * 2),
            "makes NaN .* at level 1",
        ),
    ],
    ids=["above", "below", "NaN"],
)
def test_an_own_alteration_that_leaves_the_range_of_pixels(fn, says):
    with pytest.warns(RobustnessWarning, match=says):
        _check_values(own(fn), np.float32([[[0.5], [0.0]]]))


def test_leaving_the_range_on_purpose_raises_no_doubt():
    about = alterations.About(leaves_range=True)
    _check_values(own(lambda x, level: x + level, about=about), np.ones((1, 2, 1)))
    noise = alterations.gaussian_noise(0, 0.04, clip=False)
    both = alterations.compose([alterations.gaussian_blur(), noise])
    assert noise.about.leaves_range and both.about.leaves_range
    assert not alterations.gaussian_noise(0, 0.04).about.leaves_range


BLACK_AND_WHITE = (DATA.images > 99).astype(np.uint8)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (BLACK_AND_WHITE, "bytes of 0 and 1"),
        (np.float32(BLACK_AND_WHITE), None),
        (BLACK_AND_WHITE * 255, None),
        (np.float32(DATA.images) / 255 / 255, "divided by 255 twice"),
        (DATA.images // 16, "no value is above 15 of 255"),
        (np.float32(DATA.images // 16) / 255, "no value is above 0.0588 of 1"),
        (DATA.images[:, 0, :, 0] / 255 / 16, None),
        (np.zeros((12, 8, 8, 1)), "all values of dataset are 0"),
        (np.full((12, 8, 8, 1), 7, np.uint8), "all values of dataset are 7"),
    ],
)
def test_images_with_doubtful_values(images, says):
    found = value_doubt(jaxrob.Dataset(images, DATA.labels))
    assert says in found if says else found is None


def test_images_that_must_be_read_are_looked_at_when_they_have_been(tmp_path):
    np.save(tmp_path / "dark.npy", DATA.images // 16)
    mapped = jaxrob.Dataset(np.load(tmp_path / "dark.npy", mmap_mode="r"), DATA.labels)
    (tmp_path / "all").mkdir()
    for index, image in enumerate(mapped.images[..., 0]):
        Image.fromarray(image).save(tmp_path / "all" / f"{index}.png")
    stored = data.image_folder(tmp_path / "all", grey=True, labels=None, max_bytes=1)
    batches = jaxrob.Dataset.from_batches([(mapped.images[:], DATA.labels)] * 2)
    for dataset in mapped, stored, batches:
        assert value_doubt(dataset) is None
        with pytest.warns(RobustnessWarning, match="no value is above 15 of 255"):
            jaxrob.evaluate(CLASSIFIER, dataset, alterations.brightness(), [0.0])


@pytest.mark.parametrize("shape", [(1, 28, 28), (4, 28, 28)])
def test_channels_first(shape):
    with pytest.warns(RobustnessWarning, match="np.moveaxis"):
        _check_images(DATA, shape)


@pytest.mark.parametrize("shape", [(28, 28, 3), (3, 40, 3), (4, 4, 8), (2, 9, 9)])
def test_shapes_that_are_as_they_should_be(shape):
    _check_images(DATA, shape)  # A warning would be an error.


def test_assessments_tell_of_doubtful_images_and_ranges():
    dataset = jaxrob.Dataset(BLACK_AND_WHITE, DATA.labels)
    with (
        pytest.warns(RobustnessWarning, match="bytes of 0 and 1"),
        pytest.warns(RobustnessWarning, match="brightness: .*percent"),
    ):
        found = jaxrob.assess(
            CLASSIFIER, dataset, alterations.brightness(-0.5, 50), 0.0
        )
    for text in ("bytes of 0 and 1", "divide percent"):
        assert any(text in message for message in found.warnings)


@pytest.mark.slow
def test_attacks_tell_of_doubtful_images():
    with pytest.warns(RobustnessWarning, match="bytes of 0 and 1"):
        jaxrob.adversarial.fgsm(CLASSIFIER, BLACK_AND_WHITE[:2], [0, 1], epsilon=0.1)


@pytest.mark.slow
def test_a_radius_of_pixels_in_0_to_255():
    few = {"num_samples": 8, "estimator": "count", "key": random_key(0)}
    with pytest.warns(RobustnessWarning, match="epsilon=8/255"):
        found = jaxrob.roma.assess(CLASSIFIER, DATA.images, epsilon=8, **few)
    assert any("epsilon=8/255" in message for message in found.warnings)
    with pytest.warns(RobustnessWarning, match="epsilon=8/255"):
        jaxrob.adversarial.pgd(
            CLASSIFIER, DATA.images[:2], DATA.labels[:2], epsilon=8, steps=1
        )
    jaxrob.roma.assess(CLASSIFIER, DATA.images, epsilon=8, norm="l2", **few)


MAKERS = {name: getattr(alterations, name) for name in NAMES} | {
    f"corruptions.{name}": functools.partial(getattr(corruptions, name), 64)
    for name in corruptions.__all__
    if name != "frost"
}
LARGE = (32, 32, 3)


def altered(alteration, image):
    key = random_key(0) if alteration.stochastic else None
    return alteration(image, alteration.upper, key)


@pytest.mark.parametrize("name", [name for name in MAKERS if "jpeg" not in name])
def test_images_of_half_precision_are_altered(name):
    random_key(0)
    image = jax.ShapeDtypeStruct(LARGE, jnp.bfloat16)
    found = jax.eval_shape(lambda image: altered(MAKERS[name](), image), image)
    assert found.shape == LARGE and jnp.issubdtype(found.dtype, jnp.floating)


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


def test_noise_on_other_arrays_has_any_unit_but_not_integers():
    assert doubts(alterations.gaussian_noise(0, 25, clip=False), (30,)) == []
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
