"""Attacks: what they found as JSON and back, similarity, and Definitions 7 and 8."""

import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage import metrics

import jaxrob
from jaxrob import adversarial
from jaxrob.adversarial import Attack

from ..assessment.documents import assert_refused, put
from ..reporting import reports

FOUND = reports.attack(3)._replace(
    images=np.zeros((3, 2, 2, 1), np.float32),
    target=np.array([-1, 2, -1], np.int32),
    confidence=np.array([0.9, 0.4, np.nan], np.float32),
    vanished=np.array([False, True, False]),
)


def test_back_as_it_was_without_images():
    before = FOUND
    text = before.to_json()
    json.loads(text, parse_constant=pytest.fail)
    after = Attack.from_json(text)
    for name in Attack._fields[1:]:
        one, other = (np.asarray(getattr(each, name)) for each in (before, after))
        np.testing.assert_array_equal(one, other, strict=True)
    assert after.images.shape == (0, 0, 0, 0)
    assert after.to_json() == text == Attack.from_json(text.encode()).to_json()
    assert before.success.any() and not before.success.all()


def empty(document):
    for name in document.keys() - {"format"}:
        document[name] = []


IMPLAUSIBLE = {
    "success 1": (put("success", 0, 1), r"success\[0\]"),
    "distance negative": (put("distance", 0, -0.5), "distance"),
    "class half": (put("predicted", 0, 1.0), r"predicted\[0\]"),
    "fewer": (put("labels", lambda some: some[1:]), "labels"),
    "nothing": (empty, "success"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(name):
    assert_refused(FOUND.to_json(), *IMPLAUSIBLE[name], Attack.from_json)


quick = settings(deadline=None, max_examples=10)
pixels = st.floats(0, 1, width=32)


def pairs(seed, shape):
    rng = np.random.default_rng(seed)
    a = rng.random(shape, np.float32)
    return a, np.clip(a + rng.normal(0, 0.1, shape), 0, 1).astype(np.float32)


def test_by_hand():
    # Means 1/2 and 1/4, variances 1/4 and 1/16, covariance 1/8.
    p = np.array([0, 1, 0, 1], np.float32).reshape(1, 2, 2, 1)
    similarity = adversarial.structural_similarity(p, p / 2)
    expected = 0.2501 * 0.2509 / (0.3126 * 0.3134)
    np.testing.assert_allclose(similarity, [expected], rtol=1e-12)
    # Constant images: the means alone. Opposite ones: the covariance is -1/4.
    flat = np.full((1, 2, 2, 1), 0.5, np.float32)
    similarity = adversarial.structural_similarity(flat, 2 * flat)
    np.testing.assert_allclose(similarity, [1.0001 / 1.2501], rtol=1e-12)
    similarity = adversarial.structural_similarity(p, 1 - p)
    np.testing.assert_allclose(similarity, [(0.0009 - 0.5) / 0.5009], rtol=1e-12)


def skimages(a, b, **how):
    how |= {"data_range": 1.0, "use_sample_covariance": False}
    both = zip(a.astype(float), b.astype(float))
    return [metrics.structural_similarity(*pair, **how) for pair in both]


def test_whole_image_is_skimages_single_window():
    a, b = pairs(0, (5, 9, 9, 1))
    expected = skimages(a[..., 0], b[..., 0], win_size=9)
    similarity = adversarial.structural_similarity(a, b)
    np.testing.assert_allclose(similarity, expected, rtol=1e-9)


def test_windowed_is_skimages():
    a, b = pairs(1, (3, 11, 20, 3))
    expected = skimages(a, b, gaussian_weights=True, sigma=1.5, channel_axis=-1)
    np.testing.assert_allclose(
        adversarial.windowed_similarity(a, b), expected, atol=2e-5
    )


@quick
@given(st.data(), hnp.array_shapes(min_dims=4, max_dims=4, max_side=4))
def test_symmetric_bounded_and_one_for_the_image_itself(data, shape):
    a = data.draw(hnp.arrays(np.float32, shape, elements=pixels))
    b = data.draw(hnp.arrays(np.float32, shape, elements=pixels))
    similarity = adversarial.structural_similarity(a, b)
    assert similarity.shape == shape[:1] and similarity.dtype == np.float64
    assert (np.abs(similarity) <= 1 + 1e-12).all()
    np.testing.assert_allclose(
        similarity, adversarial.structural_similarity(b, a), rtol=1e-12
    )
    np.testing.assert_array_equal(adversarial.structural_similarity(a, a), 1)


def test_tells_images_apart_that_float32_cannot():
    a, _ = pairs(2, (1, 28, 28, 1))
    b = a.copy()
    b[0, 3, 3, 0] -= 1e-5
    similarity = adversarial.structural_similarity(a, b)
    assert np.float32(similarity[0]) == 1 and similarity[0] < 1


IMAGE = np.full((2, 12, 12, 1), 0.5, np.float32)


@pytest.mark.parametrize(
    ("a", "b", "error", "name"),
    [
        (IMAGE, IMAGE[:1], ValueError, "b must have the shape"),
        (IMAGE[0], IMAGE[0], ValueError, "a must have the shape"),
        (IMAGE, IMAGE.astype(np.uint8), TypeError, "floating"),
        (IMAGE, IMAGE + 300, ValueError, "b must"),
        (IMAGE, IMAGE * np.nan, ValueError, "b must"),
    ],
)
def test_refusals(a, b, error, name):
    for function in (
        adversarial.structural_similarity,
        adversarial.windowed_similarity,
    ):
        with pytest.raises(error, match=name):
            function(a, b)
    with pytest.raises(ValueError, match="at least 11 x 11"):
        adversarial.windowed_similarity(IMAGE[:, :10], IMAGE[:, :10])


# The class is the one of three that the mean pixel is nearest to: 0, 1/2, 1.
CENTRES = np.float32([0, 0.5, 1])


def nearest(centres, images):
    return -20 * (images.mean(axis=(1, 2, 3))[:, None] - centres) ** 2


CLASSIFIER = jaxrob.Classifier(nearest, CENTRES)
RAMP = np.linspace(-0.1, 0.1, 16, dtype=np.float32).reshape(4, 4, 1)
SIX = np.float32([0.1, 0.15, 0.5, 0.55, 0.9, 0.85])[:, None, None, None] + RAMP
THREE = np.array([0, 0, 1, 2, 2, 2])  # the fourth is classified wrongly


def replaced(examples, classifier, images, labels):
    """An attack that returns given examples, where they are no copies."""
    success = (examples != images).any(axis=(1, 2, 3))
    found = adversarial.fgsm(classifier, images, labels, epsilon=1e-6)
    assert not found.success.any()
    return found._replace(images=examples, success=success & found.correct)


def brighter(amounts):
    examples = SIX + np.float32(amounts)[:, None, None, None]
    return functools.partial(replaced, examples)


def similarity(a, b):
    return np.array(
        [1 - np.abs(x.mean() - y.mean()) if (x != y).any() else 1 for x, y in zip(a, b)]
    )


def adversariability(attack, similarity=similarity):
    given = {"attack": attack, "similarity": similarity}
    return adversarial.adversariability(CLASSIFIER, SIX, THREE, **given)


def test_weighted_share_of_the_correct():
    result = adversariability(brighter([0.2, 0, 0.3, 0.25, -0.2, -0.4]))
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
    result = adversariability([brighter(first), brighter(second)])
    best = np.float32([0.2, 0.3, 0.1, 0, 0, -0.1])
    np.testing.assert_array_equal(result.attack.images, SIX + best[:, None, None, None])
    np.testing.assert_array_equal(result.attack.success, best != 0)
    assert result.value == pytest.approx((0.8 + 0.7 + 0.9 + 0.9) / 5, rel=1e-6)


def test_negative_similarity_counts_as_none_but_beats_failure():
    def opposite(a, b):
        return -similarity(a, b)

    result = adversariability([brighter([0] * 6), brighter([0.2] + [0] * 5)], opposite)
    assert result.value == 0 and result.success_rate == 1 / 5
    assert result.attack.success[0]


def test_where_all_are_wrong_there_is_nothing_to_attack():
    none = adversarial.adversariability(CLASSIFIER, SIX[4:], THREE[4:] - 1)
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
def test_arguments_of_adversariability(arguments, error, name):
    with pytest.raises(error, match=name):
        adversarial.adversariability(CLASSIFIER, SIX, THREE, **arguments)


def test_attacks_on_other_images_are_not_compared():
    with pytest.raises(ValueError, match="attacks"):
        adversarial.most_adversarial([])
    attack = adversarial.fgsm(CLASSIFIER, SIX, THREE, epsilon=1e-6)
    fewer = attack._make(field[1:] for field in attack)
    with pytest.raises(ValueError, match="same classifier, images and labels"):
        adversarial.most_adversarial([attack, fewer])
