"""Signs of a mistake in a curve; stability without labels; the confidence level."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import RobustnessWarning, alterations, metrics, reporting, strategies
from jaxrob._assessment.explore import jumps
from jaxrob._dataset import check_labels_below
from jaxrob.metrics._bands import num_resamples

from ..linear import linear
from .test_few import assess

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
    ("strategy", "reduced"), [(strategies.Uniform(5), False), (strategies.ASAP(), True)]
)
def test_a_network_that_fails_unaltered(strategy, reduced):
    settings = {"strategy": strategy, "reduced": reduced}
    said = "accuracy is 0, already below .* another order .* would be 1:"
    with pytest.warns(RobustnessWarning, match=said):
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


STABLE_RANDOM = np.random.default_rng(0)
UNLABELLED = STABLE_RANDOM.integers(0, 256, (40, 6, 6, 1), dtype=np.uint8)
MUCH_DARKER = alterations.brightness(-0.9, 0.0)
WEIGHTS = STABLE_RANDOM.normal(size=(2, 36, 4)).astype(np.float32)


NETWORK, OTHER = (jaxrob.Classifier(linear, some) for some in WEIGHTS)


def assessed(network, labels=None):
    data = jaxrob.Dataset(UNLABELLED, labels, name="unlabelled")
    return jaxrob.assess(network, data, MUCH_DARKER, threshold=0.6)


@pytest.mark.slow
def test_it_is_the_assessment_with_the_unaltered_answers_as_labels():
    logits = (UNLABELLED / np.float32(255)).reshape(40, -1) @ WEIGHTS[0]
    found, truth = assessed(NETWORK), assessed(NETWORK, logits.argmax(1))
    assert found.is_stability and not truth.is_stability
    assert found.robustness == truth.robustness
    assert found.values[-1] == 1
    np.testing.assert_array_equal(found.curve.labels, logits.argmax(1))


def test_table_plot_and_json_say_so():
    found = assessed(NETWORK)
    assert "stability: right is what the network itself" in reporting.table([found])
    assert jaxrob.Assessment.from_json(found.to_json()).is_stability
    axes = found.plot()
    assert axes.get_ylabel() == "accuracy (own answers)"
    assert axes.get_title().startswith("brightness: stability")


def test_two_networks_are_not_compared_by_their_own_answers():
    one, other = assessed(NETWORK), assessed(OTHER)
    with pytest.raises(ValueError, match="a network's own answers"):
        jaxrob.compare(one, other)
    assert jaxrob.compare(one, assessed(NETWORK)).difference == 0


def test_what_needs_labels_says_so():
    with pytest.raises(ValueError, match="labels of unlabelled are missing"):
        check_labels_below(None, 2, "labels of unlabelled")
    with pytest.raises(TypeError, match="labels must be an array .* got None"):
        jaxrob.adversarial.lbfgs(NETWORK, UNLABELLED, None)
    batches = jaxrob.Dataset.from_batches([(UNLABELLED, None)])
    with pytest.raises(TypeError, match="batch 0 of dataset: labels"):
        jaxrob.assess(NETWORK, batches, MUCH_DARKER)


@pytest.mark.slow
def test_the_interval_is_of_the_level_asked_for():
    even = strategies.Uniform(41)
    usual, sure = (assess(strategy=even, confidence_level=c) for c in (0.95, 0.999))
    expected = metrics.confidence_interval(
        sure.levels, sure.curve.confusion, "accuracy", 0.7, 0.999, bounds=(0, 1)
    )
    low, high = sure.confidence_interval
    assert (low, high) == pytest.approx(expected)
    assert low <= usual.confidence_interval.low < usual.confidence_interval.high < high
    read = jaxrob.Assessment.from_json(sure.to_json())
    assert read.confidence_level == 0.999
    assert read.confidence_interval == sure.confidence_interval


@pytest.mark.slow
def test_few_images_err_as_seldom_as_asked():
    levels = (0.95, 0.999)
    usual, sure = (assess(half_width=0.1, confidence_level=one) for one in levels)
    assert (usual.sampling.error, sure.sampling.error) == pytest.approx((0.05, 0.001))
    assert sure.evaluations >= usual.evaluations


def test_the_highest_level_that_a_message_names_is_taken():
    assert num_resamples(0.9999) == 500_000
    with pytest.raises(ValueError, match=r"at most 0\.9999 .*; got 0\.99999"):
        num_resamples(0.99999)
