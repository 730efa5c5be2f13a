"""Arguments that are easily mistaken: the remedy in the message."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import nnx

import jaxrob
from jaxrob import adversarial, alterations, bayes, networks, retraining, roma, training
from jaxrob.data._named import read_idx
from jaxrob.strategies._strategy import Task, checked_task

from .linear import linear

KEY = jax.random.key(0)
IMAGES = np.random.default_rng(0).random((8, 6, 6, 1), np.float32)
LABELS = np.arange(8) % 2
DATASET = jaxrob.Dataset(IMAGES, LABELS)
# The channel axis is missing.
FLAT = jaxrob.Dataset(IMAGES[..., 0], LABELS)
BLUR = alterations.gaussian_blur(0.0, 1.0)
MODULE = networks.MnistCNN(2)
WEIGHTS = np.random.default_rng(1).normal(size=(36, 2)).astype(np.float32)


def of_images(weights, images):
    """Only of images with an axis of channels."""
    batch, height, width, channels = images.shape
    return images.reshape(batch, -1) @ weights


FEW = {"num_samples": 20, "estimator": "count", "key": KEY}
CLASSIFIER = jaxrob.Classifier(of_images, WEIGHTS)
FLAT_CLASSIFIER = jaxrob.Classifier(linear, WEIGHTS)


@pytest.mark.parametrize(
    "call",
    [
        lambda: jaxrob.assess(CLASSIFIER, FLAT, BLUR),
        # The classifier accepts them, the alteration does not.
        lambda: jaxrob.evaluate(FLAT_CLASSIFIER, FLAT, BLUR, [0.0, 1.0]),
        lambda: roma.assess(CLASSIFIER, FLAT.images, key=KEY),
        lambda: adversarial.lbfgs(CLASSIFIER, FLAT.images, LABELS),
        lambda: adversarial.fgsm(FLAT_CLASSIFIER, FLAT.images, LABELS, epsilon=0.1),
        lambda: training.fit(MODULE, FLAT, key=KEY, batch_size=4),
        lambda: bayes.svi(MODULE, FLAT, key=KEY, batch_size=4),
        lambda: retraining.worst_level(MODULE, FLAT, [BLUR], key=KEY, batch_size=4),
        lambda: BLUR(FLAT.images[0], 0.5),
    ],
)
def test_images_without_an_axis_of_channels(call):
    with pytest.raises(ValueError, match=r"images\[..., None\] adds"):
        call()


@pytest.mark.slow
def test_a_data_set_in_place_of_images():
    of_data, of_arrays = (
        roma.assess(CLASSIFIER, *given, **FEW).global_robustness("label")
        for given in ((DATASET,), (IMAGES, LABELS))
    )
    jax.tree.map(np.testing.assert_array_equal, vars(of_data), vars(of_arrays))


@pytest.mark.parametrize(
    "call",
    [
        lambda *given: roma.assess(CLASSIFIER, *given, **FEW),
        lambda *given: adversarial.lbfgs(CLASSIFIER, *given),
        lambda *given: adversarial.fgsm(CLASSIFIER, *given, epsilon=0.1),
        lambda *given: adversarial.adversariability(CLASSIFIER, *given),
    ],
)
def test_labels_beside_a_data_set_are_refused(call):
    with pytest.raises(TypeError, match="labels must be left out"):
        call(DATASET, LABELS)
    with pytest.raises(TypeError, match="labels must be an array"):
        call(IMAGES, DATASET)
    batches = jaxrob.Dataset.from_batches([(IMAGES, LABELS)])
    with pytest.raises(TypeError, match="images must be an array or a jaxrob.Dataset"):
        call(batches)


def test_a_data_set_brings_its_class_names():
    names = tuple("abcdefghij"[: int(LABELS.max()) + 1])
    named = jaxrob.Dataset(IMAGES, LABELS, class_names=names)
    other = dataclasses.replace(CLASSIFIER, class_names=names[::-1])
    for call in (roma.assess, adversarial.lbfgs):
        settings = {} if call is adversarial.lbfgs else FEW
        with pytest.raises(ValueError, match="class_names of the classifier and of"):
            call(other, named, **settings)


def test_a_data_set_without_labels_is_images():
    unlabelled = jaxrob.Dataset(IMAGES)
    found = roma.assess(CLASSIFIER, unlabelled, **FEW)
    assert found.labels is None
    np.testing.assert_array_equal(found.plr, roma.assess(CLASSIFIER, IMAGES, **FEW).plr)
    with pytest.raises(TypeError, match="must have labels"):
        adversarial.fgsm(CLASSIFIER, unlabelled, epsilon=0.1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: jaxrob.assess(CLASSIFIER, IMAGES, BLUR),
        lambda: jaxrob.evaluate(CLASSIFIER, IMAGES, BLUR, [0.0]),
        lambda: training.fit(MODULE, IMAGES, key=KEY),
        lambda: bayes.svi(MODULE, IMAGES, key=KEY),
        lambda: jaxrob.provenance(CLASSIFIER, IMAGES),
    ],
)
def test_images_in_place_of_a_data_set(call):
    message = r"dataset must be a jaxrob.Dataset.*; got .* shape \(8, 6, 6, 1\)"
    with pytest.raises(TypeError, match=message):
        call()


class Items(list):
    """Like a torch `Dataset`."""


Items.__name__ = "Dataset"


class Loader:
    """Like a torch `DataLoader`."""

    def __iter__(self):
        return iter([(IMAGES, LABELS)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Items(), r"jaxrob.Dataset.from_items\(items\)"),
        (Loader(), r"Dataset.from_batches\(batches\), or from_items.* Loader"),
        ("pictures", "a jaxrob.Dataset; got 'pictures'"),
    ],
)
def test_data_of_another_library_in_place_of_a_data_set(given, message):
    for call in (
        lambda: jaxrob.assess(CLASSIFIER, given, BLUR),
        lambda: jaxrob.provenance(CLASSIFIER, given),
    ):
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (MODULE, r"Classifier.from_linen\(module, variables\); got MnistCNN"),
        (nnx.Linear(2, 2, rngs=nnx.Rngs(0)), r"from_nnx\(module\); got Linear"),
        ("net.onnx", "must be a jaxrob.Classifier; got 'net.onnx'"),
        (of_images, r"jaxrob.Classifier\(fn, variables\).* got function"),
    ],
)
def test_a_network_in_place_of_a_classifier(network, message):
    for call in (
        lambda: jaxrob.assess(network, DATASET, BLUR),
        lambda: roma.assess(network, DATASET, key=KEY),
        lambda: adversarial.fgsm(network, DATASET, epsilon=0.1),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_call_and_a_module_within_a_trace():
    norm = nnx.BatchNorm(IMAGES.shape[-1], rngs=nnx.Rngs(0))
    network = jaxrob.Classifier(lambda variables, images: norm(images)[:, 0, 0], {})
    with pytest.raises(ValueError, match=r"from_nnx\(module\)"):
        jaxrob.assess(network, DATASET, BLUR)
    for within in (jax.jit, jax.grad):
        with pytest.raises(ValueError, match=r"outside of jax\.jit"):
            within(
                lambda weights: jaxrob.assess(
                    jaxrob.Classifier(of_images, weights), DATASET, BLUR
                )
            )(WEIGHTS)


def test_several_assessments_in_place_of_one():
    with pytest.raises(TypeError, match=r"\(of several, compare one with one\); got"):
        jaxrob.compare((), ())


def test_channels_first_where_the_network_fails():
    """The size is that of the images: no word of another."""
    first = jaxrob.Dataset(np.zeros((4, 3, 6, 6), np.uint8), np.arange(4) % 2)

    def classifier(**given):
        return jaxrob.Classifier.from_host(
            np.zeros_like, 2, preprocessing=jaxrob.Preprocessing(**given)
        )

    with pytest.raises(ValueError, match="size"):
        classifier(size=(6, 0))
    for given in ({"size": 6}, {"mean": [0.1, 0.2, 0.3]}):
        with pytest.raises(
            ValueError, match=r"if they are \[B, C, H, W\], pass np.mo"
        ) as e:
            jaxrob.evaluate(classifier(**given), first, BLUR, [0.0])
        assert "Resize" not in str(e.value)
    with pytest.raises(ValueError, match=r"make its Preprocessing with size=\(6, 6\)"):
        jaxrob.evaluate(classifier(size=5), DATASET, BLUR, [0.0])


def test_grey_pictures_for_a_network_of_colours():
    given = jaxrob.Preprocessing(std=[0.1, 0.2, 0.3])
    classifier = jaxrob.Classifier.from_host(np.zeros_like, 2, preprocessing=given)
    with pytest.raises(ValueError, match="std has 3 numbers.*Give one number"):
        jaxrob.evaluate(classifier, DATASET, BLUR, [0.0])


def test_a_wrong_setting_is_refused_before_the_original_is_trained():
    def never(*_):
        raise AssertionError("trained")

    for wrong in ({"epochs": 0}, {"optimizer": "adam"}, {"outputs": "logit"}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            retraining.limited_network_parallelization(
                MODULE, DATASET, [BLUR], key=KEY, batch_size=4, on_epoch=never, **wrong
            )


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (0, TypeError),
        (np.zeros(3, np.uint32), TypeError),
        (np.zeros((2, 2), np.uint32), ValueError),
        ([KEY], TypeError),
    ],
)
def test_wrong_keys(key, error):
    noise = alterations.gaussian_noise()
    with pytest.raises(error, match="key must be"):
        jaxrob.evaluate(CLASSIFIER, DATASET, noise, [0.0], key=key)
    with pytest.raises(error, match="key must be"):
        roma.assess(CLASSIFIER, IMAGES, key=key)


def test_numbers_of_few_bits_are_taken_as_written():
    def all_of_them(of):
        task, bright = Task(0.0, of(0.3), 0.8, of(0.3)), alterations.brightness()
        pixel = bright(IMAGES[0], of(0.3)).ravel()[0]
        return jaxrob.Preprocessing(mean=of(0.485)), checked_task(task), pixel

    assert all_of_them(np.float16) == all_of_them(float)


def test_keys_of_either_style_are_taken():
    data = jax.random.key_data(KEY)
    first, *others = (
        roma.assess(CLASSIFIER, IMAGES, **FEW | {"key": key})
        for key in (KEY, data, np.asarray(data))
    )
    for other in others:
        np.testing.assert_array_equal(other.plr, first.plr)


@pytest.mark.parametrize("path", [3, b"journal", ""])
def test_wrong_paths(path):
    with pytest.raises((TypeError, ValueError), match="journal must be a path"):
        jaxrob.evaluate(CLASSIFIER, DATASET, BLUR, [0.0], journal=path)
    with pytest.raises((TypeError, ValueError), match="path must be a path"):
        bayes.load(path, MODULE)
    with pytest.raises((TypeError, ValueError), match="path must be a path"):
        read_idx(path)
