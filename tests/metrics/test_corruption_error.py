"""Corruption errors against sums by hand, published tables and normal theory."""

import dataclasses
import math

import numpy as np
import pytest

import jaxrob
from jaxrob import metrics
from jaxrob.metrics import ALEXNET, ReferenceErrors

LEVELS = np.arange(6.0)
NAMES = tuple(ALEXNET)

# Accuracies of ResNet-50 at severities 1 to 5 on 5,000 images, in the benchmark's
# order. Source: github.com/RobustBench/robustbench,
# model_info/imagenet/corruptions/unaggregated_results.csv.
RESNET50 = """.602 .488 .312 .142 .029 .583 .449 .286 .103 .035 .485 .386 .290 .113 .024
.591 .515 .381 .275 .182 .536 .397 .171 .131 .103 .636 .534 .375 .216 .145
.526 .430 .356 .284 .219 .547 .312 .349 .234 .165 .611 .437 .306 .286 .226
.609 .560 .467 .402 .236 .736 .722 .696 .650 .589 .643 .582 .466 .210 .054
.668 .451 .546 .412 .170 .638 .643 .460 .293 .209 .664 .623 .600 .479 .325"""


# For any number of classes, like a user's own reference.
OF_ALL = {name: ReferenceErrors(*one[:2]) for name, one in ALEXNET.items()}


def table(text):
    return np.array(text.split(), float).reshape(15, 5)


def counted(accuracies, number=1000):
    """Returns counts of two classes, all images of class 0, with these accuracies."""
    right = np.rint(np.asarray(accuracies) * number).astype(int)
    confusion = np.zeros((len(right), 2, 3), int)
    confusion[:, 0, 0], confusion[:, 0, 1] = right, number - right
    return jaxrob.ReducedCurve(LEVELS[-len(right) :], confusion)


def replayed(text):
    return dict(zip(NAMES, map(counted, table(text))))


def answered(right, labels=None, levels=LEVELS):
    right = np.asarray(right)
    labels = np.zeros(right.shape[1], np.int32) if labels is None else labels
    wrong = (labels + 1) % 3
    predicted = np.where(right, labels, wrong).astype(np.int16)
    return jaxrob.Curve(levels, predicted, None, None, labels, 3)


def random_curve(seed, number=400, shift=0.0):
    """Returns a curve whose images fail from a severity on, which classifiers share."""
    hardness = np.random.default_rng(7).normal(3, 1.5, number)
    own = np.random.default_rng(seed).normal(shift, 0.4, number)
    return answered(LEVELS[:, None] < hardness + own)


def test_sums_over_severities_are_divided():
    ours, other = counted([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), [1, 0.6, 0.5, 0.4, 0.3, 0.2]
    found = metrics.corruption_error(ours, counted(other))
    # (.2 + .3 + .4 + .5 + .6) / (.4 + .5 + .6 + .7 + .8)
    assert found.value == pytest.approx(2.0 / 3.0)
    found = metrics.relative_corruption_error(ours, counted(other))
    # Less 5 times .1, and 5 times 0.
    assert found.value == pytest.approx(1.5 / 3.0)
    assert math.isnan(found.confidence_interval.low) and "reduced" in found.reason


def test_levels_between_and_their_order_do_not_matter():
    right = np.random.default_rng(0).random((9, 50)) < 0.6
    levels = np.array([3.5, 5, 4, 0, 0.7, 3, 2, 1, 4.4])
    chosen = [np.flatnonzero(levels == s)[0] for s in range(6)]
    for measure in (metrics.corruption_error, metrics.relative_corruption_error):
        reference = ReferenceErrors(0.1, 0.7)
        found = measure(answered(right, levels=levels), reference)
        assert found == measure(answered(right[chosen]), reference)


def test_resnet_50_is_where_the_benchmark_has_it():
    """The paper has 76.7 %, for an older ResNet-50 and all images."""
    assert 0.74 < metrics.mean_corruption_error(replayed(RESNET50), OF_ALL).value < 0.78


def test_mean_of_equal_curves_is_that_of_one():
    one, reference = random_curve(1), random_curve(2)
    curves, references = copies(one), copies(reference)
    for relative, single in (
        (False, metrics.corruption_error),
        (True, metrics.relative_corruption_error),
    ):
        found = metrics.mean_corruption_error(curves, references, relative)
        expected = single(one, reference)
        assert found.value == pytest.approx(expected.value)
        assert found.confidence_interval == pytest.approx(expected.confidence_interval)


def test_interval_against_published_numbers_is_the_normal_one():
    curve = random_curve(3, number=2000)
    wrong = (curve.predicted != curve.labels)[1:].mean(0)
    half = 1.96 * wrong.std() / math.sqrt(len(wrong)) / 0.5
    found = metrics.corruption_error(curve, ReferenceErrors(0.1, 0.5))
    low, high = found.confidence_interval
    assert not found.reason
    # 1,000 resamples leave an error of a few percent of the half width at an end.
    assert low == pytest.approx(found.value - half, abs=0.15 * half)
    assert high == pytest.approx(found.value + half, abs=0.15 * half)


def test_the_same_images_are_resampled_together():
    ours, other = random_curve(4), random_curve(5)
    paired = metrics.corruption_error(ours, other)
    errors = 1 - other.accuracy
    exact = metrics.corruption_error(
        ours, ReferenceErrors(float(errors[0]), float(errors[1:].mean()))
    )
    assert paired.value == pytest.approx(exact.value)
    width, alone = (np.diff(one.confidence_interval)[0] for one in (paired, exact))
    assert width < 0.5 * alone
    itself = metrics.corruption_error(ours, ours)
    assert itself.value == 1 and itself.confidence_interval == (1, 1)


def test_other_images_leave_the_interval_unknown():
    labels = (np.arange(400) % 3).astype(np.int32)
    for other in (random_curve(4, number=300), answered(np.eye(6, 400) > 0, labels)):
        found = metrics.corruption_error(random_curve(5), other)
        assert np.isfinite(found.value) and "same images" in found.reason
        assert np.isnan(found.confidence_interval).all()


def test_curves_of_other_classes_are_refused():
    ours = random_curve(5)
    counts = np.zeros((6, 5, 6), int)
    counts[:, 0, :2] = 200
    other = jaxrob.ReducedCurve(LEVELS, counts)
    for pair in ((ours, other), (other, ours)):
        with pytest.raises(ValueError, match="3 and of 5"):
            metrics.corruption_error(*pair)
    same = copies(ours)
    for curves, reference in ((same | {"snow": other}, None), (same, ALEXNET)):
        with pytest.raises(ValueError, match="classes"):
            metrics.mean_corruption_error(curves, reference)
    for measure in (metrics.corruption_error, metrics.relative_corruption_error):
        with pytest.raises(ValueError, match="3 and of 1000 cl.*224"):
            measure(ours, ALEXNET["fog"])
        assert measure(ours, OF_ALL["fog"]).value > 0
    for wrong in ({"num_classes": 1}, {"size": 0}, {"num_classes": 2.5}):
        with pytest.raises((TypeError, ValueError), match=[*wrong][0]):
            metrics.corruption_error(ours, OF_ALL["fog"]._replace(**wrong))


def test_of_1000_classes_alexnets_errors_are_the_reference():
    levels, labels = LEVELS[1:], np.zeros(10, np.int32)
    predicted = np.where(np.arange(10) < 3, 999, labels) * np.ones((5, 1), np.int16)
    curve = jaxrob.Curve(levels, predicted.astype(np.int16), None, None, labels, 1000)
    found = metrics.corruption_error(curve, ALEXNET["fog"])
    assert found.value == pytest.approx(0.3 / 0.819)


def copies(curve):
    return {
        name: dataclasses.replace(curve, predicted=curve.predicted.copy())
        for name in NAMES
    }


def test_the_same_curve_for_all_corruptions_is_rejected():
    one = random_curve(5)
    kept = dict.fromkeys(NAMES, one.reduced())
    curves = copies(one)
    for some in (
        dict.fromkeys(NAMES, one),
        kept,
        curves | {"fog": curves["snow"].with_unknown(None)},
    ):
        with pytest.raises(ValueError, match="the same one"):
            metrics.mean_corruption_error(some, None)
    with pytest.raises(ValueError, match="reference"):
        metrics.mean_corruption_error(curves, kept)
    # A user's own errors may well be equal.
    metrics.mean_corruption_error(curves, dict.fromkeys(NAMES, OF_ALL["fog"]))


def test_a_reference_that_never_errs_leaves_nothing_to_divide_by():
    never = answered(np.ones((6, 400), bool))
    found = metrics.corruption_error(random_curve(0), never)
    assert math.isnan(found.value) and "nothing to divide by" in found.reason
    better = ReferenceErrors(0.5, 0.4)
    found = metrics.relative_corruption_error(random_curve(0), better)
    assert math.isnan(found.value) and "more when corrupted" in found.reason


def test_fourteen_are_not_averaged():
    curves = replayed(RESNET50)
    del curves["frost"]
    with pytest.raises(ValueError, match="curves.*frost"):
        metrics.mean_corruption_error(curves, ALEXNET)
    with pytest.raises(ValueError, match="reference"):
        metrics.mean_corruption_error(replayed(RESNET50), {"fog": counted([0.5] * 6)})
    # By their functions' names; other keys do not count.
    named = {name.replace(" ", "_"): one for name, one in replayed(RESNET50).items()}
    named["spatter"] = None
    found = metrics.mean_corruption_error(named, None)
    assert found.value == pytest.approx(1 - table(RESNET50).mean())


def test_failing_level_is_the_crossing():
    confusion = counted([1, 0.9, 0.85, 0.75, 0.7, 0.9]).confusion
    found = metrics.failing_level(LEVELS, confusion, "accuracy", 0.8)
    assert found.level == pytest.approx(2.5)
    low, high = metrics.bands(confusion, "accuracy")
    start, end = found.confidence_interval
    # The crossings, read off the bands.
    assert np.interp(start, LEVELS[1:4], low[1:4]) == pytest.approx(0.8)
    assert np.interp(end, LEVELS[1:4], high[1:4]) == pytest.approx(0.8)
    shuffled = [3, 0, 5, 1, 4, 2]
    same = metrics.failing_level(LEVELS[shuffled], confusion[shuffled], "accuracy", 0.8)
    assert same == found


def test_failing_level_at_the_ends():
    confusion = counted([0.95, 0.94, 0.93, 0.92, 0.91, 0.905]).confusion
    found = metrics.failing_level(LEVELS, confusion, "accuracy", 0.9)
    assert found.level == math.inf == found.confidence_interval.high
    assert 3 < found.confidence_interval.low < 5
    found = metrics.failing_level(LEVELS, confusion, "accuracy", 0.99)
    assert found == (0, (0, 0))
    rising = counted([0.9, 0.95, 0.85, 0.8, 0.8, 0.8]).confusion
    found = metrics.failing_level(LEVELS, rising, "accuracy", 0.9)
    assert found.level == pytest.approx(1.5)
    both_sides = metrics.failing_level(LEVELS - 2, confusion, "accuracy", 0.925)
    assert both_sides.level == pytest.approx(0.5)
    with pytest.raises(ValueError, match="levels"):
        metrics.failing_level(LEVELS + 1, confusion, "accuracy", 0.9)


CURVE = counted([0.9] * 6)


@pytest.mark.parametrize(
    "curve, error, says",
    [
        (counted([0.9] * 3), ValueError, "levels.*1, 2"),
        (answered(np.ones((1, 4), bool), levels=[2.0]), ValueError, "levels"),
        (jaxrob.ReducedCurve(LEVELS, CURVE.confusion, 0.5), ValueError, "alpha"),
        (0.3, TypeError, "jaxrob.Curve"),
        (ReferenceErrors(0.1, 1.2), ValueError, "corrupted"),
    ],
)
def test_wrong_curves(curve, error, says):
    for function, arguments in (
        (metrics.corruption_error, (curve, CURVE)),
        (metrics.corruption_error, (CURVE, curve)),
        (metrics.mean_corruption_error, (dict.fromkeys(NAMES, curve), None)),
    ):
        with pytest.raises(error, match=says):
            function(*arguments)


def test_relative_errors_need_level_0_and_a_reference():
    with pytest.raises(ValueError, match="levels"):
        metrics.relative_corruption_error(counted([0.9] * 5), CURVE)
    with pytest.raises(ValueError, match="relative"):
        metrics.mean_corruption_error(replayed(RESNET50), None, relative=True)
