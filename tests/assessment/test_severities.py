"""What is known of other alterations is known of corruptions by severity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, metrics, strategies
from jaxrob.alterations import corruptions, presets

RANDOM = np.random.default_rng(0)
LABELS = np.arange(200) % 2
# Class 1 is brighter on the left than on the right, by much or by little.
STEP = RANDOM.uniform(0.02, 0.3, 200) * LABELS
IMAGES = np.full((200, 32, 32, 3), 0.5, np.float32)
IMAGES[:, :, :16] += STEP[:, None, None, None]
DATA = jaxrob.Dataset(IMAGES, LABELS)
KEY = jax.random.key(0)
# The step shrinks with the contrast's factor: .75 .5 .4 .3 .15 at severities 1 to 5.
CONTRAST = corruptions.contrast(32)
FACTORS = np.array([1, 0.75, 0.5, 0.4, 0.3, 0.15])


def answers(least, images):
    step = images[:, :, :16].mean((1, 2, 3)) - images[:, :, 16:].mean((1, 2, 3))
    above = 1e3 * (step - least)
    return jnp.stack([-above, above], axis=1)


def classifier(least):
    return jaxrob.Classifier(answers, jnp.float32(least))


def accuracy_at(severity, least):
    """Class 0 is always right, class 1 where its step is seen."""
    factor = np.interp(severity, np.arange(6), FACTORS)
    return (100 + (STEP[LABELS == 1] * factor > least).sum()) / 200


def assessed(least, strategy, dataset=DATA, alteration=CONTRAST, **settings):
    settings["strategy"] = strategy
    return jaxrob.assess(classifier(least), dataset, alteration, **settings)


def crossing(least, threshold=0.8):
    """The severity at which the accuracy falls below, on a fine grid."""
    grid = np.linspace(0, 5, 5001)
    values = np.array([accuracy_at(severity, least) for severity in grid])
    return grid[(values < threshold).argmax()]


def test_evaluate_at_the_severities():
    curve = jaxrob.evaluate(classifier(0.06), DATA, CONTRAST, presets.SEVERITIES)
    expected = [accuracy_at(severity, 0.06) for severity in range(6)]
    np.testing.assert_allclose(curve.accuracy, expected, atol=0.005)
    found = metrics.corruption_error(curve, metrics.ReferenceErrors(0.1, 0.5))
    assert found.value == pytest.approx(np.mean(1 - curve.accuracy[1:]) / 0.5)


@pytest.mark.parametrize(
    "strategy",
    [
        strategies.Uniform(51),
        strategies.ASAP(),
        strategies.Including(strategies.ASAP(), presets.SEVERITIES),
    ],
    ids=["uniform", "asap", "including"],
)
def test_robustness_bound_and_interval(strategy):
    result = assessed(0.06, strategy, rule="linear")
    truth = crossing(0.06) / 5
    bound = 0.02 if result.error_bound is None else result.error_bound
    assert abs(result.robustness - truth) <= bound + 0.01
    start, end = result.confidence_interval
    assert start < truth < end and end - start < 0.6
    failing = metrics.failing_level(
        result.levels, result.curve.confusion, "accuracy", 0.8
    )
    assert failing.level == pytest.approx(crossing(0.06), abs=5 * bound + 0.05)


def test_severities_are_there_for_mce_whatever_asap_chooses():
    strategy = strategies.Including(strategies.ASAP(), presets.SEVERITIES)
    result = assessed(0.06, strategy)
    curve = jaxrob.evaluate(classifier(0.06), DATA, CONTRAST, presets.SEVERITIES)
    assert result.provenance["settings"] == {"size": 32}
    reference = metrics.ReferenceErrors(0.1, 0.5)
    found = metrics.corruption_error(result, reference)
    assert found == metrics.corruption_error(curve, reference)
    with pytest.raises(ValueError, match="1, 2, 3, 4 are missing"):
        metrics.corruption_error(assessed(0.06, strategies.ASAP()), reference)


def test_first_failing_level_of_each_image():
    result = assessed(0.06, strategies.Uniform(6))
    expected = np.full(200, np.nan)
    for severity in range(5, -1, -1):
        wrong = (LABELS == 1) & (STEP * FACTORS[severity] < 0.06)
        expected[wrong] = severity
    close = (np.abs(STEP[:, None] * FACTORS - 0.06) < 1e-4).any(1)
    np.testing.assert_array_equal(result.first_failing_level[~close], expected[~close])


def test_paired_comparison():
    strategy = strategies.Uniform(21)
    better, worse = (assessed(least, strategy) for least in (0.05, 0.06))
    found = jaxrob.compare(better, worse)
    difference, interval = found.difference, found.confidence_interval
    truth = (crossing(0.05) - crossing(0.06)) / 5
    assert difference == pytest.approx(truth, abs=0.05)
    assert 0 < interval.low < truth < interval.high
    reference = metrics.corruption_error(better, worse)
    assert reference.value < 1 and reference.confidence_interval.high < 1


def test_other_levels_and_own_answers_are_no_errors():
    physical = alterations.contrast(0.05, 1.0)
    result = assessed(0.06, strategies.Uniform(3), alteration=physical)
    reference = metrics.ReferenceErrors(0.1, 0.5)
    with pytest.raises(ValueError, match="by severity.*contrast has levels in"):
        metrics.corruption_error(result, reference)
    stable = assessed(0.06, strategies.Uniform(6), jaxrob.Dataset(IMAGES))
    with pytest.raises(ValueError, match="the network's own answers"):
        metrics.corruption_error(stable, reference)


def test_wrong_levels_are_refused_in_words():
    with pytest.raises(ValueError, match=r"contrast: levels must .*5.*; got 6"):
        jaxrob.evaluate(classifier(0.06), DATA, CONTRAST, [6.0])
    with pytest.raises(ValueError, match="no parameters for an image of 100 x 100 px"):
        large = jaxrob.Dataset(np.zeros((2, 100, 100, 3), np.float32), [0, 1])
        jaxrob.evaluate(classifier(0.06), large, corruptions.contrast(), [1.0])
    with pytest.raises(ValueError, match="saturate: image must have three channels"):
        grey = jaxrob.Dataset(IMAGES[..., :1], LABELS)
        jaxrob.evaluate(classifier(0.06), grey, corruptions.saturate(), [1.0])
