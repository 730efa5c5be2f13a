"""What an assessment's curve shows of a mistake."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import RobustnessWarning, alterations, strategies
from jaxrob._assessment.explore import jumps

RANDOM = np.random.default_rng(0)
# One class is bright in the middle, the other one beside it.
LABELS = np.arange(100) % 2
IMAGES = np.float32(RANDOM.random((100, 16, 16, 1)) * 0.1)
IMAGES[:, 7:9, 7:9] = 0.3 + 0.2 * RANDOM.random((100, 1, 1, 1))
IMAGES[LABELS == 1, :, 2:4] += 0.2
DATA = jaxrob.Dataset(IMAGES, LABELS)
DARKER = alterations.brightness(-0.5, 0.0)


def beside(line, images):
    """How bright it is where the magnified stripe is not."""
    brightness = line["slope"] * (images[:, 1, 3, 0] - 0.15) + line["offset"]
    return jnp.stack([-brightness, brightness], axis=1)


def network(slope=50, offset=0):
    return jaxrob.Classifier(
        beside, dict(slope=np.float32(slope), offset=np.float32(offset))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "reduced"),
    [(strategies.Uniform(5), False), (strategies.ASAP(), True)],
)
def test_a_network_that_fails_unaltered(strategy, reduced):
    settings = {"strategy": strategy, "reduced": reduced}
    with pytest.warns(RobustnessWarning, match="accuracy is 0, already below"):
        found = jaxrob.assess(network(-50), DATA, DARKER, 0.8, **settings)
    assert found.robustness == 0
    assert any("already below" in message for message in found.warnings)
    assert "already below" in found.to_json()


def test_a_network_that_answers_one_class():
    with pytest.warns(RobustnessWarning, match="answers class 1 for all 100 images"):
        found = jaxrob.assess(network(0, 9), DATA, DARKER, 0.4)
    assert any("learnt nothing" in message for message in found.warnings)
    of_one_class = jaxrob.Dataset(IMAGES, np.ones(100, int))
    assert not jaxrob.assess(network(0, 9), of_one_class, DARKER, 0.4).warnings


def test_a_network_that_is_good_enough_is_silent():
    # A value on the threshold is good enough.
    assert not jaxrob.assess(network(), DATA, DARKER, 1.0).warnings


def test_a_translation_that_crops_jumps_at_the_identity():
    strategy = strategies.Uniform(41)
    # The crop alone moves what the classifier looks at.
    crop = alterations.horizontal_translation(-2.0, 2.0, fill="crop")
    with pytest.warns(RobustnessWarning, match=r'jumps .* pass fill="edge"'):
        jaxrob.assess(network(), DATA, crop, strategy=strategy)
    edge = alterations.horizontal_translation(-2.0, 2.0)
    down = alterations.vertical_translation(-2.0, 2.0, fill="crop")
    assert down.about.jump == crop.about.jump and not edge.about.jump


def test_any_alteration_that_jumps_is_named():
    def step(image, level):
        return jnp.where(level > 0, image.at[:, 3].set(0.1), image)

    own = jaxrob.Alteration("own", step, 0.0, 1.0)
    with pytest.warns(RobustnessWarning, match="own: the measure jumps .* is not cont"):
        jaxrob.assess(network(), DATA, own, 0.4, strategy=strategies.Uniform(41))


SMOOTH = {
    "steep line": lambda x: np.maximum(0.1, 1 - 20 * x),
    "steep square root": lambda x: np.maximum(0.1, 1 - 4 * np.sqrt(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(30 * (x - 0.2))),
    "exponential": lambda x: 0.1 + 0.9 * np.exp(-30 * x),
    "flat": lambda x: 0 * x + 0.9,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_curves_do_not_jump(name):
    # Inputs fail one by one, so that a curve has few values where inputs are few.
    draws = np.random.default_rng(0)
    for num_inputs in (5, 100, 10_000):
        for spacing in (1 / 40, 1 / 1024):
            for distances in (spacing * np.arange(1, 4), spacing * 2.0 ** np.arange(3)):
                for _ in range(20):
                    limits = draws.random(num_inputs)
                    at = SMOOTH[name](np.array([0.0, *distances]))
                    unaltered, *values = np.mean(limits < at[:, None], axis=1)
                    assert not jumps(distances, np.array(values), unaltered, num_inputs)


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
