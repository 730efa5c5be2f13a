"""Assessments from classifiers whose accuracy is known in closed form."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import scipy.stats

import jaxrob
from jaxrob import alterations, reporting, strategies
from jaxrob.metrics import RULES

from .test_few import DIM

NUM_IMAGES = 200
# Image n is right at levels up to its limit.
LIMITS = (np.arange(NUM_IMAGES) + 1) / NUM_IMAGES


DATASET = jaxrob.Dataset(
    np.float32(np.stack([LIMITS, 0 * LIMITS], axis=-1))[:, None, None],
    np.arange(NUM_IMAGES) % 2,
)
NOTHING = jaxrob.Alteration("nothing", lambda image, level: image, -1.0, 1.0, 0.0)
ASAP, ELEVEN = strategies.ASAP(), strategies.Uniform(11)


def apply(variables, images):
    """A classifier cannot know the level; the alteration writes it into a channel."""
    limit, level = images[:, 0, 0, 0], images[:, 0, 0, 1]
    label = jnp.round(limit * NUM_IMAGES - 1) % 2
    right = limit + 1e-6 > level
    return jax.nn.one_hot(jnp.where(right, label, 1 - label).astype(int), 2)


CLASSIFIER = jaxrob.Classifier(apply, None, outputs="scores")


def assess(dataset=DATASET, alteration=DIM, classifier=CLASSIFIER, **settings):
    settings = {"strategy": strategies.Uniform(41)} | settings
    return jaxrob.assess(classifier, dataset, alteration, **settings)


class Batches:
    """The data set in batches; counts the passes over it."""

    def __init__(self, size=NUM_IMAGES, change=lambda number, *pair: pair):
        self.size, self.change, self.passes = size, change, 0

    def __iter__(self):
        self.passes += 1
        pair = self.change(self.passes, DATASET.images, DATASET.labels)
        for first in range(0, NUM_IMAGES, self.size):
            yield tuple(part[first : first + self.size] for part in pair)


def exact_accuracy(level):
    """Images right at a level: those whose limit is at least the level."""
    return np.mean(LIMITS + 1e-6 > level)


def test_robustness_is_the_share_of_accepted_levels():
    levels = np.linspace(0, 1, 41)
    accuracy = np.array([exact_accuracy(level) for level in levels])
    for threshold in (0.0, 0.3, 0.5, 0.8, 0.9, 1.0):
        result = assess(threshold=threshold)
        np.testing.assert_array_equal(result.values, accuracy)
        assert result.robustness == np.mean(accuracy >= threshold)


def test_a_value_on_the_threshold_is_accepted():
    # At level 0.2 the limits 0.2 ... 1 are right, 161 of 200; at 0.205, 160: 0.8.
    result = assess(threshold=0.8, strategy=strategies.Uniform(201))
    assert result.values[41] == 160 / 200 == 0.8
    assert result.robustness == 42 / 201


def test_rules_are_the_strategy_s_own_or_as_asked():
    assert assess().rule == "count"
    right = assess(rule="right", threshold=0.5)
    # The interval before each accepted level but the first counts.
    accepted = np.linspace(0, 1, 41)[1:] <= 0.505
    assert right.robustness == pytest.approx(np.sum(accepted) / 40)
    linear = assess(rule="linear", threshold=0.5)
    assert linear.robustness == pytest.approx(0.505, abs=0.0051)


@pytest.mark.parametrize("measure", ["precision", "recall", "f1", "effectiveness"])
def test_other_measures(measure):
    result = assess(measure=measure, threshold=0.5)
    assert result.measure == measure
    np.testing.assert_array_equal(
        result.values, jaxrob.metrics.measures[measure](result.curve.confusion)
    )
    assert 0 < result.robustness < 1


def test_per_class_is_the_assessment_of_the_class_alone():
    result = assess(threshold=0.6)
    for k in range(2):
        chosen = np.flatnonzero(DATASET.labels == k)
        alone = assess(DATASET[chosen], threshold=0.6)
        assert result.robustness_per_class[k] == alone.robustness


def test_first_failing_level_of_each_image():
    result = assess(strategy=strategies.Uniform(101))
    levels = result.levels
    for n, limit in enumerate(LIMITS):
        failing = levels[levels > limit + 1e-6]
        if len(failing):
            assert result.first_failing_level[n] == failing[0]
        else:
            assert np.isnan(result.first_failing_level[n])
    with pytest.raises(ValueError, match="keeps only counts"):
        assess(reduced=True).first_failing_level  # noqa: B018


def test_reduced_gives_the_same_numbers():
    for measure in ("accuracy", "f1"):
        whole, reduced = assess(measure=measure), assess(measure=measure, reduced=True)
        assert reduced.robustness == whole.robustness
        np.testing.assert_array_equal(reduced.values, whole.values)


def test_several_alterations_give_a_tuple():
    results = assess(alteration=[DIM, NOTHING], strategy=ASAP)
    assert [result.alteration for result in results] == ["dim", "nothing"]
    assert results[0].robustness == assess(strategy=ASAP).robustness
    assert results[1].robustness == 1.0


def test_several_alterations_share_each_pass_over_the_data():
    several = [DIM, jaxrob.Alteration("slow", DIM.fn, 0.0, 0.5), NOTHING]
    batches = Batches()
    together = assess(
        jaxrob.Dataset.from_batches(batches, channels_first=False),
        several,
        strategy=ASAP,
    )
    rounds = max(result.diagnostics.rounds for result in together)
    assert {result.diagnostics.rounds for result in together} != {rounds}
    # Beside the rounds: the look at the first image and the fingerprint.
    first_looks = batches.passes - rounds
    assert first_looks <= 2 + rounds
    for alteration, result in zip(several, together):
        alone = assess(alteration=alteration, strategy=ASAP)
        assert result.robustness == alone.robustness
        assert result.diagnostics == alone.diagnostics or np.isnan(
            alone.diagnostics.jitter
        )
        np.testing.assert_array_equal(result.levels, alone.levels)
        np.testing.assert_array_equal(result.curve.predicted, alone.curve.predicted)


def test_one_progress_bar_for_all_alterations(capfd):
    results = assess(alteration=[DIM, NOTHING], strategy=ASAP, progress=True)
    shown = capfd.readouterr().err
    total = NUM_IMAGES * sum(result.diagnostics.points for result in results)
    assert shown.count("2 alterations: 100%") >= 1
    assert f"{total / 1000:.2f}k/{total / 1000:.2f}k" in shown
    assert shown.count("\n") == 1


def test_the_interval_holds_the_robustness_and_narrows_with_the_images():
    widths = []
    for repeats in (1, 16):
        chosen = np.tile(np.arange(NUM_IMAGES), repeats)
        result = assess(DATASET[chosen], strategy=ASAP)
        low, high = result.confidence_interval
        assert low <= result.robustness <= high
        widths.append(high - low)
    # As the square root of their number.
    assert widths[1] / widths[0] == pytest.approx(1 / 4, rel=0.35)


@pytest.mark.parametrize(
    "strategy", [strategies.Random(50, seed=3), strategies.Quadrature(40)]
)
def test_strategies_that_leave_out_the_ends(strategy):
    result = assess(strategy=strategy, threshold=0.5)
    assert result.rule == strategy.rule and result.error_bound is None
    # All that counts levels gets each of them once.
    assert result.diagnostics.points == len(np.unique(result.levels))
    assert result.robustness == pytest.approx(0.505, abs=0.15)
    low, high = result.confidence_interval
    assert low <= 0.505 <= high


def test_an_integration_that_does_not_converge_is_a_timeout():
    result = assess(strategy=strategies.Quadrature(3), threshold=0.5)
    assert np.isnan(result.robustness)
    again = jaxrob.Assessment.from_json(result.to_json())
    assert np.isnan(again.robustness)


@pytest.mark.parametrize("strategy", [ASAP, strategies.ASAP(64, 128.0)])
def test_order_and_batches_of_images_change_nothing(strategy):
    order = np.random.default_rng(0).permutation(NUM_IMAGES)
    plain = assess(strategy=strategy)
    for changes in ({"dataset": DATASET[order]}, {"batch_size": 7}, {"batch_size": 64}):
        other = assess(strategy=strategy, **changes)
        np.testing.assert_array_equal(other.levels, plain.levels)
        np.testing.assert_array_equal(other.values, plain.values)
        assert other.robustness == plain.robustness
        assert other.error_bound == plain.error_bound
        assert other.confidence_interval == plain.confidence_interval


@pytest.mark.parametrize(
    "strategy",
    [strategies.ASAP(statistical_stopping=False), strategies.ASAP(1024, 128.0)],
)
def test_asap_evaluates_no_jpeg_quality_twice(strategy):
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 1), np.uint8)
    labels = (images[:, 0, 0, 0] >= 128).astype(int)
    seen = []

    def predict(images):
        seen.append(len(images))
        bright = images[:, 0, 0, 0] >= 127.5 / 255
        return np.eye(2, dtype=np.float32)[bright.astype(int)]

    jpeg = alterations.jpeg_compression()
    on_host = jaxrob.Classifier.from_host(predict, 2, "scores")
    settings = {"threshold": 0.9, "strategy": strategy, "batch_size": 200}
    result = assess(jaxrob.Dataset(images, labels), jpeg, on_host, **settings)
    qualities = np.unique(jpeg.canonical(result.levels))
    assert 0 < result.robustness < 1
    assert result.diagnostics.points == len(qualities) < len(result.levels)
    # One level once more, among other images, and 64 images as bytes.
    assert sum(seen) == 200 * (len(qualities) + 1) + 64


def test_linear_tolerance_is_the_mean_of_the_scaled_accuracy():
    # The accuracy is 1 - level: with a threshold of 0.5 and x_max 1 the tolerance is
    # 1 - 2 level up to 0.5; its mean is a quarter, and nothing is penalized.
    result = assess(
        tolerance="linear",
        penalization=lambda value, threshold: 0.0,
        threshold=0.5,
        strategy=strategies.Uniform(201),
    )
    assert result.robustness == pytest.approx(0.5 + 0.25 / 2, abs=4e-3)
    assert result.rule == "trapezoid" and result.error_bound is None
    low, high = result.confidence_interval
    assert low < result.robustness < high < low + 0.2
    settings = {"threshold": 0.5, "strategy": strategies.Uniform(201)}
    linear = assess(tolerance="linear", penalization="linear", **settings)
    assert linear.robustness == pytest.approx(0.5, abs=6e-3)


def test_steps_give_the_share_of_the_range():
    plain = assess(rule="linear", threshold=0.5, strategy=strategies.Uniform(401))
    steps = assess(tolerance="step", threshold=0.5, strategy=strategies.Uniform(401))
    assert steps.robustness == pytest.approx(plain.robustness, abs=2 / 400)


def test_levels_count_by_their_probability():
    distribution = numpyro.distributions.Beta(2.0, 5.0)
    result = assess(
        level_distribution=distribution,
        threshold=0.7,
        strategy=strategies.Uniform(1001),
    )
    expected = scipy.stats.beta(2, 5).cdf(0.305)
    assert result.robustness == pytest.approx(expected, abs=0.005)
    again = jaxrob.Assessment.from_json(result.to_json())
    assert again.robustness == result.robustness
    assert again.confidence_interval == result.confidence_interval
    with pytest.raises(ValueError, match="give values_per_class"):
        result.robustness_per_class  # noqa: B018


def test_the_nominal_value_is_that_of_the_identity_though_no_strategy_looks_there():
    below = jaxrob.Alteration("dim", DIM.fn, -0.5, 1.0, 0.0)
    # Below 0 all are right but the value must be that at 0.
    settings = {"strategy": strategies.Uniform(2), "threshold": 0.0}
    with pytest.warns(jaxrob.RobustnessWarning, match=r"leaves \[0, 1\]"):
        result = assess(alteration=below, tolerance="linear", **settings)
    assert result.diagnostics.points == 3 and len(result.levels) == 2
    assert "nominal=1.0" in result.scores.settings


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        (ASAP, "quadrature"),
        (ASAP, "count"),
        (strategies.Random(9), "right"),
        (strategies.Quadrature(), "linear"),
        (strategies.Uniform(9), "quadrature"),
    ],
)
def test_rules_that_do_not_suit_the_levels_are_refused_first(strategy, rule):
    def predict(images):
        raise AssertionError("computed")

    with pytest.raises(ValueError, match=f"rule must be one of .* got '{rule}'"):
        on_host = jaxrob.Classifier.from_host(predict, 2)
        assess(classifier=on_host, strategy=strategy, rule=rule)


def test_an_end_that_is_the_identity_but_for_rounding():
    lower = 0.3 - 0.1 - 0.2
    assert lower != 0
    nearly = jaxrob.Alteration("dim", DIM.fn, lower, 1.0, 0.0)
    assert assess(alteration=nearly, strategy=ASAP).levels[0] == 0.0


class Halving:
    """A strategy that refines: what it proposes depends on what it received."""

    rule = "right"
    rules = RULES

    def __init__(self):
        self.calls = []

    def ask(self, task, history):
        self.calls.append(history)
        levels, values = history.levels, history.values
        if not len(levels):
            return strategies.all_images([task.lower, task.upper])
        crossing = np.flatnonzero((values[1:] >= 0.5) != (values[:-1] >= 0.5))
        left, right = levels[crossing], levels[crossing + 1]
        return strategies.all_images((left + right)[right - left > 1 / 64] / 2)

    def result(self, task, history):
        return strategies.Found()


def test_an_adaptive_strategy_receives_what_it_asked_for():
    strategy = Halving()
    result = assess(strategy=strategy, threshold=0.5)
    assert len(result.levels) == 2 + 6
    assert (np.diff(result.levels) > 0).all()
    expected = [exact_accuracy(level) for level in result.levels]
    np.testing.assert_array_equal(result.values, expected)
    # Received in ascending order, with the number of images behind each value.
    for history in strategy.calls[1:]:
        assert (np.diff(history.levels) > 0).all()
        assert len(history.levels) == len(history.values)
        np.testing.assert_array_equal(
            history.num_inputs, np.full(len(history.levels), NUM_IMAGES)
        )
    assert strategy.calls[0].typical_inputs is None
    assert strategy.calls[1].typical_inputs == NUM_IMAGES


def test_no_level_is_evaluated_twice_over_all_rounds():
    seen = []

    def predict(images):
        seen.append(len(images))
        return np.tile(np.float32([1, 0]), (len(images), 1))

    class Again(Halving):
        rule = "count"

        def ask(self, task, history):
            if len(history.levels) > 25:
                return []
            # Overlaps itself, and levels of the same quality.
            last = 20 if len(history.levels) else 10
            return strategies.all_images(np.linspace(0, last, 21))

    data = jaxrob.Dataset(np.zeros((150, 8, 8, 1), np.uint8), np.zeros(150, int))
    on_host = jaxrob.Classifier.from_host(predict, 2, "scores")
    jpeg = alterations.jpeg_compression()
    result = assess(data, jpeg, on_host, strategy=Again())
    assert len(result.levels) == 31
    # Unaltered, the qualities 100 (from level 0.5) and 99 ... 80, and one of them once
    # more among other images.
    assert sum(seen) == 150 * 23


def test_the_identity_is_met_although_the_grid_rounds():
    narrower = dataclasses.replace(NOTHING, lower=-0.9, upper=0.9)
    assert 0.0 in assess(alteration=narrower).levels


def test_provenance_tells_classifiers_data_and_keys_apart():
    result = assess(key=jax.random.key(3))
    provenance = result.provenance
    assert provenance["key"] == [0, 3]
    assert provenance["versions"]["jax"] == jax.__version__
    assert provenance["devices"]["platform"] == jax.devices()[0].platform
    again = assess(key=jax.random.key(3)).provenance
    assert again == provenance
    other = jaxrob.Classifier(apply, np.zeros(1), outputs="scores")
    changed = assess(DATASET[:-1], classifier=other).provenance
    assert changed["classifier"] != provenance["classifier"]
    assert changed["dataset"]["fingerprint"] != provenance["dataset"]["fingerprint"]


def test_batches_have_the_fingerprint_of_the_array():
    batches = jaxrob.Dataset.from_batches(Batches(37), channels_first=False)
    batched, whole = (assess(some, strategy=ASAP) for some in (batches, DATASET))
    assert batched.robustness == whole.robustness
    assert batched.provenance["dataset"] == whole.provenance["dataset"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.2}, r"threshold must lie in \[0, 1\]; got 1.2"),
        ({"threshold": np.nan}, "threshold must lie"),
        ({"measure": "auc"}, "measure must be one of .* got 'auc'"),
        ({"rule": "left"}, "rule must be one of .* got 'left'"),
        ({"alpha": 0.5}, "alpha needs uncertainties"),
        ({"alpha": 0.5, "reduced": True}, "does not go with reduced"),
        ({"tolerance": "linear", "rule": "right"}, "rule does not go with tolerance"),
        ({"tolerance": "quadratic"}, "tolerance must be one of"),
        ({"level_distribution": numpyro.distributions.Uniform(5.0, 6.0)}, "no|none"),
        ({"alteration": []}, "empty"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        assess(**settings)


@pytest.mark.parametrize("what", ["order", "pixels"])
def test_batches_that_differ_on_a_later_pass_are_refused(what):
    """A loader that shuffles; one that augments, whose labels stay."""

    def change(number, images, labels):
        rng = np.random.default_rng(number)
        if what == "order":
            order = rng.permutation(NUM_IMAGES)
            return images[order], labels[order]
        return images * rng.uniform(0.9, 1.0), labels

    loader = jaxrob.Dataset.from_batches(Batches(change=change), channels_first=False)
    with pytest.raises(ValueError, match="the same order, on every pass; batch 0"):
        assess(loader, threshold=0.5, strategy=Halving())


class Inside(Halving):
    rule = "count"

    def ask(self, task, history):
        return [] if len(history.levels) else strategies.all_images([0.4, 0.6])


@pytest.mark.parametrize("rule", ["right", "linear"])
def test_an_integral_needs_both_ends_of_the_range(rule):
    assert assess(strategy=Inside(), threshold=0.5).robustness == 0.5
    with pytest.raises(ValueError, match=r"both ends of the range \[0, 1\]; the str"):
        assess(strategy=Inside(), rule=rule)


class Nothing(Inside):
    def ask(self, task, history):
        return []


class WithoutResult:
    rule = "count"

    def ask(self, task, history):
        return []


@pytest.mark.parametrize(
    ("strategy", "error", "message"),
    [
        (41, TypeError, "strategy must be one of jaxrob.strategies"),
        (strategies.Uniform, TypeError, r"such as ASAP\(\), .* got the class Uniform"),
        (WithoutResult(), TypeError, "WithoutResult lacks result, rules"),
        (Nothing(), ValueError, "the strategy asked for no level to begin with"),
    ],
)
def test_things_that_are_no_strategy(strategy, error, message):
    with pytest.raises(error, match=message):
        assess(strategy=strategy)


def test_what_would_fail_later_fails_before_anything_is_computed():
    calls = []

    def predict(images):
        calls.append(len(images))
        return np.tile(np.float32([1, 0]), (len(images), 1))

    classifier = jaxrob.Classifier.from_host(predict, 2)
    data_set = jaxrob.Dataset(np.zeros((9, 8, 8, 4), np.uint8), np.zeros(9, int))
    for later, message in (
        (alterations.gaussian_noise(), "needs a key"),
        (alterations.jpeg_compression(), "all that JPEG stores; got 4 channels"),
        (alterations.horizontal_translation(fill="crop"), "leaves nothing"),
    ):
        with pytest.raises(ValueError, match=message):
            jaxrob.assess(classifier, data_set, [alterations.brightness(), later])
    assert not calls


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classifier": "x"}, "classifier must be a jaxrob.Classifier"),
        ({"dataset": (1, 2)}, "dataset must be a jaxrob.Dataset"),
        ({"alteration": [DIM, "blur"]}, "got 'blur', of type str at 1"),
        ({"alteration": "blur"}, "sequence"),
        ({"alteration": {"a": 1}}, "sequence"),
        ({"alteration": None}, "sequence"),
        ({"key": 0}, "key must be a random key"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(wrong, message):
    with pytest.raises(TypeError, match=message):
        assess(**wrong)


def test_unknown_answers_are_left_out_of_the_accuracy():
    # Sure and right for one half, unsure and wrong for the other.
    def apply(variables, images):
        sure = images[:, 0, 0, 0] > 0.5
        return jnp.where(sure[:, None], jnp.array([9.0, 0.0]), jnp.array([0.0, 0.1]))

    images = np.repeat(np.float32([0, 1]), 10).reshape(-1, 1, 1, 1)
    data = jaxrob.Dataset(images, np.zeros(20, int))
    given = data, NOTHING, jaxrob.Classifier(apply, None)
    with pytest.warns(jaxrob.RobustnessWarning, match="only 50.0% of the inputs"):
        result = assess(*given, strategy=ASAP, alpha=0.8)
    assert (result.values == 1).all()
    assert (result.curve.indecision == 0.5).all()
    assert (result.curve.with_unknown(None).accuracy == 0.5).all()


def unsure(most_sure):
    """A classifier that is right, and less sure the higher the level."""

    def apply(variables, images):
        limit, level = images[:, 0, 0, 0], images[:, 0, 0, 1]
        right = jnp.round(limit * NUM_IMAGES - 1).astype(int) % 2
        sure = jnp.clip(most_sure * limit - level, 0, 0.5)
        return 0.5 + sure[:, None] * (2 * jax.nn.one_hot(right, 2) - 1)

    return jaxrob.Classifier(apply, None, outputs="probabilities")


def assess_unsure(most_sure, strategy=ELEVEN, **settings):
    settings |= {"strategy": strategy, "alpha": 0.9}
    return assess(classifier=unsure(most_sure), **settings)


def test_robustness_is_not_known_where_nothing_is_decided():
    with pytest.warns(jaxrob.RobustnessWarning, match="no input is decided at level"):
        result = assess_unsure(1.0, strategy=strategies.Uniform(41))
    # What the paper defines stays: of no decided answers, all are right.
    assert result.curve.accuracy[-1] == 1 and result.decided_ratio[-1] == 0
    assert np.isnan(result.robustness) and result.lowest_decided_ratio == 0
    assert np.isnan(reporting.quantities(result)["robustness"])
    assert "undecided" in reporting.table([result])
    after = jaxrob.Assessment.from_json(result.to_json())
    assert np.isnan(after.robustness) and after.warnings == result.warnings
    assert len(result.warnings) == 1
    # Unknown answers count against the effectiveness: that is known.
    effective = assess_unsure(1.0, ASAP, measure="effectiveness", threshold=0.3)
    assert effective.robustness < 1 and effective.warnings == ()
    # A comparison with it says nothing, and says so.
    found = jaxrob.compare(result, result)
    assert np.isnan(found.difference) and found.confidence_interval == (-1, 1)
    # Scores of levels are no better known.
    with pytest.warns(jaxrob.RobustnessWarning):
        scored = assess_unsure(1.0, tolerance="linear", strategy=strategies.Uniform(5))
    assert np.isnan(scored.robustness)


def test_three_quarters_decided_are_the_least_without_a_warning():
    with pytest.warns(jaxrob.RobustnessWarning, match="only 65.0% of the inputs"):
        few = assess_unsure(4.2)
    assert few.robustness == 1 and few.lowest_decided_ratio == 0.65
    assert "65.0%" in reporting.table([few])
    some = assess_unsure(8.0)
    assert some.robustness == 1 and some.warnings == ()
    assert (
        reporting.quantities(some)["decided_ratio"] == some.lowest_decided_ratio > 0.75
    )


def test_each_line_says_of_how_many_images_it_is():
    some = assess_unsure(8.0)
    shares = [f"{some.decided_ratio[at]:.1%}" for at in (0, 10)]
    assert shares[0] > shares[1]
    row = reporting.table([some]).splitlines()[2]
    assert f" 1.0000 of {shares[0]} " in row
    counted = assess_unsure(8.0, measure="effectiveness", threshold=0.3)
    assert " of " not in reporting.table([counted]).splitlines()[2]
    needed = [reporting.requirement("robustness>=0.5", ["robustness"])]
    results = reporting.Results("net", None, (some,), requirements=needed)
    page = reporting.to_markdown([results])
    share = f"{some.lowest_decided_ratio:.1%}".replace("%", " %")
    assert f"where levels are accepted, {share} or more" in page
    assert "100.0 % of the 94.5 % decided" in page


@pytest.mark.parametrize(
    "required, measure, warns",
    [
        (["robustness"], "accuracy", True),
        (["robustness.low"], "accuracy", True),
        (["robustness", "decided_ratio"], "accuracy", False),
        (["decided_ratio"], "accuracy", False),
        ([], "accuracy", False),
        (["robustness"], "effectiveness", False),
    ],
)
def test_a_gate_that_passes_what_declines_warns(required, measure, warns):
    levels = strategies.Uniform(2)
    one = assess_unsure(8.0, measure=measure, threshold=0.3, strategy=levels)
    needed = [reporting.Requirement(name, 0.5) for name in required]
    text = 'Require "decided_ratio>=0.9"'
    warned = pytest.warns(jaxrob.RobustnessWarning, match=text)
    with warned if warns else contextlib.nullcontext():
        reporting.unmet(needed, {"dim": one})
    plain = dataclasses.replace(one, curve=one.curve.with_unknown(None))
    reporting.unmet(needed, {"dim": plain})


@pytest.mark.parametrize(
    "image, level, said",
    [
        (5, 0.0, "The image is unknown unaltered."),
        # 1 - 4 s**2 is above 0.1 where s, 8 * 0.15 - level, is below 0.474.
        (29, 0.8, "The image is unknown first at 0.8 (not yet at 0.7)."),
        (199, np.nan, "The image is unknown at no level that was looked at."),
    ],
)
def test_where_one_image_is_unknown_first(image, level, said):
    settings = {"measure": "effectiveness", "threshold": 0.0}
    result = assess_unsure(8.0, dataset=DATASET[image : image + 1], **settings)
    np.testing.assert_allclose(result.first_unknown_level, [level])
    page = reporting.to_markdown([reporting.Results(None, None, (result,))])
    assert said in page
