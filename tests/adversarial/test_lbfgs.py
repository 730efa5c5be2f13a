"""The L-BFGS attack on classifiers whose smallest perturbations are known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from scipy import optimize, special

import jaxrob
from jaxrob import adversarial
from jaxrob._engine.answers import answer

SHAPE = (6, 6, 1)
SIZE = 36


def linear(variables, images):
    return images.reshape(len(images), -1) @ variables["w"] + variables["b"]


def one_hidden_layer(variables, images):
    first, second = variables
    return jnp.tanh(images.reshape(len(images), -1) @ first) @ second


def network(seed=0, num_classes=4):
    rng = np.random.default_rng(seed)
    first = rng.normal(0, 0.5, (SIZE, 16)).astype(np.float32)
    second = rng.normal(0, 1.5, (16, num_classes)).astype(np.float32)
    return jaxrob.Classifier(one_hidden_layer, (first, second))


def two_classes(scale=1.0, seed=0):
    """A linear classifier, and the vector and offset of class 1's log odds."""
    w = (scale * np.random.default_rng(seed).normal(size=(SIZE, 2))).astype(np.float32)
    b = (-0.5 * w.sum(axis=0)).astype(np.float32)  # grey is undecided
    return jaxrob.Classifier(linear, {"w": w, "b": b}), w[:, 1] - w[:, 0], b[1] - b[0]


def random_images(number, low=0.0, high=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(low, high, (number, *SHAPE)).astype(np.float32)


def predict(classifier, images, keys=None):
    labels = np.zeros(len(images), np.int32)
    return np.asarray(jax.jit(answer)(classifier, images, labels, keys).predicted)


def check_attack(attack, classifier, images, labels, keys=None):
    """What every attack's result must be, whatever was found."""
    np.testing.assert_array_equal(attack.labels, labels)
    np.testing.assert_array_equal(
        attack.correct, predict(classifier, images, keys) == labels
    )
    assert attack.images.dtype == np.float32 and attack.images.shape == images.shape
    assert attack.images.min() >= 0 and attack.images.max() <= 1
    found = attack.success
    assert (attack.correct | ~found).all()
    # The classifier's ordinary prediction, of all at once.
    predicted = predict(classifier, attack.images, keys)
    np.testing.assert_array_equal(predicted, attack.predicted)
    assert (predicted[found] != labels[found]).all()
    np.testing.assert_array_equal(attack.images[~found], images[~found])
    change = (attack.images.astype(float) - images).reshape(len(images), -1)
    np.testing.assert_allclose(
        attack.distance, np.where(found, np.linalg.norm(change, axis=1), np.nan)
    )
    assert (attack.similarity[found] < 1).all()
    assert (attack.similarity[~found] == 0).all()


@pytest.mark.parametrize(
    "scale, confidence", [(0.02, 0.9), (0.2, 0.51), (2, 0.3), (2, 0.9)]
)
def test_linear_classifier_inside_the_box(scale, confidence):
    classifier, w, b = two_classes(scale)
    images = random_images(12, 0.4, 0.6)
    odds = images.reshape(12, -1) @ w + b
    labels = (odds > 0).astype(int)
    attack = adversarial.lbfgs(classifier, images, labels, target_confidence=confidence)
    check_attack(attack, classifier, images, labels)
    # The target must be the class predicted, too.
    expected = (np.abs(odds) + special.logit(max(confidence, 0.5))) / np.linalg.norm(w)
    direction = np.outer(np.sign(-odds) * expected, w / np.linalg.norm(w))
    perturbed = images.reshape(12, -1) + direction
    inside = (perturbed.min(axis=1) > 0) & (perturbed.max(axis=1) < 1)
    assert inside.any() or (scale < 1 and confidence == 0.9)
    assert attack.success[inside].all()
    ratio = attack.distance[inside] / expected[inside]
    assert ((ratio > 0.999) & (ratio < 1.02)).all()
    assert (attack.confidence[attack.success] >= confidence - 1e-5).all()
    np.testing.assert_array_equal(attack.target, 1 - labels)


def smallest_in_box(image, w, gap):
    """The norm of the smallest r with w r >= gap and x + r in [0, 1]; exact."""

    def change(multiplier):
        return np.clip(image + multiplier * w, 0, 1) - image

    if w @ change(1e6) < gap:
        return np.inf
    root = optimize.brentq(lambda m: w @ change(m) - gap, 0, 1e6, xtol=1e-12)
    return np.linalg.norm(change(root))


def test_linear_classifier_at_the_box():
    classifier, w, b = two_classes(0.3)
    # Most pixels are black or white, as those of digits are.
    images = np.clip(random_images(12, -1, 2), 0, 1)
    odds = images.reshape(12, -1) @ w + b
    labels = (odds > 0).astype(int)
    attack = adversarial.lbfgs(classifier, images, labels)
    check_attack(attack, classifier, images, labels)
    expected = [
        smallest_in_box(image, -np.sign(z) * w, abs(z) + special.logit(0.51))
        for image, z in zip(images.reshape(12, -1).astype(float), odds)
    ]
    assert attack.success.all() and np.isfinite(expected).all()
    ratio = attack.distance / expected
    assert ratio.min() > 0.999 and ratio.max() < 1.02


@pytest.mark.slow
def test_network_targets_and_blocks():
    classifier = network()
    images = random_images(24)
    labels = predict(classifier, images).copy()
    labels[:3] = (labels[:3] + 1) % 4  # wrong unaltered
    attack = adversarial.lbfgs(classifier, images, labels, batch_size=8)
    check_attack(attack, classifier, images, labels)
    assert attack.success[3:].all() and not attack.success[:3].any()
    # The probability barely exceeds what is asked for.
    assert (attack.confidence[3:] > 0.51 - 1e-5).all()
    assert np.median(attack.confidence[3:]) < 0.55
    logits = np.asarray(one_hidden_layer(classifier.variables, images))
    others = np.where(np.eye(4, dtype=bool)[labels], -np.inf, logits)
    np.testing.assert_array_equal(attack.target, others.argmax(axis=1))
    np.testing.assert_array_equal(attack.predicted[3:], attack.target[3:])

    # Bytes and blocks make no difference but rounding; the same call none at all.
    again = adversarial.lbfgs(classifier, images, labels, batch_size=8)
    jax.tree.map(np.testing.assert_array_equal, attack, again)
    single = adversarial.lbfgs(classifier, images, labels, batch_size=6)
    np.testing.assert_array_equal(attack.success, single.success)
    np.testing.assert_allclose(attack.distance, single.distance, rtol=0.03)

    # Over all targets, at least as similar as any of them.
    every = adversarial.lbfgs(classifier, images, labels, targets="all", batch_size=8)
    check_attack(every, classifier, images, labels)
    given = adversarial.lbfgs(
        classifier, images, labels, targets=(labels + 2) % 4, batch_size=8
    )
    check_attack(given, classifier, images, labels)
    found = given.success
    np.testing.assert_array_equal(given.predicted[found], given.target[found])
    assert (every.similarity >= attack.similarity).all()
    assert (every.similarity >= given.similarity).all()
    assert (every.similarity > attack.similarity).any()


@pytest.mark.slow
def test_new_parameters_need_no_compilation():
    images, labels = random_images(8), np.arange(8) % 4

    def attacked(seed):
        # More or fewer labels are right.
        target = 0.5 + seed / 10
        adversarial.lbfgs(network(seed), images, labels, target_confidence=target)

    attacked(0)
    attacked(1)
    others = network(2)
    with compilations() as compiled:
        adversarial.lbfgs(others, images, labels, target_confidence=0.7)
    assert len(compiled) == 0, len(compiled)


def parallel(variables, images):
    """Two networks joined by their maximum, as the 2020 paper does."""
    first, second = (one_hidden_layer(v, images) for v in variables)
    return jnp.maximum(jax.nn.sigmoid(first), jax.nn.sigmoid(second))


def noisy_draws(variables, images, keys):
    noise = jax.vmap(lambda key: jax.random.normal(key, SHAPE))(keys)
    return jnp.stack([one_hidden_layer(v, images + 0.3 * noise) for v in variables])


def binary(variables, images):
    return jax.nn.sigmoid(one_hidden_layer(variables, images)[:, :1])


members = network(0).variables, network(5).variables
CLASSIFIERS = {
    "parallel, scores": jaxrob.Classifier(parallel, members, outputs="scores"),
    "samples": jaxrob.Classifier(noisy_draws, members, stochastic=True),
    "one column": jaxrob.Classifier(binary, members[0], outputs="sigmoid"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_any_differentiable_classifier(name):
    classifier = CLASSIFIERS[name]
    images = random_images(8)
    key = jax.random.key(3)
    # The noise of an image is that of its index, as everywhere in the library.
    keys = jaxrob._keys.classifier_keys(key, jnp.arange(8, dtype=jnp.uint32))
    labels = predict(classifier, images, keys)
    key = key if classifier.stochastic else None
    attack = adversarial.lbfgs(classifier, images, labels, key=key, batch_size=8)
    check_attack(attack, classifier, images, labels, keys)
    assert attack.success.mean() > 0.8 and np.nanmax(attack.distance) < 3
    assert np.isnan(attack.confidence).all() == (classifier.outputs == "scores")
    if classifier.stochastic:
        attack = adversarial.pgd(
            classifier, images, labels, epsilon=0.3, steps=3, key=key, batch_size=8
        )
        check_attack(attack, classifier, images, labels, keys)
        assert attack.success.mean() > 0.7


@pytest.mark.filterwarnings("ignore:the gradient vanishes at 12 of 12")
def test_no_gradient_and_no_way():
    images = random_images(12)
    flat = {"w": np.zeros((SIZE, 2), np.float32), "b": np.array([1, 0], np.float32)}
    too_far = dict(flat, w=flat["w"] + np.float32([0, 1e-3]), b=np.float32([9, 0]))
    for variables in (flat, too_far):
        classifier = jaxrob.Classifier(linear, variables)
        attack = adversarial.lbfgs(classifier, images, np.zeros(12, int))
        check_attack(attack, classifier, images, np.zeros(12, int))
        assert attack.correct.all() and not attack.success.any()


FOUR, NO_CLASS = random_images(4), np.zeros(4, int)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"target_confidence": 0}, ValueError, "target_confidence"),
        ({"target_confidence": 1}, ValueError, "target_confidence"),
        ({"targets": NO_CLASS}, ValueError, "targets must differ from the labels"),
        ({"targets": NO_CLASS[:2] + 1}, ValueError, "targets must have the shape"),
        ({"targets": NO_CLASS + 4}, ValueError, "targets must lie"),
        ({"targets": NO_CLASS + 1.0}, TypeError, "targets"),
        ({"targets": "worst"}, ValueError, "targets must be one of"),
        ({"batch_size": 0}, ValueError, "batch_size"),
    ],
)
def test_refusals(arguments, error, name):
    with pytest.raises(error, match=name):
        adversarial.lbfgs(network(), FOUR, NO_CLASS, **arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"classifier": "host"}, ValueError, "differentiable"),
        ({"classifier": "NaN"}, ValueError, "NaN.*4 of 4"),
        ({"classifier": "samples"}, ValueError, "key"),
        ({"classifier": "function"}, TypeError, "jaxrob.Classifier"),
        ({"images": FOUR * np.nan}, ValueError, "finite"),
        ({"images": FOUR * 2}, ValueError, r"\[0, 1\]"),
        ({"images": FOUR[..., 0]}, ValueError, "images"),
        ({"images": FOUR[:, 1:]}, ValueError, "images"),
        ({"labels": NO_CLASS[1:]}, ValueError, "labels must have the shape"),
        ({"labels": NO_CLASS + 4}, ValueError, "4 classes"),
        ({"labels": NO_CLASS - 1}, ValueError, "labels"),
    ],
)
def test_what_no_attack_takes(arguments, error, name):
    usual = network()
    broken = tuple(array * np.nan for array in usual.variables)
    classifiers = {
        "usual": usual,
        "host": jaxrob.Classifier.from_host(
            lambda x: np.tile(np.eye(4)[0], (len(x), 1)), 4
        ),
        "NaN": jaxrob.Classifier(one_hidden_layer, broken),
        "samples": CLASSIFIERS["samples"],
        "function": one_hidden_layer,
    }
    given = {"classifier": "usual", "images": FOUR, "labels": NO_CLASS} | arguments
    given["classifier"] = classifiers[given["classifier"]]
    for attack in (
        adversarial.lbfgs,
        functools.partial(adversarial.pgd, epsilon=0.1),
        functools.partial(adversarial.fgsm, epsilon=0.1),
    ):
        with pytest.raises(error, match=name):
            attack(**given)
