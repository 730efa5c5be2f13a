"""What tables and reports say of corruptions by severity."""

import dataclasses
import math
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
    right = np.rint(np.array(accuracies) * number).astype(int)
    confusion = np.zeros((6, num_classes, num_classes + 1), int)
    confusion[:, 0, 0], confusion[:, 0, 1] = right, number - right
    return by_severity(name, jaxrob.ReducedCurve(LEVELS, confusion))


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
        with pytest.raises(ValueError, match=r"those for .* and for .* px.*224 px"):
            metrics.corruption_error(other, ALEXNET["fog"])
        metrics.corruption_error(other, ReferenceErrors(0.4, 0.8))
        with pytest.raises(ValueError, match="for one size"):
            metrics.corruption_error(other, sized(fog, 64))
        found = corruptions([other])
        assert found.mce is None and found.rows[0].relative_to_alexnet is None
    assert corruptions([sized(fog, 224)]).rows[0].relative_to_alexnet is not None


def both(assessments):
    return made.both([made.results(assessments, class_names=None)])


def test_mean_error_and_failing_severity():
    # (.1 + .15 + .25 + .4 + .6) / 5; 80 % is crossed in the middle of 2 and 3.
    assert f"{PLAIN}: 30.0 % (a curve keeps only counts" in table(fifteen())
    for text in both(fifteen()):
        assert PLAIN in text and "30.0 %" in text and "AlexNet" not in text
        assert len(re.findall(r"2\.50, [\d.]+ to [\d.]+", text)) == 15


@pytest.mark.slow
def test_intervals_are_of_the_level_asked_for():
    usual = corruptions(fifteen())
    some = [dataclasses.replace(one, confidence_level=0.999) for one in fifteen()]
    sure = corruptions(some)
    for one, surer in zip(usual.rows, sure.rows):
        low, high = one.fails_at.confidence_interval
        lower, higher = surer.fails_at.confidence_interval
        assert lower < low and high < higher
    text = to_markdown([reporting.Results("net", None, tuple(some))])
    assert "Intervals are of 99.9 %." in text and "95 %" not in text


def test_mce_is_of_1000_classes_alone():
    some = fifteen(1000)
    expected = np.mean([0.3 / one.corrupted for one in ALEXNET.values()])
    assert (
        f"mCE, relative to AlexNet's errors on ImageNet-C: {100 * expected:.1f} %"
        in (table(some))
    )
    # brightness, with the highest of the errors relative to AlexNet's.
    html, markdown = both(some[10:11])
    assert f"{30 / 0.565:.1f} %" in html and f"{30 / 0.565:.1f} %" in markdown


def test_fourteen_are_not_averaged():
    some = [one for one in fifteen() if one.alteration != "frost"]
    assert f"{PLAIN}: not known (curves must hold all 15" in table(some)
    for text in both(some):
        assert "frost is missing" in text and "30.0 %" in text


def test_nothing_is_said_of_means_that_nobody_asked_for():
    some = fifteen(1000)[10:13]
    assert "15 corruptions" not in table(some) and "mCE" not in table(some)
    for text in both(some):
        assert "15 corruptions" not in text and "mCE" not in text
        assert "relative to AlexNet" in text


def test_levels_that_are_not_there_are_said():
    levels = np.array([0.0, 2.5, 5.0])
    answers = made.curve(np.full(60, 9.0), levels=levels)
    for text in both([by_severity("fog", answers)]):
        assert "not known" in text and "beyond 5" in text


def test_other_alterations_have_no_such_part():
    assert "corruptions" not in table([made.assessment()])
    for text in both([made.assessment()]):
        assert "Common corruptions" not in text


def test_intervals_are_of_the_images():
    limits = 5 * (np.arange(60) % 20) / 20
    answers = made.curve(limits, levels=LEVELS)
    some = [by_severity(name, answers) for name in ALEXNET]
    (line,) = (one for one in table(some).split("\n") if one.startswith(PLAIN))
    mean, low, high = map(float, re.findall(r"[\d.]+(?= %|, | to)", line)[-3:])
    assert low < mean < high
    # Of 60 images a standard error of some points.
    assert 5 < high - low < 20 and not math.isnan(mean)
    assert mean == pytest.approx(100 * (1 - answers.accuracy[1:].mean()), abs=0.06)
