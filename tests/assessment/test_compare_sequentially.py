"""Sequential comparisons of classifiers whose accuracy is known."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob._assessment.compare import Comparison
from jaxrob._assessment.compare_sequentially import SequentialComparison
from jaxrob.strategies import FewImages

from .documents import assert_refused, put
from .test_few import DIM, assess, dataset_of
from .test_serialization import assessment

NUM_IMAGES = 3000
LIMITS = np.random.default_rng(5).permutation(NUM_IMAGES) / NUM_IMAGES * 4 / 3
LABELS = np.random.default_rng(6).integers(0, 2, NUM_IMAGES)
# Of another network, which fails on much the same images.
OTHERS = np.clip(LIMITS * np.random.default_rng(7).uniform(0.7, 1.5, NUM_IMAGES), 0, 2)
DATASET = dataset_of(LIMITS, LABELS, OTHERS / 2)


def apply(strength, images):
    limit, level, label = (images[:, 0, 0, i] for i in range(3))
    answer = jnp.where(2 * strength * limit >= level, label, 1 - label)
    return 8 * jax.nn.one_hot(answer.astype(int), 2)


def classifier(strength):
    """Right at levels below `strength` times an image's limit: 1 - 3/4 level / it."""
    return jaxrob.Classifier(apply, np.float32(strength))


def compare(first, second, seed=0, **settings):
    settings = {"threshold": 0.7, "key": jax.random.key(seed)} | settings
    return jaxrob.compare_sequentially(
        classifier(first), classifier(second), DATASET, DIM, **settings
    )


@functools.cache
def usual():
    return compare(1.0, 1.25)


def test_the_better_one_is_found_from_few_images():
    for found, truth in ((usual(), -0.1), (compare(1.5, 0.5), 0.4)):
        assert found.is_certain
        assert (found.difference > 0) == (truth > 0)
        assert found.dataset_interval.low <= truth <= found.dataset_interval.high
        statuses = {found.first.sampling.status, found.second.sampling.status}
        assert statuses <= {"compared", "precise"}
    whole = jaxrob.assess(classifier(1.0), DATASET, DIM, 0.7)
    assert usual().evaluations < 0.4 * 2 * whole.evaluations


def other_network(variables, images):
    """Right at levels below an image's other limit."""
    limit, level, label = (images[:, 0, 0, i] for i in (3, 1, 2))
    answer = jnp.where(2 * limit >= level, label, 1 - label)
    return 8 * jax.nn.one_hot(answer.astype(int), 2)


@pytest.mark.slow
def test_the_difference_of_networks_that_fail_alike_is_known_better_than_both():
    levels = (np.arange(2000) + 0.5) / 2000
    shares = [(one[:, None] >= levels).mean(axis=0) for one in (LIMITS, OTHERS)]
    truth = float(np.subtract(*(np.mean(share >= 0.7) for share in shares)))
    first, second = classifier(1.0), jaxrob.Classifier(other_network)
    how = {"strategy": FewImages(half_width=0.03), "key": jax.random.key(0)}
    found = jaxrob.compare_sequentially(first, second, DATASET, DIM, 0.7, **how)
    low, high = found.dataset_interval
    assert low - 1 / 1024 <= truth <= high + 1 / 1024
    assert found.is_certain or high - low <= 0.06
    ends = [one.dataset_interval for one in (found.first, found.second)]
    assert high - low < 0.9 * sum(one.high - one.low for one in ends)


def test_equal_ones_end_at_the_half_width():
    found = compare(1.0, 1.0, strategy=FewImages(half_width=0.04))
    low, high = found.dataset_interval
    assert not found.is_certain and low <= 0 <= high
    assert high - low <= 0.08
    assert found.first.sampling.evaluations == found.second.sampling.evaluations


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"strategy": FewImages(half_width=0)}, "half_width"),
        ({"strategy": FewImages(half_width=0.1, curtail=True)}, "curtail"),
        ({"confidence_level": 1}, "confidence_level"),
        ({"measure": "f1"}, "measure"),
        ({"strategy": jaxrob.strategies.ASAP()}, "strategy"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_what_does_not_go_is_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare(1.0, 1.2, **settings)


def test_labels_are_needed():
    unlabelled = jaxrob.Dataset(DATASET.images)
    with pytest.raises(ValueError, match="dataset must have labels"):
        jaxrob.compare_sequentially(classifier(1.0), classifier(2.0), unlabelled, DIM)


def test_a_surer_difference_takes_more_images():
    sure = compare(1.0, 1.25, confidence_level=0.9999)
    assert sure.is_certain and sure.evaluations > usual().evaluations
    assert sure.first.confidence_level == sure.second.confidence_level == 0.9999


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_each_keeps_what_was_warned_of_it():
    captured = np.ones(2000, np.float32)

    def capturing(variables, images):
        return apply(variables, images) * jnp.asarray(captured).mean()

    first = jaxrob.Classifier(capturing, np.float32(1.0))
    brighter = jaxrob.Alteration("bright", DIM.fn, 0.0, 1.2)
    each = jaxrob.compare_sequentially(first, classifier(1.25), DATASET[:100], brighter)
    number = [
        {key: sum(key in one for one in result.warnings) for key in ("captures", "[0")}
        for result in each[3:]
    ]
    assert number == [{"captures": 1, "[0": 1}, {"captures": 0, "[0": 1}]


@pytest.fixture(scope="module")
def early():
    """Of two networks, from few images."""
    first, second = assess(half_width=0.1), assess(budget=3000)
    low = first.dataset_interval.low - second.dataset_interval.high
    high = first.dataset_interval.high - second.dataset_interval.low
    difference = first.robustness - second.robustness
    interval = jaxrob.metrics.ConfidenceInterval(low, high)
    return SequentialComparison(
        difference, interval, low > 0 or high < 0, first, second
    )


@pytest.fixture(scope="module")
def compared():
    provenance = assessment().provenance | {"classifier": "0a"}
    return jaxrob.compare(assessment(), assessment(alpha=0.6, provenance=provenance))


def test_a_comparison_comes_back(compared):
    before = compared
    text = before.to_json()
    json.loads(text, parse_constant=pytest.fail)
    after = Comparison.from_json(text)
    for field in dataclasses.fields(Comparison):
        one, other = (getattr(each, field.name) for each in (before, after))
        np.testing.assert_array_equal(one, other, strict=True)
    assert after.to_json() == text == Comparison.from_json(text.encode()).to_json()
    unknown = dataclasses.replace(before, difference=np.nan, p_value=np.nan)
    assert np.isnan(Comparison.from_json(unknown.to_json()).difference)


@pytest.mark.slow
def test_a_sequential_comparison_comes_back(early):
    text = early.to_json()
    after = SequentialComparison.from_json(text)
    assert after.to_json() == text
    assert after[:3] == early[:3] and after.evaluations == early.evaluations
    assert json.loads(text)["first"] == json.loads(early.first.to_json())


# By name: a change, and what names it.
IMPLAUSIBLE = {
    "format": (put("format", "jaxrob assessment 1"), "format"),
    "p-value": (put("p_value", 1.5), "p_value"),
    "difference": (put("difference", -1.5), "difference must lie in"),
    "interval": (put("mean_interval", [0.5, -0.5]), "mean_interval must ascend"),
    "interval of one": (put("mean_interval", [0.5]), "mean_interval"),
    "end of an interval": (put("mean_interval", 1, 2), r"mean_interval\[1\]"),
    "fewer levels": (put("levels", lambda some: some[1:]), "S = 4"),
    "band of three": (put("level_band", 0, [0, 0, 0]), "level_band"),
    "confidence": (put("confidence_level", 1), "confidence_level"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(compared, name):
    assert_refused(compared.to_json(), *IMPLAUSIBLE[name], Comparison.from_json)


def test_an_edit_is_named(compared, early):
    text, read = compared.to_json(), Comparison.from_json
    assert_refused(text, put("p_value", 0.001), "not what was written", read)
    for change, message in (
        (put("first", "unit", "px"), "^first is not what was written"),
        (put("second", "sampling", "seen", 0, -1), "^second.sampling.seen"),
        (put("is_certain", lambda old: not old), "^the text is not what was"),
        (put("beauty", 1), "unknown parts: .'beauty'"),
    ):
        read = SequentialComparison.from_json
        assert_refused(early.to_json(), change, message, read)
