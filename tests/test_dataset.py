import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import Dataset
from jaxrob._dataset import check_labels_below


def images(n=4, dtype=np.float32):
    values = np.random.default_rng(0).random((n, 5, 6, 3))
    return (
        (values * 255).astype(np.uint8) if dtype == np.uint8 else values.astype(dtype)
    )


def labels(n=4):
    return np.arange(n) % 3


def keys():
    return jax.random.wrap_key_data(np.zeros((4, 2), np.uint32))


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


@pytest.mark.parametrize(
    ("bad", "make"), [(np.nan, np.asarray), (-np.inf, np.array), (np.inf, jnp.asarray)]
)
def test_images_that_are_not_finite(bad, make):
    values = images()
    values[2, 0, 1, 1] = bad
    values[3, 4, 5, 2] = bad
    with pytest.raises(ValueError, match="2 of 4 .* first 2"):
        Dataset(make(values), labels())


@pytest.mark.parametrize("shape", [(3, 7), (3, 1, 2, 2, 2)])
def test_other_inputs_may_have_any_finite_value(shape):
    values = np.full(shape, -17.5)
    assert len(Dataset(values, labels(3))) == 3
    values[1] = np.nan
    with pytest.raises(ValueError, match="first 1"):
        Dataset(values, labels(3))


@pytest.mark.parametrize(
    "value, shown", [(-1e-6, "-9.99999997e-07"), (1 + 2**-23, "1.00000012")]
)
def test_images_outside_their_range(value, shown):
    values = images()
    values[0], values[1] = 0, 1
    Dataset(values, labels())
    values[1, 2, 3, 0] = value
    with pytest.raises(ValueError, match=f"images.*{shown}.*clip"):
        Dataset(values, labels())


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ((), labels(3), "leading axis"),
        ((3,), labels(3), "leading axis"),
        ((0, 4, 4, 1), labels(0), "empty"),
        ((2, 4, 4, 0), labels(2), "empty"),
        ((4, 5, 6, 3), labels(3), "labels must"),
        ((4, 5, 6, 3), np.zeros((3, 1), int), "labels must"),
        ((4, 5, 6, 3), 0, "labels must"),
    ],
)
def test_shapes_that_cannot_be(shape, given, message):
    with pytest.raises(ValueError, match=message):
        Dataset(np.zeros(shape), given)


@pytest.mark.parametrize(
    "some", [np.zeros((4, 1), int), np.eye(4), [[0], [1, 2]] * 2, [{"boxes": []}] * 4]
)
def test_labels_of_no_classes(some):
    data = Dataset(images(), some)
    assert len(data[1:3].labels) == 2
    with pytest.raises(ValueError, match="some labels must be class indices"):
        check_labels_below(data.labels, 3, "some labels")


def test_labels_of_no_classes_are_for_scores_alone():
    data = Dataset(images(), np.eye(4))
    classifier = jaxrob.Classifier(lambda _, x: x.reshape(len(x), -1)[:, :3])
    blur, key = jaxrob.alterations.gaussian_blur(), jax.random.key(0)
    for call in (
        lambda: jaxrob.evaluate(classifier, data, blur, [0.0]),
        lambda: jaxrob.roma.assess(classifier, data, key=key),
        lambda: jaxrob.adversarial.fgsm(classifier, data, epsilon=0.1),
    ):
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
        ([0, 1, 3, 0], ValueError, "labels must be below"),
    ],
)
def test_labels_that_are_no_classes(wrong, error, message):
    with pytest.raises(error, match=message):
        Dataset(images(), wrong, ("a", "b", "c"))


def test_labels_do_not_wrap_around():
    for high in (2**32, 2**63):
        with pytest.raises(ValueError, match=str(high)):
            Dataset(images(), np.array([0, 1, 2, high], np.uint64))
    assert Dataset(images(2), np.array([0, 200], np.uint8)).labels[1] == 200


def test_slices():
    dataset = Dataset(images(), labels(), ("a", "b", "c"), "some")
    for index in (slice(1, 3), slice(None, None, -2), np.array([3, 0])):
        part = dataset[index]
        np.testing.assert_array_equal(part.images, dataset.images[index])
        np.testing.assert_array_equal(part.labels, dataset.labels[index])
        assert part.class_names == ("a", "b", "c") and part.name == "some"
    assert len(dataset[dataset.labels == 0]) == 2
    with pytest.raises(ValueError, match="empty"):
        dataset[4:]
    for wrong in (1, np.int64(1), np.array(1)):
        with pytest.raises(TypeError, match="slice"):
            dataset[wrong]


def test_a_memory_map_is_neither_read_at_once_nor_converted(tmp_path):
    stored = np.memmap(tmp_path / "images", np.float32, "w+", shape=(4, 5, 6, 3))
    stored[:] = images()
    stored[2] = np.nan
    dataset = Dataset(stored, labels())
    assert isinstance(dataset.images, np.memmap)
    assert isinstance(dataset[:2].images, np.memmap)
    with pytest.raises(TypeError, match="uint8 or floating"):
        Dataset(stored.view(np.int32), labels())
    for dtype in (">f2", np.longdouble):
        odd = np.memmap(tmp_path / "odd", dtype, "w+", shape=(4, 5, 6, 3))
        with pytest.raises(TypeError, match="memory map"):
            Dataset(odd, labels())


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


ODD = {
    "big-endian": lambda values: values.astype(">f4"),
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
def test_odd_arrays_are_the_same_images(name):
    values = (images(8) * 8).round() / 8  # exact in every type
    odd = ODD[name](values)
    (batch,) = Dataset.from_batches([(odd, labels(8))]).batches()
    for found in (Dataset(odd, labels(8)).images, batch.images):
        assert found.dtype.isnative and found.dtype.itemsize <= 8
        np.testing.assert_array_equal(np.asarray(found, np.float32), values)
    on_device = np.asarray(jax.device_put(found), np.float32)
    np.testing.assert_array_equal(on_device, values)


@pytest.mark.parametrize(
    ("what", "make", "message"),
    [
        ("images", lambda x: np.ma.masked_array(x, x > 0.5), "not be masked"),
        ("images", lambda x: x > 0.5, "be uint8 or floating; got bool .*; pass"),
        ("images", lambda x: (x * 255).astype(np.int64), ".*divide 0-255 by 255"),
        ("images", lambda x: (x * 255).astype(">u2"), ".*divide 0-255 by 255"),
        ("images", lambda x: x.astype(complex), "be uint8 or floating; got complex128"),
        ("images", lambda x: np.zeros(x.shape, [("a", "f4")]), "be uint8 or floating"),
        ("images", lambda x: keys(), ".*got key<fry>"),
        ("images", lambda x: [[1.0, 2.0], [3.0]] * 2, "be an array .*; got list"),
        ("images", lambda x: None, "be uint8 or floating; got object"),
        ("labels", lambda x: np.ma.masked_array(x, x == 1), "not be masked"),
        ("labels", lambda x: x.astype("m8[s]"), "be .* integers"),
        ("labels", lambda x: x.astype(object), "be .* integers"),
        ("labels", lambda x: x.astype(jnp.int4), "be .* integers"),
        ("labels", lambda x: keys(), "be an array"),
    ],
)
def test_other_arrays_are_named(what, make, message):
    given = {"images": images(), "labels": labels()}
    given[what] = make(given[what])
    with pytest.raises(TypeError, match=f"{what} must {message}"):
        Dataset(**given)


@pytest.mark.parametrize("dtype", [">i4", ">u8", np.int8, np.uint64])
def test_odd_labels_are_the_same(dtype):
    dataset = Dataset(images(), labels().astype(dtype)[::-1])
    assert dataset.labels.dtype == np.int32
    np.testing.assert_array_equal(dataset.labels, labels()[::-1])
