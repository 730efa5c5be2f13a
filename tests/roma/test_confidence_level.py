"""The confidence level that RoMA is asked for: intervals, documents, words."""

import numpy as np
import pytest
from scipy import special, stats

from jaxrob.roma import RomaResult, assess, compare_categories
from jaxrob.roma._draws import counted
from jaxrob.roma._estimate import unknown, with_estimates, with_second_opinion

from .test_few_inputs import SETTINGS, classifier, images  # noqa: F401 (fixtures)

LABELS = np.arange(400) % 2


def asked(classifier, images, level, **settings):  # noqa: F811
    settings = SETTINGS | {"estimator": "count"} | settings
    return assess(classifier, images, LABELS, confidence_level=level, **settings)


@pytest.fixture(scope="module")
def sure(classifier, images):  # noqa: F811
    return asked(classifier, images, 0.999)


@pytest.mark.slow
def test_counts_have_exact_intervals_of_the_level(sure):
    assert sure.confidence_level == 0.999
    for index in (0, int(np.argmax(sure.hits))):
        hits = int(sure.hits[index])
        expected = stats.binomtest(hits, 60).proportion_ci(0.999, "exact")
        found = 1 - sure.confidence_interval[index][::-1]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_documents_hold_the_level(sure):
    read = RomaResult.from_json(sure.to_json())
    assert read.confidence_level == 0.999
    found = read.categorial()
    assert found.confidence_level == 0.999
    np.testing.assert_array_equal(found.interval, sure.categorial().interval)
    for value in (0.95, 1, None):
        with pytest.raises(ValueError, match="confidence_level|written"):
            RomaResult.from_json(changed(sure, value))


def changed(result, level):
    text = result.to_json()
    assert text.count('"confidence_level": 0.999') == 1
    written = {None: "null"}.get(level, str(level))
    return text.replace('"confidence_level": 0.999', f'"confidence_level": {written}')


def test_a_journal_of_another_level_is_refused(classifier, images, tmp_path):  # noqa: F811
    journal = tmp_path / "journal"
    asked(classifier, images, 0.95, journal=journal)
    with pytest.raises(ValueError, match="confidence_level"):
        asked(classifier, images, 0.99, journal=journal)


@pytest.mark.slow
def test_a_surer_mean_takes_more_inputs(classifier, images):  # noqa: F811
    seen = []
    for level in (0.5, 0.999):
        found = asked(classifier, images, level, half_width=0.15)
        seen.append(found.seen.sum())
        low, high = found.categorial().inputs_interval.T
        assert (high - low <= 0.3).all()
    assert seen[0] < seen[1]


def test_means_are_of_the_level(sure):
    found = sure.categorial()
    usual = compare_categories(sure.plr, sure.hits, 60, sure.labels)
    assert (found.interval[:, 0] < usual.interval[:, 0]).all()
    assert (found.interval[:, 1] >= usual.interval[:, 1]).all()
    # The p-values are no intervals.
    np.testing.assert_array_equal(found.welch, usual.welch)
    population = sure.global_robustness("label", jointly=False)
    assert population.confidence_level == 0.999
    assert sure.global_robustness("label", confidence_level=0.9).confidence_level == 0.9


@pytest.mark.parametrize("level", [0.2, 0.999])
def test_estimates_have_intervals_of_the_level(level):
    z = special.ndtri((1 + level) / 2)
    first = unknown(2)._replace(
        status=np.full(2, "splitting"),
        log_probability=np.log([1e-5, 1e-5]),
        standard_error=np.full(2, 0.1),
    )
    second = unknown(2)._replace(
        other_log_probability=np.log([np.nan, 3e-5]), other_error=np.full(2, 0.2)
    )
    # What excludes each other leaves an interval that holds both.
    found = with_second_opinion(first, second, False, level)
    answers = with_estimates(counted(np.zeros(2, int), 9, level), [0, 1], found, level)
    np.testing.assert_allclose(answers.log_low, np.log(1e-5) - 0.1 * z)
    np.testing.assert_allclose(
        answers.log_high, np.log([1e-5, 3e-5]) + [0.1 * z, 0.2 * z]
    )


@pytest.mark.parametrize("level", [0, 1, np.nan, "0.95"])
def test_the_level_lies_between_0_and_1(classifier, images, level):  # noqa: F811
    with pytest.raises((ValueError, TypeError), match="confidence_level"):
        asked(classifier, images, level)
    with pytest.raises((ValueError, TypeError), match="confidence_level"):
        compare_categories(np.ones(3), None, 9, np.zeros(3, int), None, None, level)


@pytest.mark.parametrize("level", [1e-6, 1 - 1e-12])
def test_far_levels_are_finite(level):
    values = np.linspace(0, 1, 30)
    for place in (None, np.arange(30)):
        found = compare_categories(
            values, None, 9, np.arange(30) % 3, place=place, confidence_level=level
        )
        low, high = found.interval.T
        assert ((low >= 0) & (low <= found.plr) & (found.plr <= high)).all()
        assert (high <= 1).all()
