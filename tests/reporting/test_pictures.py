import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, reporting

KEY = jax.random.key(5)
rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (40, 3, 3, 1)).astype(np.uint8)
# Far from one half, so that a picture's byte tells the answer, and on both sides.
IMAGES[:, 0, 0, 0] = np.where(np.arange(40) % 2, 100, 160)
LABELS = np.arange(40) % 2 == 0


def by_corner(variables, images):
    """Class 1 where the pixel in the corner is above one half."""
    return jnp.stack([0.5 - images[:, 0, 0, 0], images[:, 0, 0, 0] - 0.5], axis=1)


CLASSIFIER = jaxrob.Classifier(by_corner, {})
DATASET = jaxrob.Dataset(IMAGES, LABELS.astype(int))
NOISE = alterations.gaussian_noise(0.0, 0.1)
BRIGHTER = alterations.brightness(-0.4, 0.4)


def assessed(alteration, dataset=DATASET, **settings):
    return jaxrob.assess(
        CLASSIFIER,
        dataset,
        alteration,
        threshold=0.3,
        key=KEY,
        strategy=jaxrob.strategies.Uniform(13),
        **settings,
    )


@pytest.mark.parametrize("alteration", [NOISE, BRIGHTER], ids=["noise", "brightness"])
def test_each_shows_what_the_network_saw(alteration):
    found = reporting.pictures(assessed(alteration), alteration, DATASET, KEY)
    assert 10 <= len(found) <= 16
    for picture in found:
        corner = int(picture.image[0, 0, 0])
        if corner not in (127, 128):
            assert picture.predicted == (corner > 127), picture
        assert picture.label == LABELS[picture.index]
        assert picture.image.dtype == np.uint8 and picture.image.shape == (3, 3, 1)
        if picture.shown_as == "unaltered":
            np.testing.assert_array_equal(picture.image, IMAGES[picture.index])
            assert picture.predicted == picture.label
        if picture.shown_as == "first failure":
            assert picture.predicted != picture.label


def test_ends_of_several_classes_and_the_first_to_fail():
    result = assessed(BRIGHTER)
    found = reporting.pictures(result, BRIGHTER, DATASET)
    shown = {(one.index, one.shown_as): one for one in found}
    assert len(shown) == len(found)
    ends = [one for one in found if one.shown_as == "upper end"]
    assert {one.label for one in ends} == {0, 1}
    for one in ends:
        assert one.level == 0.4
        assert shown[one.index, "lower end"].level == -0.4
        assert (one.index, "unaltered") in shown
    failures = [one for one in found if one.shown_as == "first failure"]
    # 160 falls below one half at a factor of 0.797, 100 rises above it at 1.275. The
    # levels are multiples of 1 / 15.
    assert failures and {one.label for one in failures} == {1}
    for one in failures:
        assert one.level == pytest.approx(-4 / 15)
        assert (one.index, "unaltered") in shown


def test_what_is_wrong_unaltered_is_no_first_failure():
    wrong = jaxrob.Dataset(IMAGES, 1 - LABELS.astype(int))
    blur = alterations.gaussian_blur(0.0, 0.1)
    with pytest.warns(jaxrob.RobustnessWarning, match="already below"):
        result = assessed(blur, wrong)
    found = reporting.pictures(result, blur, wrong)
    assert {one.shown_as for one in found} == {"unaltered", "upper end"}
    assert len(found) == 16


def test_batches_and_counts_alone():
    class Batches:
        def __iter__(self):
            for first in range(0, 40, 7):
                yield IMAGES[first : first + 7], LABELS[first : first + 7].astype(int)

    batches = jaxrob.Dataset.from_batches(Batches())
    result = assessed(NOISE)
    for one, other in zip(
        reporting.pictures(result, NOISE, DATASET, KEY),
        reporting.pictures(result, NOISE, batches, KEY),
    ):
        assert one[1:] == other[1:]
        np.testing.assert_array_equal(one.image, other.image)
    reduced = assessed(NOISE, batches, reduced=True)
    found = reporting.pictures(reduced, NOISE, batches, KEY)
    assert [one.index for one in found] == list(np.repeat(np.arange(8), 2))
    assert {(one.label, one.predicted) for one in found} == {(None, None)}


def test_levels_that_were_not_evaluated_have_no_answer():
    result = jaxrob.assess(
        CLASSIFIER,
        DATASET,
        BRIGHTER,
        threshold=0.3,
        strategy=jaxrob.strategies.Random(5, 3),
        rule="count",
    )
    found = reporting.pictures(result, BRIGHTER, DATASET)
    for one in found:
        assert (one.predicted is None) == (one.shown_as != "first failure")


@pytest.mark.parametrize("alteration", [NOISE, BRIGHTER], ids=["noise", "brightness"])
def test_no_more_than_asked_for(alteration):
    result = assessed(alteration)
    for most in (3, 4, 7, 16):
        found = reporting.pictures(result, alteration, DATASET, KEY, most=most)
        assert most - 3 < len(found) <= most


def test_what_does_not_go_together():
    result = assessed(NOISE)
    for arguments, message in (
        ((NOISE, DATASET), "stochastic: key must be"),
        ((NOISE, DATASET, jax.random.key(6)), "the noise would be another"),
        ((NOISE, DATASET[:30], KEY), "of 40 images; got 30"),
        ((BRIGHTER, DATASET), "alteration must be that of the assessment"),
        ((alterations.gaussian_noise(0.0, 0.2), DATASET, KEY), "must be that of the a"),
        ((alterations.gaussian_noise(0, 0.1, False), DATASET, KEY), "same settings"),
    ):
        with pytest.raises(ValueError, match=message):
            reporting.pictures(result, *arguments)
    for most in (2, 17):
        with pytest.raises(ValueError, match="most must lie"):
            reporting.pictures(result, NOISE, DATASET, KEY, most=most)
    flat = jaxrob.Dataset(np.float32(IMAGES.reshape(40, 9) / 255), LABELS.astype(int))
    shift = jaxrob.Alteration("shift", lambda image, level: image + level, 0.0, 1.0)
    classifier = jaxrob.Classifier(lambda _, rows: rows[:, :2], {})
    result = jaxrob.assess(classifier, flat, shift, threshold=0.3)
    with pytest.raises(ValueError, match=r"images \[N, H, W, C\] with 1, 3 or 4"):
        reporting.pictures(result, shift, flat)
