"""What tables and reports say of corruptions by severity."""

import dataclasses
import re

import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, reporting
from jaxrob.metrics import ALEXNET, ReferenceErrors
from jaxrob.reporting import table, to_markdown
from jaxrob.reporting._corruptions import corruptions

from . import reports as made

LEVELS = np.arange(6.0)
PLAIN = "mean error over 15 corruptions, severities 1 to 5"


def by_severity(name, answers):
    ends = {"lower": 0.0, "upper": 5.0, "unit": "severity"}
    return made.assessment(name=name, answers=answers, **ends)


def corruption(name, accuracies, num_classes=3, number=100):
    """Counts of images of class 0, of so many classes."""
    right = np.arange(number) < np.rint(np.array(accuracies) * number)[:, None]
    predicted, labels = (~right).astype(np.int16), np.zeros(number, np.int32)
    answers = jaxrob.Curve(LEVELS, predicted, None, None, labels, num_classes)
    return by_severity(name, answers.reduced())


def fifteen(num_classes=3):
    falling = [0.95, 0.9, 0.85, 0.75, 0.6, 0.4]
    return [corruption(name, falling, num_classes) for name in ALEXNET]


def test_assessments_stand_under_their_own_names():
    some = {one.alteration: one for one in fifteen()}
    assert metrics.mean_corruption_error(some, None).value == pytest.approx(0.3)
    swapped = some | {"fog": some["snow"]}
    with pytest.raises(ValueError, match="an assessment of 'snow' as 'fog'"):
        metrics.mean_corruption_error(swapped, None)
    stored = dataclasses.replace(some["fog"], alteration="fog followed by to bytes")
    metrics.mean_corruption_error(some | {"fog": stored}, None)


def sized(one, size):
    provenance = one.provenance | {"settings": {"size": size}}
    return dataclasses.replace(one, provenance=provenance)


def test_alexnets_errors_are_of_224_px():
    fog = corruption("fog", [0.9] * 6, 1000)
    assert metrics.corruption_error(sized(fog, 224), ALEXNET["fog"]).value < 1
    for size in (32, 299):
        other = sized(fog, size)
        with pytest.raises(ValueError, match="224 px"):
            metrics.corruption_error(other, ALEXNET["fog"])
        metrics.corruption_error(other, ReferenceErrors(0.4, 0.8))
        with pytest.raises(ValueError, match="size"):
            metrics.corruption_error(other, sized(fog, 64))
        found = corruptions([other])
        assert found.mce is None and found.rows[0].relative_to_alexnet is None
    assert corruptions([sized(fog, 224)]).rows[0].relative_to_alexnet is not None


def both(assessments):
    return made.both([made.results(assessments, class_names=None)])


def test_mean_error_and_failing_severity():
    # (.1 + .15 + .25 + .4 + .6) / 5; 80 % is crossed in the middle of 2 and 3.
    assert f"{PLAIN}: 30.0 % (a curve keeps only counts" in table(fifteen())
    text = reporting.to_html([made.results(fifteen(), class_names=None)])
    assert PLAIN in text and "30.0 %" in text and "AlexNet" not in text
    assert len(re.findall(r"2\.50, [\d.]+ to [\d.]+", text)) == 15
    (row, *_) = reporting.to_frame(fifteen()).to_dict("records")
    assert row["corruption_error"] == pytest.approx(0.3) and row["mce"] is None
    # Fourteen are not averaged.
    some = [one for one in fifteen() if one.alteration != "frost"]
    assert f"{PLAIN}: not known (curves must hold all 15" in table(some)
    text = to_markdown([made.results(some, class_names=None)])
    assert "frost is missing" in text and "30.0 %" in text


def test_intervals_are_of_the_level_asked_for():
    one = fifteen()[0]
    sure = dataclasses.replace(one, confidence_level=0.999)
    usual, surer = (corruptions([each]).rows[0].fails_at for each in (one, sure))
    assert surer.confidence_interval.low < usual.confidence_interval.low
    assert usual.confidence_interval.high < surer.confidence_interval.high
    text = to_markdown([reporting.Results("net", None, (sure,))])
    assert "Intervals are of 99.9 %." in text and "95 %" not in text
