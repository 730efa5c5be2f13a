"""Definitions 7 and 8, with adversarial examples that are known beforehand."""

import functools

import numpy as np
import pytest

import jaxrob
from jaxrob import adversarial

# The class is the one of three that the mean pixel is nearest to: 0, 1/2, 1.
CENTRES = np.float32([0, 0.5, 1])


def nearest(centres, images):
    return -20 * (images.mean(axis=(1, 2, 3))[:, None] - centres) ** 2


CLASSIFIER = jaxrob.Classifier(nearest, CENTRES)
RAMP = np.linspace(-0.1, 0.1, 16, dtype=np.float32).reshape(4, 4, 1)
IMAGES = np.float32([0.1, 0.15, 0.5, 0.55, 0.9, 0.85])[:, None, None, None] + RAMP
LABELS = np.array([0, 0, 1, 2, 2, 2])  # the fourth is classified wrongly


def replaced(examples, classifier, images, labels):
    """An attack that returns given examples, where they are no copies."""
    success = (examples != images).any(axis=(1, 2, 3))
    found = adversarial.fgsm(classifier, images, labels, epsilon=1e-6)
    assert not found.success.any()
    return found._replace(images=examples, success=success & found.correct)


def brighter(amounts):
    examples = IMAGES + np.float32(amounts)[:, None, None, None]
    return functools.partial(replaced, examples)


def similarity(a, b):
    return np.array(
        [1 - np.abs(x.mean() - y.mean()) if (x != y).any() else 1 for x, y in zip(a, b)]
    )


def test_weighted_share_of_the_correct():
    result = adversarial.adversariability(
        CLASSIFIER,
        IMAGES,
        LABELS,
        attack=brighter([0.2, 0, 0.3, 0.25, -0.2, -0.4]),
        similarity=similarity,
    )
    # The second and the fourth have no example; the fourth does not count at all.
    assert result.value == pytest.approx((0.8 + 0.7 + 0.8 + 0.6) / 5, rel=1e-6)
    assert result.num_inputs == 5
    assert result.success_rate == 4 / 5
    np.testing.assert_array_equal(result.num_inputs_per_class, [2, 1, 2])
    np.testing.assert_allclose(result.per_class, [0.4, 0.7, 0.7], rtol=1e-6)
    weights = result.num_inputs_per_class / result.num_inputs
    assert result.per_class @ weights == pytest.approx(result.value)


def test_most_similar_of_several():
    first, second = [0.2, 0, 0.3, 0, 0, -0.4], [0.3, 0.3, 0.1, 0, 0, -0.1]
    result = adversarial.adversariability(
        CLASSIFIER,
        IMAGES,
        LABELS,
        attack=[brighter(first), brighter(second)],
        similarity=similarity,
    )
    best = np.float32([0.2, 0.3, 0.1, 0, 0, -0.1])
    np.testing.assert_array_equal(
        result.attack.images, IMAGES + best[:, None, None, None]
    )
    np.testing.assert_array_equal(result.attack.success, best != 0)
    assert result.value == pytest.approx((0.8 + 0.7 + 0.9 + 0.9) / 5, rel=1e-6)


def test_negative_similarity_counts_as_none_but_beats_failure():
    def opposite(a, b):
        return -similarity(a, b)

    result = adversarial.adversariability(
        CLASSIFIER,
        IMAGES,
        LABELS,
        attack=[brighter([0] * 6), brighter([0.2] + [0] * 5)],
        similarity=opposite,
    )
    assert result.value == 0 and result.success_rate == 1 / 5
    assert result.attack.success[0]


def test_where_all_are_wrong_there_is_nothing_to_attack():
    none = adversarial.adversariability(CLASSIFIER, IMAGES[4:], LABELS[4:] - 1)
    assert np.isnan(none.value) and np.isnan(none.per_class).all()
    assert none.num_inputs == 0


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"attack": []}, ValueError, "attack"),
        ({"attack": [0.1]}, TypeError, "attack"),
        ({"similarity": "windowed"}, TypeError, "similarity"),
    ],
)
def test_refusals(arguments, error, name):
    with pytest.raises(error, match=name):
        adversarial.adversariability(CLASSIFIER, IMAGES, LABELS, **arguments)


def test_attacks_on_other_images_are_not_compared():
    with pytest.raises(ValueError, match="attacks"):
        adversarial.most_adversarial([])
    attack = adversarial.fgsm(CLASSIFIER, IMAGES, LABELS, epsilon=1e-6)
    fewer = attack._make(field[1:] for field in attack)
    with pytest.raises(ValueError, match="same classifier, images and labels"):
        adversarial.most_adversarial([attack, fewer])
