"""Gradients that are exactly zero, or no numbers: what attacks say of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import adversarial

IMAGES = np.random.default_rng(0).random((20, 4, 4, 1)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((16, 3)).astype(np.float32)
LABELS = (IMAGES.reshape(20, 16) @ WEIGHTS).argmax(axis=1)


def linear(weights, images):
    return images.reshape(len(images), -1) @ weights


def softmax(weights, images):
    return jax.nn.softmax(linear(weights, images))


def rounded(weights, images):
    return linear(weights, jnp.round(images * 255) / 255)


def not_a_number(weights, images):
    # Flat in the images, where the square root's gradient is 0 / 0.
    return linear(weights, images) + jnp.sqrt(0 * images.sum()) * weights[0]


SHARP = np.float32(1000) * WEIGHTS
ATTACKS = {
    "lbfgs": adversarial.lbfgs,
    "pgd": functools.partial(adversarial.pgd, epsilon=0.4, steps=5),
    "fgsm": functools.partial(adversarial.fgsm, epsilon=0.4),
}


def test_a_softmax_that_float32_rounds_is_no_security():
    logits = jaxrob.Classifier(linear, SHARP)
    through_logits = adversarial.lbfgs(logits, IMAGES, LABELS)
    assert through_logits.success.all() and not through_logits.vanished.any()
    probabilities = jaxrob.Classifier(softmax, SHARP, "probabilities")
    with pytest.warns(jaxrob.RobustnessWarning, match='outputs="logits"') as caught:
        found = adversarial.lbfgs(probabilities, IMAGES, LABELS)
    number = found.vanished.sum()
    assert number > 10 and len(caught) == 1
    assert f"vanishes at {number} of 20 images" in str(caught[0].message)
    # Where the gradient did not vanish, it did its work.
    np.testing.assert_array_equal(found.success, ~found.vanished)
    again = adversarial.Attack.from_json(found.to_json())
    np.testing.assert_array_equal(again.vanished, found.vanished)


@pytest.mark.parametrize(
    ("function", "name"), [(rounded, "lbfgs"), (not_a_number, "pgd")]
)
def test_a_network_without_a_gradient_is_not_called_robust(function, name):
    classifier = jaxrob.Classifier(function, WEIGHTS)
    with pytest.warns(jaxrob.RobustnessWarning, match="vanishes at 20 of 20"):
        found = adversarial.adversariability(
            classifier, IMAGES, LABELS, attack=ATTACKS[name]
        )
    assert found.value == 0 and found.num_vanished == 20
    assert found.attack.vanished.all()


def test_another_attack_that_had_a_gradient_and_failed_says_something():
    found = adversarial.fgsm(
        jaxrob.Classifier(linear, SHARP), IMAGES, LABELS, epsilon=1e-6
    )
    failed = found._replace(success=np.zeros(20, bool), vanished=np.zeros(20, bool))
    lost = failed._replace(vanished=np.ones(20, bool))
    assert adversarial.most_adversarial([lost, lost]).vanished.all()
    assert not adversarial.most_adversarial([lost, failed]).vanished.any()


def changed(**fields):
    def attack(classifier, images, labels):
        return ATTACKS["fgsm"](classifier, images, labels)._replace(**fields)

    return attack


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"images": IMAGES[:3]}, "images must"),
        ({"images": IMAGES + 1}, "images must"),
        ({"success": np.ones(20)}, "success must"),
        ({"success": np.ones((20, 1), bool)}, "success must"),
        ({"correct": np.zeros(20, bool)}, "success must be false"),
        ({"labels": LABELS[::-1]}, "labels must"),
    ],
)
def test_what_no_attack_can_have_found_is_refused(fields, message):
    classifier = jaxrob.Classifier(linear, SHARP)
    with pytest.raises((ValueError, TypeError), match=message):
        adversarial.adversariability(
            classifier, IMAGES, LABELS, attack=changed(**fields)
        )


@pytest.mark.parametrize(
    "returned", [np.ones(19), np.full(20, np.nan), np.full(20, 7.0)]
)
def test_what_is_no_similarity_is_refused(returned):
    classifier = jaxrob.Classifier(linear, SHARP)
    with pytest.raises(ValueError, match=r"similarity\(...\) must"):
        adversarial.adversariability(
            classifier,
            IMAGES,
            LABELS,
            attack=ATTACKS["fgsm"],
            similarity=lambda a, b: returned,
        )


@pytest.mark.parametrize("attack", ["lbfgs", "fgsm"])
def test_warnings_point_at_the_caller(attack):
    classifier = jaxrob.Classifier(rounded, WEIGHTS)
    with pytest.warns(jaxrob.RobustnessWarning) as caught:
        ATTACKS[attack](classifier, IMAGES, LABELS)
    assert {one.filename for one in caught} == {__file__}
