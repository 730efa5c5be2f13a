"""Assessments from few images, of classifiers of known accuracy."""

import functools
import itertools
import json
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import jaxrob
from jaxrob import metrics, strategies
from jaxrob.metrics._counts import Ratio
from jaxrob.metrics._measures import Measure
from jaxrob.strategies._few import banded, decided

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
HUNDRED = dataset_of(LIMITS[:100], LABELS[:100])
CLASSIFIER = jaxrob.Classifier(apply, None)


def with_few(strategy=None, **settings):
    strategy = strategy or strategies.ASAP()
    names = {"half_width", "budget", "curtail", "required"} & {*settings}
    if few := {name: settings.pop(name) for name in names}:
        strategy = strategies.FewImages(strategy, **few)
    return settings | {"strategy": strategy}


def assess(seed=0, dataset=DATASET, **settings):
    settings = {"threshold": THRESHOLD} | with_few(**settings)
    return jaxrob.assess(CLASSIFIER, dataset, DIM, key=jax.random.key(seed), **settings)


def right_or_unknown(counts):
    inputs = counts.decided + counts.unknown
    return Ratio(counts.correct + counts.unknown, inputs, inputs)


HARMLESS = Measure("harmless", right_or_unknown, is_proportion=True)


@functools.cache
def near():
    return assess(half_width=0.05)


@functools.cache
def on_all_images(**settings):
    """Every crossing found to the finest level."""
    return assess(strategy=strategies.ASAP(statistical_stopping=False), **settings)


@pytest.mark.parametrize(
    "half_width", [0.1, pytest.param(0.02, marks=pytest.mark.slow)]
)
def test_interval_is_as_narrow_as_asked_and_mostly_holds_the_truth(half_width):
    runs, misses, off = 3, 0, 0
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


def test_half_width_0_gives_the_answer_of_all_images():
    whole, result = on_all_images(), assess(1, half_width=0)
    assert result.robustness == whole.robustness
    assert result.evaluations < whole.evaluations
    assert result.sampling.error > 0
    low, high = whole.dataset_interval
    assert low <= whole.robustness <= high <= low + 2 * whole.error_bound


@pytest.mark.parametrize("settings", [{"half_width": 0}, {"curtail": True}], ids=str)
def test_levels_of_uniform(settings):
    strategy = strategies.Uniform(9)
    whole = assess(strategy=strategy)
    result = assess(strategy=strategy, **settings)
    assert result.robustness == whole.robustness
    assert result.evaluations < 0.8 * whole.evaluations
    assert (result.sampling.error == 0) == ("curtail" in settings)
    np.testing.assert_array_equal(result.levels, whole.levels)


@pytest.mark.parametrize(
    ("number", "settings"),
    [
        (1, {"half_width": 0.01}),
        (100, {"half_width": 0.01, "curtail": True}),
        (100, {"budget": 2_000, "required": 0.39}),
    ],
    ids=str,
)
def test_fewer_images_than_are_looked_at_together(number, settings):
    """A level takes all of them at once, and the truth is known to a level."""
    few = dataset_of(LIMITS[:number], LABELS[:number])
    truth = on_all_images(dataset=few).robustness
    result = assess(dataset=few, **settings)
    low, high = result.dataset_interval
    assert low - 1e-9 <= truth <= high + 1e-9
    assert set(result.sampling.seen) == {number}


def test_a_budget_ends_soon_where_no_half_width_is_small_enough(monkeypatch):
    """All images at a level leave more open than any half width on the way to 0."""
    looks = []
    for search in (banded, decided):
        method = search.METHOD
        counted = functools.partial(lambda m, *a: looks.append(0) or m.look(*a), method)
        monkeypatch.setattr(search, "METHOD", method._replace(look=counted))
    few = dataset_of(np.repeat([0.0, 0.5], [49, 51]), LABELS[:100])
    with pytest.warns(jaxrob.RobustnessWarning, match="already below|are copies"):
        assess(dataset=few, threshold=1.0, half_width=0, budget=4900)
    assert len(looks) < 100


@pytest.mark.parametrize("required, is_met", [(0.3, True), (0.5, False)])
def test_requirement_ends_early(required, is_met):
    result = assess(required=required)
    low, high = result.dataset_interval
    assert (low >= required) if is_met else (high < required)
    assert low < result.robustness < high
    assert result.sampling.status == "certain"
    assert result.evaluations < 0.25 * on_all_images().evaluations


@pytest.mark.parametrize(
    ("measure", "alpha", "dataset"),
    [
        ("recall", None, HUNDRED),
        ("accuracy", 0.3, DATASET),
        ("effectiveness", 0.3, HUNDRED),
        ("decided_ratio", 0.3, HUNDRED),
        ("harmless", 0.3, HUNDRED),
    ],
)
@pytest.mark.filterwarnings("ignore:.*of the inputs are decided")
def test_measures_that_are_means(measure, alpha, dataset, monkeypatch):
    """A new measure too, which nothing but its record knows."""
    monkeypatch.setitem(metrics.measures, "harmless", HARMLESS)
    settings = {"measure": measure, "alpha": alpha, "threshold": 0.6}
    settings |= {"dataset": dataset, "strategy": strategies.Uniform(9)}
    whole, same = assess(**settings), assess(half_width=0, **settings)
    assert same.robustness == whole.robustness
    np.testing.assert_array_equal(same.sampling.sides == 1, whole.values >= 0.6)


def test_recall_looks_at_images_of_its_class_alone():
    result = assess(measure="recall", dataset=HUNDRED, half_width=0.1)
    assert result.sampling.num_images == np.count_nonzero(LABELS[:100] == 1)
    assert result.curve.confusion[:, 0].sum() == 0


def test_counts_are_of_the_images_seen():
    totals = near().curve.confusion.sum((1, 2))
    np.testing.assert_array_equal(totals, near().sampling.seen)
    assert near().evaluations == totals.sum()
    assert near().values == pytest.approx(1 - 0.75 * near().levels, abs=0.15)
    assert near().robustness_per_class is None


def test_same_key_gives_the_same_bytes():
    def text(one):
        document = json.loads(one.to_json())
        del document["seconds"]
        return document

    one = assess(half_width=0.1)
    assert text(one) == text(assess(half_width=0.1))
    assert text(one) != text(assess(1, half_width=0.1))


def test_batches_give_the_same():
    cuts = range(1500, NUM_IMAGES, 1500)
    parts = (np.split(one, cuts) for one in (DATASET.images, DATASET.labels))
    batches = jaxrob.Dataset.from_batches(list(zip(*parts)), channels_first=False)
    batched = assess(dataset=batches, half_width=0.05)
    assert batched.dataset_interval == near().dataset_interval
    np.testing.assert_array_equal(batched.curve.confusion, near().curve.confusion)


@pytest.mark.slow
def test_journal_is_resumed(tmp_path):
    path = tmp_path / "few.journal"
    whole = assess(half_width=0.1, journal=path)
    size = path.stat().st_size
    again = assess(half_width=0.1, journal=path)
    assert path.stat().st_size == size
    assert again.dataset_interval == whole.dataset_interval
    # A narrower interval goes on from there.
    finer = assess(half_width=0.05, journal=path)
    assert path.stat().st_size > size
    assert finer.dataset_interval == near().dataset_interval


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"half_width": -0.1}, "half_width"),
        ({"half_width": 0.5}, "half_width"),
        ({"budget": 0}, "budget"),
        ({"required": 1.5}, "required"),
        ({"curtail": "yes"}, "curtail"),
        ({"half_width": 0.1, "rule": "linear"}, "rule"),
        ({"half_width": 0.1, "tolerance": jaxrob.Tolerance("step")}, "tolerance"),
        ({"half_width": 0.1, "measure": "f1"}, "measure"),
        ({"budget": 9, "strategy": strategies.Random()}, "strategy"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        assess(**settings)


def test_mean_recall_with_unknown_answers_is_refused():
    dataset = jaxrob.Dataset(HUNDRED.images, np.arange(100) % 3)
    classifier = jaxrob.Classifier(lambda _, x: jnp.tile(x[:, 0, 0, :1], 3), None)
    settings = with_few(measure="recall", alpha=0.1, half_width=0.1)
    with pytest.raises(ValueError, match="more than 2 classes with alpha"):
        jaxrob.assess(classifier, dataset, DIM, 0.3, **settings)


def test_a_budget_below_the_first_levels_is_refused():
    with pytest.raises(ValueError, match="budget must be at least 1152"):
        assess(budget=1151)
    result = assess(budget=1152)
    low, high = result.dataset_interval
    assert low <= TRUTH <= high and result.sampling.status == "budget"
    assert result.evaluations == 1152


def test_where_nothing_is_decided_no_interval_says_anything():
    """An accuracy counts as 1 there, whatever the classifier is worth."""
    with pytest.warns(jaxrob.RobustnessWarning, match="NaN"):
        result = assess(half_width=0.1, threshold=0.6, alpha=0.99, dataset=HUNDRED)
    assert np.isnan(result.robustness)
    assert result.dataset_interval == (0.0, 1.0)


THRESHOLDS = (0.2, 0.5, 0.8, 1.0)
WAYS = list(itertools.product((False, True), repeat=4))


class Case(NamedTuple):
    dataset: jaxrob.Dataset
    settings: dict
    truth: float


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:unaltered, the accuracy", "ignore:the images of", "ignore:.*are copies"
)
def test_random_data_sets_and_settings(cases):
    """No run fails, and none misses the truth more often than it says."""
    rng = np.random.default_rng(36)
    cases = min(cases, 48)
    # Each is a program.
    sizes = [1, 100, 290]
    allowed, missed, seen = 0.0, 0, 0
    for run in range(cases):
        number = sizes[run % len(sizes)]
        case = random_case(rng, number, WAYS[run % len(WAYS)])
        key = jax.random.key(run)
        try:
            result = jaxrob.assess(
                CLASSIFIER, case.dataset, DIM, key=key, **with_few(**case.settings)
            )
        except ValueError as error:
            assert "budget must be at least" in str(error), case.settings
            continue
        seen += 1
        low, high = result.dataset_interval
        misses = not low - 1e-6 <= case.truth <= high + 1e-6
        sampling = result.sampling
        assert not (misses and sampling.error == 0), (case.settings, number)
        allowed, missed = allowed + sampling.error, missed + misses
        check_what_it_says(result, case)
    assert seen > 0.8 * cases
    assert missed <= scipy.stats.poisson.ppf(0.999, allowed)


def check_what_it_says(result, case):
    low, high = result.dataset_interval
    sampling, asked = result.sampling, case.settings
    assert low <= result.robustness <= high
    assert sampling.seen.max() <= len(case.dataset)
    assert result.evaluations <= asked.get("budget", math.inf)
    if sampling.status == "certain":
        assert low >= asked["required"] or high < asked["required"]
    if sampling.status == "precise" and asked.get("half_width"):
        assert high - low <= 2 * asked["half_width"] + 1e-9


def random_case(rng, number, way):
    """Images that are right up to a limit each: of many shapes, with ties."""
    limits = rng.choice(
        [rng.random(number), rng.beta(0.3, 0.3, number), rng.normal(0.5, 0.05, number)]
    )
    if rng.random() < 0.4:
        limits = np.round(limits * 4) / 4 + 0.013
    always = rng.random(number)
    limits = np.select([always < 0.1, always > 0.9], [0.0, 1.1], np.clip(limits, 0, 1))
    limits = np.float64(np.float32(limits))
    threshold = float(rng.choice(THRESHOLDS))
    # The level up to which as many as must be are right.
    truth = min(np.sort(limits)[::-1][math.ceil(threshold * number - 1e-9) - 1], 1.0)
    dataset = dataset_of(limits, rng.integers(0, 2, number))
    half_width, budget, curtail, required = way
    settings: dict = {"threshold": threshold, "curtail": curtail}
    if half_width:
        settings["half_width"] = float(rng.choice([0, 0.01, 0.05]))
    if budget:
        settings["budget"] = int(min(number, 128) * rng.integers(9, 60))
    if required:
        settings["required"] = float(rng.random())
    if not any(way):
        settings["half_width"] = 0.02
    return Case(dataset, settings, float(truth))
