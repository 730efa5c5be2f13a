"""MAITE's protocols are structural: objects made by hand, without the library.

tests/frameworks/test_maite.py runs its own evaluation.
"""

import functools

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, maite

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 8, 7, 3), dtype=np.uint8)
WEIGHTS = np.random.default_rng(1).normal(size=(168, 4)).astype(np.float32)
WEIGHTS -= WEIGHTS.mean(0)
LABELS = (IMAGES.reshape(30, -1) / 255 @ WEIGHTS).argmax(1)
NAMES = {0: "ant", 1: "bee", 2: "cow", 3: "doe"}
ONE_HOT = np.eye(4)
BLUR = alterations.gaussian_blur(0.0, 2.0)
NOISE = alterations.gaussian_noise(0.0, 0.5)
LEVELS = np.linspace(0, 2, 9)
KEY = jax.random.key(3)


class Data:
    metadata = {"id": "farm", "index2label": NAMES}

    def __init__(self, images=IMAGES, targets=ONE_HOT[LABELS], **metadata):
        self.images, self.targets = np.moveaxis(images, -1, 1), targets
        self.metadata = self.metadata | metadata

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.targets[index], {"id": index, "hour": 7}


class Model:
    """Linear in pixels in [0, 1]; it counts its calls and keeps what it was given."""

    def __init__(self, divisor=1, **metadata):
        self.metadata = {"id": "linear", "index2label": NAMES} | metadata
        self.divisor, self.given = divisor, []

    def __call__(self, batch):
        self.given.append(batch)
        pixels = [np.moveaxis(one, 0, -1).ravel() / self.divisor for one in batch]
        return [np.float32(one) @ WEIGHTS for one in pixels]


def evaluate(model, data, augmentation, metric, size=7):
    metric.reset()
    for start in range(0, len(data), size):
        rows = [data[i] for i in range(start, min(start + size, len(data)))]
        batch = augmentation(tuple(map(list, zip(*rows))))
        metric.update(model(batch[0]), *batch[1:])
    return metric.compute()


def test_a_data_set_is_as_arrays():
    for max_bytes in (1 << 30, 1000):
        dataset = maite.dataset(Data(), max_bytes=max_bytes)
        parts = [dataset] if max_bytes > 1000 else list(dataset.batches())
        np.testing.assert_array_equal(np.concatenate([p.images for p in parts]), IMAGES)
        np.testing.assert_array_equal(np.concatenate([p.labels for p in parts]), LABELS)
        assert dataset.class_names == ("ant", "bee", "cow", "doe")
        assert dataset.name == "farm"
    assert maite.dataset(Data(index2label={})).class_names is None
    assert maite.dataset(Data(), class_names=tuple("wxyz")).class_names == tuple("wxyz")
    swapped = {"class_names": ("doe", "bee", "cow", "ant")}
    with pytest.raises(ValueError, match="class 0 of Data is 'ant'"):
        maite.dataset(Data(), **swapped)
    with pytest.raises(ValueError, match="class 0 of Model is 'ant'"):
        maite.classifier(Model(), "logits", "unit", **swapped)


@pytest.mark.parametrize("pixels", ["bytes", "unit"])
def test_a_model_is_as_a_host_function(pixels):
    model = Model(255 if pixels == "bytes" else 1)
    classifier = maite.classifier(model, "logits", pixels)
    assert classifier.name == "linear" and classifier.class_names[1] == "bee"
    outputs = classifier.raw_outputs(np.float32(IMAGES) / np.float32(255))[0]
    np.testing.assert_array_equal(np.argmax(outputs, 1), LABELS)
    expected = np.moveaxis(IMAGES[0], -1, 0)
    if pixels == "unit":
        expected = np.float32(expected) / np.float32(255)
    assert {one.dtype for batch in model.given for one in batch} == {expected.dtype}
    assert any(np.array_equal(batch[0], expected) for batch in model.given)


def test_a_model_must_answer_for_each_image():
    model = Model()
    model.__class__ = type("Short", (Model,), {"__call__": lambda self, batch: []})
    classifier = maite.classifier(model, "logits", "unit")
    with pytest.raises(ValueError, match="a sequence of .* outputs, one for each"):
        jaxrob.evaluate(classifier, maite.dataset(Data()), BLUR, [0.0])


@functools.partial(jax.jit, static_argnums=0)
def at_levels(alteration, pixels, levels, key):
    return jax.vmap(lambda level: alteration(pixels, level, key))(levels)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alteration", "dtype"), [(BLUR, np.uint8), (BLUR, np.float64), (NOISE, np.float32)]
)
def test_an_augmentation_alters_each_image_at_each_level(alteration, dtype):
    images = IMAGES if dtype == np.uint8 else (IMAGES / 255).astype(dtype)
    levels = np.linspace(0, 0.1, 9)
    augmentation = maite.Augmentation(alteration, levels, KEY)
    batch = tuple(map(list, zip(*(Data(images)[i] for i in (4, 2)))))
    altered, targets, metadata = augmentation(batch)
    assert [about["id"] for about in metadata] == [4] * 9 + [2] * 9
    assert [about["jaxrob_level"] for about in metadata] == [*levels, *levels]
    assert {about["hour"] for about in metadata} == {7}
    np.testing.assert_array_equal(targets, np.repeat(batch[1], 9, axis=0))
    for index, start in ((4, 0), (2, 9)):
        # The noise of an evaluation.
        key = jax.random.fold_in(KEY, index)
        pixels = np.float32(IMAGES[index]) / np.float32(255)
        expected = at_levels(alteration, pixels, np.float32(levels), key)
        expected = np.moveaxis(expected, -1, 1)
        found = np.stack(altered[start : start + 9])
        assert found.dtype == dtype and found.shape == (9, 3, 8, 7)
        if dtype == np.uint8:
            np.testing.assert_allclose(found, expected * 255, rtol=0, atol=0.501)
        else:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        if dtype != np.float64:
            np.testing.assert_array_equal(found[0], np.moveaxis(images[index], -1, 0))
    # The batch's own lists and arrays stay as they were.
    assert "jaxrob_level" not in batch[2][0] and len(batch[0]) == 2


def test_noise_depends_on_ids_alone():
    augmentation = maite.Augmentation(NOISE, 0.1, KEY)
    image = np.full((3, 8, 7), 0.5, np.float32)
    ids = ["a", "b", "a", 5, -5, 2**40, True]
    batch = [image] * 7, [ONE_HOT[0]] * 7, [{"id": one} for one in ids]
    found = np.array(augmentation(batch)[0]).reshape(7, -1)
    same = (found[:, None] == found).all(-1)
    np.testing.assert_array_equal(same, np.equal.outer(ids, ids))


IMAGE, LABEL, ABOUT = np.zeros((3, 8, 7), np.uint8), ONE_HOT[0], {"id": 5}


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (([IMAGE], [LABEL]), ValueError, "batch must"),
        (([IMAGE], [], [ABOUT]), ValueError, "one for each image; got 1, 0, 1"),
        (IMAGE, TypeError, "batch must"),
        (([IMAGE], [LABEL], [{}]), TypeError, "metadata must"),
        (([IMAGE[0]], [LABEL], [ABOUT]), ValueError, "image 5: .* shape"),
        (([IMAGE * 1.5 + 9], [LABEL], [ABOUT]), ValueError, "image 5: floating"),
        (([IMAGE * np.nan], [LABEL], [ABOUT]), ValueError, "image 5: images must"),
        (([np.int32(IMAGE)], [LABEL], [ABOUT]), TypeError, "image 5: images must"),
    ],
)
def test_batches_that_are_refused(batch, error, message):
    with pytest.raises(error, match=message):
        maite.Augmentation(BLUR, 0.0)(batch)


@pytest.mark.parametrize(
    ("measure", "alteration"), [("f1", BLUR), ("top2_accuracy", NOISE)]
)
def test_robustness_is_that_of_assess(measure, alteration):
    model, images = Model(), np.float32(IMAGES) / np.float32(255)
    levels = np.linspace(alteration.lower, alteration.upper, 9)
    augmentation = maite.Augmentation(alteration, levels, KEY)
    threshold = 0.85 if measure == "top2_accuracy" else 0.7
    metric = maite.Robustness(alteration, threshold, measure)
    found = evaluate(model, Data(images), augmentation, metric)
    expected = jaxrob.assess(
        maite.classifier(model, "logits", "unit"),
        maite.dataset(Data(images)),
        alteration,
        threshold,
        measure,
        strategy=jaxrob.strategies.Uniform(9),
        rule="linear",
        key=KEY,
    )
    curve = found["curve"]
    np.testing.assert_array_equal(found["levels"], expected.levels)
    np.testing.assert_array_equal(curve.predicted, expected.curve.predicted)
    np.testing.assert_array_equal(curve.rank, expected.curve.rank)
    np.testing.assert_array_equal(curve.labels, LABELS)
    np.testing.assert_array_equal(found["values"], expected.values)
    assert found["robustness"] == expected.robustness
    assert 0.1 < found["robustness"] < 0.9
    assert found["confidence_interval"] == expected.confidence_interval


def test_batches_and_their_order_do_not_matter():
    augmentation = maite.Augmentation(BLUR, LEVELS)
    metric = maite.Robustness(BLUR, 0.7)
    found = evaluate(Model(), Data(), augmentation, metric, size=30)
    single = evaluate(Model(), Data(), augmentation, metric, size=1)
    assert single["robustness"] == found["robustness"]
    # Level by level, as in a loop over augmentations.
    metric.reset()
    for level in LEVELS[::-1]:
        batch = tuple(map(list, zip(*(Data()[i] for i in range(29, -1, -1)))))
        batch = maite.Augmentation(BLUR, level)(batch)
        metric.update(Model()(batch[0]), *batch[1:])
    again = metric.compute()
    assert again["robustness"] == found["robustness"]
    np.testing.assert_array_equal(again["values"], found["values"])


def test_what_assess_warns_of_is_warned_of():
    metric = maite.Robustness(BLUR)
    wrong = Data(targets=ONE_HOT[(LABELS + 1) % 4])
    augmentation = maite.Augmentation(BLUR, LEVELS)
    with pytest.warns(jaxrob.RobustnessWarning, match="unaltered, the accuracy is 0"):
        evaluate(Model(), wrong, augmentation, metric)


def about(level=0.0, alteration=BLUR, identity=5):
    added = {"jaxrob_level": level, "jaxrob_alteration": alteration.description}
    return {"id": identity} | added


ALONE = [about(), about(2.0), about(2.0, BLUR, 6)]


@pytest.mark.parametrize(
    ("outputs", "labels", "metadata", "message"),
    [
        ([LABEL], [LABEL], [], "got 1, 1 and 0"),
        ([LABEL], [LABEL], [ABOUT], "jaxrob.maite.Augmentation"),
        ([LABEL], [LABEL], [about(alteration=NOISE)], "must be altered by"),
        ([LABEL] * 2, [LABEL] * 2, [about()] * 2, "image 5 came twice at level 0"),
        ([LABEL[:3]], [LABEL], [about()], "must have 4 classes"),
        ([LABEL * np.nan], [LABEL], [about()], "outputs must not be NaN"),
        ([LABEL], [LABEL / 2], [about()], "must be one-hot"),
        ([], [], [], "levels must include both ends"),
        ([LABEL] * 2, [LABEL] * 2, [about(), about(1.0)], "got 0, 1"),
        ([LABEL] * 2, [LABEL] * 2, [about(), about(2.0, BLUR, 6)], "must be seen at"),
        ([LABEL] * 3, [LABEL] * 3, ALONE, "1 at level 0 and 2"),
        ([LABEL] * 2, [LABEL, ONE_HOT[1]], ALONE[:2], "the same label at every level"),
    ],
)
def test_answers_that_are_refused(outputs, labels, metadata, message):
    metric = maite.Robustness(BLUR)
    with pytest.raises(ValueError, match=message):
        metric.update(outputs, labels, metadata)
        metric.compute()


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        (maite.dataset, (IMAGES,), TypeError, "source"),
        (maite.dataset, (Data(id=3),), TypeError, "source .* a text as id"),
        (maite.dataset, (Model(),), TypeError, "source must be a data set"),
        (maite.dataset, (Data(targets=ONE_HOT[LABELS] / 2),), ValueError, "one-hot"),
        (maite.dataset, (Data(targets=["ant"] * 30),), TypeError, "one-hot"),
        (maite.dataset, (Data(index2label={1: "ant"}),), ValueError, "classes 0"),
        (maite.dataset, (Data(index2label={0: "ant"}),), ValueError, "1 classes"),
        (maite.dataset, (Data(IMAGES * 1.0),), ValueError, "0, 1"),
        (maite.classifier, (len, "logits", "unit"), TypeError, "model"),
        (maite.classifier, (Model(), "logit", "unit"), ValueError, "outputs"),
        (maite.classifier, (Model(), "logits", "float"), ValueError, "pixels"),
        (
            maite.classifier,
            (Model(index2label={}), "logits", "unit"),
            ValueError,
            "num_classes",
        ),
        (maite.classifier, (Model(), "logits", "unit", 3), ValueError, "class_names"),
        (maite.Augmentation, ("blur", 0.0), TypeError, "alteration"),
        (maite.Augmentation, (BLUR, "all"), TypeError, "levels"),
        (maite.Augmentation, (BLUR, [0.0, 2.5]), ValueError, "levels must lie in"),
        (maite.Augmentation, (BLUR, []), ValueError, "levels must have the shape"),
        (maite.Augmentation, (NOISE, 0.1), ValueError, "needs a key"),
        (maite.Augmentation, (BLUR, 0.0, 7), TypeError, "key"),
        (maite.Robustness, (None,), TypeError, "alteration"),
        (maite.Robustness, (BLUR, 1.5), ValueError, "threshold"),
        (maite.Robustness, (BLUR, 0.8, "accuracy", 1.0), ValueError, "confidence"),
    ],
)
def test_arguments_that_are_refused(make, arguments, error, message):
    with pytest.raises(error, match=message):
        make(*arguments)
