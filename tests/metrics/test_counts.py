"""Counts by class stand for the confusion that they are sums of."""

import numpy as np
import pytest

from jaxrob import metrics
from jaxrob.metrics import Counts
from jaxrob.metrics._counts import count, counts_of

NUM_CLASSES, NUM_INPUTS = 100, 3000


def answers_of(seed, num_levels=3, num_classes=NUM_CLASSES, num_inputs=NUM_INPUTS):
    """Returns labels, and answers that are wrong or unknown more often by level."""
    rng = np.random.default_rng(seed)
    # No input has the last label.
    labels = rng.integers(num_classes - 1, size=num_inputs)
    answers = np.tile(labels, (num_levels, 1))
    near = (labels + rng.integers(1, 5, answers.shape)) % num_classes
    is_wrong = rng.random(answers.shape) < 0.2 * np.arange(1, num_levels + 1)[:, None]
    is_unknown = rng.random(answers.shape) < 0.1
    answers = np.where(is_wrong, near, answers)
    return labels, np.where(is_unknown, num_classes, answers)


def confusion_of(labels, answers, num_classes=NUM_CLASSES):
    found = np.zeros((len(answers), num_classes, num_classes + 1), np.int64)
    for table, some in zip(found, answers):
        np.add.at(table, (labels, some), 1)
    return found


@pytest.fixture(scope="module")
def both():
    """The counts of many classes, and their confusion."""
    labels, answers = answers_of(0)
    counts = count(answers.astype(np.int16), labels, NUM_CLASSES)
    return counts, confusion_of(labels, answers)


def test_many_classes_are_counted_without_a_confusion(both):
    counts, confusion = both
    assert counts.confusion is None and counts_of(confusion).confusion is confusion
    for name, part in zip(Counts._fields[:4], counts):
        np.testing.assert_array_equal(part, getattr(counts_of(confusion), name))
        assert part.dtype == np.int64
    np.testing.assert_array_equal(counts.inputs, confusion.sum(-1))


def test_few_classes_keep_their_confusion():
    labels, answers = answers_of(1, num_classes=64)
    found = count(answers, labels, 64)
    np.testing.assert_array_equal(found.confusion, confusion_of(labels, answers, 64))
    none = count(np.zeros((2, 0), np.int16), np.zeros(0, np.int32), 65)
    assert none.correct.shape == (2, 65) and not none.inputs.any()


@pytest.mark.parametrize("name", metrics.measures)
def test_a_measure_of_counts_is_that_of_their_confusion(both, name):
    measure = metrics.measures[name]
    functions = measure, measure.per_class, measure.num_inputs, metrics.indecision
    for function in functions:
        np.testing.assert_array_equal(*map(function, both))


@pytest.mark.parametrize("name", ["accuracy", "f1", "effectiveness"])
def test_bands_of_counts_are_about_as_wide_as_the_confusions(both, name):
    counts, confusion = both
    low, high = metrics.bands(counts, name)
    truth = np.subtract(*metrics.bands(confusion, name)[::-1])
    values = metrics.measures[name](counts)
    assert (low <= values).all() and (values <= high).all()
    # A thousand replicates' widths have a standard error of 3 %.
    np.testing.assert_allclose(high - low, truth, rtol=0.12)
    if metrics.measures[name].is_proportion and not metrics.measures[name].of_classes:
        np.testing.assert_array_equal(high - low, truth)


@pytest.mark.slow
def test_unknown_partners_widen_the_band_of_f1():
    """Wrong answers that hit the worst classes twice scatter most."""
    rng = np.random.default_rng(3)
    size = 80
    right = rng.integers(5, 60, size)
    wrong = 60 - right
    # By turns: of similar classes, and of the most different ones.
    worst_first = np.argsort(right)
    tables = []
    for order in (np.roll(worst_first, 1), worst_first[::-1]):
        table = np.zeros((size, size + 1), np.int64)
        table[np.arange(size), np.arange(size)] = right
        table[worst_first, order] += np.sort(wrong)[::-1]
        tables.append(table)
    confusion = np.stack(tables)
    bare = counts_of(confusion)._replace(confusion=None)
    widths = [np.subtract(*metrics.bands(one, "f1")[::-1]) for one in (bare, confusion)]
    assert (widths[0] > 0.93 * widths[1]).all()


def test_small_integers_do_not_overflow():
    confusion = np.zeros((1, 2, 3), np.uint8)
    confusion[0, 0, 0] = confusion[0, 1, 1] = 200
    assert metrics.f1(confusion)[0] == 1


def parts(**changed):
    made = Counts(*(np.array([[4, 3]]) for _ in range(3)), np.array([[0, 0]]))
    return made._replace(**changed)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (parts(correct=np.array([[4.0, 3.0]])), "counts.correct"),
        (parts(given=np.array([[7]])), "counts.given"),
        (parts(decided=np.array([4, 3])), "counts.decided"),
        (parts(unknown=np.array([[0, -1]])), "counts.unknown"),
        (parts(correct=np.array([[5, 3]])), "counts.correct"),
        (parts(given=np.array([[4, 4]])), "the same inputs"),
        # Of three classes' single wrong answer two labels and answers are one class's.
        (
            Counts(*np.array([[5, 5, 5], [6, 5, 5], [6, 5, 5], [0, 0, 0]])[:, None]),
            "the same inputs",
        ),
        (parts(confusion=np.array([[[4, 0, 0], [1, 2, 0]]])), "counts.confusion"),
        (Counts(*(np.array([[1]]) for _ in range(4))), "classes"),
        (tuple(parts()), "counts"),
    ],
)
def test_wrong_counts(wrong, name):
    for function in (
        metrics.accuracy,
        metrics.indecision,
        metrics.per_class["f1"],
        lambda counts: metrics.bands(counts, "f1"),
        lambda counts: metrics.confidence_interval([0.0, 1.0], counts, "f1", 0.5),
    ):
        with pytest.raises((TypeError, ValueError), match=name):
            function(wrong)
    assert metrics.accuracy(parts())[0] == 1
