"""Assessments from few images, of classifiers of known accuracy."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import jaxrob
from jaxrob import strategies
from jaxrob.strategies._few import banded, decided

from .documents import assert_refused, put

NUM_IMAGES = 3000
THRESHOLD = 0.7
# Image n is right at levels below its limit, so the accuracy is 1 - 3/4 level.
ORDER = np.random.default_rng(3).permutation(NUM_IMAGES)
LIMITS = (ORDER + 0.5) / NUM_IMAGES * 4 / 3
LABELS = np.random.default_rng(4).integers(0, 2, NUM_IMAGES)
TRUTH = 0.4

DIM = jaxrob.Alteration(
    "dim", lambda image, level: image.at[..., 1].set(level), 0.0, 1.0
)


def dataset_of(limits, labels=LABELS, *more):
    """Images that hold their limit, a place for the level, their label, and more."""
    pixel = np.stack([limits / 2, 0 * limits, labels, *more], axis=-1)
    return jaxrob.Dataset(np.float32(pixel)[:, None, None], labels)


def apply(variables, images):
    """Logits: less certain the closer the level is to the limit."""
    limit, level, label = (images[:, 0, 0, i] for i in range(3))
    certain = 8 * jnp.clip(jnp.abs(2 * limit - level), 0, 1)
    right = 2 * limit > level
    answer = jnp.where(right, label, 1 - label).astype(int)
    return certain[:, None] * jax.nn.one_hot(answer, 2)


DATASET = dataset_of(LIMITS)
CLASSIFIER = jaxrob.Classifier(apply, None)


def assess(seed=0, dataset=DATASET, **settings):
    settings = {"threshold": THRESHOLD} | settings
    return jaxrob.assess(CLASSIFIER, dataset, DIM, key=jax.random.key(seed), **settings)


def on_all_images(**settings):
    """Every crossing found to the finest level."""
    settings = {"strategy": strategies.ASAP(statistical_stopping=False)} | settings
    return assess(**settings)


@pytest.mark.parametrize(
    "half_width",
    [0.1, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.03, 0.01))],
)
def test_interval_is_as_narrow_as_asked_and_mostly_holds_the_truth(half_width):
    runs, misses, off = 12, 0, 0
    for seed in range(runs):
        result = assess(seed, half_width=half_width)
        low, high = result.dataset_interval
        misses += not low <= TRUTH <= high
        assert high - low <= 2 * half_width
        off += abs(result.robustness - TRUTH) > half_width
        assert result.confidence_interval.low <= low <= high
        assert high <= result.confidence_interval.high
        assert result.sampling.status == "precise"
    assert max(misses, off) <= scipy.stats.binom.ppf(0.999, runs, 0.05)


def near_the_threshold():
    """Images whose accuracy falls from 0.81 to 0.79."""
    accuracy = (ORDER + 0.5) / NUM_IMAGES
    return dataset_of(np.clip((0.81 - accuracy) / 0.02, 0, 2))


@pytest.mark.parametrize("asked", [{"half_width": 0.05}, {"budget": 6000}], ids=str)
def test_a_curve_close_to_the_threshold_is_not_decided_by_chance(asked):
    """The first images of this order are worse, at all levels alike."""
    result = assess(25, dataset=near_the_threshold(), threshold=0.8, **asked)
    low, high = result.dataset_interval
    assert low <= 0.5 <= high
    assert high - low <= 0.1 or "half_width" not in asked
    assert jaxrob.Assessment.from_json(result.to_json()).dataset_interval == (low, high)


def test_a_smaller_half_width_costs_evaluations():
    spent = [assess(half_width=one).evaluations for one in (0.1, 0.03, 0.01)]
    assert spent == sorted(spent)
    assert spent[0] < 0.25 * on_all_images().evaluations


def test_half_width_0_gives_the_answer_of_all_images():
    for threshold in (0.7, 0.45, 0.99, 0.2):
        whole = on_all_images(threshold=threshold)
        for seed in range(3):
            result = assess(seed, threshold=threshold, half_width=0)
            assert result.robustness == whole.robustness
        assert result.evaluations < whole.evaluations


def test_curtailed_levels_are_certain():
    whole = on_all_images()
    result = assess(curtail=True)
    assert result.robustness == whole.robustness
    assert result.evaluations < whole.evaluations
    assert result.sampling.error == 0


@pytest.mark.parametrize("number", [1, 100])
@pytest.mark.parametrize(
    "settings",
    [
        {"half_width": 0},
        {"half_width": 0.01},
        {"half_width": 0.01, "curtail": True},
        {"required": 0.41, "curtail": True},
        {"budget": 2_000, "required": 0.39},
    ],
    ids=str,
)
def test_fewer_images_than_are_looked_at_together(number, settings):
    """A level takes all of them at once, and the truth is known to a level."""
    few = dataset_of(LIMITS[:number], LABELS[:number])
    for seed in range(3):
        truth = on_all_images(seed=seed, dataset=few).robustness
        result = assess(seed, dataset=few, **settings)
        low, high = result.dataset_interval
        assert low - 1e-9 <= truth <= high + 1e-9
        assert set(result.sampling.seen) == {number}


def test_a_budget_ends_soon_where_no_half_width_is_small_enough(monkeypatch):
    """All images at a level leave more open than any half width on the way to 0."""
    looks = []
    for search in (banded, decided):
        look = search.look
        counted = functools.partial(lambda look, *a: looks.append(0) or look(*a), look)
        monkeypatch.setattr(search, "look", counted)
    few = dataset_of(np.repeat([0.0, 0.5], [50, 51]), LABELS[:101])
    with pytest.warns(jaxrob.RobustnessWarning, match="already below"):
        assess(dataset=few, threshold=1.0, half_width=0, budget=4949)
    assert len(looks) < 100


@pytest.mark.parametrize("settings", [{"half_width": 0}, {"curtail": True}])
def test_levels_of_uniform(settings):
    strategy = strategies.Uniform(21)
    whole = assess(strategy=strategy)
    result = assess(strategy=strategy, **settings)
    assert result.robustness == whole.robustness
    assert result.evaluations < 0.8 * whole.evaluations
    np.testing.assert_array_equal(result.levels, whole.levels)


@pytest.mark.parametrize("budget", [2_000, 9_000, 30_000])
def test_budget_is_kept_and_says_what_it_bought(budget):
    result = assess(budget=budget)
    assert result.evaluations <= budget
    low, high = result.dataset_interval
    assert low <= TRUTH <= high
    assert result.sampling.status in ("budget", "precise", "resolution")


def test_more_budget_narrows_the_interval():
    widths = []
    for budget in (3_000, 12_000, 40_000):
        low, high = assess(budget=budget).dataset_interval
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("required, is_met", [(0.3, True), (0.5, False)])
def test_requirement_ends_early(required, is_met):
    for seed in range(4):
        result = assess(seed, required=required)
        low, high = result.dataset_interval
        assert (low >= required) if is_met else (high < required)
        assert result.sampling.status == "certain"
        assert result.evaluations < 0.25 * on_all_images().evaluations


@pytest.mark.parametrize(
    "measure, alpha",
    [
        ("recall", 0.3),
        pytest.param("recall", None, marks=pytest.mark.slow),
        pytest.param("accuracy", 0.3, marks=pytest.mark.slow),
        pytest.param("effectiveness", 0.3, marks=pytest.mark.slow),
        pytest.param("decided_ratio", 0.3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:.*of the inputs are decided")
def test_measures_that_are_means(measure, alpha):
    settings = {"measure": measure, "alpha": alpha, "threshold": 0.6}
    whole = on_all_images(**settings)
    same = assess(half_width=0, **settings)
    assert same.robustness == whole.robustness
    near = [assess(seed, half_width=0.02, **settings) for seed in range(10)]
    misses = sum(
        not low <= whole.robustness <= high
        for low, high in (one.dataset_interval for one in near)
    )
    assert misses <= scipy.stats.binom.ppf(0.999, len(near), 0.05)


def test_recall_looks_at_images_of_its_class_alone():
    result = assess(measure="recall", half_width=0.05)
    assert result.sampling.num_images == np.count_nonzero(LABELS == 1)
    assert result.curve.confusion[:, 0].sum() == 0


def test_counts_are_of_the_images_seen():
    result = assess(half_width=0.02)
    totals = result.curve.confusion.sum((1, 2))
    np.testing.assert_array_equal(totals, result.sampling.seen)
    assert result.evaluations == totals.sum()
    assert result.values == pytest.approx(1 - 0.75 * result.levels, abs=0.15)


def test_same_key_gives_the_same_bytes():
    def text(seed):
        document = json.loads(assess(seed, half_width=0.02).to_json())
        del document["seconds"], document["digests"]["seconds"]
        return document

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_batches_give_the_same():
    cuts = range(700, NUM_IMAGES, 700)
    parts = (np.split(one, cuts) for one in (DATASET.images, DATASET.labels))
    batches = jaxrob.Dataset.from_batches(list(zip(*parts)), channels_first=False)
    batched = assess(dataset=batches, half_width=0.02)
    whole = assess(half_width=0.02)
    assert batched.dataset_interval == whole.dataset_interval
    np.testing.assert_array_equal(batched.curve.confusion, whole.curve.confusion)


def test_journal_is_resumed(tmp_path):
    path = tmp_path / "few.journal"
    whole = assess(half_width=0.02, journal=path)
    size = path.stat().st_size
    again = assess(half_width=0.02, journal=path)
    assert path.stat().st_size == size
    assert again.dataset_interval == whole.dataset_interval
    # A narrower interval goes on from there.
    finer = assess(half_width=0.01, journal=path)
    assert path.stat().st_size > size
    assert finer.dataset_interval == assess(half_width=0.01).dataset_interval


def test_json_round_trip():
    result = assess(half_width=0.03, alpha=0.3)
    again = jaxrob.Assessment.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.dataset_interval == result.dataset_interval
    assert again.confidence_interval == result.confidence_interval


@pytest.mark.parametrize(
    "name, value",
    [
        ("status", "fine"),
        ("seen", [1, 2]),
        ("sides", None),
        ("num_images", 10),
        ("dataset_interval", [0.9, 1.0]),
        ("population_interval", [0.5, 0.1]),
        ("robustness", 0.99),
        ("evaluations", 3),
        ("half_width", -1),
    ],
)
def test_tampered_json_is_refused(name, value):
    assert_refused(assess(half_width=0.05).to_json(), put("sampling", name, value))


def test_classes_are_not_known_from_few():
    with pytest.raises(ValueError, match="robustness_per_class is not known"):
        _ = assess(half_width=0.05).robustness_per_class


def test_all_images_have_intervals_of_both_kinds():
    result = on_all_images()
    assert result.evaluations == NUM_IMAGES * result.diagnostics.points
    low, high = result.dataset_interval
    assert low <= result.robustness <= high
    assert high - low <= 2 * result.error_bound


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"half_width": -0.1}, "half_width must"),
        ({"half_width": 0.5}, "half_width must"),
        ({"half_width": "fine"}, "half_width must"),
        ({"half_width": float("nan")}, "half_width must"),
        ({"budget": 0}, "budget must"),
        ({"budget": 1.5}, "budget must"),
        ({"required": 1.5}, "required must"),
        ({"curtail": "yes"}, "curtail must be"),
        ({"half_width": 0.1, "rule": "linear"}, "rule does not go with half_width"),
        ({"half_width": 0.1, "tolerance": "linear"}, "tolerance.*do not go with"),
        ({"half_width": 0.1, "measure": "f1"}, "needs all images"),
        ({"budget": 9, "strategy": strategies.Quadrature()}, "go with strategies.ASAP"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        assess(**settings)


def test_mean_recall_with_unknown_answers_is_refused():
    dataset = jaxrob.Dataset(DATASET.images[:60], np.arange(60) % 3)
    classifier = jaxrob.Classifier(lambda _, x: jnp.tile(x[:, 0, 0, :1], 3), None)
    settings = {"measure": "recall", "alpha": 0.1, "half_width": 0.1}
    with pytest.raises(ValueError, match="more than 2 classes with alpha"):
        jaxrob.assess(classifier, dataset, DIM, 0.3, **settings)


def test_a_budget_below_the_first_levels_is_refused():
    with pytest.raises(ValueError, match="budget must be at least 1152"):
        assess(budget=1000)
    low, high = assess(budget=1152).dataset_interval
    assert low <= TRUTH <= high


def test_a_certain_end_has_a_guess_in_its_middle():
    result = assess(required=0.1, half_width=0)
    low, high = result.dataset_interval
    assert result.sampling.status == "certain"
    assert low < result.robustness < high


def test_where_nothing_is_decided_no_interval_says_anything():
    """An accuracy counts as 1 there, whatever the classifier is worth."""
    with pytest.warns(jaxrob.RobustnessWarning, match="NaN"):
        result = assess(half_width=0.05, threshold=0.6, alpha=0.99)
    assert np.isnan(result.robustness)
    assert result.dataset_interval == (0.0, 1.0)
