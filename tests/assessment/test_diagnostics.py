"""Diagnostics of curves whose faults are known."""

import math

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import strategies
from jaxrob._assessment.diagnostics import diagnose
from jaxrob.strategies import ASAP, Question, Samples, sample

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
    return Samples(levels, values, np.full(len(levels), 1000), effects, rounds=1)


def diagnosed(function, levels, threshold=0.8, lower=0.0, upper=1.0):
    question = Question(lower, upper, threshold)
    return diagnose(question, sampled(levels, function(levels)), len(levels))


def test_noise_shared_by_all_levels_is_no_jitter():
    levels = np.linspace(0, 1, 257)
    assert diagnosed(common, levels).jitter < 3
    assert diagnosed(common, levels).warnings == ()


def test_noise_of_each_level_s_own_is_jitter():
    found = diagnosed(independent, np.linspace(0, 1, 257))
    assert found.jitter > 12
    (warning,) = found.warnings
    assert "do not share their random numbers" in warning


def test_steps_between_levels_of_the_same_effect_are_no_jitter():
    levels = np.linspace(0, 1, 257)
    steps = np.floor(levels * 50) / 50
    rows = np.unique(steps, return_inverse=True)[1]
    question = Question(0.0, 1.0, 0.8)
    found = diagnose(question, sampled(levels, common(steps), rows), 51)
    assert not found.jitter > 12
    taken_apart = diagnose(question, sampled(levels, common(steps)), 257)
    assert taken_apart.jitter > found.jitter or math.isnan(found.jitter)


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
    levels = np.array([-20.0, -10.0, 0.0, 20.0])
    found = diagnosed(lambda x: 0 * x + 1, levels, lower=-20.0, upper=20.0)
    assert found.widest_interval == 0.5
    assert any("of 50.0 % of the range" in warning for warning in found.warnings)
    # Levels need not reach the ends.
    inner = diagnosed(lambda x: 0 * x + 1, np.array([0.3, 0.6]))
    assert inner.widest_interval == pytest.approx(0.4)


@pytest.mark.parametrize(
    "ends", [(0.0, 5.0), (0.0, 1.0), (-0.1, 0.3), (-20.0, 20.0), (0.0, 200 / 255**2)]
)
def test_six_even_levels_leave_no_wide_interval_by_rounding(ends):
    levels = sample(strategies.Uniform(6), Question(*ends, 0.8), common).levels
    for rounded in (levels, levels.astype(np.float32).astype(float)):
        found = diagnosed(lambda x: 0 * x + 1, rounded, lower=ends[0], upper=ends[1])
        assert found.widest_interval == pytest.approx(0.2)
        assert found.warnings == ()
    fifths = np.delete(levels, 1)
    (warning,) = diagnosed(
        lambda x: 0 * x + 1, fifths, lower=ends[0], upper=ends[1]
    ).warnings
    assert "of 40.0 % of the range" in warning


def test_points_and_rounds_are_those_of_the_evaluations():
    fade = jaxrob.Alteration("fade", lambda x, level: x.at[1].set(level), 0.0, 1.0)
    images = np.stack([LIMITS, 0 * LIMITS], axis=1).astype(np.float32)
    data = jaxrob.Dataset(images, np.zeros(1000, int))

    def apply(variables, images):
        return jax.nn.one_hot((images[:, 0] < images[:, 1]).astype(int), 2)

    classifier = jaxrob.Classifier(apply, None, outputs="scores")
    result = jaxrob.assess(classifier, data, fade)
    replay = sample(ASAP(), Question(0.0, 1.0, 0.8), common, 1000)
    assert result.diagnostics.points == len(replay.levels)
    assert result.diagnostics.rounds == replay.rounds > 1
    uniform = jaxrob.assess(classifier, data, fade, strategy=strategies.Uniform(41))
    assert uniform.diagnostics[:2] == (41, 1)


def test_levels_saved_at_a_risk_are_named():
    # Strays by 0.1 at 3/8, and is 0.06 above the threshold elsewhere.
    def rough(x):
        return 0.86 + 0.1 * (np.abs(x - 0.375) < 0.07)

    question, strategy = Question(0.0, 1.0, 0.8), ASAP()
    found = sample(strategy, question, rough, 1000)
    diagnostics = diagnose(question, found, len(found.levels))
    assert diagnostics.margin == pytest.approx(0.06)
    # Less two standard deviations of flips.
    assert 0.09 < diagnostics.roughness <= 0.1
    (warning,) = diagnostics.warnings
    assert "within 6 percentage points of the threshold" in warning
    # With levels close together there is no such risk, and none on a smooth curve.
    levels = np.linspace(0, 1, 33)
    assert math.isnan(diagnosed(rough, levels).margin)
    smooth = sample(strategy, question, lambda x: 0.95 - 0.1 * x, 1000)
    assert diagnose(question, smooth, 9).warnings == ()
