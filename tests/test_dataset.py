import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import Dataset


def images(n=4, dtype=np.float32):
    values = np.random.default_rng(0).random((n, 5, 6, 3))
    return (
        (values * 255).astype(np.uint8) if dtype == np.uint8 else values.astype(dtype)
    )


def labels(n=4):
    return np.arange(n) % 3


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_images_stay_as_they_are(dtype):
    given = images(dtype=dtype)
    dataset = Dataset(given, labels())
    assert dataset.images is given
    assert dataset.labels.dtype == np.int32
    assert len(dataset) == 4
    assert dataset.name == "dataset" and dataset.class_names is None


def test_lists_and_jax_arrays_are_taken():
    assert Dataset(images().tolist(), [0, 1, 2, 0]).images.shape == (4, 5, 6, 3)
    on_device = jnp.asarray(images())
    dataset = Dataset(on_device, jnp.asarray(labels()), ["a", "b", "c"])
    assert dataset.images is on_device
    assert isinstance(dataset.labels, np.ndarray)
    assert dataset.class_names == ("a", "b", "c")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_images_that_are_not_finite(bad, make):
    values = images()
    values[2, 0, 1, 1] = bad
    values[3, 4, 5, 2] = bad
    with pytest.raises(ValueError, match="2 of 4 .* first at index 2"):
        Dataset(make(values), labels())


@pytest.mark.parametrize("shape", [(3, 7), (3, 2, 2), (3, 1, 2, 2, 2)])
def test_other_inputs_may_have_any_finite_value(shape):
    values = np.full(shape, -17.5)
    assert len(Dataset(values, labels(3))) == 3
    values[1] = np.nan
    with pytest.raises(ValueError, match="first at index 1"):
        Dataset(values, labels(3))


@pytest.mark.parametrize("value", [-1e-6, 1.0001, 255.0])
def test_images_outside_their_range(value):
    values = images()
    values[1, 2, 3, 0] = value
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\].*uint8"):
        Dataset(values, labels())


def test_the_ends_of_the_range_are_within():
    values = images()
    values[0], values[1] = 0, 1
    Dataset(values, labels())


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool, complex])
def test_other_types_of_images(dtype):
    with pytest.raises(TypeError, match="uint8 or floating"):
        Dataset(np.zeros((2, 3, 3, 1), dtype), labels(2))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_images_without_axes(shape):
    with pytest.raises(ValueError, match="leading axis"):
        Dataset(np.zeros(shape), labels(3))


@pytest.mark.parametrize("shape", [(0, 4, 4, 1), (2, 0, 4, 1), (2, 4, 4, 0)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_no_images(shape, dtype):
    with pytest.raises(ValueError, match="empty"):
        Dataset(np.zeros(shape, dtype), np.zeros(shape[0], int))


@pytest.mark.parametrize("wrong", [np.zeros(3, int), np.zeros((4, 1), int), 0])
def test_labels_of_another_shape(wrong):
    with pytest.raises(ValueError, match="one for each image"):
        Dataset(images(), wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([0, 1, -1, 0], ValueError, "got -1"),
        ([0.0, 1, 2, 0], TypeError, "integers"),
        ([True, False, True, True], TypeError, "integers"),
        (["a", "b", "a", "a"], TypeError, "integers"),
        ([0, 1, 3, 0], ValueError, "number of class names, 3; got 3"),
    ],
)
def test_labels_that_are_no_classes(wrong, error, message):
    with pytest.raises(error, match=message):
        Dataset(images(), wrong, ("a", "b", "c"))


def test_labels_do_not_wrap_around():
    with pytest.raises(ValueError, match=str(2**32)):
        Dataset(images(), np.array([0, 1, 2, 2**32]))
    with pytest.raises(ValueError, match="int32"):
        Dataset(images(), np.array([0, 1, 2, 2**63], np.uint64))
    assert Dataset(images(2), np.array([0, 200], np.uint8)).labels[1] == 200


def test_slices():
    dataset = Dataset(images(), labels(), ("a", "b", "c"), "some")
    for index in (slice(1, 3), slice(None, None, -2), np.array([3, 0])):
        part = dataset[index]
        np.testing.assert_array_equal(part.images, dataset.images[index])
        np.testing.assert_array_equal(part.labels, dataset.labels[index])
        assert part.class_names == ("a", "b", "c") and part.name == "some"
    assert len(dataset[dataset.labels == 0]) == 2


@pytest.mark.parametrize("index", [1, -1, np.int64(1), np.array(1)])
def test_an_integer_is_no_slice(index):
    with pytest.raises(TypeError, match="slice"):
        Dataset(images(), labels())[index]


def test_an_empty_slice():
    with pytest.raises(ValueError, match="empty"):
        Dataset(images(), labels())[4:]


def test_a_memory_map_is_not_read_at_once(tmp_path):
    path = tmp_path / "images"
    stored = np.memmap(path, np.float32, "w+", shape=(4, 5, 6, 3))
    stored[:] = images()
    stored[2] = np.nan
    dataset = Dataset(stored, labels())
    assert isinstance(dataset.images, np.memmap)
    assert isinstance(dataset[:2].images, np.memmap)
    with pytest.raises(TypeError, match="uint8 or floating"):
        Dataset(stored.view(np.int32), labels())


def test_batches_are_read_anew():
    given = [(images(3), labels(3)), (images(2), labels(2))]
    dataset = Dataset.from_batches(given, ("a", "b", "c"), "some")
    for _ in range(2):
        batches = list(dataset.batches())
        assert [len(batch) for batch in batches] == [3, 2]
        assert all(isinstance(batch, Dataset) for batch in batches)
        assert all(batch.class_names == ("a", "b", "c") for batch in batches)


def test_what_is_used_up_after_one_pass_is_refused():
    pairs = [(images(), labels())]
    for once in ((pair for pair in pairs), iter(pairs), map(tuple, pairs)):
        with pytest.raises(TypeError, match="more than once"):
            Dataset.from_batches(once)
    with pytest.raises(TypeError, match="iterable"):
        Dataset.from_batches(3)


def test_no_batches():
    with pytest.raises(ValueError, match="some is empty"):
        list(Dataset.from_batches([], name="some").batches())


def broken(**changes):
    values = {"images": images(), "labels": labels()} | changes
    return [(images(), labels())] * 2 + [(values["images"], values["labels"])]


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        (broken(images=np.full((4, 5, 6, 3), np.nan)), ValueError, "finite"),
        (broken(images=images()[:, :4]), ValueError, r"\(4, 6, 3\).*\(5, 6, 3\)"),
        (broken(images=images()[:0], labels=labels(0)), ValueError, "empty"),
        (broken(labels=labels(3)), ValueError, "one for each image"),
        (broken(labels=labels() * 1.0), TypeError, "integers"),
        (broken(labels=labels() + 1), ValueError, "class names"),
        # As bytes in a block of floating images they would not be divided by 255.
        (broken(images=images(dtype=np.uint8)), ValueError, "uint8.*float32"),
        ([*broken()[:2], images()[0]], ValueError, ""),
    ],
)
def test_a_broken_batch_is_named(batches, error, message):
    dataset = Dataset.from_batches(batches, ("a", "b", "c"), "some")
    with pytest.raises(error, match=f"batch 2 of some: .*{message}"):
        list(dataset.batches())
