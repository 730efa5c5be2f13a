"""What an assessment's curve shows of a mistake."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import RobustnessWarning, alterations, strategies
from jaxrob._assessment.mistakes import jumps

RANDOM = np.random.default_rng(0)
# One class is bright in the middle, the other one beside it.
LABELS = np.arange(400) % 2
IMAGES = np.float32(RANDOM.random((400, 16, 16, 1)) * 0.1)
IMAGES[:, 7:9, 7:9] = 0.3 + 0.2 * RANDOM.random((400, 1, 1, 1))
IMAGES[LABELS == 1, :, 2:4] += 0.2
DATA = jaxrob.Dataset(IMAGES, LABELS)
BLUR = alterations.gaussian_blur()


def beside(threshold, images):
    """How bright it is where the magnified stripe is not."""
    brightness = 50 * (images[:, 1, 3, 0] - threshold)
    return jnp.stack([-brightness, brightness], axis=1)


CLASSIFIER = jaxrob.Classifier(beside, jnp.float32(0.15))


def always_one(variables, images):
    return jnp.tile(jnp.float32([0, 9]), (len(images), 1))


@pytest.mark.parametrize("strategy", [strategies.Uniform(5), strategies.ASAP()])
@pytest.mark.parametrize("reduced", [False, True])
def test_a_network_that_fails_unaltered(strategy, reduced):
    wrong = jaxrob.Classifier(lambda v, x: -beside(v, x), jnp.float32(0.15))
    settings = {"strategy": strategy, "reduced": reduced}
    with pytest.warns(RobustnessWarning, match="accuracy is 0, already below"):
        found = jaxrob.assess(wrong, DATA, BLUR, 0.8, **settings)
    assert found.robustness == 0
    assert any("already below" in message for message in found.warnings)
    assert "already below" in found.to_json()


def test_a_network_that_answers_one_class():
    with pytest.warns(RobustnessWarning, match="answers class 1 for all 400 images"):
        found = jaxrob.assess(jaxrob.Classifier(always_one), DATA, BLUR, 0.4)
    assert any("learnt nothing" in message for message in found.warnings)
    of_one_class = DATA[LABELS == 1]
    assert not jaxrob.assess(jaxrob.Classifier(always_one), of_one_class, BLUR).warnings


def test_a_network_that_is_good_enough_is_silent():
    assert not jaxrob.assess(CLASSIFIER, DATA, BLUR, 0.8).warnings


@pytest.mark.parametrize("strategy", [strategies.Uniform(41), strategies.ASAP()])
def test_a_translation_that_crops_jumps_at_the_identity(strategy):
    for make in (alterations.horizontal_translation, alterations.vertical_translation):
        # The crop alone moves what the classifier looks at.
        crop = make(-2.0, 2.0, fill="crop")
        with pytest.warns(RobustnessWarning, match=r'jumps .* pass fill="edge"'):
            jaxrob.assess(CLASSIFIER, DATA, crop, strategy=strategy)
        found = jaxrob.assess(CLASSIFIER, DATA, make(-2.0, 2.0), strategy=strategy)
        assert not found.warnings


def test_any_alteration_that_jumps_is_named():
    def step(image, level):
        return jnp.where(level > 0, image.at[:, 3].set(0.1), image)

    own = jaxrob.Alteration("own", step, 0.0, 1.0)
    with pytest.warns(RobustnessWarning, match="own: the measure jumps .* is not cont"):
        jaxrob.assess(CLASSIFIER, DATA, own, 0.4, strategy=strategies.Uniform(41))


SMOOTH = {
    "line": lambda x: 1 - x,
    "steep line": lambda x: np.maximum(0.1, 1 - 20 * x),
    "square root": lambda x: 1 - 0.9 * np.sqrt(x),
    "steep square root": lambda x: np.maximum(0.1, 1 - 4 * np.sqrt(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(30 * (x - 0.2))),
    "exponential": lambda x: 0.1 + 0.9 * np.exp(-30 * x),
    "flat": lambda x: 0 * x + 0.9,
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("num_inputs", [5, 20, 100, 1000, 10000])
def test_smooth_curves_do_not_jump(name, num_inputs):
    # Inputs fail one by one, so that a curve has few values where inputs are few.
    draws = np.random.default_rng(num_inputs)
    for spacing in (1 / 40, 1 / 100, 1 / 1024):
        uniform = spacing * np.arange(1, 4)
        halving = spacing * 2.0 ** np.arange(3)
        for distances in (uniform, halving):
            for _ in range(50):
                limits = draws.random(num_inputs)
                values = [np.mean(limits < SMOOTH[name](x)) for x in (0.0, *distances)]
                assert not jumps(distances, np.array(values[1:]), values[0], num_inputs)


def test_jumps_are_distinguished_from_chance_and_from_distance():
    near = np.array([0.01, 0.02, 0.03])
    after = np.array([0.5, 0.495, 0.49])
    assert jumps(near, after, 0.98, 1000)
    assert jumps(near, after, 0.02, 1000)
    assert jumps(near[:2], after[:2], 0.98, 200)
    assert not jumps(near, after, 0.98, 20)
    assert not jumps(near[:1], after[:1], 0.98, 1000)
    assert not jumps(10 * near, after, 0.98, 1000)
    assert not jumps(np.array([0.001, 0.1]), after[:2], 0.98, 1000)
    assert not jumps(near, after, 0.98, None)
