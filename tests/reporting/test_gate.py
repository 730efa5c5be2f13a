import dataclasses
import functools
import math
import re
from xml.etree import ElementTree

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import Curve, reporting
from jaxrob._metadata import Column, ImageTable
from jaxrob.metrics import ALEXNET, ConfidenceInterval
from jaxrob.reporting import (
    Difference,
    Requirement,
    outcomes,
    quantities,
    requirement,
    unmet,
)
from jaxrob.reporting._requirements import QUANTITIES
from jaxrob.reporting._words import joint_interval

from . import reports as made


def test_what_is_unmet_is_said():
    found = {
        "zoom": {"robustness": 0.8, "robustness.low": 0.7},
        "blur": {"robustness": math.nan, "robustness.low": 0.7},
    }
    assert unmet([], found) == []
    # What is on the threshold is good enough.
    assert unmet([requirement("robustness.low>=0.7", ["robustness.low"])], found) == []
    assert len(unmet([Requirement("robustness", jnp.float32(0.8))], found)) == 1
    just = np.nextafter(0.7, 1)
    lines = unmet([Requirement("robustness.low", just)], {"zoom": found["zoom"]})
    assert len(lines) == 1 and lines[0].startswith("zoom: robustness.low is 0.7")
    swapped = {"zoom": {"robustness": ConfidenceInterval(0.9, 0.3)}}
    with pytest.raises(ValueError, match="must ascend"):
        unmet([Requirement("robustness", 0.7)], swapped)


def test_quantities_of_roma():
    chances = {
        "log_adversarial_probability": np.log([0.1, 0.2, 0.3, 0.4]),
        "log_high": np.log([0.2, 0.4, 0.4, 0.6]),
    }
    found = quantities(made.roma(4, **chances))
    assert found == pytest.approx({"plr": 0.75, "plr.low": 0.6})
    # Without an answer the draws count: none of 100 here, and all.
    unknown = {name: np.append(one[:3], np.nan) for name, one in chances.items()}
    found = quantities(made.roma(4, **unknown, hits=np.array([1, 2, 3, 100])))
    assert found["plr"] == pytest.approx((0.9 + 0.8 + 0.7 + 0) / 4)
    assert math.isnan(found["plr.low"])
    with pytest.raises(TypeError, match="RomaResult"):
        quantities({})
    with pytest.raises(ValueError, match="must have 'robustnes'"):
        unmet([Requirement("robustnes", 0.5)], {"b": made.roma(4)})


@functools.cache
def assess(factor):
    """Right on image i of 400 at levels up to (i + 1) / 400 times a factor."""
    limits = factor * np.arange(1, 401) / 400
    answers = made.curve(limits, np.linspace(0, 1, 41), 2)
    changes = {"upper": 1.0, "threshold": 0.5, "error_bound": 1 / 80}
    return made.assessment(name="dim", answers=answers, **changes)


def headline(ones, needed):
    """The beginning of the one line, which the report's headline has too."""
    line = reporting.verdict(needed, ones)
    results = reporting.Results("net", None, tuple(ones), requirements=needed)
    page = reporting.to_markdown([results]).lower()
    beginning = line.partition(":")[0]
    for one in ("not shown to be good enough", "not good enough"):
        assert (one == beginning) == (f"{one}: " in page)
    assert ("good enough: the one check is met" in page) == (not line)
    return beginning


@pytest.mark.parametrize(
    "quantity, least, beginning",
    [
        ("robustness", 0.3, ""),
        ("robustness", 0.9, "not good enough"),
        ("robustness.low", 0.3, ""),
        ("robustness.low", 0.5, "not shown to be good enough"),
        ("robustness.low", 0.9, "not good enough"),
    ],
)
def test_the_line_begins_as_the_headline_of_a_report_does(quantity, least, beginning):
    assert headline([assess(1.0)], [Requirement(quantity, least)]) == beginning


def test_a_warning_about_the_levels_leaves_open_what_they_decide():
    """A curve as jagged as this may cross between them; a difference is of two."""
    one, needed = assess(1.0), [Requirement("accuracy", 0.0)]
    one = dataclasses.replace(one, diagnostics=one.diagnostics._replace(roughness=0.2))
    assert headline([one], needed) == ""
    for quantity in ("robustness", "robustness.low", "worst_class"):
        for bound in (0.1, 0.9):
            needed = [Requirement(quantity, bound)]
            assert headline([one], needed) == "not shown to be good enough"
    for new, old in ((one, assess(1.0)), (assess(1.0), one)):
        found = reporting.differences([new], [old])
        (said,) = outcomes([Requirement("difference", -0.9)], {"dim": new}, found)
        assert said.state == "not shown"


def test_one_slice_may_be_jagged():
    """A quarter of the images, of which a third fail at every other level."""
    answers = made.curve(np.arange(1, 401) / 400, np.linspace(0, 1, 13), 2)
    predicted = answers.predicted.copy()
    predicted[1::2, :144:4] = 1 - answers.labels[:144:4]
    column = Column(("odd", "usual"), np.int32(np.arange(400) % 4 > 0))
    table = ImageTable(None, {"site": column})
    answers = dataclasses.replace(answers, predicted=predicted, table=table)
    one = made.assessment(answers=answers, upper=1.0, threshold=0.5)
    assert quantities(one)["worst_slice.robustness.low"] > 0.1
    needed = [Requirement("worst_slice.robustness.low", 0.1)]
    assert headline([one], needed) == "not shown to be good enough"


def test_that_one_of_many_falls_short_is_said_if_it_is_sure_for_all():
    """What one interval alone misses, one of three may miss by chance."""
    one = assess(1.0)
    every = [dataclasses.replace(one, alteration=f"dim {k}") for k in range(3)]
    alone, at_once = one.confidence_interval.high, joint_interval(one, 3)[1]
    assert alone < at_once
    needed = [Requirement("robustness.low", (alone + at_once) / 2)]
    assert reporting.verdict(needed, {"dim": one}).startswith("not good enough: ")
    assert headline(every, needed) == "not shown to be good enough"
    needed = [Requirement("robustness.low", at_once + 1e-3)]
    assert headline(every, needed) == "not good enough"


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
        Requirement("mce", 1.3, "<="),
        Requirement("difference", -1.0),
    ]
    found = outcomes(asked, {"gaussian blur": made.assessment()})
    assert {(one.subject, one.requirement.quantity): one.state for one in found} == {
        ("rotation", "robustness"): "not shown",
        ("RoMA", "plr"): "not shown",
        ("all alterations", "mce"): "not shown",
        ("gaussian blur", "difference"): "not shown",
    }
    assert all(math.isnan(one.value.low) for one in found)
    assert "no earlier result" in found[0].words
    assert [one.state for one in outcomes(asked[:1], {})] == ["not shown"]


def test_accuracy_and_worst_class_are_the_lowest():
    """Twelve images of three classes; class 2 is right up to level 1, others always."""
    one = made.assessment(np.where(np.arange(12) % 3 == 2, 1.0, 9.0))
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
    (found,) = outcomes(asked, ones, [difference(0.1, 0.2), difference(-0.03, 0.04)])
    assert found.state == "not shown"


def test_mce_is_one_value_of_all():
    """Of 1,000 classes at severities 0 to 5, a share of 0.6 is wrong."""
    labels = np.arange(100, dtype=np.int32)
    predicted = np.where(labels < 60, labels + 1, labels).astype(np.int16)
    answers, ends = np.tile(predicted, (6, 1)), {"unit": "severity", "upper": 5.0}
    curve = Curve(np.arange(6.0), answers, None, None, labels, 1000)
    found = [made.assessment(name=name, answers=curve, **ends) for name in ALEXNET]
    # Hendrycks and Dietterich (2019), equation of the CE: errors over AlexNet's.
    expected = float(np.mean([0.6 / one.corrupted for one in ALEXNET.values()]))
    asked = [
        Requirement("mce", expected + 0.01, "<="),
        Requirement("mce", expected - 0.01, "<="),
        Requirement("mce", expected - 0.01),
    ]
    states = {one.requirement: one.state for one in outcomes(asked, found)}
    assert [states[one] for one in asked] == ["met", "not met", "met"]
    # The bound that catches percent is above that of a network that is always wrong.
    assert expected / 0.6 < QUANTITIES["mce"].high < 1.31
    (one,) = outcomes(asked[:1], found[:3])
    assert (one.subject, one.state) == ("all alterations", "not shown")
    assert "fifteen corruptions" in one.words


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
    (suite,) = ElementTree.fromstring(text)
    cases = suite.findall("testcase")
    assert len(cases) == len(every) + 3 == int(suite.get("tests"))
    failures = [case.find("failure") for case in cases]
    kinds = ["met" if one is None else one.get("type") for one in failures]
    assert kinds == [one.state for one in every] + ["regression"] * 3
    assert int(suite.get("failures")) == len(kinds) - kinds.count("met")
    # No two are confused, and nothing is there that XML 1.0 forbids.
    names = {(case.get("name"), case.get("classname")) for case in cases}
    assert len(names) == len(cases)
    assert not re.search("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    assert "(U+0007)" in text and "(U+202E)" in text
    assert any("x" * 10_000 in case.get("name") for case in cases)


def test_a_summary_shows_names_and_runs_nothing():
    text = reporting.to_summary(hostile_results(), "out/`report`.html")
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
    assert "| gaussian blur |" in text and "The report" not in text


def test_results_of_one_name_are_not_confused():
    """One alteration with two ranges, and one that is called as RoMA is."""
    low, high = made.assessment(), made.assessment(np.full(60, 9.0))
    results = made.results(
        (low, high, dataclasses.replace(low, alteration="RoMA")),
        requirements=(Requirement("robustness", 0.9), Requirement("plr", 0.0)),
    )
    found = reporting.outcomes_of(results)
    assert outcomes(results.requirements, results) == found
    assert outcomes(results.requirements[:1], (low, high)) == found[:2]
    assert len(unmet(results.requirements[:1], [low, high])) == 1
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
