"""Labels that are the names of classes, of arrays, items and batches."""

import re

import numpy as np
import pytest

import jaxrob
from jaxrob import Dataset, alterations

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 1), dtype=np.uint8)
NAMES = ("owl", "cat", "dog")
TEXTS = ["dog", "owl", "cat", "cat", "dog"]
NUMBERS = [2, 0, 1, 1, 2]
MIXED = ["dog", 0, "cat", np.int64(1), np.str_("dog")]


class Source(list):
    classes = ["cat", "dog", "owl"]


def pairs(labels):
    return list(zip(IMAGES, labels))


@pytest.mark.parametrize(
    "labels",
    [TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object), MIXED],
    ids=["list", "tuple", "array", "objects", "mixed"],
)
def test_names_become_their_numbers(labels):
    batch = {"image": IMAGES, "label": labels}
    for given in (
        Dataset(IMAGES, labels, NAMES),
        Dataset.from_items(pairs(labels), NAMES),
        next(Dataset.from_items(pairs(labels), NAMES, max_bytes=0).batches()),
        next(Dataset.from_batches([(IMAGES, labels)], NAMES).batches()),
        next(Dataset.from_batches([batch], NAMES).batches()),
    ):
        np.testing.assert_array_equal(given.labels, NUMBERS)
        assert given.labels.dtype == np.int32 and given.class_names == NAMES


def test_names_that_the_source_carries():
    found = Dataset.from_items(Source(pairs(TEXTS)))
    np.testing.assert_array_equal(found.labels, [1, 2, 0, 0, 1])


@pytest.mark.parametrize(
    ("labels", "names", "error", "message"),
    [
        (["cat"], None, TypeError, "or the name of a class where class_names= is"),
        (["Cat"], NAMES, ValueError, "one of the 3 class_names (did you mean 'cat'?)"),
        (["cow!"], NAMES, ValueError, "(owl, cat, dog); got 'cow!'"),
        (["elk"], ["ant"] * 20, ValueError, "ant, ...); got 'elk'"),
        (["cat"], [*NAMES, "cat"], ValueError, "stands several times in class_names"),
        ([3], NAMES, ValueError, "must be below"),
        ([b"cat"], NAMES, TypeError, "integer"),
    ],
)
def test_names_that_are_refused(labels, names, error, message):
    images = IMAGES[:1]
    for where, make in (
        ("", lambda: Dataset(images, labels, names)),
        ("", lambda: Dataset.from_items(list(zip(images, labels)), names)),
        (
            "batch 0 of dataset: labels",
            lambda: list(Dataset.from_batches([(images, labels)], names).batches()),
        ),
    ):
        with pytest.raises(error, match=f"{where}.*{re.escape(message)}"):
            make()
    if isinstance(labels[0], str):
        with pytest.raises(error, match=r"labels\[0\]"):
            Dataset(images, labels, names)
        with pytest.raises(error, match="item 0 of dataset: the label of an item"):
            Dataset.from_items(list(zip(images, labels)), names)


def test_another_order_than_the_source_s_own():
    """Its numbers would mean other classes."""
    for make in (Dataset.from_items, Dataset.from_batches):
        with pytest.raises(ValueError, match=r"class 0 of Source .* is 'cat', and 'ow"):
            make(Source(pairs([0, 1, 2])), NAMES)
        assert make(Source(pairs([0])), ["Kat", "Hund", "Uhu"]).class_names[0] == "Kat"


def test_the_way_out_of_another_order_than_the_network_s():
    classifier = jaxrob.Classifier(lambda _, x: x[:, :3, 0, 0], class_names=NAMES)
    blur = alterations.gaussian_blur(0.0, 1.0)
    sorted_names = Dataset.from_items(Source(pairs([1, 2, 0, 0, 1])))
    with pytest.raises(ValueError, match="numbered by class_names=classifier.class_na"):
        jaxrob.evaluate(classifier, sorted_names, blur, [0.0])
