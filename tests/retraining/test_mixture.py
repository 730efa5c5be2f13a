"""What a training step sees, what it refuses, and how it goes on when interrupted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob import Alteration, Dataset, alterations
from jaxrob.alterations import presets
from jaxrob.retraining import copies, data_augmentation, input_sizes
from jaxrob.retraining._mixture import Subset, mixture, on_all, on_half, originals

from ..on_devices import Network

KEY = jax.random.key(0)
# What was done to an image can be read off it.
ADD = Alteration("add", lambda image, level: image + 1e4 * level, -1.0, 1.0, 0.0)
LOWER = Alteration("lower", lambda image, level: image + 1e3 * level, -1.0, 0.0, 0.0)
SHIFT = Alteration("shift", lambda image, level: image + 1e5 * level, 0.0, 1.0)


def numbered(n):
    """Images `[n, 1]` whose value is their row."""
    return Dataset(np.arange(n, dtype=np.float32)[:, None], np.arange(n) % 7)


def epoch(batches, seed=0):
    return batches.draw(np.random.default_rng(seed))


def shown(batches, dataset, seed=0, losses=None):
    """The values and labels of all batches of an epoch, `[T, B]`."""
    parts = epoch(batches, seed)
    found = []
    step = jax.jit(lambda *a: batches.make(*a, losses))
    for count in range(len(parts["index"])):
        part = {name: array[count] for name, array in parts.items()}
        index = part.pop("index")
        key = jax.random.fold_in(KEY, count)
        images, labels = step(
            jnp.asarray(dataset.images[index]), dataset.labels[index], part, key
        )
        found.append((images[:, 0], labels))
    images, labels = zip(*found)
    return np.stack(images), np.stack(labels)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(5, 60),
    st.integers(1, 30),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_an_epoch_holds_every_copy_once(n, batch_size, copies):
    parts = [Subset(None, np.arange(n), 1)] + [
        Subset(ADD, np.arange(n), c) for c in copies
    ]
    batches = mixture(parts)(batch_size)
    assert batches.size == n * (1 + sum(copies))
    found = epoch(batches)
    steps = batches.size // batch_size
    if not steps:
        return
    assert found["chosen"].shape == (steps, batch_size)
    rows = np.take_along_axis(found["index"], found["chosen"], axis=1)
    times = np.bincount(rows.ravel(), minlength=n)
    # Whatever is left over of the epoch is dropped.
    assert times.max() <= 1 + sum(copies)
    assert times.sum() == steps * batch_size > batches.size - batch_size
    # As few more as there are parts.
    assert found["index"].shape[1] <= batch_size + 2 * len(parts)


def test_batches_have_their_parts_in_proportion():
    dataset = numbered(60)
    parts = originals(dataset.images.shape) + on_all(dataset.images.shape, [ADD, SHIFT])
    values, labels = shown(mixture(parts)(42), dataset)
    assert values.shape == (10, 42)
    # The originals all, with their own labels.
    unaltered = values == np.round(values)
    assert abs(unaltered.sum(1) - 6).max() <= 1
    assert abs((values < 0).sum(1) - 12).max() <= 12
    assert sorted(values[unaltered]) == list(range(60))
    assert (labels[unaltered] == values[unaltered].astype(int) % 7).all()


def test_every_epoch_and_step_draws_anew():
    dataset = numbered(100)
    batches = mixture(on_all(dataset.images.shape, [SHIFT]))(100)
    one, _ = shown(batches, dataset)
    assert len(np.unique(one)) == one.size
    assert (np.sort(one[0]) != np.sort(one[1])).any()
    level = one / 1e5
    assert 0 <= level.min() < 0.1 and 0.9 < level.max() <= 1.002
    again, _ = shown(batches, dataset)
    other, _ = shown(batches, dataset, seed=1)
    assert (one == again).all() and (one != other).any()


def test_half_of_the_images_for_each_alteration():
    one, other = on_half(numbered(101).images.shape, [ADD, SHIFT], KEY)
    assert len(one.images) == len(set(one.images)) == len(other.images) == 50
    assert (one.copies, other.copies) == (4, 2)
    assert set(one.images) != set(other.images)


def test_the_grid_of_the_authors_scripts():
    dataset = numbered(8)
    for alteration, scale, expected in (
        (ADD, 1e4, [-1, -0.5, 0.5, 1]),
        (SHIFT, 1e5, [0.5, 1]),
        (LOWER, 1e3, [-1, -0.5]),
        (alterations.rotation(-180.0, 180.0), None, None),
    ):
        batches = mixture(on_all(dataset.images.shape, [alteration]), "grid")(8)
        if scale is None:
            assert batches.size == 16
            continue
        values, labels = shown(batches, dataset)
        levels = np.round(2 * values / scale) / 2
        found, times = np.unique(levels, return_counts=True)
        assert list(found) == expected and set(times) == {8}
        assert (np.round(values - scale * levels).astype(int) % 7 == labels).all()


def test_the_worst_of_several_levels():
    dataset = numbered(400)
    batches = mixture(on_half(dataset.images.shape, [SHIFT], KEY), candidates=4)(100)

    def losses(images, labels):
        assert images.shape == (400, 1) and labels.shape == (400,)
        return images[:, 0]

    levels = shown(batches, dataset, losses=losses)[0] / 1e5
    # The largest of four uniform levels: mean 4/5, variance 4/150.
    assert abs(levels.mean() - 0.8) < 4 * (4 / 150 / 400) ** 0.5 + 400 / 1e5
    lowest = shown(batches, dataset, losses=lambda i, labels: -i[:, 0])[0] / 1e5
    assert abs(lowest.mean() - 0.2) < 4 * (4 / 150 / 400) ** 0.5 + 400 / 1e5


@pytest.mark.slow
@pytest.mark.parametrize("make", [alterations.gaussian_noise, alterations.zoom])
def test_images_are_altered_as_the_alteration_does(make):
    alteration = make()
    rng = np.random.default_rng(0)
    dataset = Dataset(rng.random((4, 6, 6, 1)).astype(np.float32), np.zeros(4, int))
    batches = mixture(on_all(dataset.images.shape, [alteration]), "grid")(4)
    parts = epoch(batches)
    part = {name: array[0] for name, array in parts.items()}
    index, copy = part["index"], part["copy"]
    images = dataset.images[index]
    make = jax.jit(lambda *a: batches.make(*a, KEY, None))
    batch, _ = make(images, np.zeros(len(index), int), part)
    levels = alteration.identity + (copy + 1) / 2 * (
        alteration.upper - alteration.identity
    )
    if alteration.stochastic:
        # Other noise for each image, of the level's variance.
        difference = np.asarray(batch) - images[part["chosen"]]
        assert len(np.unique(difference)) > 0.9 * difference.size
        assert 0.02 < difference.std() < 0.06
        return
    expected = jax.jit(jax.vmap(alteration))(images[: len(levels)], np.float32(levels))
    np.testing.assert_allclose(batch, expected, atol=1e-6)


def train(**settings):
    images = np.random.default_rng(0).integers(0, 256, (50, 4, 4, 1)).astype(np.uint8)
    return data_augmentation(
        # It has everything that has a state: dropout's keys, batch statistics.
        Network(3),
        Dataset(images, np.arange(50) % 3),
        # Noise and levels are drawn in each step.
        [alterations.gaussian_noise(0.0, 0.1), alterations.brightness(-0.9, 0.9)],
        key=KEY,
        batch_size=16,
        epochs=4,
        **settings,
    )


@pytest.mark.slow
def test_a_training_that_was_interrupted_resumes_bit_for_bit(tmp_path):

    def stop(epoch, classifier):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(checkpoint=tmp_path / "folder", checkpoint_every=5, on_epoch=stop)
    resumed = []
    whole = train()
    after = train(
        checkpoint=tmp_path / "folder",
        checkpoint_every=100,
        on_epoch=lambda epoch, classifier: resumed.append(epoch),
    )
    # Some steps were saved, and only what followed was done again.
    assert resumed[0] > 1 and resumed[-1] == 4
    jax.tree.map(np.testing.assert_array_equal, whole.variables, after.variables)


# Table II and III of the 2020 paper.
TIMES = (4, 4, 2, 4, 2, 2, 2, 2)
ORIGINALS = 210_593


def test_copies_as_table_two():
    assert tuple(map(copies, presets.cnn_2020())) == TIMES
    assert copies(Alteration("below", lambda image, level: image, -1.0, 0.0, 0.0)) == 2


def test_sizes_as_table_three():
    ht, vt, rotation, bv, zoom, noise, blur, jpeg = some = presets.cnn_2020()
    sizes = input_sizes(ORIGINALS, some, [bv, noise, blur, jpeg])
    assert sizes["original"] == ORIGINALS
    assert sizes["LDA"] == 2_316_523
    assert sizes["LNP"] == 2_105_930
    # Of a random half, the paper's number is 824 lower: 0.04 %.
    assert sizes["DA"] - 2_526_281 == sizes["NP"] - 2_315_688 == 824
