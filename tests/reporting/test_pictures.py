import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, reporting
from jaxrob._engine import execution
from jaxrob.reporting import _pictures
from jaxrob.reporting._pictures import _shown

from . import reports as made

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (40, 3, 3, 1)).astype(np.uint8)
# Far from one half, so that a picture's byte tells the answer, and on both sides.
IMAGES[:, 0, 0, 0] = np.where(np.arange(40) % 2, 100, 160)
LABELS = np.arange(40) % 2 == 0
DATASET = jaxrob.Dataset(IMAGES, LABELS.astype(int))
NOISE = alterations.gaussian_noise(0.0, 0.1)
BRIGHTER = alterations.brightness(-0.4, 0.4)


@functools.cache
def key(seed=5):
    return jax.random.key(seed)


def by_corner(variables, images):
    """Class 1 where the pixel in the corner is above one half."""
    return jnp.stack([0.5 - images[:, 0, 0, 0], images[:, 0, 0, 0] - 0.5], axis=1)


@functools.cache
def noisy():
    return jaxrob.assess(
        jaxrob.Classifier(by_corner, {}),
        DATASET,
        NOISE,
        threshold=0.3,
        key=key(),
        strategy=jaxrob.strategies.Uniform(13),
    )


@functools.cache
def brighter():
    """What the classifier answers, by hand."""
    levels = np.linspace(-0.4, 0.4, 13)
    corner = (1 + levels[:, None]) * IMAGES[:, 0, 0, 0] / 255
    confidence = np.float32(np.clip(abs(corner - 0.5), 0, 0.5) + 0.5)
    predicted, labels = (corner > 0.5).astype(np.int16), LABELS.astype(np.int32)
    curve = jaxrob.Curve(levels, predicted, confidence, 1 - confidence, labels, 2)
    ends = {"lower": -0.4, "upper": 0.4, "provenance": {}}
    return made.assessment(name="brightness", answers=curve, **ends)


def with_curve(result, chosen=slice(None), **changes):
    """The same with another curve, at some of the levels."""
    curve = result.curve
    parts = ("levels", "predicted", "confidence", "uncertainty")
    kept = {name: getattr(curve, name)[chosen] for name in parts} | {"rank": None}
    curve = dataclasses.replace(curve, **(kept | changes))
    return dataclasses.replace(result, curve=curve)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alteration", "result"), [(NOISE, noisy), (BRIGHTER, brighter)]
)
def test_each_shows_what_the_network_saw(alteration, result):
    found = reporting.pictures(result(), alteration, DATASET, key())
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
    found = reporting.pictures(brighter(), BRIGHTER, DATASET)
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
    # Levels that were not evaluated have no answer.
    inner = with_curve(brighter(), [1, 2, 3, 4, 5, 7, 8, 9, 10, 11])
    for one in reporting.pictures(inner, BRIGHTER, DATASET):
        assert (one.predicted is None) == (one.shown_as != "first failure")


def test_what_is_wrong_unaltered_is_no_first_failure():
    found = _shown(made.assessment(np.full(60, -1.0)), 16)
    assert {view for _, view, _ in found} == {"unaltered", "upper end"}
    assert len(found) == 16


def test_batches_and_counts_alone(monkeypatch):
    class Batches:
        def __iter__(self):
            for first in range(0, 40, 7):
                yield IMAGES[first : first + 7], LABELS[first : first + 7].astype(int)

    batches = jaxrob.Dataset.from_batches(Batches())
    with monkeypatch.context() as patch:
        patch.setattr(_pictures, "_altered", None)  # The run's own program does it.
        seen = reporting.pictures(noisy(), NOISE, DATASET, key())
    execution.noted.cache_clear()
    for one, other in zip(seen, reporting.pictures(noisy(), NOISE, batches, key())):
        assert one[1:] == other[1:]
        np.testing.assert_array_equal(one.image, other.image)
    reduced = dataclasses.replace(noisy(), curve=noisy().curve.reduced())
    found = reporting.pictures(reduced, NOISE, batches, key())
    assert [one.index for one in found] == list(np.repeat(np.arange(8), 2))
    assert {(one.label, one.predicted) for one in found} == {(None, None)}


def test_what_does_not_go_together():
    flat = jaxrob.Dataset(np.float32(IMAGES.reshape(40, 9) / 255), LABELS.astype(int))
    with pytest.raises(ValueError, match=r"dataset.*\[N, H, W, C\]"):
        reporting.pictures(brighter(), BRIGHTER, flat)
    for arguments, name in (
        ((NOISE, DATASET), "key"),
        ((NOISE, DATASET, key(6)), "key"),
        ((NOISE, DATASET[:30], key()), "dataset.* 40 images; got 30"),
        ((NOISE, DATASET[::-1], key()), "dataset"),
        ((BRIGHTER, DATASET), "alteration"),
        ((alterations.gaussian_noise(0.0, 0.2), DATASET, key()), "alteration"),
        ((alterations.gaussian_noise(0, 0.1, False), DATASET, key()), "alteration"),
    ):
        with pytest.raises(ValueError, match=name):
            reporting.pictures(noisy(), *arguments)
    for most in (2, 17):
        with pytest.raises(ValueError, match="most"):
            reporting.pictures(noisy(), NOISE, DATASET, key(), most=most)


def test_corners_are_what_the_network_saw_there():
    domain = jaxrob.Domain([alterations.gaussian_noise(0, 0.3), BRIGHTER])
    images, levels = _pictures.corners(domain, DATASET, key())
    box = [[0, 0], [0, -0.4], [0, 0.4], [0.3, -0.4], [0.3, 0.4]]
    np.testing.assert_array_equal(levels, box * 3)
    curve = jaxrob.evaluate(
        jaxrob.Classifier(by_corner, {}), DATASET, domain, levels[:5], key=key()
    )
    in_turn = curve.predicted[:, :3].T.ravel()
    np.testing.assert_array_equal(images[:, 0, 0, 0] > 127, in_turn)
    np.testing.assert_array_equal(images[::5], IMAGES[:3])
    large = jaxrob.Dataset(rng.random((1, 200, 100, 3), np.float32), np.zeros(1, int))
    rows = jaxrob.Dataset(np.zeros((2, 3), np.float32), np.zeros(2, int))
    many = jaxrob.Domain([BRIGHTER] * 12)  # 4,096 corners
    images, levels = _pictures.corners(many, large, key())
    assert images.shape == (16, 72, 36, 3) and (levels[-1] == many.upper).all()
    assert _pictures.corners(many, rows, key()) is None
