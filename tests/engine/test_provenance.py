import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob import Alteration, Classifier, Dataset, alterations
from jaxrob._engine.provenance import (
    classifier_fingerprint,
    dataset_fingerprint,
    provenance,
)
from jaxrob.networks import MLP

IMAGES = np.random.default_rng(0).random((7, 3, 3, 1), np.float32)
LABELS = np.arange(7) % 2


def linear(weights, images, scale=1.0):
    return images.reshape(len(images), -1) @ weights * scale


def classifier(apply_fn=linear, value=1.0):
    return Classifier(apply_fn, jnp.full((9, 2), value))


def test_any_callable_has_a_fingerprint():
    class Callable:
        def __call__(self, weights, images):
            return linear(weights, images)

    functions = (
        linear,
        functools.partial(linear, scale=2.0),
        Callable(),
        lambda weights, images: linear(weights, images),
        jax.jit(linear),
    )
    for function in functions:
        assert len(classifier_fingerprint(classifier(function))) == 32
    weights = {"w": np.ones(3, np.float32)}
    linen = Classifier.from_linen(MLP(), weights, train=False)
    plain = Classifier(linear, weights)
    assert classifier_fingerprint(plain) != classifier_fingerprint(linen)


def test_other_variables_are_another_classifier():
    one = classifier_fingerprint(classifier())
    assert classifier_fingerprint(classifier()) == one
    assert classifier_fingerprint(classifier(value=2.0)) != one
    sigmoid = Classifier(linear, jnp.full((9, 2), 1.0), "sigmoid")
    assert classifier_fingerprint(sigmoid) != one


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


def test_a_fingerprint_is_the_same_in_another_process():
    program = (
        "import jaxrob; from jaxrob.networks import MLP; "
        "from jaxrob._engine.provenance import classifier_fingerprint as f; "
        "print(f(jaxrob.Classifier.from_linen(MLP(), {'a': 1.0}, train=False)))"
    )
    here = classifier_fingerprint(Classifier.from_linen(MLP(), {"a": 1.0}, train=False))
    command = [sys.executable, "-c", program]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_modules_are_told_apart_by_their_fields():
    weights = {"w": np.ones(3, np.float32)}
    prints = {
        classifier_fingerprint(Classifier.from_linen(MLP(features), weights))
        for features in ((100,), (50, 50))
    }
    assert len(prints) == 2


def test_a_function_without_variables_has_no_fingerprint():
    # Its name would be all there is, and weights it closes over go unseen.
    assert classifier_fingerprint(Classifier(lambda variables, images: images)) is None


def test_an_alteration_is_described_by_all_its_parameters():
    one, other = (
        alterations.gaussian_blur(0.0, 1.0),
        alterations.gaussian_blur(0.0, 2.0),
    )
    assert one.description == alterations.gaussian_blur(0.0, 1.0).description
    assert one.description != other.description
    own = Alteration("own", lambda image, level: image, 0.0, 1.0)
    assert " at 0x" in repr(own) and " at 0x" not in own.description
