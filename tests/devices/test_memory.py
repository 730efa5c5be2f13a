"""Blocks of rows, arrays that stay on the devices, and room for programs."""

import pathlib
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxrob
from jaxrob._devices import blocks as device_blocks
from jaxrob._devices.blocks import Kept, prefetched
from jaxrob._devices.mesh import checked_mesh, put_whole
from jaxrob._engine import blocks, execution
from jaxrob.alterations import gaussian_noise

from ..linear import linear


def thread_count():
    return sum(t.name.startswith("jaxrob-prefetch") for t in threading.enumerate())


def test_no_more_than_a_few_wait():
    made = []

    def make():
        for number in range(100):
            made.append(number)
            yield number

    items = prefetched(make(), ahead=3)
    for number in items:
        assert len(made) <= number + 1 + 3
        if number == 10:
            break
    items.close()
    assert len(made) <= 11 + 3


def test_an_exception_comes_in_its_turn_and_ends_the_thread():
    def make():
        yield 1
        yield 2
        raise OSError("the disk")

    found = []
    with pytest.raises(OSError, match="the disk"):
        for item in prefetched(make()):
            found.append(item)
    assert found == [1, 2] and thread_count() == 0


def test_who_stops_early_ends_thread_and_source():
    ended = []

    def make():
        try:
            while True:
                yield 0
        finally:
            ended.append(True)

    items = prefetched(make())
    assert next(items) == 0 and thread_count() == 1
    items.close()
    assert ended == [True] and thread_count() == 0


RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (90, 6, 6, 1), np.uint8)
WEIGHTS = RANDOM.normal(size=(36, 4)).astype(np.float32)
LABELS = (IMAGES.reshape(90, 36) @ WEIGHTS).argmax(1)


CLASSIFIER = jaxrob.Classifier(linear, WEIGHTS)
NOISE = gaussian_noise(0.0, 0.5)


FEW = {"strategy": jaxrob.strategies.FewImages(half_width=0.0)}


def assess(dataset, **settings):
    settings = {"key": jax.random.key(0), "batch_size": 30} | settings
    return jaxrob.assess(CLASSIFIER, dataset, NOISE, 0.8, **settings)


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


@pytest.fixture
def counts_at_each_call(monkeypatch):
    monkeypatch.setattr(device_blocks, "_SECONDS", 0.0)


@pytest.fixture
def compiled(counts_at_each_call):
    function = jax.jit(lambda x: x + 1)
    function(1.0)
    return function


@pytest.mark.slow
@pytest.mark.parametrize("number, kept", [(2_000, 1), (60_000, 0)])
def test_programs_are_dropped_where_maps_are_many(
    compiled, number, kept, tmp_path, monkeypatch
):
    maps, limit = tmp_path / "maps", tmp_path / "limit"
    maps.write_text("a line\n" * number)
    limit.write_text("65530\n")
    monkeypatch.setattr(device_blocks, "_MAPS", maps)
    monkeypatch.setattr(device_blocks, "_LIMIT", limit)
    device_blocks.make_room()
    assert compiled._cache_size() == kept
    assert compiled(1.0) == 2.0


def test_elsewhere_nothing_is_done(compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(device_blocks, "_MAPS", tmp_path / "none")
    device_blocks.make_room()
    assert compiled._cache_size() == 1


@pytest.mark.slow
@pytest.mark.skipif(
    not pathlib.Path("/proc/self/maps").exists(),
    reason="only Linux tells a process its memory maps",
)
def test_dropped_programs_give_their_maps_back(counts_at_each_call, monkeypatch):
    functions = [jax.jit(lambda x, i=i: (x * i).sum()) for i in range(30)]

    def number():
        return len(pathlib.Path("/proc/self/maps").read_text().splitlines())

    before = number()
    for function in functions:
        function(jax.numpy.arange(5.0))
    most = number()
    monkeypatch.setattr(device_blocks, "_LARGEST_SHARE", 0.0)
    device_blocks.make_room()
    assert most > before + 30
    assert number() < most - 30
