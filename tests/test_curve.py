import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

import jaxrob
from jaxrob import Curve, metrics

quick = settings(deadline=None, max_examples=30)


def random_curve(seed, levels=5, images=40, classes=4, alpha=None):
    rng = np.random.default_rng(seed)
    return Curve(
        levels=rng.permutation(np.linspace(-1, 1, levels)),
        predicted=rng.integers(0, classes, (levels, images)).astype(np.int16),
        confidence=rng.random((levels, images), np.float32),
        uncertainty=rng.random((levels, images), np.float32),
        labels=rng.integers(0, classes, images).astype(np.int32),
        num_classes=classes,
        alpha=alpha,
    )


def simple_curve(levels, right, labels=None):
    """Returns a curve from a table of right (1) and wrong (0) answers, `[L][N]`."""
    wrong = 1 - np.array(right)
    labels = np.zeros(wrong.shape[1], np.int32) if labels is None else labels
    predicted = ((labels + wrong) % 2).astype(np.int16)
    none = np.zeros(wrong.shape, np.float32)
    return Curve(np.array(levels, float), predicted, none, none, labels, 2)


@quick
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_confusion_is_sklearns(seed, classes):
    curve = random_curve(seed, classes=classes)
    assert curve.confusion.shape == (5, classes, classes + 1)
    assert curve.confusion.dtype == np.int64
    for row, predicted in zip(curve.confusion, curve.predicted):
        expected = confusion_matrix(curve.labels, predicted, labels=range(classes))
        np.testing.assert_array_equal(row[:, :-1], expected)
        assert not row[:, -1].any()


@quick
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_unknown_against_a_loop(seed, alpha):
    curve = random_curve(seed).with_unknown(alpha)
    expected = np.zeros((5, 4, 5), int)
    for i, row in enumerate(curve.predicted):
        for n, predicted in enumerate(row):
            unknown = float(curve.uncertainty[i, n]) > 1 - alpha
            expected[i, curve.labels[n], 4 if unknown else predicted] += 1
    np.testing.assert_array_equal(curve.confusion, expected)
    np.testing.assert_array_equal(curve.indecision, expected[..., 4].sum(-1) / 40)


def test_alpha_decides_which_answers_are_unknown():
    curve = random_curve(0)
    assert not curve.unknown.any()
    assert not curve.with_unknown(0).unknown.any()
    assert curve.with_unknown(1).unknown.all()
    shares = [curve.with_unknown(a).unknown.mean() for a in (0, 0.2, 0.5, 0.8, 1)]
    assert shares == sorted(shares)
    assert (curve.with_unknown(1).accuracy == 1).all()
    assert (curve.with_unknown(1).effectiveness == 0).all()


def test_on_the_uncertainty_threshold_is_decided():
    curve = simple_curve([0], [[1, 1, 1]])
    uncertainty = np.array([[0.2, np.nextafter(np.float32(0.2), 1), 0.1]], np.float32)
    curve = Curve(
        curve.levels, curve.predicted, None, uncertainty, curve.labels, 2, alpha=0.8
    )
    assert curve.unknown.tolist() == [[False, True, False]]


def test_with_unknown_leaves_the_curve_as_it_is():
    curve = random_curve(0)
    before = curve.confusion
    other = curve.with_unknown(0.7)
    assert curve.alpha is None and other.alpha == 0.7
    assert other.predicted is curve.predicted
    np.testing.assert_array_equal(curve.confusion, before)
    assert other.confusion[..., -1].any()
    np.testing.assert_array_equal(other.with_unknown(None).confusion, before)


@pytest.mark.parametrize("alpha", [-0.01, 1.01, math.nan])
def test_alpha_outside_its_range(alpha):
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
        random_curve(0).with_unknown(alpha)


def test_scores_have_no_unknown():
    curve = random_curve(0)
    curve = Curve(curve.levels, curve.predicted, None, None, curve.labels, 4)
    assert curve.with_unknown(None).accuracy.shape == (5,)
    with pytest.raises(ValueError, match="scores"):
        curve.with_unknown(0.5)


def nearest_failure(curve, identity, n):
    """Searches every level one after the other."""
    best = None
    for level, predicted, unknown in zip(curve.levels, curve.predicted, curve.unknown):
        if predicted[n] == curve.labels[n] or unknown[n]:
            continue
        nearer = best is None or abs(level - identity) < abs(best - identity)
        tie = best is not None and abs(level - identity) == abs(best - identity)
        if nearer or (tie and level < best):
            best = level
    return math.nan if best is None else best


@quick
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, 0.3, 0.9]),
    st.sampled_from([-1.0, 0.0, 0.25, 1.0]),
)
def test_first_failing_level_against_a_loop(seed, alpha, identity):
    curve = random_curve(seed, levels=9, classes=2, alpha=alpha)
    expected = [nearest_failure(curve, identity, n) for n in range(40)]
    np.testing.assert_array_equal(curve.first_failing_level(identity), expected)


def test_first_failing_level_on_two_sides():
    levels = [2, -1, 0, 1, -2]
    right = [
        # nearest above, a tie, none, the identity, both
        [0, 1, 1, 1, 0],
        [1, 0, 1, 1, 1],
        [1, 1, 1, 0, 1],
        [1, 0, 1, 0, 1],
        [1, 1, 1, 1, 0],
    ]
    first = simple_curve(levels, right).first_failing_level(0.0)
    np.testing.assert_array_equal(first, [2, -1, math.nan, 0, -2])
    assert first.dtype == np.float64


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_reduced_gives_the_same_measures(alpha):
    curve = random_curve(3, alpha=alpha)
    reduced = curve.reduced()
    np.testing.assert_array_equal(reduced.levels, curve.levels)
    for name in ("accuracy", "indecision", "effectiveness"):
        np.testing.assert_array_equal(getattr(reduced, name), getattr(curve, name))
    for measure in metrics.measures.values():
        np.testing.assert_array_equal(
            measure(reduced.confusion), measure(curve.confusion)
        )


@pytest.mark.parametrize("has_probabilities", [True, False])
@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("classes", [4, 70])
def test_a_curve_is_read_back(has_probabilities, reduced, classes):
    random = np.random.default_rng(5)
    shares = random.random((2, 3, 7)).astype(np.float32)
    curve = jaxrob.Curve(
        np.array([0.0, 0.25, 1.0]),
        random.integers(0, classes, (3, 7)).astype(np.int16),
        *(shares if has_probabilities else (None, None)),
        random.integers(0, classes, 7).astype(np.int32),
        classes,
        0.3 if has_probabilities else None,
    )
    curve = curve.reduced() if reduced else curve
    text = curve.to_json()
    again = type(curve).from_json(text)
    np.testing.assert_array_equal(again.levels, curve.levels)
    for part, expected in zip(again.counts, curve.counts):
        np.testing.assert_array_equal(part, expected)
    assert again.to_json() == text
    if not reduced:
        for name in ("predicted", "confidence", "uncertainty", "labels"):
            found, expected = getattr(again, name), getattr(curve, name)
            np.testing.assert_array_equal(found, expected)
            assert expected is None or found.dtype == expected.dtype
    with pytest.raises(ValueError, match="levels is not what was written"):
        type(curve).from_json(text.replace("0.25", "0.75"))
    other = jaxrob.ReducedCurve if not reduced else jaxrob.Curve
    with pytest.raises(ValueError, match="format must be"):
        other.from_json(text)
