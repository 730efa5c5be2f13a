"""What is known of other alterations is known of corruptions by severity."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, strategies
from jaxrob.alterations import corruptions, presets

from .test_serialization import assessment

RANDOM = np.random.default_rng(0)
NUMBER = 100
LABELS = np.arange(NUMBER) % 2
# Class 1 is brighter on the left than on the right, by much or by little.
STEP = RANDOM.uniform(0.02, 0.3, NUMBER) * LABELS
IMAGES = np.full((NUMBER, 32, 32, 3), 0.5, np.float32)
IMAGES[:, :, :16] += STEP[:, None, None, None]
DATA = jaxrob.Dataset(IMAGES, LABELS)
# The step shrinks with the contrast's factor: .75 .5 .4 .3 .15 at severities 1 to 5.
CONTRAST = corruptions.contrast(32)
FACTORS = np.array([1, 0.75, 0.5, 0.4, 0.3, 0.15])


def answers(least, images):
    step = images[:, :, :16].mean((1, 2, 3)) - images[:, :, 16:].mean((1, 2, 3))
    above = 1e3 * (step - least)
    return jnp.stack([-above, above], axis=1)


def classifier(least):
    return jaxrob.Classifier(answers, np.float32(least))


def accuracy_at(severity, least):
    """Class 0 is always right, class 1 where its step is seen."""
    factor = np.interp(severity, np.arange(6), FACTORS)
    return 0.5 + (STEP[LABELS == 1] * factor > least).sum() / NUMBER


def assessed(least, strategy, dataset=DATA, alteration=CONTRAST, **settings):
    settings["strategy"] = strategy
    return jaxrob.assess(classifier(least), dataset, alteration, **settings)


def crossing(least, threshold=0.8):
    """The severity at which the accuracy falls below, on a fine grid."""
    grid = np.linspace(0, 5, 5001)
    values = np.array([accuracy_at(severity, least) for severity in grid])
    return grid[(values < threshold).argmax()]


@pytest.mark.slow
def test_severities_are_there_for_mce_whatever_asap_chooses():
    curve = jaxrob.evaluate(classifier(0.06), DATA, CONTRAST, presets.SEVERITIES)
    expected = [accuracy_at(severity, 0.06) for severity in range(6)]
    np.testing.assert_allclose(curve.accuracy, expected, atol=0.01)
    reference = metrics.ReferenceErrors(0.1, 0.5)
    found = metrics.corruption_error(curve, reference)
    assert found.value == pytest.approx(np.mean(1 - curve.accuracy[1:]) / 0.5)

    strategy = strategies.Including(strategies.ASAP(), presets.SEVERITIES)
    result = assessed(0.06, strategy, rule="linear")
    assert result.provenance["settings"] == {"size": 32}
    assert metrics.corruption_error(result, reference) == found
    truth = crossing(0.06) / 5
    assert abs(result.robustness - truth) <= result.error_bound + 0.01
    low, high = result.confidence_interval
    assert low < truth < high < low + 0.6


def test_other_levels_and_own_answers_are_no_errors():
    own = {"dataset": {"fingerprint": "0a", "labels": "own answers"}}
    stable = assessment(unit="severity", provenance=own)
    for one, message in ((assessment(), "severity.*blur"), (stable, "own answers")):
        with pytest.raises(ValueError, match=message):
            metrics.corruption_error(one, metrics.ReferenceErrors(0.1, 0.5))
