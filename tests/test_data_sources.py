"""Items and batches as other libraries give them, made by hand.

tests/frameworks/test_data_sources.py has the libraries themselves.
"""

import itertools
import re

import jax
import numpy as np
import pytest
from PIL import Image

from jaxrob import Alteration, Classifier, Dataset, RobustnessWarning

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 8, 9, 3), dtype=np.uint8)
LABELS = np.arange(7) % 3
NAMES = ("cat", "dog", "owl")
MASKS = IMAGES[..., 0] > 100
# As many as the number says; all as many in the first four.
BOXES = [np.float32([[1, 2, 5, 7]] * number) for number in (1, 1, 1, 1, 3, 2, 1)]


class Indexed:
    """Like torch's: it takes indices, and its end is known by its length alone."""

    def __init__(self, items, **attributes):
        self.items = items
        vars(self).update(attributes)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index % len(self.items)]


def pairs(images=IMAGES):
    return list(zip(images, LABELS.tolist()))


def rows(images=IMAGES, image="image", label="label"):
    return [{image: one, label: index} for one, index in pairs(images)]


def masked(masks=MASKS):
    return list(zip(IMAGES, masks))


def first(images):
    return np.moveaxis(images, -1, 1)


@pytest.mark.parametrize(
    ("items", "given"),
    [
        (pairs(), {}),
        (Indexed(pairs()), {}),
        (rows(), {}),
        (rows(image="img", label="fine"), {"image": "img", "label": "fine"}),
        (rows([Image.fromarray(one) for one in IMAGES]), {"channels_first": True}),
        (pairs(first(IMAGES)), {"channels_first": True}),
        (pairs(jax.device_put(IMAGES)), {}),
    ],
    ids=lambda given: getattr(type(given), "__name__", "") + str(len(given)),
)
@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_items_are_as_arrays(items, given, max_bytes):
    dataset = Dataset.from_items(items, NAMES, "some", **given, max_bytes=max_bytes)
    assert isinstance(dataset, Dataset) is (max_bytes > 0)
    for _ in range(2):
        parts = [dataset] if max_bytes else list(dataset.batches())
        np.testing.assert_array_equal(np.concatenate([p.images for p in parts]), IMAGES)
        np.testing.assert_array_equal(np.concatenate([p.labels for p in parts]), LABELS)
        assert {p.images.dtype for p in parts} == {np.dtype(np.uint8)}
    assert dataset.class_names == NAMES and dataset.name == "some"


@pytest.mark.parametrize(
    ("batch", "given"),
    [
        ((IMAGES, LABELS), {}),
        ([list(IMAGES), list(LABELS)], {}),
        ({"image": IMAGES, "label": LABELS}, {}),
        ({"x": IMAGES, "y": LABELS}, {"image": "x", "label": "y"}),
        ((first(IMAGES), LABELS), {"channels_first": True}),
        ((list(first(IMAGES)), LABELS), {"channels_first": True}),
        ((jax.device_put(first(IMAGES)), LABELS), {"channels_first": True}),
        (([Image.fromarray(one) for one in IMAGES], LABELS.tolist()), {}),
    ],
)
def test_batches_are_as_arrays(batch, given):
    dataset = Dataset.from_batches([batch, batch], **given)
    for part in itertools.chain(dataset.batches(), dataset.batches()):
        np.testing.assert_array_equal(part.images, IMAGES)
        np.testing.assert_array_equal(part.labels, LABELS)
        assert part.images.dtype == np.uint8


class Tensor:
    def __init__(self, values):
        self.values = values
        self.shape = values.shape

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


def wholes(items, **given):
    for max_bytes in (1 << 30, 0):
        found = Dataset.from_items(items, max_bytes=max_bytes, **given)
        yield [found] if max_bytes else list(found.batches())


@pytest.mark.parametrize(
    "masks",
    [
        MASKS,
        [Tensor(one) for one in np.int64(MASKS)],
        [Image.fromarray(np.uint8(one)).convert("P") for one in MASKS],
        [jax.device_put(one[..., None]) for one in MASKS],
        [one[None] for one in MASKS],
    ],
    ids=["bool", "tensor", "P", "channel last", "channel first"],
)
def test_masks_are_one_array(masks):
    for parts in wholes(masked(masks)):
        found = np.concatenate([part.labels for part in parts])
        assert found.dtype != object
        np.testing.assert_array_equal(found.reshape(MASKS.shape) > 0, MASKS)
    batches = Dataset.from_batches([(list(IMAGES), list(masks))])
    np.testing.assert_array_equal(next(batches.batches()).labels, found)


def test_masks_count_as_memory():
    limit = IMAGES.nbytes + MASKS.nbytes
    assert isinstance(Dataset.from_items(masked(), max_bytes=limit), Dataset)
    assert not isinstance(Dataset.from_items(masked(), max_bytes=limit - 1), Dataset)


def as_is(boxes):
    return boxes


@pytest.mark.parametrize(
    "made", [as_is, Tensor, lambda boxes: {"boxes": Tensor(boxes), "text": "a"}]
)
def test_boxes_stay_a_list(made, monkeypatch):
    """Whether all images of a batch have as many or not."""
    monkeypatch.setattr("jaxrob._classifiers.samples._MOST_IN_BATCH", 2)
    labels = [made(one) for one in BOXES]
    for parts in wholes(masked(labels)):
        assert all(part.labels.dtype == object for part in parts)
        found = [label for part in parts for label in part.labels]
        for label, boxes in zip(found, BOXES, strict=True):
            label = label["boxes"] if isinstance(label, dict) else label
            assert type(label) is np.ndarray
            np.testing.assert_array_equal(label, boxes)
    (batch,) = Dataset.from_batches([(IMAGES, tuple(labels))]).batches()
    assert batch.labels.dtype == object and len(batch.labels) == len(BOXES)


@pytest.mark.parametrize("made", [as_is, Tensor, lambda one: {"mask": [one.data]}])
def test_one_array_filled_again_and_again(made):
    # Aligned, so that JAX shares its memory.
    memory, mask = np.zeros(IMAGES[0].size + 64, np.uint8), MASKS[:1].copy()
    image = memory[-memory.ctypes.data % 64 :][: IMAGES[0].size]
    image = image.reshape(IMAGES[:1].shape)

    class Refilled(Indexed):
        def __getitem__(self, index):
            image[:], mask[:] = IMAGES[index], MASKS[index]
            return image[0], made(mask[0])

    class Batches:
        def __iter__(self):
            for index in range(len(IMAGES)):
                Refilled([])[index]
                masks = mask if made is as_is else np.array([made(mask[0]), 0])[:1]
                yield jax.device_put(image) if made is as_is else image, masks

    for parts in (
        *wholes(Refilled(IMAGES)),
        list(Dataset.from_batches(Batches()).batches()),
    ):
        found = np.concatenate([part.images for part in parts])
        np.testing.assert_array_equal(found, IMAGES)
        found = [label for part in parts for label in part.labels]
        found = [one["mask"][0] if isinstance(one, dict) else one for one in found]
        np.testing.assert_array_equal(found, MASKS)
    same = Alteration("same", lambda image, level: image, 0.0, 1.0)
    for found in same(image, 0.0), Classifier(lambda _, images: images).returned(image):
        assert not np.shares_memory(found, image)


def test_grey_images():
    grey = IMAGES[..., 0]
    pictures = pairs([Image.fromarray(one) for one in grey])
    for items, first in ((pictures, None), (pairs(grey), False)):
        dataset = Dataset.from_items(items, channels_first=first)
        np.testing.assert_array_equal(dataset.images, grey[..., None])
    # Not said to be images: any inputs.
    assert Dataset.from_items(pairs(grey)).images.shape == grey.shape


def test_class_names_travel():
    features = {"label": type("ClassLabel", (), {"names": list(NAMES)})()}
    of_batch = {"label": type("List", (), {"feature": features["label"]})()}
    for carried in (
        {"features": features},
        {"features": of_batch},
        {"classes": list(NAMES)},
        {"classes": NAMES[::-1], "class_to_idx": dict(zip(NAMES, range(3)))},
        {"class_names": list(NAMES)},
        {"classes": np.array(NAMES)},  # Of `np.unique`, or of scikit-learn's encoder.
        {"classes": dict(enumerate(NAMES))},
        {"classes": dict.fromkeys(NAMES).keys()},
        {"classes": dict(enumerate(NAMES)).values()},
        {"classes": dict(zip("012", NAMES))},  # Of JSON.
        {"classes": np.array(NAMES, "S")},
        {"class_to_idx": dict(zip(NAMES, np.arange(3)))},
        {"class_to_idx": dict(zip(NAMES[::-1], (2, 1, 0)))},
        {"classes": NAMES[::-1], "target_transform": lambda number: 2 - number},
        {"datasets": [Indexed([], classes=NAMES)] * 2},
        {"dataset": Indexed([], dataset=Indexed([], classes=NAMES))},
    ):
        assert Dataset.from_items(Indexed(pairs(), **carried)).class_names == NAMES
    synonyms = Indexed(pairs(), classes=[("tench", "Tinca tinca"), ("owl",), ("cat",)])
    assert Dataset.from_items(synonyms).class_names[0] == "tench, Tinca tinca"
    assert Dataset.from_items(synonyms, NAMES).class_names == NAMES
    others = Indexed([], classes=NAMES), Indexed([], classes=NAMES[::-1])
    for none in (
        pairs(),
        Indexed(pairs(), features={}),
        Indexed(pairs(), classes=NAMES, target_transform=lambda number: number // 2),
        *(Indexed(pairs(), classes=one) for one in (3, np.arange(3), {"owl": 4})),
    ):
        assert Dataset.from_items(none).class_names is None
    with pytest.warns(RobustnessWarning, match="class 0 is one of"):
        assert Dataset.from_items(Indexed(pairs(), datasets=others)).class_names is None


def picture(mode):
    return Image.fromarray(IMAGES[0]).convert(mode)


class Shuffled:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __iter__(self):
        return iter([pairs()[i] for i in self.rng.permutation(len(IMAGES))])


class Augmented(Indexed):
    """Every reading is another one."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        self.items[index] = np.roll(image, 1), label
        return image, label


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (iter(pairs()), TypeError, "items must be iterable more than once"),
        ({"test": pairs()}, TypeError, "with the keys 'test' (take one, such as a s"),
        (IMAGES, TypeError, "items must be a sequence or an iterable of (image, label"),
        (None, TypeError, "items must be"),
        ([], ValueError, "items is empty; some needs at least one"),
        (pairs(first(IMAGES)), ValueError, "item 0 of some: images of the shape (3, 8"),
        ([(np.ma.masked_array(IMAGES[0]), 0)], TypeError, "must not be masked"),
        ([(IMAGES[0], np.ma.masked_array(MASKS[0]))], TypeError, "must not be masked"),
        (rows(image="img"), ValueError, "has no 'image' but 'img', 'label': pass "),
        (rows(label="fine"), ValueError, "'image', 'fine': pass label="),
        ([(IMAGES[0], 0, "id")], ValueError, "must be (image, label), or a mapping of"),
        ([IMAGES[0]], TypeError, "item 0 of some: an item must be (image, label)"),
        ([(IMAGES, LABELS)], ValueError, "Dataset.from_batches"),
        ([*pairs(), (IMAGES[0], [0, 1])], ValueError, "item 7 of some: the labels mus"),
        (pairs()[:1] + masked()[:1], ValueError, "(8, 9) and type bool after a numb"),
        ([(IMAGES[0], 1.0)], TypeError, "the label of an item must be an integer; got"),
        ([(IMAGES[0], "cat")], TypeError, "or the name of a class where"),
        ([(IMAGES[0], -1)], ValueError, "labels must be at least 0"),
        ([*pairs(), (IMAGES[0, :4], 0)], ValueError, "item 7 of some: an image of the"),
        ([*pairs(), (IMAGES[0] / 255, 0)], ValueError, "resize and convert them"),
        ([(IMAGES[0] / 100.0, 0)], ValueError, "must lie in [0, 1]"),
        ([(picture("RGBA"), 0)], ValueError, 'mode RGBA: convert them in the source, '),
        (Shuffled(), ValueError, "items of some must be the same whenever they are re"),
        (Augmented(pairs()), ValueError, "Leave out shuffling and random augmentation"),
    ],
)  # fmt: skip
def test_items_that_are_refused(items, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Dataset.from_items(items, name="some")


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ((first(IMAGES), LABELS), ValueError, "pass channels_first=True, or False if"),
        (pairs()[0], ValueError, "of single items make a data set by Dataset.from_ite"),
        ((IMAGES[0], "cat"), ValueError, "of single items make a data set by Dataset."),
        (([IMAGES[0], IMAGES[1, :4]], [0, 1]), ValueError, "image 1 has (4, 9, 3), th"),
        ({"img": IMAGES, "label": LABELS}, ValueError, "pass image="),
        (((IMAGES / 255 - 0.5) / 0.2, LABELS), ValueError, "normalisation"),
        ((IMAGES, LABELS, LABELS), ValueError, "got 3 values"),
        (([[1.0], [1.0, 2.0]], [0, 1]), TypeError, "images must be an array"),
    ],
)  # fmt: skip
def test_batches_that_are_refused(batch, error, message):
    dataset = Dataset.from_batches([batch], name="some")
    with pytest.raises(error, match="batch 0 of some: .*" + re.escape(message)):
        list(dataset.batches())


class Endless:
    def __iter__(self):
        return itertools.repeat(pairs()[0])

    def __len__(self):
        return 2**63 - 1


class Infinite(Endless):
    """Like a repeated `tf.data.Dataset`."""

    def __len__(self):
        raise TypeError("The dataset is infinite.")

    def cardinality(self):
        return np.int64(-1)


@pytest.mark.parametrize("source", [Endless(), Infinite()])
def test_sources_without_an_end(source):
    with pytest.raises(ValueError, match="items must end; got .*leave out repeat"):
        Dataset.from_items(source)
    with pytest.raises(ValueError, match="batches must end"):
        Dataset.from_batches(source)


def test_items_beyond_memory_are_not_read_to_the_end():
    read = []

    class Counted(Indexed):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    half = IMAGES.nbytes // 2

    class Iterable:
        def __iter__(self):
            return iter(pairs())

    dataset = Dataset.from_items(Counted(pairs()), max_bytes=half)
    assert read == [0] and not isinstance(dataset, Dataset)
    # Without a length it shows on the way.
    streamed = Dataset.from_items(Iterable(), max_bytes=half)
    assert not isinstance(streamed, Dataset)
    np.testing.assert_array_equal(next(streamed.batches()).images, IMAGES)
