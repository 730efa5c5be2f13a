"""The scripts' augmentation of photographs."""

import jax
import numpy as np
import pytest
from common import augmentation, classifiers

import jaxrob
from jaxrob import training

PIXELS = 2


@pytest.fixture(scope="module")
def batches():
    return augmentation.mirrored_and_shifted(70, PIXELS)(32)


def test_an_epoch_has_every_image_at_most_once(batches):
    drawn = batches.draw(np.random.default_rng(0))
    assert list(drawn) == ["index"] and drawn["index"].shape == (2, 32)
    assert len(np.unique(drawn["index"])) == 64 and drawn["index"].max() < 70
    again = batches.draw(np.random.default_rng(1))
    assert (again["index"] != drawn["index"]).any()


def test_each_image_is_a_window_of_itself_mirrored_or_not(batches):
    images = np.random.default_rng(0).random((32, 5, 6, 3), np.float32)
    labels = np.arange(32)
    make = jax.jit(lambda key: batches.make(images, labels, {}, key, None))
    found, kept = make(jax.random.key(0))
    np.testing.assert_array_equal(kept, labels)
    border = (PIXELS, PIXELS)
    seen = set()
    for image, altered in zip(images, np.asarray(found)):
        for mirrored in (False, True):
            padded = np.pad(
                image[:, ::-1] if mirrored else image, (border, border, (0, 0)), "edge"
            )
            windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 6, 3))
            same = (windows[:, :, 0] == altered).all(axis=(2, 3, 4))
            seen |= {(mirrored, *place) for place in np.argwhere(same).tolist()}
    # One place for each image, and most of the 2 x 5 x 5 possible ones.
    assert 20 < len(seen) <= 32
    assert {mirrored for mirrored, *_ in seen} == {False, True}
    for axis in (1, 2):
        assert {place[axis] for place in seen} == set(range(2 * PIXELS + 1))
    other, _ = make(jax.random.key(1))
    assert (other != found).any()


def rates(settings, steps):
    """Returns Adam's moves under a constant gradient, which equal the rate."""
    optimizer, zero = settings["optimizer"], {"x": np.zeros(2)}
    state, found, move = optimizer.init(zero), [], jax.jit(optimizer.update)
    for _ in range(steps):
        update, state = move({"x": np.ones(2)}, state, zero)
        found.append(-float(update["x"][0]))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "peak"), [("resnet", 5e-3), ("wide_strided_cnn", 2e-3)]
)
def test_the_rate_goes_through_one_cycle(name, peak):
    """Of 100 steps the peak is the 20th; half way lie the means of the ends."""
    settings = classifiers.for_photographs(name, 1280, 10)
    assert settings["epochs"] == 10 and settings["batch_size"] == 128
    found = rates(settings, 101)
    np.testing.assert_allclose(found[20], peak, rtol=1e-4)
    np.testing.assert_allclose(found[0], peak / 25, rtol=1e-4)
    np.testing.assert_allclose(found[10], (peak + peak / 25) / 2, rtol=1e-4)
    np.testing.assert_allclose(found[60], peak / 2, rtol=1e-3)
    assert (np.diff(found[:21]) > 0).all() and (np.diff(found[20:]) < 0).all()
    assert 0 < found[100] < 1e-5 * peak


def test_a_single_step_has_a_rate():
    settings = classifiers.for_photographs("resnet", 20, 1)
    assert settings["batch_size"] == 20
    (found,) = rates(settings, 1)
    assert 0 < found <= 5e-3


@pytest.mark.slow
def test_photographs_are_learnt_mirrored_and_shifted():
    """The bright half determines the class: above or below, mirrored or not."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 256)
    images = rng.random((256, 16, 16, 3), np.float32) / 2
    for image, label in zip(images, labels):
        image[8 * label :][:8] += 0.2
    settings = classifiers.for_photographs("mlp", len(images), 20)
    fitted = training.fit(
        classifiers.module("mlp", 2),
        jaxrob.Dataset(images, labels),
        key=jax.random.key(0),
        **settings,
    )
    found = fitted.log_probabilities(images)[0].argmax(-1)
    assert (np.asarray(found) == labels).mean() > 0.95
    mirrored = fitted.log_probabilities(images[:, :, ::-1])[0].argmax(-1)
    assert (np.asarray(mirrored) == labels).mean() > 0.95
