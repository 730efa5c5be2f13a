"""Arguments that are easily mistaken: the remedy in the message.

`experiments/argument_mutations.py` tries every argument of every public function.
"""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import adversarial, alterations, bayes, networks, retraining, roma, training
from jaxrob.data._idx import read_idx

KEY = jax.random.key(0)
IMAGES = np.random.default_rng(0).random((8, 6, 6, 1), np.float32)
LABELS = np.arange(8) % 2
DATASET = jaxrob.Dataset(IMAGES, LABELS)
# The channel axis is missing.
FLAT = jaxrob.Dataset(IMAGES[..., 0], LABELS)
BLUR = alterations.gaussian_blur(0.0, 1.0)


MODULE = networks.MnistCNN(2)
CLASSIFIER = jaxrob.Classifier.from_linen(MODULE, jax.jit(MODULE.init)(KEY, IMAGES))
MLP = networks.MLP((4,), 2)
FLAT_CLASSIFIER = jaxrob.Classifier.from_linen(MLP, jax.jit(MLP.init)(KEY, FLAT.images))


@pytest.mark.parametrize(
    "call",
    [
        lambda: jaxrob.assess(CLASSIFIER, FLAT, BLUR),
        lambda: jaxrob.evaluate(CLASSIFIER, FLAT, BLUR, [0.0, 1.0]),
        # The classifier accepts them, the alteration does not.
        lambda: jaxrob.assess(FLAT_CLASSIFIER, FLAT, BLUR),
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


@pytest.mark.parametrize(
    "call",
    [
        lambda *given: vars(roma.assess(CLASSIFIER, *given, num_samples=20, key=KEY)),
        lambda *given: vars(
            roma.global_robustness(
                CLASSIFIER, *given, by="label", num_samples=20, key=KEY
            )
        ),
        lambda *given: adversarial.lbfgs(CLASSIFIER, *given),
        lambda *given: adversarial.fgsm(CLASSIFIER, *given, epsilon=0.1),
        lambda *given: adversarial.adversariability(CLASSIFIER, *given),
    ],
)
def test_a_data_set_in_place_of_images(call):
    jax.tree.map(np.testing.assert_array_equal, call(DATASET), call(IMAGES, LABELS))
    with pytest.raises(TypeError, match="labels must be left out where images is a"):
        call(DATASET, LABELS)
    with pytest.raises(TypeError, match="labels must be an array, not a data set"):
        call(IMAGES, DATASET)
    batches = jaxrob.Dataset.from_batches([(IMAGES, LABELS)])
    with pytest.raises(TypeError, match="images must be an array or a jaxrob.Dataset"):
        call(batches)


def test_a_data_set_brings_its_class_names():
    names = tuple("abcdefghij"[: int(LABELS.max()) + 1])
    named = jaxrob.Dataset(IMAGES, LABELS, class_names=names)
    given = {"num_samples": 20, "key": KEY}
    found = roma.global_robustness(CLASSIFIER, named, **given)
    assert found.names == names
    other = dataclasses.replace(CLASSIFIER, class_names=names[::-1])
    for call in (roma.assess, roma.global_robustness, adversarial.lbfgs):
        settings = {} if call is adversarial.lbfgs else given
        with pytest.raises(ValueError, match="class_names of the classifier and of"):
            call(other, named, **settings)


def test_a_data_set_without_labels_is_images():
    unlabelled = jaxrob.Dataset(IMAGES)
    given = {"num_samples": 20, "key": KEY}
    found = roma.assess(CLASSIFIER, unlabelled, **given)
    assert found.labels is None
    np.testing.assert_array_equal(
        found.plr, roma.assess(CLASSIFIER, IMAGES, **given).plr
    )
    with pytest.raises(TypeError, match="must have labels here; dataset has none"):
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
        (np.uint32(0), TypeError),
        (np.zeros(3, np.uint32), TypeError),
        (np.zeros((2, 2), np.uint32), ValueError),
        (jax.random.split(KEY), ValueError),
        ([KEY], TypeError),
        ("key", TypeError),
    ],
)
def test_wrong_keys(key, error):
    noise = alterations.gaussian_noise()
    with pytest.raises(error, match="key must be a (single )?random key"):
        jaxrob.evaluate(CLASSIFIER, DATASET, noise, [0.0], key=key)
    with pytest.raises(error, match="key must be a (single )?random key"):
        roma.assess(CLASSIFIER, IMAGES, key=key)


def test_keys_of_either_style_are_taken():
    noise = alterations.gaussian_noise()
    arguments = CLASSIFIER, DATASET, noise, [noise.upper]
    curves = [
        jaxrob.evaluate(*arguments, key=key)
        for key in (KEY, jax.random.key_data(KEY), np.asarray(jax.random.key_data(KEY)))
    ]
    for other in curves[1:]:
        np.testing.assert_array_equal(other.confidence, curves[0].confidence)


@pytest.mark.parametrize("path", [3, True, b"journal", "", ["journal"], "a\0b"])
def test_wrong_paths(path):
    with pytest.raises((TypeError, ValueError), match="journal must be a path"):
        jaxrob.evaluate(CLASSIFIER, DATASET, BLUR, [0.0], journal=path)
    with pytest.raises((TypeError, ValueError), match="path must be a path"):
        bayes.load(path, MODULE)
    with pytest.raises((TypeError, ValueError), match="path must be a path"):
        read_idx(path)
