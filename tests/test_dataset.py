import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import Alteration, Classifier, Dataset, evaluate
from jaxrob._pixels import as_floats


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


def test_what_it_holds_is_shown():
    shown = repr(Dataset(images(dtype=np.uint8), labels(), ["a", "b", "c"], name="x"))
    assert shown == (
        "Dataset(images=uint8[4, 5, 6, 3], labels=int32[4], 3 class names, name='x')"
    )
    boxes = [np.zeros((n, 4)) for n in range(4)]
    assert "labels=list of 4" in repr(Dataset(images(), boxes))
    assert "labels=None" in repr(Dataset(images()))


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


@pytest.mark.parametrize("wrong", [np.zeros(3, int), np.zeros((3, 1), int), 0])
def test_labels_of_another_shape(wrong):
    with pytest.raises(ValueError, match="one for each image"):
        Dataset(images(), wrong)


@pytest.mark.parametrize(
    "some", [np.zeros((4, 1), int), np.eye(4), [[0], [1, 2]] * 2, [{"boxes": []}] * 4]
)
def test_labels_of_no_classes_are_for_scores_alone(some):
    data = Dataset(images(), some)
    assert len(data[1:3].labels) == 2
    classifier = jaxrob.Classifier(lambda _, x: x.reshape(len(x), -1)[:, :3])
    noise, net = jaxrob.alterations.gaussian_noise(), jaxrob.networks.MLP()
    key = jax.random.key(0)
    calls = (
        lambda: jaxrob.evaluate(classifier, data, noise, [0.0], key=key),
        lambda: jaxrob.assess(classifier, data, noise, key=key, budget=100),
        lambda: jaxrob.roma.assess(classifier, data, key=key),
        lambda: jaxrob.adversarial.fgsm(classifier, data, epsilon=0.1),
        lambda: jaxrob.training.fit(net, data, batch_size=4, key=key),
        lambda: jaxrob.bayes.fit(net, data, num_samples=2, batch_size=4, key=key),
    )
    for call in calls:
        with pytest.raises(ValueError, match="must be class indices"):
            call()


@pytest.mark.parametrize("some", [[[0], [object()]] * 2, [{"a": {1j}}] * 4])
def test_labels_that_cannot_be_identified(some):
    with pytest.raises(TypeError, match=r"labels\[[01]\]: must be an array, a text"):
        Dataset(images(), some)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([0, 1, -1, 0], ValueError, "got -1"),
        ([0.0, 1, 2, 0], TypeError, "integers"),
        ([True, False, True, True], TypeError, "integers"),
        (["a", "b", "d", "a"], ValueError, "one of the 3 class_names"),
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
def test_integer_indices_are_rejected(index):
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


@pytest.mark.parametrize("change", ["pixel", "label", "fewer", "more", "cut"])
def test_batches_that_change_are_refused(change):
    given = [(images(3), labels(3)), (images(2), labels(2))]
    dataset = Dataset.from_batches(given, name="some")
    next(dataset.batches())  # The first batch reads no further.
    assert len(list(dataset.batches())) == len(list(dataset.batches())) == 2
    pixels, number = images(2), labels(2)
    pixels[1, 2, 3, 0] = 1 - pixels[1, 2, 3, 0]
    given[1:] = {
        "pixel": [(pixels, number)],
        "label": [(images(2), (number + 1) % 2)],
        "fewer": [],
        "more": [*given[1:], *given[1:]],
        "cut": [(images(2)[:1], number[:1]), (images(2)[1:], number[1:])],
    }[change]
    batch = 2 if change == "more" else 1
    with pytest.raises(ValueError, match=f"batches of some must .* batch {batch} is"):
        list(dataset.batches())


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
        # In a block of floating images they would not be divided by 255.
        (broken(images=images(dtype=np.uint8)), ValueError, "uint8.*float32"),
        ([*broken()[:2], images()[0]], TypeError, r"must be \(images, labels\)"),
    ],
)
def test_a_broken_batch_is_named(batches, error, message):
    dataset = Dataset.from_batches(batches, ("a", "b", "c"), "some")
    with pytest.raises(error, match=f"batch 2 of some: .*{message}"):
        list(dataset.batches())


def summing(x):
    """Returns the exact results of a classifier with one number per image."""
    return np.asarray(as_floats(x)).reshape(len(x), -1).astype(np.float64).sum(1)


ODD = {
    "big-endian": lambda values: values.astype(">f4"),
    "big-endian doubles": lambda values: values.astype(">f8"),
    "big-endian halves": lambda values: values.astype(">f2"),
    "long doubles": lambda values: values.astype(np.longdouble),
    "halves": lambda values: values.astype(np.float16),
    "bfloat16": lambda values: values.astype(jnp.bfloat16),
    "bfloat16 on the device": lambda values: jnp.asarray(values, jnp.bfloat16),
    "float8": lambda values: values.astype(jnp.float8_e4m3fn),
    "read-only": lambda values: np.broadcast_to(values, values.shape),
    "backwards": lambda values: values[:, ::-1].copy()[:, ::-1],
    "Fortran's order": np.asfortranarray,
    "unaligned": lambda values: (
        np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:]
        .view(np.float32)
        .reshape(values.shape)
    ),
    "subclass": lambda values: values.view(np.recarray),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("rank", [2, 4])
def test_odd_arrays_are_the_same_images(name, rank):
    values = (images(8) * 8).round() / 8  # exact in every type
    values = values if rank == 4 else values.reshape(8, -1)
    expected = summing(values)
    odd = ODD[name](values)
    dataset = Dataset(odd, labels(8))
    assert dataset.images.dtype.isnative and dataset.images.dtype.itemsize <= 8
    np.testing.assert_array_equal(summing(dataset.images), expected)
    np.testing.assert_array_equal(
        np.asarray(jnp.asarray(dataset.images), np.float32), values
    )
    batches = Dataset.from_batches([(odd[:5], labels(5)), (odd[5:], labels(3))])
    found = np.concatenate([summing(batch.images) for batch in batches.batches()])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["big-endian", "long doubles"])
def test_odd_arrays_get_the_same_answers(name):
    values = images(8).reshape(8, -1)
    weights = np.random.default_rng(1).normal(size=(values.shape[1], 3))
    classifier = Classifier(
        lambda weights, x: x @ weights, jnp.asarray(weights, jnp.float32)
    )
    shift = Alteration("shift", lambda x, level: x + level, 0.0, 1.0)
    one, other = (
        evaluate(classifier, Dataset(some, labels(8)), shift, [0.0, 1.0])
        for some in (values, ODD[name](values))
    )
    np.testing.assert_array_equal(one.predicted, other.predicted)
    np.testing.assert_array_equal(one.confidence, other.confidence)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: np.ma.masked_array(x, x > 0.5), "images must not be masked"),
        (lambda x: x > 0.5, "uint8 or floating; got bool .*; pass"),
        (lambda x: (x * 255).astype(np.int64), "divide 0-255 by 255"),
        (lambda x: (x * 255).astype(">u2"), "divide 0-255 by 255"),
        (lambda x: jnp.zeros(x.shape, jnp.int4), "divide 0-255 by 255"),
        (lambda x: x.astype(complex), "uint8 or floating; got complex128"),
        (lambda x: x.astype(object), "uint8 or floating; got object"),
        (lambda x: x.astype("U8"), "uint8 or floating; got <U8"),
        (lambda x: np.zeros(x.shape, "M8[s]"), "uint8 or floating; got datetime64"),
        (lambda x: np.zeros(x.shape, [("a", "f4")]), "uint8 or floating; got "),
        (lambda x: jax.random.split(jax.random.key(0), x.shape), "got key<fry>"),
        (lambda x: [[1.0, 2.0], [3.0]] * 2, "images must be an array .*; got list"),
        (lambda x: None, "images must be uint8 or floating; got object"),
    ],
)
def test_other_arrays_of_images_are_named(make, message):
    odd = make(images())
    with pytest.raises(TypeError, match=message):
        Dataset(odd, labels())
    with pytest.raises(TypeError, match=f"batch 0 of dataset: .*{message}"):
        list(Dataset.from_batches([(odd, labels())]).batches())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: np.ma.masked_array(x, x == 1), "labels must not be masked"),
        (
            lambda x: np.zeros(4, "M8[s]"),
            "labels must be .* integers; got .*datetime64",
        ),
        (
            lambda x: x.astype("m8[s]"),
            "labels must be .* integers; got .*timedelta64",
        ),
        (
            lambda x: x.astype(object),
            "labels must be .* integers; got .*object",
        ),
        (
            lambda x: x.astype(jnp.int4),
            "labels must be .* integers; got .*int4",
        ),
        (lambda x: jax.random.split(jax.random.key(0), 4), "labels must be an array"),
    ],
)
def test_other_arrays_of_labels_are_named(make, message):
    with pytest.raises(TypeError, match=message):
        Dataset(images(), make(labels()))


@pytest.mark.parametrize("dtype", [">i4", ">u8", np.int8, np.uint64])
def test_odd_labels_are_the_same(dtype):
    dataset = Dataset(images(), labels().astype(dtype)[::-1])
    assert dataset.labels.dtype == np.int32
    np.testing.assert_array_equal(dataset.labels, labels()[::-1])


@pytest.mark.parametrize("dtype", [">f4", ">f2", np.longdouble])
def test_a_memory_map_is_not_converted(tmp_path, dtype):
    stored = np.memmap(tmp_path / "images", dtype, "w+", shape=(4, 5, 6, 3))
    with pytest.raises(TypeError, match="byte order .* memory map"):
        Dataset(stored, labels())


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_matrix_is_an_array():
    # A view, because NumPy warns on calls of its class.
    dataset = Dataset(images().reshape(4, -1).view(np.matrix), labels())
    assert type(dataset.images) is np.ndarray and dataset.images[0].ndim == 1
