import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import Classifier, Dataset, RobustnessWarning
from jaxrob._engine.provenance import (
    classifier_fingerprint,
    dataset_fingerprint,
    provenance,
)
from jaxrob._fingerprint import fingerprinted_classifier

IMAGES = np.random.default_rng(0).random((7, 3, 3, 1), np.float32)
LABELS = np.arange(7) % 2


def linear(weights, images, scale=1.0):
    return images.reshape(len(images), -1) @ weights * scale


def classifier(apply_fn=linear, value=1.0):
    return Classifier(apply_fn, np.full((9, 2), value, np.float32))


def fingerprint(classifier, image_shape=(3, 3, 1)):
    return classifier_fingerprint(fingerprinted_classifier(classifier, image_shape))


def test_any_callable_has_a_fingerprint():
    class Callable:
        def __call__(self, weights, images):
            return linear(weights, images)

    same = (linear, Callable(), lambda weights, images: linear(weights, images))
    others = (functools.partial(linear, scale=2.0), jax.jit(linear))
    found = [fingerprint(classifier(function)) for function in (*same, *others)]
    assert all(len(one) == 32 for one in found)
    # By what they compute, whatever they are called.
    assert len(set(found[:3])) == 1 and len(set(found)) == 3


def test_other_variables_are_another_classifier():
    one = fingerprint(classifier())
    assert fingerprint(classifier()) == one
    assert fingerprint(classifier(value=2.0)) != one
    sigmoid = Classifier(linear, classifier().variables, "sigmoid")
    assert fingerprint(sigmoid) != one


def test_a_data_set_is_the_same_in_any_batches():
    whole = dataset_fingerprint(Dataset(IMAGES, LABELS))
    for size in (1, 3, 7):
        batches = [
            (IMAGES[i : i + size], LABELS[i : i + size]) for i in range(0, 7, size)
        ]
        assert dataset_fingerprint(Dataset.from_batches(batches)) == whole
    assert dataset_fingerprint(Dataset(jnp.asarray(IMAGES), LABELS)) == whole
    assert dataset_fingerprint(Dataset(IMAGES, 1 - LABELS)) != whole
    assert dataset_fingerprint(Dataset(IMAGES[::-1], LABELS)) != whole
    turned = Dataset(IMAGES.reshape(7, 1, 9, 1), LABELS)
    assert dataset_fingerprint(turned) != whole


def test_it_is_json_and_holds_the_key():
    dataset = Dataset(IMAGES, LABELS, name="some")
    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        found = provenance(classifier(), dataset, key)
        assert found["key"] == [0, 3]
        assert found["dataset"]["name"] == "some"
        assert found["versions"]["jax"] == jax.__version__
        assert json.loads(json.dumps(found)) == found
    assert provenance(classifier(), dataset)["key"] is None


def test_functions_without_variables_are_distinguished_by_code_and_constants():
    table = np.zeros((9, 2000), np.float32)
    other = table.copy()
    other[4, 1000] = 1  # in the middle, which a repr leaves out

    def by(array, factor=1.0):
        return fingerprint(
            Classifier(lambda _, x: factor * x.reshape(len(x), -1) @ array)
        )

    with pytest.warns(RobustnessWarning, match="18,000 numbers"):
        found = [by(table), by(other), by(table, 2.0), by(table.copy())]
    assert len(set(found)) == 3 and found[0] == found[3]
