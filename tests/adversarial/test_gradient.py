"""Gradient attacks on linear classifiers, and gradients that are exactly zero."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import adversarial

from ..linear import linear as three_classes

SHAPE = (5, 5, 1)


def linear(w, images):
    odds = images.reshape(len(images), -1) @ w - w.sum() / 2
    return jnp.stack([-odds, odds], axis=-1)


W = np.random.default_rng(0).normal(size=25).astype(np.float32)
CLASSIFIER = jaxrob.Classifier(linear, W)
IMAGES = np.random.default_rng(1).uniform(0.4, 0.6, (24, *SHAPE)).astype(np.float32)
ODDS = IMAGES.reshape(24, -1) @ W - W.sum() / 2
LABELS = (ODDS > 0).astype(int)
DUAL = {"linf": np.abs(W).sum(), "l2": np.linalg.norm(W)}


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_succeeds_where_the_ball_holds_an_example(norm):
    # Hoelder: the odds change by at most epsilon times the dual norm of w.
    needed = np.abs(ODDS) / DUAL[norm]
    epsilon = float(np.median(needed)) + 1e-4
    for attack in (adversarial.fgsm, functools.partial(adversarial.pgd, steps=10)):
        found = attack(CLASSIFIER, IMAGES, LABELS, epsilon=epsilon, norm=norm)
        np.testing.assert_array_equal(found.success, needed < epsilon)
        assert found.success.any() and not found.success.all()
        assert found.correct.all() and (found.target == -1).all()
        change = (found.images - IMAGES).reshape(24, -1)[found.success]
        size = np.linalg.norm(change, np.inf if norm == "linf" else 2, axis=1)
        assert (size <= epsilon * (1 + 1e-5)).all()
        np.testing.assert_array_equal(
            np.asarray(linear(W, found.images)).argmax(1),
            np.where(found.success, 1 - LABELS, LABELS),
        )
        np.testing.assert_array_equal(found.similarity > 0, found.success)


def test_a_ball_of_all_images_is_said():
    with pytest.warns(jaxrob.RobustnessWarning, match="epsilon"):
        adversarial.fgsm(CLASSIFIER, IMAGES, LABELS, epsilon=1.5)


def test_fgsm_is_the_sign_of_the_gradient():
    found = adversarial.fgsm(CLASSIFIER, IMAGES, LABELS, epsilon=0.7)
    away = np.where(LABELS, -1, 1)[:, None] * np.sign(W)
    expected = np.clip(IMAGES + 0.7 * away.reshape(24, *SHAPE), 0, 1)
    assert found.success.all()
    np.testing.assert_allclose(found.images, expected, atol=1e-6)


def test_pgd_keeps_the_closest_point():
    found = adversarial.pgd(
        CLASSIFIER, IMAGES, LABELS, epsilon=2.0, norm="l2", steps=200, step_size=0.02
    )
    # Straight to the surface, which lies at most a step before the point returned.
    needed = np.abs(ODDS) / DUAL["l2"]
    assert found.success.all()
    assert (found.distance >= needed).all()
    assert (found.distance <= needed + 0.02 + 1e-3).all()


def test_sure_classifiers_hide_no_gradient():
    sure = jaxrob.Classifier(linear, 1e3 * W)  # wrong with a probability of exp(-1e3)
    for norm in ("linf", "l2"):
        epsilon = float(np.abs(ODDS).max() / DUAL[norm]) + 1e-3
        for attack in (adversarial.fgsm, adversarial.pgd):
            found = attack(sure, IMAGES, LABELS, epsilon=epsilon, norm=norm)
            assert found.success.all()


def test_bytes_are_pixels():
    images = np.round(IMAGES * 255).astype(np.uint8)
    found = adversarial.fgsm(CLASSIFIER, images, LABELS, epsilon=0.1)
    same = adversarial.fgsm(
        CLASSIFIER, (images / np.float64(255)).astype(np.float32), LABELS, epsilon=0.1
    )
    jax.tree.map(np.testing.assert_array_equal, found, same)


@pytest.mark.parametrize(
    ("attack", "arguments", "name"),
    [
        (adversarial.pgd, {"epsilon": 0}, "epsilon"),
        (adversarial.fgsm, {"epsilon": 0}, "epsilon"),
        (adversarial.pgd, {"epsilon": 0.1, "step_size": 0}, "step_size"),
        (adversarial.pgd, {"epsilon": 0.1, "steps": 0}, "steps"),
        (adversarial.fgsm, {"epsilon": 0.1, "norm": "l1"}, "norm"),
    ],
)
def test_refusals(attack, arguments, name):
    with pytest.raises(ValueError, match=name):
        attack(CLASSIFIER, IMAGES, LABELS, **arguments)


def test_a_column_of_probabilities_taken_for_logits_is_said():
    def share(w, images):
        return jax.nn.sigmoid(linear(w, images)[:, 1:])

    with pytest.warns(jaxrob.RobustnessWarning, match='outputs="sigmoid"'):
        adversarial.pgd(
            jaxrob.Classifier(share, W), IMAGES, LABELS, epsilon=0.1, steps=1
        )


FLAT_IMAGES = np.random.default_rng(0).random((20, 4, 4, 1)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((16, 3)).astype(np.float32)
FLAT_LABELS = (FLAT_IMAGES.reshape(20, 16) @ WEIGHTS).argmax(axis=1)


def softmax(weights, images):
    return jax.nn.softmax(three_classes(weights, images))


def rounded(weights, images):
    return three_classes(weights, jnp.round(images * 255) / 255)


def not_a_number(weights, images):
    # Flat in the images, where the square root's gradient is 0 / 0.
    return three_classes(weights, images) + jnp.sqrt(0 * images.sum()) * weights[0]


SHARP = np.float32(1000) * WEIGHTS
ATTACKS = {
    "lbfgs": adversarial.lbfgs,
    "pgd": functools.partial(adversarial.pgd, epsilon=0.4, steps=5),
    "fgsm": functools.partial(adversarial.fgsm, epsilon=0.4),
}


def test_a_softmax_that_float32_rounds_is_no_security():
    logits = jaxrob.Classifier(three_classes, SHARP)
    through_logits = ATTACKS["pgd"](logits, FLAT_IMAGES, FLAT_LABELS)
    assert through_logits.success.all() and not through_logits.vanished.any()
    probabilities = jaxrob.Classifier(softmax, SHARP, "probabilities")
    with pytest.warns(jaxrob.RobustnessWarning, match='outputs="logits"') as caught:
        found = ATTACKS["pgd"](probabilities, FLAT_IMAGES, FLAT_LABELS)
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
            classifier, FLAT_IMAGES, FLAT_LABELS, attack=ATTACKS[name]
        )
    assert found.value == 0 and found.num_vanished == 20
    assert found.attack.vanished.all()


def test_the_rule_of_a_derivative_may_change():
    factor = np.ones(1, np.float32)

    @jax.custom_jvp
    def passed(images):
        return jnp.round(images * 255) / 255

    passed.defjvps(lambda change, *_: float(factor[0]) * change)
    classifier = jaxrob.Classifier(
        lambda w, images: three_classes(w, passed(images)), SHARP
    )
    attack = functools.partial(adversarial.fgsm, epsilon=0.1)
    assert not attack(classifier, FLAT_IMAGES, FLAT_LABELS).vanished.any()
    factor[:] = 0
    with pytest.warns(jaxrob.RobustnessWarning, match="vanishes at 20 of 20"):
        attack(classifier, FLAT_IMAGES, FLAT_LABELS)


def test_another_attack_that_had_a_gradient_and_failed_says_something():
    found = adversarial.fgsm(
        jaxrob.Classifier(three_classes, SHARP), FLAT_IMAGES, FLAT_LABELS, epsilon=1e-6
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
    ("given", "error", "name"),
    [
        ({"attack": changed(images=FLAT_IMAGES[:3])}, ValueError, "images"),
        ({"attack": changed(images=FLAT_IMAGES + 1)}, ValueError, "images"),
        ({"attack": changed(success=np.ones(20))}, TypeError, "success"),
        ({"attack": changed(success=np.ones((20, 1), bool))}, ValueError, "success"),
        ({"attack": changed(correct=np.zeros(20, bool))}, ValueError, "success"),
        ({"attack": changed(labels=FLAT_LABELS[::-1])}, ValueError, "labels"),
        ({"similarity": lambda a, b: np.ones(19)}, ValueError, "similarity"),
        ({"similarity": lambda a, b: np.full(20, np.nan)}, ValueError, "similarity"),
        ({"similarity": lambda a, b: np.full(20, 7.0)}, ValueError, "similarity"),
    ],
)
def test_what_no_attack_can_have_found_is_refused(given, error, name):
    classifier = jaxrob.Classifier(three_classes, SHARP)
    given = {"attack": ATTACKS["fgsm"]} | given
    with pytest.raises(error, match=f"{name}.* must"):
        adversarial.adversariability(classifier, FLAT_IMAGES, FLAT_LABELS, **given)


@pytest.mark.parametrize("attack", ["lbfgs", "fgsm"])
def test_warnings_point_at_the_caller(attack):
    classifier = jaxrob.Classifier(rounded, WEIGHTS)
    with pytest.warns(jaxrob.RobustnessWarning) as caught:
        ATTACKS[attack](classifier, FLAT_IMAGES, FLAT_LABELS)
    assert {one.filename for one in caught} == {__file__}
