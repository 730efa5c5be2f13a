import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxrob
from jaxrob import Curve

quick = settings(deadline=None, max_examples=20)


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


@quick
@given(st.integers(0, 2**32), st.none() | st.floats(0, 1), st.integers(2, 6))
def test_confusion_and_unknown_against_a_loop(seed, alpha, k):
    curve = random_curve(seed, classes=k).with_unknown(alpha)
    assert curve.confusion.dtype == np.int64
    expected = np.zeros((5, k, k + 1), int)
    for i, row in enumerate(curve.predicted):
        for n, predicted in enumerate(row):
            unknown = float(curve.uncertainty[i, n]) > 1 - (alpha or 0)
            expected[i, curve.labels[n], k if unknown else predicted] += 1
    np.testing.assert_array_equal(curve.confusion, expected)
    np.testing.assert_array_equal(curve.indecision, expected[..., k].sum(-1) / 40)


def test_alpha_decides_which_answers_are_unknown():
    # On the threshold they are not.
    labels = np.zeros(3, np.int32)
    uncertainty = np.array([[0.2, np.nextafter(np.float32(0.2), 1), 0.1]], np.float32)
    curve = Curve(np.zeros(1), labels[None], None, uncertainty, labels, 2, alpha=0.8)
    assert curve.unknown.tolist() == [[False, True, False]]
    curve = random_curve(0)
    before = curve.confusion
    shares = [curve.with_unknown(a).unknown.mean() for a in (0, 0.2, 0.5, 0.8, 1)]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert (curve.with_unknown(1).accuracy == 1).all()
    assert (curve.with_unknown(1).effectiveness == 0).all()
    # The curve itself stays as it is.
    other = curve.with_unknown(0.7)
    assert curve.alpha is None and other.alpha == 0.7
    np.testing.assert_array_equal(curve.confusion, before)
    assert other.confusion[..., -1].any()
    np.testing.assert_array_equal(other.with_unknown(None).confusion, before)
    for alpha in (-0.01, 1.01, math.nan):
        with pytest.raises(ValueError, match="alpha"):
            curve.with_unknown(alpha)
    scores = Curve(curve.levels, curve.predicted, None, None, curve.labels, 4)
    assert scores.with_unknown(None).accuracy.shape == (5,)
    with pytest.raises(ValueError, match="alpha"):
        scores.with_unknown(0.5)


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
    found = curve.first_failing_level(identity)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("has_probabilities", "reduced", "classes"),
    [(True, False, 4), (False, False, 70), (True, True, 70), (False, True, 4)],
)
def test_a_curve_is_read_back(has_probabilities, reduced, classes):
    curve = random_curve(5, 9, 7, classes, alpha=0.3 if has_probabilities else None)
    if not has_probabilities:
        curve = dataclasses.replace(curve, confidence=None, uncertainty=None)
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
    with pytest.raises(ValueError, match="not what was written"):
        type(curve).from_json(text.replace("0.25", "0.24"))
    other = jaxrob.ReducedCurve if not reduced else jaxrob.Curve
    with pytest.raises(ValueError, match="format"):
        other.from_json(text)
