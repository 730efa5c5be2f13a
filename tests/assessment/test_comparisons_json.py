"""Comparisons as JSON, and back."""

import dataclasses
import json

import numpy as np
import pytest

import jaxrob
from jaxrob._assessment.compare import Comparison
from jaxrob._assessment.compare_sequentially import SequentialComparison

from .documents import assert_refused, put
from .test_few import assess
from .test_serialization import assessment


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
    other = assessment(alpha=0.6, provenance=provenance)
    return jaxrob.compare(assessment(), other)


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
