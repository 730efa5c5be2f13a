"""Images without labels: right is what the network answers unaltered."""

import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, reporting
from jaxrob._dataset import check_labels_below

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (40, 6, 6, 1), dtype=np.uint8)
DARKER = alterations.brightness(-0.9, 0.0)
WEIGHTS = RANDOM.normal(size=(2, 36, 4)).astype(np.float32)


def apply(weights, images):
    return images.reshape(len(images), -1) @ weights


NETWORK, OTHER = (jaxrob.Classifier(apply, some) for some in WEIGHTS)


def assessed(network, labels=None):
    data = jaxrob.Dataset(IMAGES, labels, name="unlabelled")
    return jaxrob.assess(network, data, DARKER, threshold=0.6)


@pytest.mark.slow
def test_it_is_the_assessment_with_the_unaltered_answers_as_labels():
    logits = (IMAGES / np.float32(255)).reshape(40, -1) @ WEIGHTS[0]
    found, truth = assessed(NETWORK), assessed(NETWORK, logits.argmax(1))
    assert found.is_stability and not truth.is_stability
    assert found.robustness == truth.robustness
    assert found.values[-1] == 1
    np.testing.assert_array_equal(found.curve.labels, logits.argmax(1))


def test_table_plot_and_json_say_so():
    found = assessed(NETWORK)
    assert "stability: right is what the network itself" in reporting.table([found])
    again = jaxrob.Assessment.from_json(found.to_json())
    assert again.is_stability
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
        jaxrob.adversarial.lbfgs(NETWORK, IMAGES, None)
    batches = jaxrob.Dataset.from_batches([(IMAGES, None)])
    with pytest.raises(TypeError, match="batch 0 of dataset: labels"):
        jaxrob.assess(NETWORK, batches, DARKER)
