from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob import metrics

quick = settings(deadline=None, max_examples=10)
UNKNOWN = "unknown"
TWO_TO_FIVE = st.integers(2, 5)


@pytest.fixture(scope="module")
def sk():
    from sklearn import metrics

    return metrics


@st.composite
def classified(draw, num_classes=TWO_TO_FIVE, unknown=False):
    """Returns labels and answers as arrays, and K; the answer `K` means unknown."""
    k = draw(num_classes)
    pair = st.tuples(st.integers(0, k - 1), st.integers(0, k if unknown else k - 1))
    pairs = draw(st.lists(pair, min_size=1, max_size=30))
    return [label for label, _ in pairs], [answer for _, answer in pairs], k


def counts(labels, answers, k):
    confusion = np.zeros((1, k, k + 1), np.int64)
    for label, answer in zip(labels, answers):
        confusion[0, label, answer] += 1
    return confusion


@quick
@given(classified(num_classes=st.just(2)))
def test_two_classes_mean_class_1(sk, case):
    labels, answers, k = case
    confusion = counts(labels, answers, k)
    seen = 1 in labels, 1 in answers
    for ours, theirs, undefined in (
        (metrics.precision, sk.precision_score, not any(seen)),
        (metrics.recall, sk.recall_score, not seen[0]),
        (metrics.f1, sk.f1_score, not any(seen)),
    ):
        value = ours(confusion)[0]
        if undefined:
            assert np.isnan(value)
        else:
            expected = theirs(labels, answers, pos_label=1, zero_division=0)
            assert value == pytest.approx(expected, rel=1e-12)


@quick
@given(classified(num_classes=st.integers(3, 6)))
def test_more_classes_are_averaged_over_those_defined(sk, case):
    labels, answers, k = case
    confusion = counts(labels, answers, k)
    for ours, theirs, zero in (
        (metrics.precision, sk.precision_score, 0.0),
        (metrics.recall, sk.recall_score, np.nan),
        (metrics.f1, sk.f1_score, 0.0),
    ):
        expected = theirs(labels, answers, average="macro", zero_division=zero)
        assert ours(confusion)[0] == pytest.approx(expected, rel=1e-12)


@quick
@given(classified())
def test_each_class_is_sklearns(sk, case):
    labels, answers, k = case
    confusion = counts(labels, answers, k)
    assert metrics.accuracy(confusion)[0] == sk.accuracy_score(labels, answers)
    classes = range(k)
    for name, theirs in (
        ("precision", sk.precision_score),
        ("recall", sk.recall_score),
        ("f1", sk.f1_score),
        ("accuracy", sk.recall_score),
    ):
        values = metrics.per_class[name](confusion)
        assert values.shape == (1, k)
        expected = theirs(
            labels, answers, labels=classes, average=None, zero_division=0
        )
        undefined = np.isnan(values[0])
        np.testing.assert_allclose(values[0][~undefined], expected[~undefined])
        absent = [c for c in classes if c not in labels]
        if theirs is not sk.recall_score:
            absent = [c for c in absent if c not in answers]
        assert list(np.flatnonzero(undefined)) == absent
        if name in metrics.measures and name != "accuracy":
            for c in classes:
                one = getattr(metrics, name)(confusion, positive=c)
                np.testing.assert_array_equal(one, values[:, c])


@quick
@given(classified(unknown=True))
def test_unknown_answers_by_the_papers_definitions(case):
    labels, answers, k = case
    said = [UNKNOWN if answer == k else f"class {answer}" for answer in answers]
    right = [f"class {label}" for label in labels]
    confusion = counts(labels, answers, k)

    unknown = said.count(UNKNOWN)
    correct = sum(answer == label for answer, label in zip(said, right))
    indecision = Fraction(unknown, len(said))
    decided = len(said) - unknown
    accuracy = Fraction(correct, decided) if decided else Fraction(1)
    effectiveness = accuracy * (1 - indecision) / (1 + indecision)
    assert metrics.indecision(confusion)[0] == float(indecision)
    assert metrics.accuracy(confusion)[0] == float(accuracy)
    assert metrics.effectiveness(confusion)[0] == float(effectiveness)

    for c in range(k):
        of_class = [a for a, label in zip(said, right) if label == f"class {c}"]
        unknown, hits = of_class.count(UNKNOWN), of_class.count(f"class {c}")
        for name, whole in (
            ("accuracy", len(of_class) - unknown),
            # Correct over all equals accuracy times the decided share.
            ("effectiveness", len(of_class) + unknown),
        ):
            expected = float(Fraction(hits, whole)) if whole else np.nan
            found = metrics.per_class[name](confusion)[0, c]
            np.testing.assert_array_equal(found, expected)


@quick
@given(classified(unknown=True))
def test_precision_and_recall_leave_unknown_answers_out(case):
    labels, answers, k = case
    kept = [(label, a) for label, a in zip(labels, answers) if a != k]
    whole, decided = counts(labels, answers, k), counts(*zip(*kept), k) if kept else 0
    for name in ("precision", "recall", "f1"):
        if kept:
            np.testing.assert_array_equal(
                metrics.measures[name](whole), metrics.measures[name](decided)
            )
        else:
            assert np.isnan(metrics.measures[name](whole)[0])


def test_counts_on_a_threshold_meet_it():
    confusion = np.array([[[80, 20, 0], [20, 80, 0]]])
    assert metrics.accuracy(confusion)[0] == 0.8
    # The mean of the float64 0.7, 0.8 and 0.9 is less than 0.8.
    for percent in ([70, 80, 90], [61, 99, 80]):
        confusion = np.zeros((1, 3, 4), int)
        confusion[0, range(3), range(3)] = percent
        confusion[0, range(3), [1, 2, 0]] = 100 - np.array(percent)
        assert metrics.recall(confusion)[0] == 0.8


def test_each_level_is_taken_alone():
    one, two = counts([0, 1, 2], [0, 1, 2], 3), counts([0, 1, 2], [1, 3, 2], 3)
    both = np.concatenate([one, two])
    for measure in (*metrics.measures.values(), metrics.indecision):
        np.testing.assert_array_equal(
            measure(both), np.concatenate([measure(one), measure(two)])
        )
        assert measure(both).dtype == np.float64


def test_effective_inputs_are_the_denominators():
    confusion = np.array([[[40, 10, 50], [5, 15, 0]], [[40, 10, 50], [5, 15, 0]]])
    expected = {"accuracy": 70, "recall": 20, "precision": 25, "effectiveness": 120}
    for measure, number in expected.items():
        assert metrics.effective_inputs(confusion, measure) == number
    # F1's denominator has both labelled and given inputs, 20 and 25.
    assert metrics.effective_inputs(confusion, "f1") == 22
    # Of means of three recalls of a half, over 10, 20 and 400 inputs.
    confusion = np.zeros((1, 3, 4), int)
    confusion[0, range(3), range(3)] = confusion[0, range(3), [1, 2, 0]] = 5, 10, 200
    variance = sum(0.25 / number for number in (10, 20, 400)) / 9
    assert metrics.effective_inputs(confusion, "recall") == int(0.25 / variance)


@pytest.mark.parametrize(
    "wrong",
    [
        # Without a column for "unknown" half of the answers would count as unknown, and
        # this accuracy would be 1.5.
        np.array([[[1, 1], [1, 2]]]),
        np.array([[3, 1, 0], [0, 2, 0]]),
        np.array([[[3, -1, 0], [0, 2, 0]]]),
        np.array([[[3.0, 1.0, 0.0], [0.0, 2.0, 0.0]]]),
        np.array([[[3, 1]]]),
        [["a"]],
        None,
    ],
)
def test_wrong_confusions(wrong):
    for function in (
        metrics.precision,
        metrics.indecision,
        metrics.per_class["f1"],
        lambda confusion: metrics.effective_inputs(confusion, "f1"),
        *metrics.measures.values(),
    ):
        with pytest.raises((TypeError, ValueError), match="counts"):
            function(wrong)


def test_positive_must_be_a_class():
    for measure in (metrics.precision, metrics.recall, metrics.f1):
        for wrong in (-1, 2):
            with pytest.raises(ValueError, match="positive"):
                measure(counts([0, 1], [0, 1], 2), wrong)


@pytest.mark.parametrize("name", metrics.measures)
def test_a_measure_of_many_is_that_of_single_inputs(name):
    measure = metrics.measures[name]
    if measure.of_one_input is not None:
        up, down, _ = measure.of_one_input
        # Of class 1, and of both: right, wrong and unknown.
        number = np.array([7, 2, 1]) + (not measure.of_classes) * np.array([8, 1, 1])
        value = (number @ up) / (number @ down)
        assert measure(np.array([[[8, 1, 1], [2, 7, 1]]])) == value


def test_what_follows_from_a_ratio():
    found = metrics.measures
    assert found["precision"].of_one_input is found["f1"].of_one_input is None
    for name in ("accuracy", "recall", "effectiveness", "decided_ratio"):
        assert found[name].of_one_input is not None
        unknown_counts = name in ("effectiveness", "decided_ratio")
        assert found[name].counts_unknown == unknown_counts
