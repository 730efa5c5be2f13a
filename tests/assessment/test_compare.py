"""Paired comparisons of classifiers whose robustness is known in closed form."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxrob
from jaxrob import metrics, strategies
from jaxrob._assessment import paired
from jaxrob._assessment.compare import answers_of, compare, question_of
from jaxrob._assessment.criterion import Scores
from jaxrob._assessment.paired import Question, linear_robustness
from jaxrob.metrics._bands import resampled_values

NUM_IMAGES = 200
# A classifier is right on an image at levels up to the image's limit times a factor.
LIMITS = (np.arange(NUM_IMAGES) + 1) / NUM_IMAGES
LABELS = np.arange(NUM_IMAGES) % 2
DATASET = jaxrob.Dataset(
    np.stack([LIMITS, LABELS, 0 * LIMITS], axis=-1).astype(np.float32)[:, None, None],
    LABELS,
)
# A classifier cannot know the level; the alteration tells it in a channel.
DIM = jaxrob.Alteration("dim", lambda image, x: image.at[..., 2].set(x), 0.0, 1.0)


def probabilities(factor, images):
    limit, label, level = jnp.moveaxis(images[:, 0, 0], -1, 0)
    right = factor * limit + 1e-6 > level
    surest = 1 - 0.4 * level * (1 - limit)  # the harder, the less certain
    of_class_1 = jnp.where((label == 1) == right, surest, 1 - surest)
    return jnp.stack([1 - of_class_1, of_class_1], axis=-1)


def assess(factor, dataset=DATASET, alteration=DIM, **settings):
    defaults = {"threshold": 0.6, "strategy": strategies.Uniform(41), "rule": "linear"}
    about = probabilities, np.float32(factor)
    classifier = jaxrob.Classifier(*about, outputs="probabilities")
    return jaxrob.assess(classifier, dataset, alteration, **(defaults | settings))


@functools.cache
def template():
    return assess(1.0)


@functools.cache
def worse():
    return assess(0.8)


def with_answers(levels, predicted, labels, uncertainty=None, **settings):
    """An assessment from answers `[L, N]`; unknown above an uncertainty of 0.5."""
    num_classes = max(2, labels.max() + 1)
    alpha = None if uncertainty is None else 0.5
    curve = jaxrob.Curve(
        levels, predicted, None, uncertainty, labels, num_classes, alpha
    )
    return dataclasses.replace(template(), curve=curve, **settings)


def with_limits(limits, levels, threshold):
    """An assessment of images of class 0 that are answered rightly up to limits."""
    wrong = limits < levels[:, None]
    labels = np.zeros(len(limits), int)
    return with_answers(levels, wrong.astype(np.int16), labels, threshold=threshold)


def of_images(one, rows):
    """The assessment of some of its images, in another order."""
    curve = dataclasses.replace(
        one.curve,
        predicted=one.curve.predicted[:, rows],
        confidence=None,
        uncertainty=None,
        rank=None,
        labels=one.curve.labels[rows],
    )
    return dataclasses.replace(one, curve=curve)


@pytest.mark.slow
def test_other_noise_draws_a_warning():
    noise = jaxrob.Alteration(
        "noise",
        lambda image, x, key: image.at[..., 2].set(x * jax.random.uniform(key)),
        0.0,
        1.0,
        stochastic=True,
    )
    few = {"key": jax.random.key(0), "strategy": strategies.Uniform(2)}
    first = assess(1.0, alteration=noise, **few)
    other = dataclasses.replace(first, provenance=first.provenance | {"key": [0, 1]})
    compare(first, first)
    with pytest.warns(jaxrob.RobustnessWarning, match=r"\[0, 0\] and \[0, 1\]"):
        compare(first, jaxrob.Assessment.from_json(other.to_json()))
    # The key of an alteration that draws nothing does not count.
    facts = template().provenance
    keyed = (
        dataclasses.replace(template(), provenance=facts | {"key": [0, key]})
        for key in (0, 1)
    )
    compare(*keyed)


# Of limits U(0, 1) and U(0, 1.1), at a threshold of 0.5.
DIFFERENCE = 0.5 - 1.1 * 0.5


def pair(rng, total=200, num_levels=21, correlation=0.9):
    """Two classifiers for which images are as hard, one of which takes 1.1 times it."""
    covariance = [[1, correlation], [correlation, 1]]
    both = rng.multivariate_normal([0, 0], covariance, size=total)
    levels = np.linspace(0, 1, num_levels)
    limits = stats.norm.cdf(both).T * [[1], [1.1]]
    return [with_limits(one, levels, 0.5) for one in limits]


def test_the_difference_is_first_minus_second():
    # Accuracies 1 - x and 1 - x / 0.8.
    result = compare(template(), worse())
    assert result.difference == template().robustness - worse().robustness
    assert result.difference == pytest.approx(0.4 - 0.32, abs=0.006)
    start, end = result.confidence_interval
    assert 0 < start < result.difference < end < 0.2
    assert result.confidence_level == 0.95
    # Of the order of the images nothing depends but what is drawn.
    order = np.random.default_rng(5).permutation(NUM_IMAGES)
    turned = compare(*(of_images(one, order) for one in (template(), worse())))
    assert turned.difference == result.difference
    # Ends are known to 8 % of a deviation, a quarter of the width.
    assert turned.confidence_interval == pytest.approx(
        (start, end), abs=0.1 * (end - start)
    )


def test_identical_classifiers_do_not_differ():
    """They may on images not seen, but no more often than about 4 of 200 let expect."""
    found = compare(template(), dataclasses.replace(template()))
    assert found.difference == found.mean_difference == 0
    assert found.p_value == found.mean_p_value == 1
    for low, high in (found.confidence_interval, found.mean_interval):
        assert -0.04 < low == -high < 0
    np.testing.assert_array_equal(*(found.level_band * [-1, 1]).T)


@pytest.mark.parametrize("measure", ["accuracy", "f1"])
def test_swapped_the_interval_is_mirrored(measure):
    rng, levels = np.random.default_rng(0), np.array([0.0, 0.3, 0.6, 0.8, 1.0])
    labels, answers = drawn_answers(rng, 60, 3, levels)
    settings = {"measure": measure, "threshold": 0.6}
    first, second = (
        with_answers(
            levels, one.astype(np.int16), labels, rng.random((5, 60)), **settings
        )
        for one in answers
    )
    there, back = compare(first, second), compare(second, first)
    assert there.difference == -back.difference != 0
    assert there.mean_difference == -back.mean_difference
    for one, other in (
        (there.confidence_interval, back.confidence_interval),
        (there.mean_interval, back.mean_interval),
    ):
        assert one == (-other.high, -other.low)
    np.testing.assert_array_equal(there.level_band, -back.level_band[:, ::-1])
    np.testing.assert_array_equal(there.level_difference, -back.level_difference)
    assert (there.p_value, there.mean_p_value) == (back.p_value, back.mean_p_value)
    assert compare(first, second).to_json() == there.to_json()


def test_more_confidence_is_a_wider_interval():
    first, second = pair(np.random.default_rng(0), 60, 5)
    intervals = [compare(first, second, c).confidence_interval for c in (0.5, 0.99)]
    (start, end), (low, high) = intervals
    assert low < start < end < high


def test_a_bent_curve_at_other_levels_is_no_difference():
    """A line over a level that one left out runs below the other's curve."""
    limits = np.sqrt(np.linspace(0, 1, 200))
    few, many = (np.linspace(0, 1, number) for number in (6, 11))
    # Alterations compute in float32.
    of_many = with_limits(limits, many.astype(np.float32).astype(float), 0.5)
    result = compare(with_limits(limits, few, 0.5), of_many)
    np.testing.assert_allclose(result.levels, few, atol=1e-7)
    assert result.mean_difference == 0 and result.mean_p_value == result.p_value == 1
    low, high = result.confidence_interval
    assert low <= 0 <= high


def test_few_shared_levels_draw_a_warning():
    limits = np.linspace(0, 1, 20)
    few, many = (
        with_limits(limits, np.linspace(0, 1, number), 0.5) for number in (2, 9)
    )
    with pytest.warns(jaxrob.RobustnessWarning, match="only 2 of 2 and 9 levels"):
        compare(few, many)
    inner = with_limits(limits, np.array([0.11, 0.72]), 0.5)
    with pytest.raises(ValueError, match="no level in common"):
        compare(few, inner)


@pytest.mark.filterwarnings("ignore:.*of the inputs are decided")
def test_alpha_may_differ():
    # Leaving out the hardest images makes the others' accuracy better.
    assert compare(template(), assess(1.0, alpha=0.6)).confidence_interval.high < 0


def test_the_interval_holds_a_difference_by_another_rule():
    # Where they cross, by "linear": 0.52 and 0.48. By "count", levels of 5: 3 and 2.
    first, second = (
        assess(factor, rule="count", strategy=strategies.Uniform(5))
        for factor in (1.3, 1.2)
    )
    result = compare(first, second)
    assert result.difference == pytest.approx(0.2)
    assert result.confidence_interval.high == result.difference
    assert result.confidence_interval.low < 0.04


def test_a_robustness_that_did_not_converge():
    class Diverged(jaxrob.Assessment):
        robustness = np.nan

    fields = {f.name: getattr(worse(), f.name) for f in dataclasses.fields(worse())}
    result = compare(template(), Diverged(**fields))
    assert np.isnan(result.difference)
    start, end = result.confidence_interval
    assert 0 < start < end < 0.2


@pytest.mark.parametrize(
    ("measure", "k"),
    [("accuracy", 2), ("precision", 2), ("recall", 4), ("f1", 4), ("effectiveness", 4)],
)
def test_weights_are_repeated_images(measure, k):
    rng = np.random.default_rng(3)
    num_images, levels = 60, np.array([0, 0.1, 0.5, 0.8, 1])
    labels = rng.integers(k, size=num_images)
    answers = rng.integers(k, size=(5, num_images))
    hard = rng.random(num_images)
    predicted = np.where(levels[:, None] < hard, labels, answers).astype(np.int16)
    # Far from 0.5 on most images.
    uncertainty = np.abs(rng.normal(0, 0.4, (5, num_images))).clip(0, 1)
    settings = {"measure": measure, "threshold": 0.62}
    result = with_answers(levels, predicted, labels, uncertainty, **settings)
    assert result.curve.confusion[..., -1].any()

    weights = rng.integers(3, size=(num_images, 8)) * 1.0
    got = linear_robustness(
        question_of(result),
        result.levels,
        resampled_values(
            metrics.measures[measure],
            labels,
            answers_of(result).answers,
            result.curve.num_classes,
            weights,
        ),
    )
    for b in range(8):
        rows = np.repeat(np.arange(num_images), weights[:, b].astype(int))
        drawn = with_answers(
            levels, predicted[:, rows], labels[rows], uncertainty[:, rows], **settings
        )
        assert got[b] == pytest.approx(drawn.robustness, abs=1e-12)
    assert 0 < np.median(got) < 1 and got.min() < got.max()


def test_the_interval_is_that_of_images_drawn_one_by_one():
    first, second = pair(np.random.default_rng(1), 200, 11)
    rng = np.random.default_rng(2)
    differences = []
    for _ in range(600):
        rows = rng.integers(200, size=200)
        one, other = (
            metrics.heaviside_robustness(
                r.levels,
                (r.curve.predicted == r.curve.labels)[:, rows].mean(1),
                0.5,
                "linear",
            )
            for r in (first, second)
        )
        differences.append(one - other)
    expected = np.quantile(differences, (0.025, 0.975))
    # An end's Monte-Carlo error is 8 % of the deviation, and 11 % on this side.
    tolerance = 0.4 * np.std(differences)
    got = compare(first, second).confidence_interval
    assert got == pytest.approx(tuple(expected), abs=tolerance)


def test_linear_robustness_is_heaviside_robustness_of_each_column():
    rng = np.random.default_rng(0)
    levels = np.sort(rng.random(7))
    # Coarse values, so that many lie on the threshold or repeat.
    values = rng.integers(0, 6, (7, 500)) / 5
    levels[[0, -1]] = 0, 1
    question = Question(LABELS, 2, metrics.measures["accuracy"], 0.6, 0.0, 1.0)
    got = linear_robustness(question, levels, values)
    expected = [
        metrics.heaviside_robustness(levels, column, 0.6, "linear")
        for column in values.T
    ]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)

    inside = linear_robustness(question, levels[1:-1], values[1:-1])
    values[0], values[-1] = values[1], values[-2]
    ends_added = linear_robustness(question, levels, values)
    np.testing.assert_allclose(inside, ends_added, rtol=0, atol=1e-14)
    values[3, 5] = np.nan
    assert np.flatnonzero(np.isnan(linear_robustness(question, levels, values))) == 5


def test_replicates_without_the_class_are_left_out():
    labels = np.array([1] + [0] * 9)
    levels = np.array([0.0, 1.0])
    right = np.array([labels, labels], np.int16)
    wrong = np.array([labels, 1 - labels], np.int16)
    settings = {"measure": "recall", "threshold": 0.5}
    first, second = (
        with_answers(levels, some, labels, **settings) for some in (right, wrong)
    )
    # The class is one image: nothing is known.
    found = compare(first, second)
    assert (found.difference, found.confidence_interval) == (0.5, (-1, 1))
    assert found.p_value == found.mean_p_value == 1


def test_the_mean_tells_where_both_are_accepted_everywhere():
    # Answers are right by chance, alike at all levels.
    better, worse = (
        with_limits(np.where(right, 2.0, -1.0), np.linspace(0, 1, 5), 0.8)
        for right in np.random.default_rng(6).random((2, 1000)) < [[0.933], [0.858]]
    )
    found = compare(better, worse)
    assert (found.difference, found.confidence_interval) == (0, (0, 0))
    assert found.p_value == 1 > 0.01 > found.mean_p_value
    low, high = found.mean_interval
    assert 0 < low < 0.075 < high < 0.15
    right = [(one.curve.predicted == 0).mean() for one in (better, worse)]
    assert found.mean_difference == pytest.approx(right[0] - right[1])
    np.testing.assert_array_equal(found.levels, better.levels)
    np.testing.assert_allclose(found.level_difference, better.values - worse.values)
    assert (found.level_band[:, 0] > 0).all()
    # Alike at all levels, one level is as good as all.
    np.testing.assert_allclose(found.level_band, [found.mean_interval] * 5, atol=1e-9)


def test_swaps_are_the_exact_test_of_pairs():
    """Of one level it is McNemar's, exact by the binomial distribution."""
    for total, differ in ((30, (7, 1)), (300, (30, 12)), (300, (20, 18))):
        limits = np.full((2, total), 2.0)
        limits[1, : differ[0]] = -1
        limits[0, differ[0] : sum(differ)] = -1
        levels = np.array([0.0, 1.0])
        pair = [with_limits(one, levels, 0.5) for one in limits]
        exact = stats.binomtest(differ[0], sum(differ)).pvalue
        found = compare(*pair).mean_p_value
        # All swaps are gone through, or 4,000 drawn, with a deviation of a fifth.
        assert found == pytest.approx(exact, rel=1e-9 if sum(differ) < 12 else 0.6)


def test_few_images_do_not_tell_equal_classifiers_apart():
    for seed in range(8):
        found = compare(*pair(np.random.default_rng(seed), 5, 5))
        low, high = found.confidence_interval
        assert low < high and low <= DIFFERENCE <= high
        # No p-value is below 2 ** -5 twice.
        assert found.p_value > 0.05 and found.mean_p_value > 0.05
        assert low <= 0 <= high
    one = pair(np.random.default_rng(0), 1, 5)
    assert compare(*one).confidence_interval == (-1, 1)


def test_the_band_holds_at_all_levels_at_once():
    """Beside its like at two levels, the other of which both fail at."""
    first, second = pair(np.random.default_rng(7), 100, 41, correlation=0)
    band = compare(first, second).level_band
    alone = compare(
        *(keep_levels(one, [20, 40]) for one in (first, second))
    ).level_band[0]
    assert np.diff(alone) < np.diff(band[20]) < 2 * np.diff(alone)


def keep_levels(one, kept):
    curve, settings = one.curve, {"threshold": one.threshold}
    return with_answers(
        curve.levels[kept], curve.predicted[kept], curve.labels, **settings
    )


def test_the_two_must_share_what_they_are_about():
    first = template()

    def changed(**changes):
        return dataclasses.replace(first, **changes)

    def with_facts(**changes):
        return changed(provenance=first.provenance | changes)

    curve, without = first.curve, dict(first.provenance)
    del without["dataset"]
    reduced = jaxrob.ReducedCurve(curve.levels, curve.counts)
    scores = Scores("", *np.zeros((4, len(curve.levels))))
    turned = dataclasses.replace(curve, labels=LABELS[::-1].astype(np.int32), rank=None)
    for second, message in (
        (changed(alteration="fog"), "same alteration; got 'dim' and 'fog'"),
        (changed(lower=-1.0), "same lower"),
        (changed(upper=0.5), "same upper"),
        (changed(threshold=0.7), "same threshold"),
        (changed(measure="f1"), "same measure"),
        (changed(curve=dataclasses.replace(curve, num_classes=3)), "number of classes"),
        (changed(curve=turned), "same labels"),
        (of_images(first, np.arange(NUM_IMAGES - 1)), "same labels"),
        (changed(curve=reduced), "second must keep the answer"),
        (changed(scores=scores), "tolerance"),
        (changed(provenance=without), "second must have a provenance with 'dataset'"),
        (with_facts(alteration=None), "second must be of an alteration"),
        (with_facts(alteration="0b"), "alteration's parameters"),
        (with_facts(dataset={"fingerprint": "0b"}), "same images"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(first, second)
    for wrong in (curve, [first]):
        with pytest.raises(TypeError, match="first must be a jaxrob.Assessment"):
            compare(wrong, first)


@pytest.mark.parametrize("confidence", [0, 1, np.nan, 0.99999])
def test_the_confidence_level_lies_between_0_and_1(confidence):
    with pytest.raises(ValueError, match="confidence_level"):
        compare(template(), template(), confidence)


def drawn_answers(rng, num_images, num_classes, levels):
    """Labels, and two networks' answers `[L, N]`, wrong more often at high levels."""
    labels = rng.integers(num_classes, size=num_images)
    answers = [
        np.where(
            rng.random((len(levels), num_images)) < levels[:, None],
            rng.integers(num_classes, size=(len(levels), num_images)),
            labels,
        )
        for _ in range(2)
    ]
    return labels, answers


@pytest.mark.parametrize("measure", ["f1", "accuracy", "decided_ratio"])
def test_all_swaps_are_gone_through(measure):
    """Of a few images, against each way to swap them, one by one."""
    rng, levels = np.random.default_rng(4), np.array([0.0, 0.4, 0.9])
    labels, answers = drawn_answers(rng, 6, 3, levels)
    if measure == "decided_ratio":
        answers = [np.where(one == 2, 3, one) for one in answers]
    question = Question(labels, 3, metrics.measures[measure], 0.7, 0.0, 1.0)
    found = paired.randomisation_p_values(
        question, *(paired.Answers(levels, one) for one in answers), 0.95
    )
    robustness, mean = [], []
    for some in itertools.product([False, True], repeat=6):
        pair = np.where(some, answers[::-1], answers)
        values = [
            resampled_values(question.measure, labels, one, 3, np.ones((6, 1)))
            for one in pair
        ]
        curves = [np.append(one[:, 0], one[-1, 0]) for one in values]
        ends = np.append(levels, 1.0)
        mean.append(np.trapezoid(curves[0], ends) - np.trapezoid(curves[1], ends))
        each = [linear_robustness(question, levels, one)[0] for one in values]
        robustness.append(each[0] - each[1])
    for one, expected in zip(found, (robustness, mean)):
        off = np.abs(expected)
        assert one == np.mean(~(off < off[0] - 1e-9))
