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
from jaxrob._assessment.paired import Question, linear_robustness, resampled_values

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

# All but one that is 1 wherever nothing is unknown.
MEASURES = [name for name in metrics.measures if name != "decided_ratio"]


def probabilities(factor, images):
    limit, label, level = jnp.moveaxis(images[:, 0, 0], -1, 0)
    right = factor * limit + 1e-6 > level
    surest = 1 - 0.4 * level * (1 - limit)  # the harder, the less certain
    of_class_1 = jnp.where((label == 1) == right, surest, 1 - surest)
    return jnp.stack([1 - of_class_1, of_class_1], axis=-1)


def assess(factor, dataset=DATASET, alteration=DIM, **settings):
    defaults = {
        "threshold": 0.6,
        "strategy": strategies.Uniform(41),
        "rule": "linear",
    }
    classifier = jaxrob.Classifier(
        probabilities, jnp.float32(factor), outputs="probabilities"
    )
    return jaxrob.assess(classifier, dataset, alteration, **(defaults | settings))


@functools.cache
def template():
    return assess(1.0)


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


def test_other_noise_draws_a_warning():
    """The key of an alteration that draws nothing does not count."""
    noise = jaxrob.Alteration(
        "noise",
        lambda image, x, key: image.at[..., 2].set(x * jax.random.uniform(key)),
        0.0,
        1.0,
        stochastic=True,
    )
    one, other = jax.random.key(0), jax.random.key(1)
    few = {"strategy": strategies.Uniform(2)}
    first = assess(1.0, alteration=noise, key=one, **few)
    again = assess(0.9, alteration=noise, key=one, **few)
    second = assess(0.9, alteration=noise, key=other, **few)
    compare(first, again)
    message = r"noise drew .* keys, \[0, 0\] and \[0, 1\].*with one key"
    with pytest.warns(jaxrob.RobustnessWarning, match=message):
        compare(first, jaxrob.Assessment.from_json(second.to_json()))
    compare(assess(1.0, key=one, **few), assess(0.9, key=other, **few))


class Population:
    """Limits U(0, 1) for one classifier, U(0, 1.1) for the other, as hard for both."""

    threshold = 0.5
    difference = (1 - threshold) - 1.1 * (1 - threshold)

    @staticmethod
    def limits(rng, total, correlation=0.9):
        covariance = [[1, correlation], [correlation, 1]]
        both = rng.multivariate_normal([0, 0], covariance, size=total)
        return stats.norm.cdf(both).T * [[1], [1.1]]


def pair(rng, total=200, num_levels=21, **settings):
    levels = np.linspace(0, 1, num_levels)
    return [
        with_limits(limits, levels, Population.threshold)
        for limits in Population.limits(rng, total, **settings)
    ]


def width(comparison):
    return comparison.confidence_interval.high - comparison.confidence_interval.low


def test_the_difference_is_first_minus_second():
    # Accuracies 1 - x and 1 - x / 0.8.
    better, worse = assess(1.0), assess(0.8)
    result = compare(better, worse)
    assert result.difference == better.robustness - worse.robustness
    assert result.difference == pytest.approx(0.4 - 0.32, abs=0.006)
    start, end = result.confidence_interval
    assert 0 < start < result.difference < end < 0.2
    assert result.confidence_level == 0.95


def test_identical_classifiers_do_not_differ():
    """They may on images not seen, but no more often than about 4 of 200 let expect."""
    result = compare(assess(0.9), assess(0.9))
    assert result.difference == result.mean_difference == 0
    assert result.p_value == result.mean_p_value == 1
    for low, high in (result.confidence_interval, result.mean_interval):
        assert -0.04 < low < 0 < high < 0.04


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.filterwarnings("ignore:.*of the inputs are decided")
def test_swapped_the_interval_is_mirrored(measure):
    first, second = (assess(f, measure=measure, alpha=0.6) for f in (0.9, 0.7))
    there, back = compare(first, second), compare(second, first)
    assert there.difference == -back.difference != 0
    start, end = back.confidence_interval
    assert there.confidence_interval == pytest.approx((-end, -start), abs=1e-12)
    again = compare(first, second)
    for name in ("confidence_interval", "mean_interval", "level_band", "p_value"):
        np.testing.assert_array_equal(getattr(again, name), getattr(there, name))
    assert there.mean_difference == -back.mean_difference
    np.testing.assert_array_equal(there.level_band, -back.level_band[:, ::-1])


def test_one_that_answers_alike_differs_as_much_in_either_direction():
    one = with_limits(np.array([0.2, 0.6, 0.9]), np.linspace(0, 1, 11), 0.5)
    found = compare(one, dataclasses.replace(one))
    for low, high in (found.confidence_interval, found.mean_interval):
        assert low == -high < 0
    np.testing.assert_array_equal(*(found.level_band * [-1, 1]).T)


def test_more_confidence_is_a_wider_interval():
    first, second = pair(np.random.default_rng(0))
    widths = [width(compare(first, second, c)) for c in (0.5, 0.9, 0.99)]
    assert widths == sorted(widths) and widths[0] < widths[-1]


@pytest.mark.filterwarnings("ignore:only . of .* levels are shared")
@pytest.mark.parametrize(
    "strategy", [strategies.Uniform(101), strategies.Uniform(6), strategies.ASAP()]
)
def test_levels_may_differ(strategy):
    """What two choices of levels make of one classifier is no difference."""
    few = assess(1.0, strategy=strategies.Uniform(21))
    result = compare(few, assess(1.0, strategy=strategy))
    assert abs(result.difference) < 0.01
    assert result.confidence_interval.low <= 0 <= result.confidence_interval.high
    assert width(result) < 0.05
    assert result.mean_difference == 0 and not result.level_difference.any()
    assert result.p_value == result.mean_p_value == 1


def test_a_bent_curve_at_other_levels_is_no_difference():
    """A line over a level that one left out runs below the other's curve."""
    limits = np.sqrt(np.linspace(0, 1, 200))
    few, many = (
        with_limits(limits, np.linspace(0, 1, number), 0.5) for number in (5, 9)
    )
    result = compare(few, many)
    np.testing.assert_array_equal(result.levels, np.linspace(0, 1, 5))
    assert result.mean_difference == 0 and result.mean_p_value == result.p_value == 1
    low, high = result.confidence_interval
    assert low <= 0 <= high


def test_few_shared_levels_draw_a_warning():
    limits = np.linspace(0, 1, 20)
    few, many = (
        with_limits(limits, np.linspace(0, 1, number), 0.5) for number in (6, 9)
    )
    with pytest.warns(jaxrob.RobustnessWarning, match=r"only 2 of 6 and 9 levels"):
        compare(few, many)
    inner = with_limits(limits, np.array([0.11, 0.72]), 0.5)
    with pytest.raises(ValueError, match="no level in common, of 6 and 2"):
        compare(few, inner)


@pytest.mark.filterwarnings("ignore:.*of the inputs are decided")
def test_alpha_may_differ():
    # Leaving out the hardest images makes the others' accuracy better.
    result = compare(assess(1.0), assess(1.0, alpha=0.6))
    assert result.confidence_interval.high < 0


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

    first, second = assess(1.0), assess(0.8)
    fields = {f.name: getattr(second, f.name) for f in dataclasses.fields(second)}
    result = compare(first, Diverged(**fields))
    assert np.isnan(result.difference)
    start, end = result.confidence_interval
    assert 0 < start < end < 0.2


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("k", [2, 4])
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
    first, second = pair(np.random.default_rng(1), num_levels=11)
    rng = np.random.default_rng(2)
    differences = []
    for _ in range(1500):
        rows = rng.integers(200, size=200)
        one, other = (
            metrics.heaviside_robustness(
                r.levels,
                (r.curve.predicted == r.curve.labels)[:, rows].mean(1),
                Population.threshold,
                "linear",
            )
            for r in (first, second)
        )
        differences.append(one - other)
    expected = np.quantile(differences, (0.025, 0.975))
    # An end's Monte-Carlo error is 8 % of the deviation, and 7 % on this side.
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


@pytest.mark.slow
def test_the_interval_covers_the_difference_and_pairing_narrows_it():
    rng = np.random.default_rng(4)
    covered, paired, unpaired = [], [], []
    for _ in range(150):
        first, second = pair(rng, total=300, num_levels=11)
        result = compare(first, second)
        start, end = result.confidence_interval
        covered.append(start <= Population.difference <= end)
        paired.append(width(result))
    for _ in range(20):
        # What other images for the second would give.
        first, second = pair(rng, total=300, num_levels=11, correlation=0)
        unpaired.append(width(compare(first, second)))
    # At least 0.95 less two standard deviations; it errs on the wide side.
    assert np.mean(covered) >= 0.95 - 2 * (0.95 * 0.05 / 150) ** 0.5
    assert np.mean(paired) < 0.65 * np.mean(unpaired)


def test_the_order_of_the_images_does_not_matter():
    rng = np.random.default_rng(5)
    first, second = pair(rng)
    order = rng.permutation(200)
    shuffled = [
        with_answers(
            r.levels, r.curve.predicted[:, order], r.curve.labels, threshold=0.5
        )
        for r in (first, second)
    ]
    expected, got = compare(first, second), compare(*shuffled)
    assert got.difference == expected.difference
    # Ends are known to 8 % of a deviation, a quarter of the width.
    tolerance = 0.1 * width(expected)
    assert got.confidence_interval == pytest.approx(
        expected.confidence_interval, abs=tolerance
    )


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


def with_shares_right(rng, shares, total):
    """Two assessments whose answers are right by chance, alike at all levels."""
    return [
        with_limits(np.where(right, 2.0, -1.0), np.linspace(0, 1, 5), 0.8)
        for right in rng.random((2, total)) < np.reshape(shares, (2, 1))
    ]


def test_the_mean_tells_where_both_are_accepted_everywhere():
    rng = np.random.default_rng(6)
    better, worse = with_shares_right(rng, (0.933, 0.858), 1000)
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


@pytest.mark.parametrize("total", [1, 2, 5, 10])
def test_few_images_do_not_tell_equal_classifiers_apart(total):
    differ = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found = compare(*pair(rng, total, 5), 0.95)
        assert found.confidence_interval.low < found.confidence_interval.high
        if total < 6:
            # No p-value is below 2 ** -5 twice.
            assert found.p_value > 0.05 and found.mean_p_value > 0.05
            low, high = found.confidence_interval
            differ += low > 0 or high < 0
            assert low <= Population.difference <= high
    assert differ == 0
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


@pytest.mark.filterwarnings("ignore:unaltered, the accuracy is 0")
def test_the_two_must_share_what_they_are_about():
    first = assess(1.0)
    other_range = dataclasses.replace(DIM, upper=0.5)
    other_name = dataclasses.replace(DIM, name="fog")
    relabelled = jaxrob.Dataset(DATASET.images, LABELS[::-1])
    for second, message in (
        (assess(1.0, alteration=other_name), "same alteration; got 'dim' and 'fog'"),
        (assess(1.0, alteration=other_range), "same upper; got 1.0 and 0.5"),
        (assess(1.0, threshold=0.7), "same threshold; got 0.6 and 0.7"),
        (assess(1.0, measure="f1"), "same measure; got 'accuracy' and 'f1'"),
        (assess(1.0, dataset=relabelled), "same labels, in the same order"),
        (assess(1.0, dataset=DATASET[:-1]), "same labels"),
        (assess(1.0, reduced=True), "second must keep the answer on each image"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(first, second)
    more_classes = dataclasses.replace(first.curve, num_classes=3)
    with pytest.raises(ValueError, match="number of classes; got 2 and 3"):
        compare(first, dataclasses.replace(first, curve=more_classes))
    with pytest.raises(TypeError, match="first must be a jaxrob.Assessment; got Curve"):
        compare(first.curve, first)


@pytest.mark.parametrize(
    "confidence, message",
    [
        *((wrong, r"must lie in \(0, 1\)") for wrong in (0, 1, 95, np.nan)),
        # More than a bootstrap can tell.
        (0.99999, "must be at most 0.9999"),
    ],
)
def test_the_confidence_level_lies_between_0_and_1(confidence, message):
    with pytest.raises(ValueError, match=f"confidence_level {message}"):
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
    labels, answers = drawn_answers(rng, 8, 3, levels)
    if measure == "decided_ratio":
        answers = [np.where(one == 2, 3, one) for one in answers]
    question = Question(labels, 3, metrics.measures[measure], 0.7, 0.0, 1.0)
    found = paired.randomisation_p_values(
        question, *(paired.Answers(levels, one) for one in answers), 0.95
    )
    robustness, mean = [], []
    for some in itertools.product([False, True], repeat=8):
        pair = np.where(some, answers[::-1], answers)
        values = [
            resampled_values(question.measure, labels, one, 3, np.ones((8, 1)))
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


def test_swaps_cost_the_pairs_of_label_and_answer_and_not_the_images(monkeypatch):
    rows = []

    def recorded(measure, labels, answers, num_classes, weights):
        rows.append(len(weights))
        return resampled_values(measure, labels, answers, num_classes, weights)

    monkeypatch.setattr(paired, "resampled_values", recorded)
    levels = np.array([0.0, 0.2, 0.3])
    labels, answers = drawn_answers(np.random.default_rng(5), 2000, 4, levels)
    question = Question(labels, 4, metrics.measures["f1"], 0.8, 0.0, 1.0)
    paired.randomisation_p_values(
        question, *(paired.Answers(levels, one) for one in answers), 0.95
    )
    assert rows and max(rows) <= 4 * 5
