"""What the scripts train on in place of photographs."""

import jax
import numpy as np
import pytest
from common import augmentation, classifiers

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
    # One place for each image, and most of the 2 x 5 x 5 that there are.
    assert 20 < len(seen) <= 32
    assert {mirrored for mirrored, *_ in seen} == {False, True}
    for axis in (1, 2):
        assert {place[axis] for place in seen} == set(range(2 * PIXELS + 1))
    other, _ = make(jax.random.key(1))
    assert (other != found).any()


def test_the_rate_rises_and_falls_to_nothing():
    """Also where an epoch is a single step."""
    for num_images, epochs in ((256, 10), (20, 1)):
        settings = classifiers.for_photographs("resnet", num_images, epochs)
        assert settings["epochs"] == epochs
        assert settings["batch_size"] == min(num_images, 128)
        state = settings["optimizer"].init({"x": np.zeros(3)})
        gradient = {"x": np.ones(3)}
        sizes = []
        for _ in range(2 * epochs if num_images == 256 else 1):
            update, state = settings["optimizer"].update(gradient, state, gradient)
            sizes.append(float(np.abs(update["x"]).max()))
        assert np.isfinite(sizes).all() and max(sizes) > 0
        if epochs > 1:
            peak = int(np.argmax(sizes))
            assert 0 < peak < 8 and sizes[0] < sizes[peak] > 20 * sizes[-1]
