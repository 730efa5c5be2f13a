"""Assessments from classifiers whose accuracy is known in closed form."""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import Tolerance, alterations, reporting, strategies
from jaxrob.metrics import RULES

from .test_few import DIM

NUM_IMAGES = 200
LINEAR = Tolerance("linear")
# Image n is right at levels up to its limit.
LIMITS = (np.arange(NUM_IMAGES) + 1) / NUM_IMAGES


DATASET = jaxrob.Dataset(
    np.float32(np.stack([LIMITS, 0 * LIMITS], axis=-1))[:, None, None],
    np.arange(NUM_IMAGES) % 2,
)
NOTHING = jaxrob.Alteration("nothing", lambda image, level: image, -0.9, 0.9, 0.0)
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
    return np.mean(LIMITS + 1e-6 > level)


def test_robustness_is_the_share_of_accepted_levels():
    levels = np.linspace(0, 1, 41)
    accuracy = np.array([exact_accuracy(level) for level in levels])
    for threshold in (0.0, 0.5, 1.0):
        result = assess(threshold=threshold)
        np.testing.assert_array_equal(result.values, accuracy)
        assert result.robustness == np.mean(accuracy >= threshold)
    # A value on the threshold is accepted: up to level 0.2, 161 of 200 are right.
    assert assess(threshold=161 / 200).robustness == 9 / 41


def test_rules_are_the_strategy_s_own_or_as_asked():
    assert assess().rule == "count"
    right = assess(rule="right", threshold=0.5)
    # The interval before each accepted level but the first counts.
    accepted = np.linspace(0, 1, 41)[1:] <= 0.505
    assert right.robustness == pytest.approx(np.sum(accepted) / 40)
    linear = assess(rule="linear", threshold=0.5)
    assert linear.robustness == pytest.approx(0.505, abs=0.0051)


def test_per_class_is_the_robustness_of_the_class_alone():
    result = assess(threshold=0.6)
    for k, found in enumerate(result.robustness_per_class):
        accuracy = (LIMITS[DATASET.labels == k] + 1e-6 > result.levels[:, None]).mean(1)
        assert found == np.mean(accuracy >= 0.6)


def test_first_failing_level_of_each_image():
    result = assess(strategy=strategies.Uniform(41))
    levels = np.append(result.levels, np.nan)
    expected = levels[np.searchsorted(result.levels, LIMITS + 1e-6)]
    np.testing.assert_array_equal(result.first_failing_level, expected)
    reduced = assess(strategy=strategies.Uniform(41), reduced=True)
    assert reduced.robustness == result.robustness
    np.testing.assert_array_equal(reduced.values, result.values)


@pytest.mark.slow
def test_several_alterations_share_each_pass_over_the_data():
    several = [DIM, jaxrob.Alteration("slow", DIM.fn, 0.0, 0.5), NOTHING]
    batches = Batches()
    data = jaxrob.Dataset.from_batches(batches, channels_first=False)
    together = assess(data, several, strategy=ASAP)
    assert [result.alteration for result in together] == ["dim", "slow", "nothing"]
    assert together[2].robustness == 1.0
    rounds = max(result.diagnostics.rounds for result in together)
    assert {result.diagnostics.rounds for result in together} != {rounds}
    # Beside the rounds: the look at the first image and the fingerprint.
    first_looks = batches.passes - rounds
    assert first_looks <= 2 + rounds
    alone = assess(strategy=ASAP)
    assert together[0].robustness == alone.robustness
    assert together[0].diagnostics == alone.diagnostics
    np.testing.assert_array_equal(together[0].levels, alone.levels)
    np.testing.assert_array_equal(together[0].curve.predicted, alone.curve.predicted)
    # The pixels are those of the array, too.
    assert together[0].provenance["dataset"] == alone.provenance["dataset"]


def test_one_progress_bar_for_all_alterations(capfd):
    assess(alteration=[DIM, NOTHING], strategy=ASAP)
    assert capfd.readouterr().err == ""
    results = assess(alteration=[DIM, NOTHING], strategy=ASAP, progress=True)
    shown = capfd.readouterr().err
    total = NUM_IMAGES * sum(result.diagnostics.points for result in results)
    assert shown.count("2 alterations: 100%") >= 1
    assert f"{total / 1000:.2f}k/{total / 1000:.2f}k" in shown
    assert shown.count("\n") == 1


def test_the_interval_holds_the_robustness_and_narrows_with_the_images():
    result = assess(strategy=ASAP)
    more = jaxrob.ReducedCurve(result.levels, 9 * result.curve.confusion)
    widths = []
    for one in (result, dataclasses.replace(result, curve=more)):
        low, high = one.confidence_interval
        assert low <= one.robustness == result.robustness <= high
        widths.append(high - low)
    # As the square root of their number.
    assert widths[1] / widths[0] == pytest.approx(1 / 3, rel=0.35)


def test_strategies_that_leave_out_the_ends():
    strategy = strategies.Random(50, seed=3)
    result = assess(strategy=strategy, threshold=0.5)
    assert result.rule == strategy.rule and result.error_bound is None
    # All that counts levels gets each of them once.
    assert result.diagnostics.points == len(np.unique(result.levels))
    assert result.robustness == pytest.approx(0.505, abs=0.15)
    low, high = result.confidence_interval
    assert low <= 0.505 <= high


def test_linear_tolerance_is_the_mean_of_the_scaled_accuracy():
    # The accuracy is 1 - level: with a threshold of 0.5 and x_max 1 the tolerance is
    # 1 - 2 level up to 0.5; its mean is a quarter, and nothing is penalized.
    result = assess(
        tolerance=Tolerance("linear", lambda value, threshold: 0.0),
        threshold=0.5,
        strategy=strategies.Uniform(101),
    )
    assert result.robustness == pytest.approx(0.5 + 0.25 / 2, abs=4e-3)
    assert result.rule == "trapezoid" and result.error_bound is None
    low, high = result.confidence_interval
    assert low < result.robustness < high < low + 0.2
    settings = {"threshold": 0.5, "strategy": strategies.Uniform(101)}
    linear = assess(tolerance=Tolerance("linear", "linear"), **settings)
    assert linear.robustness == pytest.approx(0.5, abs=6e-3)


def test_levels_count_by_their_probability():
    import numpyro  # Seconds, for this alone.

    settings = {"threshold": 0.7, "strategy": strategies.Uniform(201)}
    distribution = numpyro.distributions.Uniform(np.float32(0.0), 0.5)
    result = assess(tolerance=Tolerance(None, None, distribution), **settings)
    # The last accepted level stands for those up to 0.3075.
    assert result.robustness == pytest.approx(0.3075 / 0.5, abs=0.001)
    assert "level_distribution=Uniform(" in result.scores.settings
    again = jaxrob.Assessment.from_json(result.to_json())
    assert again.robustness == result.robustness
    assert again.confidence_interval == result.confidence_interval
    assert result.robustness_per_class is None
    elsewhere = numpyro.distributions.Uniform(5.0, 6.0)
    with pytest.raises(ValueError, match="distribution"):
        assess(tolerance=Tolerance(None, None, elsewhere))


def test_the_nominal_value_is_that_of_the_identity_though_no_strategy_looks_there():
    below = jaxrob.Alteration("dim", DIM.fn, -0.5, 1.0, 0.0)
    # Below 0 all are right but the value must be that at 0.
    settings = {"strategy": strategies.Uniform(2), "threshold": 0.0}
    with pytest.warns(jaxrob.RobustnessWarning, match=r"leaves \[0, 1\]"):
        result = assess(alteration=below, tolerance=LINEAR, **settings)
    assert result.diagnostics.points == 3 and len(result.levels) == 2
    assert "nominal=1.0" in result.scores.settings


def test_the_identity_is_met_although_ends_and_grids_round():
    lower = 0.3 - 0.1 - 0.2
    assert lower != 0
    nearly = jaxrob.Alteration("dim", DIM.fn, lower, 1.0, 0.0)
    first, second = assess(alteration=[nearly, NOTHING], strategy=ELEVEN)
    assert first.levels[0] == 0.0 and 0.0 in second.levels


class Halving:
    """A strategy that refines: what it proposes depends on what it received."""

    rule = "right"
    rules = RULES

    def __init__(self):
        self.calls = []

    def init(self, task):
        return strategies.History()

    def ask(self, task, state, history):
        return self.asked(task, history), history

    def asked(self, task, history):
        self.calls.append(history)
        levels, values = history.levels, history.values
        if not len(levels):
            return strategies.all_images([task.lower, task.upper])
        crossing = np.flatnonzero((values[1:] >= 0.5) != (values[:-1] >= 0.5))
        left, right = levels[crossing], levels[crossing + 1]
        return strategies.all_images((left + right)[right - left > 1 / 64] / 2)

    def result(self, task, state):
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
        # Half of them each, so that nothing is said of one class.
        return np.eye(2, dtype=np.float32)[(images[:, 0, 0, 0] > 0.5).astype(int)]

    class Again(Halving):
        rule = "count"

        def asked(self, task, history):
            # Overlaps itself, and levels of the same effect; at last of these alone.
            asked = {0: np.linspace(0, 10, 21), 21: np.linspace(0, 20, 21), 31: [0.7]}
            return strategies.all_images(asked.get(len(history.levels), []))

    on_host = jaxrob.Classifier.from_host(predict, 2, "scores")
    coarse = jaxrob.Alteration("coarse", NOTHING.fn, 0.0, 20.0, resolution=1.0)
    about = {"alteration": coarse, "classifier": on_host, "threshold": 0.3}
    result = assess(strategy=Again(), **about)
    assert len(result.levels) == 32 and result.diagnostics.rounds == 2
    assert result.diagnostics.points == 21
    # Of one level 64 images alone, among 64 others, and as bytes.
    assert sum(seen) == NUM_IMAGES * 21 + 4 * 64


class Inside(Halving):
    rule = "count"

    def asked(self, task, history):
        return [] if len(history.levels) else strategies.all_images([0.4, 0.6])


class Nothing(Inside):
    def asked(self, task, history):
        return []


class WithoutResult:
    rule = "count"
    init = ask = None


WRONG = [
    ({"threshold": 1.2}, ValueError, "threshold"),
    ({"measure": "auc"}, ValueError, "measure"),
    ({"rule": "left"}, ValueError, "rule"),
    ({"strategy": ASAP, "rule": "count"}, ValueError, "rule"),
    ({"alpha": 0.5}, ValueError, "alpha needs uncertainties"),
    ({"alpha": 0.5, "reduced": True}, ValueError, "reduced"),
    ({"tolerance": LINEAR, "rule": "right"}, ValueError, "rule does not go"),
    ({"tolerance": Tolerance("quadratic")}, ValueError, "tolerance"),
    ({"confidence_level": 1}, ValueError, "confidence_level"),
    ({"alteration": []}, ValueError, "empty"),
    ({"alteration": [DIM, "blur"]}, TypeError, "of type str at 1"),
    ({"alteration": "blur"}, TypeError, "sequence"),
    ({"classifier": "x"}, TypeError, "classifier"),
    ({"dataset": (1, 2)}, TypeError, "dataset"),
    ({"key": 0}, TypeError, "key"),
    ({"strategy": 41}, TypeError, "strategy must be one of jaxrob.strategies"),
    ({"strategy": strategies.Uniform}, TypeError, "the class Uniform"),
    ({"strategy": WithoutResult()}, TypeError, "WithoutResult lacks result, rules"),
    ({"strategy": Nothing()}, ValueError, "no level to begin with"),
]


@pytest.mark.parametrize(("wrong", "error", "named"), WRONG)
def test_wrong_arguments_are_named(wrong, error, named):
    with pytest.raises(error, match=named):
        assess(**wrong)


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
    with pytest.raises(ValueError, match="the same on every pass; batch 0"):
        assess(loader, threshold=0.5, strategy=Halving())


def test_an_integral_needs_both_ends_of_the_range():
    assert assess(strategy=Inside(), threshold=0.5).robustness == 0.5
    for rule in ("right", "linear"):
        with pytest.raises(ValueError, match="both ends of the range"):
            assess(strategy=Inside(), rule=rule)


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


def unsure(most_sure, images):
    """Right, and less sure the higher the level."""
    limit, level = images[:, 0, 0, 0], images[:, 0, 0, 1]
    right = jnp.round(limit * NUM_IMAGES - 1).astype(int) % 2
    sure = jnp.clip(most_sure * limit - level, 0, 0.5)
    return 0.5 + sure[:, None] * (2 * jax.nn.one_hot(right, 2) - 1)


@functools.cache
def assess_unsure(most_sure, strategy=ELEVEN, **settings):
    network = jaxrob.Classifier(unsure, np.float32(most_sure), outputs="probabilities")
    settings |= {"strategy": strategy, "alpha": 0.9}
    return assess(classifier=network, **settings)


def test_robustness_is_not_known_where_nothing_is_decided():
    with pytest.warns(jaxrob.RobustnessWarning, match="no input is decided"):
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
        scored = assess_unsure(1.0, tolerance=LINEAR, strategy=strategies.Uniform(5))
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
    assert f" 1.0000 of {shares[0]} " in reporting.table([some]).splitlines()[2]
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
        (["robustness.low"], "accuracy", True),
        (["robustness", "decided_ratio"], "accuracy", False),
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


def test_where_images_are_unknown_first():
    whole = assess_unsure(8.0, measure="effectiveness", threshold=0.3)
    # 1 - 4 s**2 is above 0.1 where s, 8 * 0.15 - level, is below 0.474.
    found = whole.first_unknown_level[[5, 29, 199]]
    assert found == pytest.approx([0.0, 0.8, np.nan], nan_ok=True)
