"""Ranges in another unit cause a warning wherever an alteration is used."""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import RobustnessWarning, alterations
from jaxrob.alterations._said import doubts

SHAPE = (28, 28, 1)
RIGHT = alterations.horizontal_translation
DATA = jaxrob.Dataset(
    np.random.default_rng(0).integers(0, 256, (12, *SHAPE), dtype=np.uint8),
    np.arange(12) % 3,
)
CLASSIFIER = jaxrob.Classifier(
    lambda variables, images: 9 * images.reshape(len(images), -1)[:, :3], None
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "alteration, text",
    [
        (alterations.gaussian_noise(0, 25), r"divide it by 255\*\*2: 0.000384"),
        (alterations.gaussian_noise(0, 25, clip=False), "standard deviation of 5"),
        (alterations.gaussian_blur(0, 28), "blurs all of an image of 28 x 28 px"),
        (RIGHT(-28, 0), "out of sight"),
        (RIGHT(-0.2, 1.0, unit="relative"), "out of sight"),
        (alterations.rotation(-np.pi / 12, np.pi / 12), r"radians: \[-15, 15\]"),
        (alterations.rotation(0, np.pi), r"radians: \[0, 180\]"),
        (alterations.rotation(), r"without a range it is \[-180, 180\] degrees"),
        (
            alterations.rotation(-15),
            r"both ends it is \[-15, 180\] .*rotation\(-15, 15\)",
        ),
        (alterations.brightness(-0.5, 50), "divide percent by 100, 0.5"),
        (alterations.rescale(alterations.gaussian_noise(0, 25), 0, 1), "variance"),
        (
            alterations.compose(
                [alterations.gaussian_blur(), alterations.gaussian_noise(0, 25)]
            ),
            "gaussian noise: a variance",
        ),
    ],
)
def test_ranges_in_another_unit(alteration, text):
    key = jax.random.key(0)
    with pytest.warns(RobustnessWarning, match=text):
        jaxrob.evaluate(CLASSIFIER, DATA, alteration, [alteration.identity], key=key)
    with pytest.warns(RobustnessWarning, match=text):
        found = jaxrob.roma.assess(
            CLASSIFIER,
            DATA.images,
            perturbation=alteration,
            num_samples=8,
            estimator="count",
            key=key,
        )
    assert any("." in message for message in found.warnings)


def test_the_papers_ranges_are_not_doubted():
    chosen = (
        *alterations.presets.cnn_2020(),
        *alterations.presets.asap_2022("mnist"),
        *alterations.presets.asap_2022("idc"),
        *alterations.presets.bnn_2024(),
        alterations.gaussian_noise(0, 0.3),
        alterations.gaussian_blur(0, 8.0),
        alterations.brightness(-1, 4.0),
        RIGHT(-10, 10),
    )
    for shape in (SHAPE, (50, 50, 3)):
        assert [doubts(one, shape) for one in chosen] == [[]] * len(chosen)


@pytest.mark.parametrize("ends", [(-0.5, 0.5), (-1.047, 3), (0, 0.26), (-15, 15)])
def test_small_rotations_are_not_doubted(ends):
    assert doubts(alterations.rotation(*ends), SHAPE) == []


def test_values_of_other_arrays_may_have_any_unit():
    assert doubts(alterations.gaussian_noise(0, 25, clip=False), (30,)) == []


def test_percent_of_brightness_are_named():
    with pytest.raises(ValueError, match="divide percent by 100"):
        alterations.brightness(-50, 50)


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
    ("parts", "message"),
    [
        ({"level": 3}, "about: level must be a text"),
        ({"parameters": ["fill"]}, "about: parameters must be a mapping"),
        ({"parameters": {"fill": None}}, "about: parameters: fill must be a text, "),
        ({"words": {"fill": 3}}, "about: words: fill must be a text"),
        ({"doubt": "always"}, "about: doubt must be a function or None"),
        ({"size_matters": 1}, "about: size_matters must be True or False"),
    ],
)
def test_about_rejects_wrong_types(parts, message):
    with pytest.raises(TypeError, match=message):
        alterations.About(**parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"parameters": {"a": math.nan}}, "parameters: a must be"),
        ({"parameters": {"a": math.inf}}, "parameters: a must be"),
        ({"parameters": {1: 2}}, "parameters: names must be"),
        ({"words": {1: "x"}}, "words: names must be"),
        ({"words": {"level": "another"}}, "belongs into `level`"),
    ],
)
def test_about_rejects_wrong_values(parts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        alterations.About(**parts)


def test_about_must_not_be_a_text():
    with pytest.raises(TypeError, match="own: about must be a jaxrob.alterations.Ab"):
        jaxrob.Alteration("own", lambda x, level: x, 0.0, 1.0, about="a text")  # pyright: ignore


def test_a_users_alteration_with_a_library_name_has_no_doubts():
    own = jaxrob.Alteration("gaussian noise", lambda x, level: x, 0.0, 25.0)
    assert doubts(own, SHAPE) == []


def evaluate(fn, **parts):
    alteration = jaxrob.Alteration("own", fn, 0.0, 1.0, **parts)
    jaxrob.evaluate(CLASSIFIER, DATA, alteration, [0.0], key=jax.random.key(0))


def test_an_own_alteration_that_leaves_the_range_of_pixels():
    with pytest.warns(
        RobustnessWarning, match=r"leaves \[0, 1\].* to 2, first at level 0\.5"
    ):
        evaluate(lambda x, level: x + (level > 0.4) * (1 - x) * (1 + level))
    with pytest.warns(RobustnessWarning, match=r"leaves \[0, 1\].* first at level 1\."):
        evaluate(lambda x, level: x - (level > 0.6))


def test_an_own_alteration_that_makes_nan():
    with pytest.warns(RobustnessWarning, match="makes NaN .* at level 1"):
        evaluate(lambda x, level: x * jnp.sqrt(1 - level * (level > 0.6) * 2))


def test_leaving_the_range_on_purpose_raises_no_doubt():
    evaluate(lambda x, level: x + level, about=alterations.About(leaves_range=True))


def test_noise_that_is_not_clipped_on_purpose_is_not_doubted():
    noise = alterations.gaussian_noise(0, 0.04, clip=False)
    both = alterations.compose([alterations.gaussian_blur(), noise])
    for one in (noise, both):
        jaxrob.evaluate(CLASSIFIER, DATA, one, [0], key=jax.random.key(0))


@pytest.mark.slow
def test_every_alteration_of_the_library_keeps_the_range():
    for one in (*alterations.presets.cnn_2020(), *alterations.presets.bnn_2024()):
        jaxrob.evaluate(CLASSIFIER, DATA, one, [one.identity], key=jax.random.key(0))


class TestImages:
    def warned(self, images, labels=None):
        labels = np.arange(len(images)) % 3 if labels is None else labels
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", RobustnessWarning)
            dataset = jaxrob.Dataset(images, labels)
            blur = alterations.gaussian_blur(0.0, 1.0)
            kept = jaxrob.assess(CLASSIFIER, dataset, blur, 0.0).warnings
        assert sorted({str(one.message) for one in found}) == sorted(kept)
        return kept

    @pytest.mark.slow
    def test_channels_first(self):
        for channels in (1, 3, 4):
            images = np.moveaxis(np.tile(DATA.images, channels), -1, 1)
            (message,) = self.warned(images)
            assert "np.moveaxis(images, 1, -1)" in message

    @pytest.mark.slow
    def test_shapes_that_are_as_they_should_be(self):
        random = np.random.default_rng(0)
        for shape in ((28, 28, 3), (3, 40, 3), (4, 4, 8), (2, 9, 9)):
            assert not self.warned(random.random((12, *shape), np.float32))

    def test_bytes_of_0_and_1(self):
        (message,) = self.warned((DATA.images > 99).astype(np.uint8))
        assert "bytes of 0 and 1" in message

    def test_black_and_white_is_fine_in_other_units(self):
        assert not self.warned((DATA.images > 99).astype(np.float32))
        assert not self.warned((DATA.images > 99).astype(np.uint8) * 255)

    def test_divided_twice(self):
        (message,) = self.warned(np.float32(DATA.images) / 255 / 255)
        assert "divided by 255 twice" in message

    def test_nothing_but_one_value(self):
        for images in (np.zeros((12, 8, 8, 1)), np.full((12, 8, 8, 1), 7, np.uint8)):
            assert "all values of dataset are" in self.warned(images)[0]

    def test_of_a_memory_map_nothing_is_read(self, tmp_path):
        np.save(tmp_path / "ones.npy", (DATA.images > 99).astype(np.uint8))
        assert not self.warned(np.load(tmp_path / "ones.npy", mmap_mode="r"))

    def test_attacks_tell_it_as_well(self):
        images = (DATA.images[:2] > 99).astype(np.uint8)
        with pytest.warns(RobustnessWarning, match="bytes of 0 and 1"):
            jaxrob.adversarial.fgsm(CLASSIFIER, images, [0, 1], epsilon=0.1)


@pytest.mark.slow
def test_a_radius_of_pixels_in_0_to_255():
    few = {"num_samples": 8, "estimator": "count", "key": jax.random.key(0)}
    with pytest.warns(RobustnessWarning, match="epsilon=8/255"):
        found = jaxrob.roma.assess(CLASSIFIER, DATA.images, epsilon=8, **few)
    assert any("epsilon=8/255" in message for message in found.warnings)
    with pytest.warns(RobustnessWarning, match="epsilon=8/255"):
        jaxrob.adversarial.pgd(
            CLASSIFIER, DATA.images[:2], DATA.labels[:2], epsilon=8, steps=1
        )
    for norm in ("l2", "l1"):
        jaxrob.roma.assess(CLASSIFIER, DATA.images, epsilon=8, norm=norm, **few)
