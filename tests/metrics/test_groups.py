"""Intervals where images belong together, by simulation and by other estimates."""

import numpy as np
import pytest

from jaxrob import metrics
from jaxrob.metrics._counts import Groups, ImageScores, count
from jaxrob.metrics._groups import worth_of
from jaxrob.metrics._measures import any_measure

MEASURES = ("accuracy", "recall", "precision", "f1", "effectiveness", "top2_accuracy")


def counted(labels, answers, groups, num_classes, rank=None):
    """Counts of one level, of images in groups."""
    answers = np.asarray(answers)[None]
    rank = None if rank is None else np.asarray(rank)[None]
    counts = count(answers, labels, num_classes, rank)
    return counts._replace(groups=Groups(groups, labels, answers, rank))


def of_right(right, groups):
    right = np.asarray(right)
    return counted(np.zeros(len(right), int), np.where(right, 0, 1), groups, 2)


def drawn(rng, sizes, accuracy, correlation):
    """Right answers of a beta-binomial model, and their groups."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    share = np.where(rng.random(len(sizes)) < accuracy, 1.0, 0.0)
    if correlation < 1:
        total = 1 / max(correlation, 1e-9) - 1
        share = rng.beta(accuracy * total, (1 - accuracy) * total, len(sizes))
    return rng.random(len(groups)) < share[groups], groups


@pytest.mark.parametrize(
    ("correlation", "largest"), [(0.1, 0), (0.5, 0), (1.0, 0), (0.05, 400)]
)
def test_intervals_hold_the_truth(correlation, largest):
    rng, runs, held, alone = np.random.default_rng(6601), 300, 0, 0
    sizes = rng.integers(5, 36, 40)
    sizes[0] = max(sizes[0], largest)
    for _ in range(runs):
        right, groups = drawn(rng, sizes, 0.9, correlation)
        low, high = metrics.bands(of_right(right, groups), "accuracy")
        held += low[0] <= 0.9 <= high[0]
        low, high = metrics.wilson(np.array([right.sum()]), np.array([len(right)]))
        alone += low[0] <= 0.9 <= high[0]
    # Three standard deviations of 300 runs below 95 %.
    assert held >= 0.912 * runs
    assert alone < 0.85 * runs or correlation <= 0.1


def test_independent_images_in_groups_cost_little():
    rng, ratios = np.random.default_rng(6602), []
    for _ in range(100):
        right, groups = drawn(rng, np.full(30, 20), 0.9, 0.0)
        (low,), (high,) = metrics.bands(of_right(right, groups), "accuracy")
        one = metrics.wilson(np.array([right.sum()]), np.array([len(right)]))
        ratios.append((high - low) / (one[1][0] - one[0][0]))
    assert np.median(ratios) < 1.15


@pytest.mark.parametrize("right", [20, 17, 3, 0])
def test_copies_are_worth_the_pictures_they_are_of(right):
    groups = np.repeat(np.arange(20), 100)
    low, high = metrics.bands(of_right(groups < right, groups), "accuracy")
    (least,), (most,) = metrics.wilson(np.array([right]), np.array([20]))
    assert low[0] <= least + 1e-9 and high[0] >= most - 1e-9
    assert high[0] - low[0] <= (1.2 if 0 < right < 20 else 1 + 1e-9) * (most - least)


@pytest.mark.parametrize(
    ("name", "num_classes"),
    [*((name, 4) for name in MEASURES), *((name, 2) for name in MEASURES[:-1])],
)
def test_the_variance_is_that_of_leaving_groups_out(name, num_classes):
    rng = np.random.default_rng(6603)
    groups = np.repeat(np.arange(60), rng.integers(10, 30, 60))
    labels = rng.integers(num_classes, size=len(groups))
    rank = np.where(rng.random(len(groups)) < 0.4 + 0.4 * rng.random(60)[groups], 0, 1)
    rank = rank * rng.integers(1, num_classes, len(groups))
    answers = np.where(rank == 0, labels, (labels + 1) % num_classes)
    answers = np.where(rng.random(len(groups)) < 0.1, num_classes, answers)
    rank = rank if name == "top2_accuracy" else None
    measure = any_measure(name)
    found = worth_of(counted(labels, answers, groups, num_classes, rank), measure)
    values = []
    for group in range(60):
        left = groups != group
        some = None if rank is None else rank[left]
        some = counted(labels[left], answers[left], groups[left], num_classes, some)
        values.append(measure(some)[0])
    value = measure(counted(labels, answers, groups, num_classes, rank))[0]
    variance = 59 / 60 * ((np.array(values) - np.mean(values)) ** 2).sum()
    assert found.inputs[0] == pytest.approx(value * (1 - value) / variance, rel=0.08)


def test_scores_of_groups():
    rng = np.random.default_rng(6604)
    groups = np.repeat(np.arange(50), 8)
    scores = np.clip(0.7 + 0.1 * rng.standard_normal(50)[groups], 0, 1)[None]
    low, high = metrics.bands(ImageScores(scores, groups), "mean IoU")
    deviation = scores[0, ::8].std(ddof=1) / np.sqrt(50)
    assert high[0] - low[0] == pytest.approx(2 * 2.01 * deviation, rel=0.1)
    # Images that were not looked at say nothing.
    part = np.where(rng.random(scores.shape) < 0.5, scores, np.nan)
    low, high = metrics.bands(ImageScores(part, groups), "mean IoU")
    assert 0 < low[0] < np.nanmean(part) < high[0] < 1
    exact = ImageScores(np.array([[0.6, 0.8, 1.0], [0.7, 0.7, 0.7]]))
    assert any_measure("mean IoU")(exact).tolist() == [0.8, 0.7]


def test_what_is_unknown_stays_open():
    counts = of_right(np.ones(12, bool), np.zeros(12, int))
    low, high = metrics.bands(counts, "accuracy")
    # One group: as of one image.
    assert low == pytest.approx(metrics.wilson(np.array([1]), np.array([1]))[0])
    assert high == 1.0
    none = counted(np.zeros(5, int), np.full(5, 2), np.arange(5), 2)
    assert [ends[0] for ends in metrics.bands(none, "accuracy")] == [0, 1]
