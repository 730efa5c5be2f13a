"""Arrays that stay on the devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxrob
from jaxrob._devices.blocks import Kept
from jaxrob._devices.mesh import checked_mesh, put_whole
from jaxrob._engine import blocks, execution
from jaxrob.alterations import gaussian_noise

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (90, 6, 6, 1), np.uint8)
WEIGHTS = RANDOM.normal(size=(36, 4)).astype(np.float32)
LABELS = (IMAGES.reshape(90, 36) @ WEIGHTS).argmax(1)


def linear(weights, images):
    return images.reshape(len(images), -1) @ weights


CLASSIFIER = jaxrob.Classifier(linear, WEIGHTS)
NOISE = gaussian_noise(0.0, 0.5)


FEW = {"strategy": jaxrob.strategies.FewImages(half_width=0.0)}


def assess(dataset, **settings):
    settings = {"key": jax.random.key(0), "batch_size": 30} | settings
    return jaxrob.assess(CLASSIFIER, dataset, NOISE, 0.8, **settings)


def test_what_fits_is_kept():
    kept = Kept(100)
    first, second = jnp.zeros(20, jnp.float32), jnp.zeros(6, jnp.float32)
    assert kept.keep("first", [first]) and not kept.keep("second", second)
    assert kept.find("first") == [first] and kept.find("second") is None
    assert kept.keep("third", second[:5])
    kept.drop()
    assert kept.find("first") is None


@pytest.fixture(scope="module")
def expected():
    return assess(jaxrob.Dataset(IMAGES, LABELS))


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    return jaxrob.Dataset(np.load(tmp_path / "images.npy", mmap_mode="r"), LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, FEW], ids=["all", "few"])
def test_an_assessment_reads_each_block_once(settings, monkeypatch, mapped):
    placed = []
    put = blocks.put
    monkeypatch.setattr(blocks, "put", lambda *a: placed.append(a) or put(*a))
    found = assess(mapped, **settings)
    rounds = found.diagnostics.rounds
    assert rounds > 2 and len(placed) == 3
    # Without room they come again.
    monkeypatch.setattr(Kept, "keep", lambda *a: False)
    again = assess(mapped, **settings)
    assert len(placed) > 6
    assert (
        again.to_json().split('"seconds"')[0] == found.to_json().split('"seconds"')[0]
    )


def test_a_block_that_is_kept_leaves_the_others_in_their_places(
    expected, mapped, monkeypatch
):
    keep = Kept.keep

    def only_the_second(kept, name, tree):
        return name[-1] == np.arange(30, 60).tobytes() and keep(kept, name, tree)

    monkeypatch.setattr(Kept, "keep", only_the_second)
    found = assess(mapped)
    np.testing.assert_array_equal(found.curve.predicted, expected.curve.predicted)


class Batches:
    """The images in batches that are written into the same array."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        array = np.empty((30, 6, 6, 1), np.uint8)
        for first in range(0, 90, 30):
            array[:] = IMAGES[first : first + 30]
            yield array, LABELS[first : first + 30]


@pytest.mark.parametrize("room", [2**28, 30 * 36 + 200, 0], ids=["all", "one", "none"])
def test_batches_that_fit_are_read_once(room, expected, monkeypatch):
    monkeypatch.setattr(execution, "bytes_to_keep", lambda mesh: room)
    batches = Batches()
    found = assess(jaxrob.Dataset.from_batches(batches))
    rounds = found.diagnostics.rounds
    # The first image and the fingerprint, beside the blocks.
    assert rounds > 1 and batches.passes == 2 + (1 if room == 2**28 else rounds)
    assert found.robustness == expected.robustness


@pytest.mark.parametrize("few", [{}, FEW], ids=["all", "few"])
def test_images_on_a_device_do_not_visit_the_host(few, monkeypatch):
    expected = assess(jaxrob.Dataset(IMAGES, LABELS), **few)
    put = blocks.put

    def of_device_alone(tree, sharding):
        assert isinstance(tree[0], jax.Array)
        return put(tree, sharding)

    monkeypatch.setattr(blocks, "put", of_device_alone)
    found = assess(jaxrob.Dataset(jax.device_put(IMAGES), LABELS), **few)
    assert found.robustness == expected.robustness
    np.testing.assert_array_equal(found.curve.accuracy, expected.curve.accuracy)


def test_arrays_that_any_computation_may_use_stay_as_they_are():
    tree = {"a": jnp.ones(3), "b": np.ones(2, np.float32), "c": 1.5}
    mesh = checked_mesh(Mesh(np.array(jax.devices()[:1]), ("images",)))
    placed = put_whole(tree, mesh)
    assert placed["a"] is tree["a"]
    assert all(isinstance(leaf, jax.Array) for leaf in placed.values())
    # One that is bound to a device would make another program of the same network.
    bound = jax.device_put(jnp.ones(3), jax.devices()[0])
    shardings = {leaf.sharding for leaf in put_whole([bound, 1.5], mesh)}
    assert shardings == {jax.sharding.NamedSharding(mesh.mesh, jax.P())}


def test_images_in_the_memory_of_the_host(expected):
    device = jax.devices()[0]
    kinds = {memory.kind for memory in device.addressable_memories()}
    (kind, *_) = kinds - {device.default_memory().kind}
    sharding = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
    dataset = jaxrob.Dataset(jax.device_put(IMAGES, sharding), LABELS)
    assert assess(dataset).robustness == expected.robustness
