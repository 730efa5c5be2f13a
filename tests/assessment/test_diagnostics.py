"""Diagnostics of curves whose faults are known."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, strategies
from jaxrob._assessment.diagnostics import diagnose, met_width
from jaxrob.alterations import corruptions, presets
from jaxrob.strategies import ASAP, History, Task, Uniform, sample

from .test_serialization import assessment

LIMITS = np.sort(0.1 + 0.8 * np.random.default_rng(0).beta(3, 3, 1000))


def common(levels):
    """The accuracy when each of 1,000 inputs fails beyond a level of its own."""
    return 1 - np.searchsorted(LIMITS, levels) / 1000


def independent(levels):
    """The same accuracy, from other inputs at each level."""
    seeds = np.rint(levels * 2**20).astype(int)
    draws = [
        np.random.default_rng(seed).binomial(1000, p)
        for seed, p in zip(seeds, common(levels))
    ]
    return np.array(draws) / 1000


def sampled(levels, values, effects=None):
    return History(levels, values, np.full(len(levels), 1000), effects, rounds=1)


def diagnosed(function, levels, threshold=0.8, lower=0.0, upper=1.0):
    task = Task(lower, upper, threshold)
    return diagnose(task, sampled(levels, function(levels)), len(levels))


def test_noise_of_each_level_s_own_is_jitter_and_shared_noise_is_none():
    levels = np.linspace(0, 1, 257)
    shared = diagnosed(common, levels)
    assert shared.jitter < 3 and shared.warnings == ()
    found = diagnosed(independent, levels)
    assert found.jitter > 12
    (warning,) = found.warnings
    assert "do not share their random numbers" in warning


def test_steps_between_levels_of_the_same_effect_are_no_jitter():
    levels = np.linspace(0, 1, 257)
    steps = np.floor(levels * 50) / 50
    rows = np.unique(steps, return_inverse=True)[1]
    task = Task(0.0, 1.0, 0.8)
    found = diagnose(task, sampled(levels, common(steps), rows), 51)
    assert not found.jitter > 12
    taken_apart = diagnose(task, sampled(levels, common(steps)), 257)
    assert taken_apart.jitter > found.jitter or math.isnan(found.jitter)


@pytest.mark.parametrize("resolution", [None, 1 / 256])
def test_steps_that_an_alteration_declares_are_no_jitter(resolution):
    def inverted(image, level):
        return jnp.where(jnp.sin(1e5 * level) >= 0, image, 1 - image)

    stepwise = jaxrob.Alteration("steps", inverted, 0, 1, resolution=resolution)
    classifier = jaxrob.Classifier(lambda _, x: 5 * jnp.hstack([x, 1 - x]), None)
    images = np.linspace(0.9, 1, 99, dtype=np.float32)[:, None]
    data = jaxrob.Dataset(images, np.zeros(99, int))
    found = jaxrob.assess(classifier, data, stepwise, 0.8, strategy=Uniform(257))
    assert ("jitter" in found.diagnostics.signs) == (resolution is None)


def test_levels_far_apart_tell_no_jitter():
    assert math.isnan(diagnosed(independent, np.linspace(0, 1, 41)).jitter)
    assert math.isnan(diagnosed(common, np.array([0.5])).jitter)


def test_a_plateau_on_the_threshold_is_seen():
    def plateau(levels):
        return np.where(levels < 0.3, 0.9, np.where(levels < 0.7, 0.8, 0.5))

    levels = np.linspace(0, 1, 101)
    found = diagnosed(plateau, levels)
    assert found.plateau == pytest.approx(0.4, abs=0.03)
    assert any("within a few images" in warning for warning in found.warnings)
    assert diagnosed(plateau, levels, threshold=0.6).plateau < 0.01


def test_the_widest_interval_is_a_share_of_the_range():
    def flat(levels):
        return 0 * levels + 1

    # Rounded, six even levels leave no interval that is too wide.
    for ends in ((0.0, 1.0), (-0.1, 0.3)):
        about = dict(zip(("lower", "upper"), ends))
        levels = sample(strategies.Uniform(6), Task(*ends, 0.8), common)[0].levels
        for rounded in (levels, levels.astype(np.float32).astype(float)):
            found = diagnosed(flat, rounded, **about)
            assert found.widest_interval == pytest.approx(0.2)
            assert found.warnings == ()
        (warning,) = diagnosed(flat, np.delete(levels, 1), **about).warnings
        assert "of 40.0 % of the range" in warning
    # Levels need not reach the ends.
    assert diagnosed(flat, np.array([0.3, 0.6])).widest_interval == pytest.approx(0.4)


def replayed(function, strategy, threshold=0.8, num_inputs=1000):
    task = Task(0.0, 1.0, threshold)
    found, _ = sample(strategy, task, function, num_inputs)
    return diagnose(task, found, len(found.levels))


@pytest.mark.parametrize("strategy", [ASAP(), ASAP(concavity=128.0)])
def test_a_jagged_curve_near_the_threshold_is_named(strategy):
    # Up and down by 3 percentage points, 4 and more above the threshold.
    def jagged(x):
        return 0.87 + 0.03 * np.interp(np.mod(x * 9.3, 2), [0, 1, 2], [-1, 1, -1])

    found = replayed(jagged, strategy)
    assert 0.01 < found.roughness < 0.12 and 0.03 < found.margin < 0.11
    assert "The curve is jagged" in found.signs["margin"]
    # Far from the threshold it does no harm, and between close levels it is seen.
    far = replayed(lambda x: jagged(x) - 0.3, strategy, 0.2)
    assert far.roughness > 0 and far.warnings == ()
    assert math.isnan(diagnosed(jagged, np.linspace(0, 1, 65)).margin)


@pytest.mark.parametrize(
    "smooth",
    [
        # Levels of a digits CNN, turned by up to 60 degrees, and of a steeper one.
        lambda x: 0.1 + 0.88 * np.exp(-(np.abs((x - 0.5) / 0.26) ** 2.3)),
        lambda x: 0.98 - 0.7 / (1 + np.exp((0.6 - x) / 0.05)),
    ],
)
@pytest.mark.parametrize("strategy", [ASAP(), ASAP(concavity=128.0)])
def test_a_smooth_curve_is_no_risk_however_steep(smooth, strategy):
    found = replayed(lambda x: np.rint(500 * smooth(x)) / 500, strategy, 0.8, 500)
    assert found.warnings == ()


def test_a_sharp_peak_beside_the_threshold_is_named():
    # As the published curve on which the bound fails: one level shows the peak.
    found = replayed(
        lambda x: np.interp(x, [0, 0.25, 0.375, 0.5, 0.625, 1], PEAK), ASAP()
    )
    assert found.roughness == 0 and found.bend > 0.36
    assert "times as sharply" in found.signs["margin"]


PEAK = [0.7, 0.76, 0.836, 0.866, 0.761, 0.69]


def test_a_few_images_that_answer_by_accident_make_no_jagged_curve():
    def swaying(x, size):
        right = 800 + 10 + 50 * (1 - x) + size * np.sin(2 * np.pi * 6.1 * x)
        return np.rint(right) / 1000

    found = replayed(lambda x: swaying(x, 4), ASAP())
    assert 0.01 < found.margin < 0.02 and found.warnings == ()
    # Four times as many, as far from the threshold at the least.
    found = replayed(lambda x: 0.016 + swaying(x, 16), ASAP())
    assert "The curve is jagged" in found.signs["margin"]


def test_roughness_is_that_of_a_curve_that_changes_sides_three_times():
    levels = np.linspace(0, 1, 9)

    def roughness(values):
        return diagnose(Task(0.0, 1.0, 0.1), History(levels, values), 9).roughness

    # Off the lines: 4, -3.5, 3, -4, 5, -2.5, 0.
    zigzag = np.array([0.0, 4, 0, 3, 0, 5, 0, 0, 0]) / 100
    assert roughness(0.5 + zigzag) == pytest.approx(0.05)
    assert roughness(0.5 - zigzag) == pytest.approx(0.05)
    one_peak = np.array([0.0, 0, 1, 9, 10, 9, 1, 0, 0]) / 100
    assert roughness(0.5 + one_peak) == roughness(0.5 - one_peak) == 0
    # Images explain as much.
    noisy = sampled(levels, 0.5 + zigzag / 40)
    assert diagnose(Task(0.0, 1.0, 0.1), noisy, 9).roughness == 0


@pytest.mark.parametrize(
    "levels", [np.linspace(0, 1, 9), np.array([0.1, 0.15, 0.2, 0.55, 0.9])]
)
def test_the_chance_that_a_level_meets_a_dip(levels):
    gaps = np.diff(np.concatenate([[0.0], levels, [1.0]]))
    starts = (np.arange(20_000) + 0.5) / 20_000
    for chance in (0.2, 0.5, 0.9, 1.0):
        width = met_width(gaps, chance)
        low = starts * (1 - width)
        following = np.append(levels, 2.0)[np.searchsorted(levels, low)]
        assert np.mean(following <= low + width + 1e-12) == pytest.approx(
            chance, abs=2e-3
        )
    assert met_width(gaps, 1.0) == gaps.max()


def test_what_may_have_been_missed_is_said():
    found = diagnosed(lambda x: 0 * x + 0.99, np.linspace(0, 1, 9))
    # 8 gaps: 1 - 8 (1/8 - w) / (1 - w) is one half.
    assert found.half_met == pytest.approx(1 / 15)
    assert "12.5 % of the range" in found.excursions
    assert "one over 6.7 % in half of the places" in found.excursions
    assert found.warnings == ()


def test_a_sampled_curve_has_the_diagnostics_of_an_assessment():
    task = Task(0.0, 1.0, 0.8)
    asap = strategies.ASAP(n=64)
    history, _ = strategies.sample(asap, task, lambda x: 1 - x / 2, 100)
    assert jaxrob.Diagnostics.of(task, history) == diagnose(
        task, history, len(history.levels)
    )
    with pytest.raises(TypeError, match="history must be"):
        jaxrob.Diagnostics.of(task, [0.0, 1.0])
    with pytest.raises(ValueError, match="history"):
        jaxrob.Diagnostics.of(task, strategies.History())


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


CLASSIFIER = jaxrob.Classifier(answers, np.float32(0.06))


def accuracy_at(severities):
    """Class 0 is always right, class 1 where its step is seen."""
    factors = np.interp(severities, np.arange(6), FACTORS)
    return 0.5 + (np.outer(factors, STEP[LABELS == 1]) > 0.06).sum(1) / NUMBER


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*are copies")
def test_severities_are_there_for_mce_whatever_asap_chooses():
    curve = jaxrob.evaluate(CLASSIFIER, DATA, CONTRAST, presets.SEVERITIES)
    np.testing.assert_allclose(curve.accuracy, accuracy_at(range(6)), atol=0.01)
    reference = metrics.ReferenceErrors(0.1, 0.5)
    found = metrics.corruption_error(curve, reference)
    assert found.value == pytest.approx(np.mean(1 - curve.accuracy[1:]) / 0.5)

    strategy = strategies.Including(strategies.ASAP(), presets.SEVERITIES)
    how = {"strategy": strategy, "rule": "linear"}
    result = jaxrob.assess(CLASSIFIER, DATA, CONTRAST, **how)
    assert result.provenance["settings"] == {"size": 32}
    assert metrics.corruption_error(result, reference) == found
    grid = np.linspace(0, 1, 5001)
    truth = grid[(accuracy_at(5 * grid) < 0.8).argmax()]
    assert abs(result.robustness - truth) <= result.error_bound + 0.01
    low, high = result.confidence_interval
    assert low < truth < high < low + 0.6


def test_other_levels_and_own_answers_are_no_errors():
    own = {"dataset": {"fingerprint": "0a", "labels": "own answers"}}
    stable = assessment(unit="severity", provenance=own)
    for one, message in ((assessment(), "severity.*blur"), (stable, "own answers")):
        with pytest.raises(ValueError, match=message):
            metrics.corruption_error(one, metrics.ReferenceErrors(0.1, 0.5))
