"""MAITE's protocols are structural: objects made by hand, without the library.

tests/frameworks/test_maite.py runs its own evaluation.
"""

import re

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
LEVELS = np.linspace(0, 2, 5)
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
    """What `maite.tasks.evaluate` does."""
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


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (IMAGES, TypeError, "source must be one of MAITE's, with metadata and a text"),
        (Data(id=3), TypeError, "with metadata and a text as id"),
        (Model(), TypeError, "source must be a data set of MAITE's, with items"),
        (Data(targets=ONE_HOT[LABELS] / 2), ValueError, "the label of item 0 must be "),
        (Data(targets=ONE_HOT[LABELS] * 0), ValueError, "item 0 must be one-hot, [K]"),
        (Data(targets=1 - ONE_HOT[LABELS]), ValueError, "must be one-hot"),
        (Data(targets=LABELS), ValueError, "must be one-hot"),
        (Data(targets=["ant"] * 30), TypeError, "must be one-hot; got 'ant'"),
        (Data(index2label={1: "ant"}), ValueError, "must name the classes 0, 1, 2, .."),
        (Data(index2label={0: "ant"}), ValueError, "must have 1 classes, one for each"),
        (Data(IMAGES * 1.0), ValueError, "must lie in [0, 1]"),
        (list(zip(IMAGES, LABELS)), TypeError, "source must be one of MAITE's"),
    ],
)  # fmt: skip
def test_data_sets_that_are_refused(source, error, message):
    with pytest.raises(error, match=re.escape(message)):
        maite.dataset(source)


@pytest.mark.parametrize("pixels", ["bytes", "unit"])
def test_a_model_is_as_a_host_function(pixels):
    model = Model(255 if pixels == "bytes" else 1)
    classifier = maite.classifier(model, "logits", pixels)
    assert classifier.name == "linear" and classifier.class_names[1] == "bee"
    curve = jaxrob.evaluate(classifier, maite.dataset(Data()), BLUR, [0.0])
    np.testing.assert_array_equal(curve.predicted[0], LABELS)
    expected = np.moveaxis(IMAGES[0], -1, 0)
    if pixels == "unit":
        expected = np.float32(expected) / np.float32(255)
    assert {one.dtype for batch in model.given for one in batch} == {expected.dtype}
    assert any(np.array_equal(batch[0], expected) for batch in model.given)


def test_names_of_classes_must_agree():
    other = maite.classifier(Model(index2label={**NAMES, 3: "hen"}), "logits", "unit")
    with pytest.raises(ValueError, match="class_names of the classifier and of"):
        jaxrob.evaluate(other, maite.dataset(Data()), BLUR, [0.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((len, "logits", "unit"), TypeError, "model must be one of MAITE's, with meta"),
        ((Data(), "logits", "unit"), TypeError, "model must be a model of MAITE's, wh"),
        ((Model(), "logit", "unit"), ValueError, "outputs must be one of"),
        ((Model(), "logits", "float"), ValueError, "pixels must be one of ('bytes', '"),
        ((Model(index2label={}), "logits", "unit"), ValueError, "num_classes must be "),
        ((Model(), "logits", "unit", 3), ValueError, "class_names must be 3"),
    ],
)  # fmt: skip
def test_models_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        maite.classifier(*arguments)


def test_a_model_must_answer_for_each_image():
    model = Model()
    model.__class__ = type("Short", (Model,), {"__call__": lambda self, batch: []})
    classifier = maite.classifier(model, "logits", "unit")
    with pytest.raises(ValueError, match="a sequence of .* outputs, one for each"):
        jaxrob.evaluate(classifier, maite.dataset(Data()), BLUR, [0.0])


@pytest.mark.parametrize("alteration", [BLUR, NOISE], ids=lambda one: one.name)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_an_augmentation_alters_each_image_at_each_level(alteration, dtype):
    images = IMAGES if dtype == np.uint8 else (IMAGES / 255).astype(dtype)
    levels = np.array([0.0, 0.05, 0.1])
    augmentation = maite.Augmentation(alteration, levels, KEY)
    batch = tuple(map(list, zip(*(Data(images)[i] for i in (4, 2)))))
    altered, targets, metadata = augmentation(batch)
    assert [about["id"] for about in metadata] == [4, 4, 4, 2, 2, 2]
    assert [about["jaxrob_level"] for about in metadata] == [*levels, *levels]
    assert {about["hour"] for about in metadata} == {7}
    np.testing.assert_array_equal(targets, np.repeat(batch[1], 3, axis=0))
    for index, start in ((4, 0), (2, 3)):
        # The noise of an evaluation.
        key = jax.random.fold_in(KEY, index)
        pixels = np.float32(IMAGES[index]) / np.float32(255)
        for at, level in enumerate(levels):
            expected = np.moveaxis(alteration(pixels, level, key), -1, 0)
            found = altered[start + at]
            assert found.dtype == dtype and found.shape == (3, 8, 7)
            if dtype == np.uint8:
                np.testing.assert_allclose(found, expected * 255, rtol=0, atol=0.501)
            else:
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
            if level == 0 and dtype != np.float64:
                np.testing.assert_array_equal(found, np.moveaxis(images[index], -1, 0))
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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("blur", 0.0), TypeError, "alteration must be a jaxrob.Alteration"),
        ((BLUR, "all"), TypeError, "levels must be an array"),
        ((BLUR, [0.0, 2.5]), ValueError, "levels must lie in [0, 2]; got 2.5"),
        ((BLUR, []), ValueError, "levels must have the shape"),
        ((NOISE, 0.1), ValueError, "gaussian noise is stochastic and needs a key"),
        ((BLUR, 0.0, 7), TypeError, "key must be a random key"),
    ],
)
def test_augmentations_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        maite.Augmentation(*arguments)


IMAGE, LABEL, ABOUT = np.zeros((3, 8, 7), np.uint8), ONE_HOT[0], {"id": 5}


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (([IMAGE], [LABEL]), ValueError, "batch must be (images, labels, metadata)"),
        (([IMAGE], [], [ABOUT]), ValueError, "one for each image; got 1, 0, 1"),
        (IMAGE, TypeError, "batch must be (images, labels, metadata); got ndarray"),
        (([IMAGE], [LABEL], [{}]), TypeError, "metadata must be a mapping with an id"),
        (([IMAGE[0]], [LABEL], [ABOUT]), ValueError, "image 5: it must have the shape"),
        (([IMAGE * 1.5 + 9], [LABEL], [ABOUT]), ValueError, "image 5: floating images"),
        (([IMAGE * np.nan], [LABEL], [ABOUT]), ValueError, "image 5: images must be f"),
        (([np.int32(IMAGE)], [LABEL], [ABOUT]), TypeError, "image 5: images must be u"),
    ],
)  # fmt: skip
def test_batches_that_are_refused(batch, error, message):
    with pytest.raises(error, match=re.escape(message)):
        maite.Augmentation(BLUR, 0.0)(batch)


@pytest.mark.parametrize("measure", ["accuracy", "f1", "top2_accuracy"])
@pytest.mark.parametrize("alteration", [BLUR, NOISE], ids=lambda one: one.name)
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
    assert (
        evaluate(Model(), Data(), augmentation, metric, size=1)["robustness"]
        == (found["robustness"])
    )
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
    augmentation = maite.Augmentation(BLUR, np.linspace(0, 2, 9))
    with pytest.warns(jaxrob.RobustnessWarning, match="unaltered, the accuracy is 0"):
        evaluate(Model(), wrong, augmentation, metric)
    few = evaluate(Model(), Data(), maite.Augmentation(BLUR, [0.0, 2.0]), metric)
    assert "An interval of 100.0 % of the range" in few["diagnostics"].warnings[0]


def about(level=0.0, alteration=BLUR, identity=5):
    added = {"jaxrob_level": level, "jaxrob_alteration": alteration.description}
    return {"id": identity} | added


@pytest.mark.parametrize(
    ("outputs", "labels", "metadata", "message"),
    [
        ([LABEL], [LABEL], [], "one for each image; got 1, 1 and 0"),
        ([LABEL], [LABEL], [ABOUT], "as jaxrob.maite.Augmentation adds it; got dict"),
        ([LABEL], [LABEL], [about(alteration=NOISE)], "must be altered by jaxrob"),
        ([LABEL] * 2, [LABEL] * 2, [about()] * 2, "image 5 came twice at level 0"),
        ([LABEL[:3]], [LABEL], [about()], "must have 4 classes; got (3,) and 4"),
        ([LABEL * np.nan], [LABEL], [about()], "outputs must not be NaN, as of image"),
        ([LABEL], [LABEL / 2], [about()], "must be one-hot"),
    ],
)
def test_answers_that_are_refused(outputs, labels, metadata, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        maite.Robustness(BLUR).update(outputs, labels, metadata)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "levels must include both ends of the range, 0 and 2; got none"),
        ([about(0.0), about(1.0)], "got 0, 1"),
        ([about(0.0), about(2.0, identity=6)], "every image must be seen at every lev"),
        ([about(0.0), about(2.0), about(2.0, identity=6)], "1 at level 0 and 2, other"),
    ],
)
def test_incomplete_answers_have_no_robustness(answers, message):
    metric = maite.Robustness(BLUR)
    metric.update([LABEL] * len(answers), [LABEL] * len(answers), answers)
    with pytest.raises(ValueError, match=re.escape(message)):
        metric.compute()
    metric.reset()
    metric.update([LABEL] * 2, [LABEL, ONE_HOT[1]], [about(0.0), about(2.0)])
    with pytest.raises(ValueError, match="the same label at every level"):
        metric.compute()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None,), TypeError, "alteration must be a jaxrob.Alteration; got None"),
        ((BLUR, 1.5), ValueError, "threshold must lie in [0, 1]; got 1.5"),
        ((BLUR, 0.8, "precise"), ValueError, "measure must be one of"),
        ((BLUR, 0.8, "accuracy", 1.0), ValueError, "confidence_level must lie in (0, "),
    ],
)  # fmt: skip
def test_metrics_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        maite.Robustness(*arguments)
