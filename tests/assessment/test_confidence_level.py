"""The confidence level that is asked for: intervals, documents, words."""

import pytest

import jaxrob
from jaxrob import metrics, reporting, strategies
from jaxrob.metrics._bootstrap import num_resamples

from .documents import assert_refused, put
from .test_few import assess
from .test_serialization import assessment


@pytest.mark.slow
def test_the_interval_is_of_the_level_asked_for():
    even = strategies.Uniform(41)
    usual, sure = (assess(strategy=even, confidence_level=c) for c in (0.95, 0.999))
    expected = metrics.confidence_interval(
        sure.levels, sure.curve.confusion, "accuracy", 0.7, 0.999, bounds=(0, 1)
    )
    low, high = sure.confidence_interval
    assert (low, high) == pytest.approx(expected)
    assert low <= usual.confidence_interval.low < usual.confidence_interval.high < high
    read = jaxrob.Assessment.from_json(sure.to_json())
    assert read.confidence_level == 0.999
    assert read.confidence_interval == sure.confidence_interval


def test_words_say_the_level():
    sure = assessment(confidence_level=0.999)
    for text in (
        reporting.table([sure]),
        reporting.to_markdown([reporting.Results("net", None, (sure,))]),
    ):
        assert "99.9 % interval" in text and "95 %" not in text


@pytest.mark.slow
def test_few_images_err_as_seldom_as_asked():
    levels = (0.95, 0.999)
    usual, sure = (assess(half_width=0.1, confidence_level=one) for one in levels)
    assert (usual.sampling.error, sure.sampling.error) == pytest.approx((0.05, 0.001))
    assert sure.evaluations >= usual.evaluations


def test_the_level_lies_below_1():
    text = assessment().to_json()
    assert_refused(text, put("confidence_level", 1.0), "confidence_level")


def test_the_highest_level_that_a_message_names_is_taken():
    assert num_resamples(0.9999) == 500_000
    with pytest.raises(ValueError, match=r"at most 0\.9999 .*; got 0\.99999"):
        num_resamples(0.99999)
