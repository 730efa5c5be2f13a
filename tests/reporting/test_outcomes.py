"""Requirements of one alteration and of all, and what is said of each."""

import dataclasses
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as drawn

from jaxrob import Curve, reporting
from jaxrob.metrics import ALEXNET, ConfidenceInterval
from jaxrob.reporting import Difference, Requirement, outcomes, requirement
from jaxrob.reporting._plan import requirement_text
from jaxrob.reporting._quantities import QUANTITIES

from . import reports as made

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "[a](http://example.org) | `b` | **c**",
    "bell\x07 null\x00 \x1b[31m \ufffe",
    "\u202eright to left",
    "a: b>=1: c",
    "]]> &amp; <!-- -->",
    "x" * 10_000,
    "x" * 5_000 + "y" + "x" * 4_999,
)


@settings(deadline=None, max_examples=30)
@given(
    quantity=drawn.sampled_from(
        [name for name, one in QUANTITIES.items() if one.of == "an alteration"]
    ),
    bound=drawn.floats(0, 1),
    at_most=drawn.booleans(),
    alteration=drawn.none() | drawn.text(min_size=1).map(str.strip).filter(bool),
)
def test_what_is_written_is_read_back(quantity, bound, at_most, alteration):
    sign = "<=" if at_most and not quantity.endswith(".low") else ">="
    one = Requirement(quantity, bound, sign, alteration)
    assert requirement(requirement_text(one), list(QUANTITIES)) == one


def by_subject(found):
    return {(one.subject, one.requirement.quantity): one.state for one in found}


def test_one_alteration_may_have_a_bound_of_its_own():
    good = made.assessment(np.full(60, 9.0), name="zoom")
    both = {"gaussian blur": made.assessment(), "zoom": good}
    asked = [
        Requirement("robustness", 0.1),
        Requirement("robustness", 0.9, ">=", "zoom"),
        Requirement("robustness", 0.9, "<=", "gaussian blur"),
    ]
    assert [one.subject for one in outcomes(asked, both)] == [
        *("gaussian blur", "gaussian blur"),
        *("zoom", "zoom"),
    ]
    assert reporting.unmet(asked, both) == []
    (line,) = reporting.unmet([Requirement("robustness", 0.9, "<=", "zoom")], both)
    assert line == "zoom: robustness is 1, at most 0.9 is required"


def test_what_was_not_measured_does_not_pass():
    asked = [
        Requirement("robustness", 0.0, ">=", "rotation"),
        Requirement("plr", 0.0),
        Requirement("mce", 9.0, "<="),
        Requirement("difference", -1.0),
    ]
    found = outcomes(asked, {"gaussian blur": made.assessment()})
    assert by_subject(found) == {
        ("rotation", "robustness"): "not shown",
        ("RoMA", "plr"): "not shown",
        ("all alterations", "mce"): "not shown",
        ("gaussian blur", "difference"): "not shown",
    }
    assert all(math.isnan(one.value.low) for one in found)
    assert "there is no earlier result" in found[0].words
    assert [one.state for one in outcomes(asked[:1], {})] == ["not shown"]


def test_accuracy_and_worst_class_are_the_lowest():
    """Twelve images of three classes; class 2 is right up to level 1, others always."""
    limits = np.where(np.arange(12) % 3 == 2, 1.0, 9.0)
    one = made.assessment(limits)
    found = reporting.quantities(one)
    assert found["accuracy"] == pytest.approx(8 / 12)
    assert found["worst_class"] == pytest.approx(one.robustness_per_class[2])
    assert found["worst_class"] < 0.5 < one.robustness_per_class[:2].min()
    # The measure may be another: the accuracy stays.
    other = dataclasses.replace(one, measure="f1")
    assert reporting.quantities(other)["accuracy"] == found["accuracy"]
    # Where nothing is decided it is not known.
    answers = made.curve(np.full(12, 9.0), uncertainty=0.9, alpha=0.5)
    found = reporting.quantities(made.assessment(answers=answers))
    assert math.isnan(found["accuracy"])


def difference(low, high, joint=None, name="gaussian blur"):
    interval = ConfidenceInterval(low, high)
    joint = interval if joint is None else ConfidenceInterval(*joint)
    return Difference(name, (low + high) / 2, interval, joint)


@pytest.mark.parametrize(
    ("bound", "sign", "state"),
    [
        (-0.03, ">=", "met"),
        (-0.02, ">=", "not shown"),
        (0.05, ">=", "not shown"),
        (0.07, ">=", "not met"),
        (0.04, "<=", "met"),
        (0.03, "<=", "not shown"),
        (-0.06, "<=", "not met"),
    ],
)
def test_a_difference_is_met_by_its_whole_interval(bound, sign, state):
    """It is missed only by the interval of simultaneous coverage."""
    asked = [Requirement("difference", bound, sign)]
    ones = {"gaussian blur": made.assessment()}
    (found,) = outcomes(asked, ones, [difference(-0.03, 0.04, (-0.05, 0.06))])
    assert found.state == state and found.value == (-0.03, 0.04)


def test_differences_are_those_of_compare():
    now, then = made.assessment(np.full(60, 2.0)), made.assessment()
    (alone,) = reporting.differences([now], [then])
    beside = reporting.differences([now], [made.assessment(name="zoom")])
    assert beside == ()
    assert alone.value == pytest.approx(now.robustness - then.robustness)
    assert alone.interval == alone.joint_interval
    pair = [now, dataclasses.replace(now, alteration="zoom")]
    old = [then, dataclasses.replace(then, alteration="zoom")]
    first, second = reporting.differences(pair, old)
    assert first.joint_interval.low <= first.interval.low
    assert first.interval.high <= first.joint_interval.high
    assert second.alteration == "zoom"
    # What cannot be compared is not known, and says why.
    (other,) = reporting.differences([now], [dataclasses.replace(then, threshold=0.3)])
    assert math.isnan(other.value) and "threshold" in other.reason


def test_mce_is_one_value_of_all():
    """Of 1,000 classes at severities 0 to 5, a share of 0.6 is wrong."""
    labels = np.arange(100, dtype=np.int32)
    predicted = np.where(labels < 60, labels + 1, labels).astype(np.int16)
    found = {}
    for name in ALEXNET:
        answers = np.tile(predicted, (6, 1))
        curve = Curve(np.arange(6.0), answers, None, None, labels, 1000)
        ends = {"unit": "severity", "upper": 5.0}
        found[name] = made.assessment(name=name, answers=curve, **ends)
    # Hendrycks and Dietterich (2019), equation of the CE: errors over AlexNet's.
    expected = float(np.mean([0.6 / one.corrupted for one in ALEXNET.values()]))
    asked = [
        Requirement("mce", expected + 0.01, "<="),
        Requirement("mce", expected - 0.01, "<="),
        Requirement("mce", expected - 0.01),
    ]
    states = {one.requirement: one.state for one in outcomes(asked, found)}
    assert [states[one] for one in asked] == ["met", "not met", "met"]
    few = dict(list(found.items())[:3])
    (one,) = outcomes(asked[:1], few)
    assert (one.subject, one.state) == ("all alterations", "not shown")
    assert "fifteen corruptions" in one.words


def test_a_folder_keeps_all_of_them(tmp_path):
    asked = (
        Requirement("robustness", 1 / 3),
        Requirement("mce", 1.25, "<="),
        Requirement("difference", -0.02, ">=", "gaussian blur"),
    )
    nan = ConfidenceInterval(math.nan, math.nan)
    differences = (
        difference(-0.03, 0.04, (-0.05, 0.06)),
        Difference("zoom", math.nan, nan, nan, "threshold"),
    )
    planned = reporting.PlannedAlteration(
        "gaussian_blur", 0.0, 4.0, requirements=(Requirement("worst_class", 0.5),)
    )
    results = made.results(
        requirements=asked,
        differences=differences,
        plan=made.plan(alterations=(planned,)),
    )
    reporting.write_results(tmp_path, results)
    found = reporting.read_results(tmp_path)
    assert found.requirements == asked
    assert found.plan == results.plan
    assert found.differences[0] == differences[0]
    assert math.isnan(found.differences[1].value)
    assert found.differences[1].reason == "threshold"
    for ours, theirs in zip(
        reporting.outcomes_of(results), reporting.outcomes_of(found), strict=True
    ):
        assert repr(ours) == repr(theirs)


def hostile_results(**changes):
    ones = tuple(made.assessment(name=name) for name in HOSTILE)
    return made.results(
        ones,
        network=HOSTILE[1],
        requirements=(
            Requirement("robustness", 0.9),
            Requirement("robustness.low", 0.25),
            *(Requirement("accuracy", 0.0, ">=", name.strip()) for name in HOSTILE),
        ),
        regressions=(f"{HOSTILE[3]}: it was better", "same", "same"),
        **changes,
    )


def test_junit_has_a_case_for_each_outcome():
    results = hostile_results()
    every = reporting.outcomes_of(results)
    text = reporting.to_junit(results)
    root = ElementTree.fromstring(text)
    (suite,) = root
    cases = suite.findall("testcase")
    assert len(cases) == len(every) + 3 == int(suite.get("tests"))
    kinds = [
        "met" if len(case) == 0 else case.find("failure").get("type") for case in cases
    ]
    assert kinds == [one.state for one in every] + ["regression"] * 3
    assert int(suite.get("failures")) == len(kinds) - kinds.count("met")
    # No two are confused, and nothing is there that XML 1.0 forbids.
    assert len({(case.get("name"), case.get("classname")) for case in cases}) == len(
        cases
    )
    assert not re.search("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    assert "(U+0007)" in text and "(U+202E)" in text
    assert any("x" * 10_000 in case.get("name") for case in cases)


def test_a_summary_shows_names_and_runs_nothing():
    results = hostile_results()
    text = reporting.to_summary(results, "out/`report`.html")
    assert "\\`report\\`.html" in text
    assert "<script" not in text and not re.search(r"(?<!\\)\]\(", text)
    assert "\x07" not in text and "\u202e" not in text
    rows = [line for line in text.splitlines() if "| ❌ not met |" in line]
    assert len(rows) == len({row for row in rows})
    for word in ("✅ met", "❌ not met", "❔ not shown"):
        assert f"| {word} |" in text
    assert "**Not good enough: " in text
    # Every row has its table's number of cells.
    for line in text.splitlines():
        if line.startswith("| "):
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1
            assert cells in (3, 5), line[:200]
    # Without requirements no verdict is passed.
    text = reporting.to_summary(made.results(requirements=()))
    assert "No requirement was given" in text and "✅" not in text
    assert "| gaussian blur |" in text
    assert "The report" not in text


def test_results_of_one_name_are_not_confused():
    """One alteration with two ranges, and one that is called as RoMA is."""
    low, high = made.assessment(), made.assessment(np.full(60, 9.0))
    results = made.results(
        (low, high, dataclasses.replace(low, alteration="RoMA")),
        requirements=(Requirement("robustness", 0.9), Requirement("plr", 0.0)),
    )
    found = reporting.outcomes_of(results)
    assert [(one.subject, one.state) for one in found] == [
        ("gaussian blur", "not met"),
        ("gaussian blur", "met"),
        ("RoMA", "not met"),
        ("RoMA", "not shown"),
    ]
    page = reporting.to_markdown([results])
    said = "2 of 4 checks not met (gaussian blur robustness, RoMA robustness); 1 not"
    assert f"{said} shown (RoMA plr)" in page
    assert reporting.to_junit(results).count("<testcase ") == 4
