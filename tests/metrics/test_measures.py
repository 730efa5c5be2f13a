"""Counts, quality measures and confidence, against scikit-learn and the definitions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    return confusion_of(labels, [answers], k)


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
        wanted = theirs(labels, answers, labels=classes, average=None, zero_division=0)
        undefined = np.isnan(values[0])
        np.testing.assert_allclose(values[0][~undefined], wanted[~undefined])
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


@st.composite
def answered(draw, ties=True, max_inputs=30):
    shape = draw(st.integers(1, 3)), draw(st.integers(1, max_inputs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    confidence = rng.integers(0, 5, shape) / 4 if ties else rng.random(shape)
    return confidence, rng.random(shape) < draw(st.floats(0, 1))


@quick
@given(answered(ties=False))
def test_risk_input_by_input(case):
    confidence, correct = case
    coverage, risk = metrics.risk_coverage(confidence, correct)
    np.testing.assert_allclose(metrics.aurc(confidence, correct), risk.mean(1))
    num_inputs = confidence.shape[1]
    for level in range(len(confidence)):
        surest = sorted(range(num_inputs), key=lambda i: -confidence[level, i])
        for n in range(1, num_inputs + 1):
            wrong = sum(not correct[level, i] for i in surest[:n])
            assert coverage[n - 1] == n / num_inputs
            assert risk[level, n - 1] == wrong / n


@settings(deadline=None, max_examples=20)
@given(answered(max_inputs=6))
def test_ties_give_the_mean_over_their_orders(case):
    confidence, correct = case
    num_inputs = confidence.shape[1]
    _, risk = metrics.risk_coverage(confidence, correct)
    for level, got in enumerate(risk):
        risks = []
        for order in itertools.permutations(range(num_inputs)):
            surest = sorted(order, key=lambda i: -confidence[level, i])
            wrong = np.cumsum([not correct[level, i] for i in surest])
            risks.append(wrong / np.arange(1, num_inputs + 1))
        np.testing.assert_allclose(got, np.mean(risks, axis=0), atol=1e-12)


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_calibration_by_sklearns_curve(num_bins):
    from sklearn.calibration import calibration_curve

    rng = np.random.default_rng(1)
    confidence = rng.random((3, 400))
    confidence[0, :50] = rng.integers(0, 5, 50) / 4  # on the bins' edges
    correct = rng.random(confidence.shape) < confidence**2
    got = metrics.expected_calibration_error(confidence, correct, num_bins)
    edges = np.linspace(0, 1, num_bins + 1)[1:-1]
    for level, (sure, right) in enumerate(zip(confidence, correct)):
        true, mean = calibration_curve(right, sure, n_bins=num_bins)
        sizes = np.bincount(np.searchsorted(edges, sure), minlength=num_bins)
        sizes = sizes[sizes > 0]
        expected = np.sum(sizes * np.abs(true - mean)) / sizes.sum()
        assert got[level] == pytest.approx(expected, abs=1e-12)


def test_confidence_may_be_infinite_and_a_certain_one_rounded_up():
    confidence, correct = np.array([[-np.inf, 0, np.inf, np.inf]]), [[0, 1, 1, 0]]
    np.testing.assert_array_equal(
        metrics.risk_coverage(confidence, correct).risk,
        metrics.risk_coverage([[-1, 0, 1, 1]], correct).risk,
    )
    above = np.nextafter(np.float32(1), np.float32(2))
    assert metrics.expected_calibration_error([[above]], [[True]])[0] == 0
    error = metrics.expected_calibration_error(np.float32([[0.6, 0.55]]), [[1, 0]], 10)
    assert error[0] == pytest.approx(0.075)


@pytest.mark.parametrize(
    ("confidence", "correct", "name"),
    [
        (None, [[True]], "confidence"),
        ([[0.5, 0.5]], [[True]], "correct"),
        (np.zeros((2, 0)), np.zeros((2, 0)), "confidence"),
        ([[math.nan]], [[True]], "confidence"),
        ([[0.5]], [[2]], "correct"),
    ],
)
def test_confidence_errors(confidence, correct, name):
    for function in (
        metrics.risk_coverage,
        metrics.aurc,
        metrics.expected_calibration_error,
    ):
        with pytest.raises(ValueError, match=name):
            function(confidence, correct)


@pytest.mark.parametrize(
    ("confidence", "num_bins", "error", "name"),
    [
        (-0.1, 15, ValueError, "confidence"),
        (1.1, 15, ValueError, "confidence"),
        (0.5, 0, ValueError, "num_bins"),
        (0.5, 1.5, TypeError, "num_bins"),
    ],
)
def test_calibration_errors(confidence, num_bins, error, name):
    with pytest.raises(error, match=name):
        metrics.expected_calibration_error([[confidence]], [[True]], num_bins)
