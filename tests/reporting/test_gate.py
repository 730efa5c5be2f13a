import dataclasses
import functools
import math

import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob.reporting import Requirement, quantities, regressions, requirement, unmet
from jaxrob.reporting._earlier import adjusted
from jaxrob.reporting._quantities import QUANTITIES
from jaxrob.reporting._words import joint_interval

from . import reports as made

ALLOWED = ("robustness", "robustness.low")


def test_requirements_are_read():
    for text in ("robustness>=0.9", " robustness >= 9e-1 "):
        assert requirement(text, ALLOWED) == Requirement("robustness", 0.9)
    of_phrase = requirement("BNN, unknown>=1", ("BNN, unknown",))
    assert of_phrase == Requirement("BNN, unknown", 1.0)
    found = requirement(" gaussian blur :robustness.low>= .5", list(QUANTITIES))
    assert found == Requirement("robustness.low", 0.5, ">=", "gaussian blur")


@pytest.mark.parametrize("allowed", [ALLOWED, tuple(QUANTITIES)])
def test_others_are_refused(allowed):
    texts = ["", "robustness>0.9", ">=0.9", "robustness>=0.9>=0.8", "beauty>=0.9"]
    texts += [f"robustness>={one}" for one in ("0,9", "0_9", "nan", "90", "-0.1")]
    if allowed != ALLOWED:
        texts += ["mce<=-0.1", "difference>=-1.5", "robustness<=1.5", "mce<=1e999"]
        texts += ["robustness.low<=0.5", "zoom: mce<=0.7", "zoom: plr>=0.7"]
        texts += [": robustness>=0.5", "zoom: robustness>=0.5:"]
    for text in texts:
        with pytest.raises(ValueError, match="text: "):
            requirement(text, allowed)


def test_what_is_unmet_is_said():
    found = {
        "zoom": {"robustness": 0.8, "robustness.low": 0.7},
        "blur": {"robustness": math.nan, "robustness.low": 0.7},
    }
    assert unmet([], found) == []
    # What is on the threshold is good enough.
    assert unmet([requirement("robustness.low>=0.7", ALLOWED)], found) == []
    assert len(unmet([Requirement("robustness", 0.8)], found)) == 1
    just = np.nextafter(0.7, 1)
    lines = unmet([Requirement("robustness.low", just)], {"zoom": found["zoom"]})
    assert len(lines) == 1 and lines[0].startswith("zoom: robustness.low is 0.7")


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


@functools.cache
def assess(factor):
    """Right on image i of 400 at levels up to (i + 1) / 400 times a factor."""
    limits = factor * np.arange(1, 401) / 400
    answers = made.curve(limits, np.linspace(0, 1, 41), 2)
    changes = {"upper": 1.0, "threshold": 0.5, "error_bound": 1 / 80}
    return made.assessment(name="dim", answers=answers, **changes)


def test_worse_means_surely_worse():
    old, slightly, much = (assess(f) for f in (1.0, 0.99, 0.8))
    assert regressions(old, much) == regressions(old, old) == []
    # Half of the images are right up to half of the factor.
    found = quantities(old)
    assert found["robustness"] == pytest.approx(0.5, abs=0.03)
    assert found["robustness.low"] < 0.47
    (line,) = regressions(much, old)
    assert line.startswith("dim: robustness is 0.4") and "it was 0.5" in line
    # A paired comparison tells apart what the intervals do not.
    assert quantities(slightly)["robustness"] > found["robustness.low"]
    beside = jaxrob.compare(slightly, old)
    assert bool(regressions(slightly, old)) == (
        min(beside.confidence_interval.high, beside.mean_interval.high) < 0
    )
    (line,) = regressions(dataclasses.replace(old, threshold=0.6), old)
    assert "no comparison is possible" in line and "threshold" in line


def test_worse_where_both_are_accepted_everywhere():
    """The robustness is 1 of both, but one is wrong three times as often."""
    levels = np.linspace(0, 1, 5)
    old, new = (
        made.assessment(answers=made.curve(9 - 10 * (np.arange(1000) < wrong), levels))
        for wrong in (50, 150)
    )
    assert new.robustness == old.robustness == 1
    (line,) = regressions(new, old)
    assert "mean over the range -0.1000, " in line
    assert regressions(old, new) == []


def test_among_several_one_difference_by_chance_is_none():
    """Eight in the tail of one: each p-value is 2 %, which none of eight may be."""
    found = jaxrob.compare(assess(0.8), assess(1.0))
    interval = jaxrob.metrics.ConfidenceInterval(-0.2, -0.01)
    one = dataclasses.replace(
        found,
        confidence_interval=interval,
        mean_interval=interval,
        p_value=0.02,
        mean_p_value=0.3,
    )
    (alone,) = adjusted([one])
    assert (alone.p_value, alone.mean_p_value) == (0.04, 0.3) and alone.is_worse
    several = adjusted([one] + 7 * [dataclasses.replace(one, p_value=0.5)])
    assert several[0].p_value == pytest.approx(0.32)
    assert not any(one.is_worse for one in several)
    # One that no chance explains stays one, and NaN does not count.
    surely = dataclasses.replace(one, p_value=0.0002, mean_p_value=np.nan)
    first, second = adjusted([surely, dataclasses.replace(one, p_value=0.03)])
    assert first.p_value == pytest.approx(0.0006)
    assert (first.side, first.mean_side) == (-1, 0)
    assert second.p_value == 0.06 and not second.is_worse


def headline(ones, needed):
    """The beginning of the one line, which the report's headline has too."""
    line = reporting.verdict(needed, {each.alteration: each for each in ones})
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
    """A curve as jagged as this may cross between its levels."""
    one, needed = assess(1.0), [Requirement("accuracy", 0.0)]
    one = dataclasses.replace(one, diagnostics=one.diagnostics._replace(roughness=0.2))
    assert headline([one], needed) == ""
    for quantity in ("robustness", "robustness.low", "worst_class"):
        for bound in (0.1, 0.9):
            needed = [Requirement(quantity, bound)]
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


def test_worse_than_earlier_ones():
    good, bad = assess(1.0), assess(0.45)
    assert regressions([good], []) == []
    assert regressions([good], [bad]) == []
    assert regressions([bad], [good]) == regressions(bad, good)
    renamed = dataclasses.replace(good, alteration="another")
    (said,) = regressions([renamed], [good])
    assert said == f"{good.alteration}: it is not assessed any more"
    other = dataclasses.replace(good, threshold=0.3)
    (said,) = regressions([other], [good])
    assert "no comparison is possible, " in said


def test_earlier_assessments_of_folders_and_files(tmp_path):
    one = made.assessment()
    folder, file = tmp_path / "folder", tmp_path / "one.json"
    reporting.write_results(folder, reporting.Results("net", None, (one,)))
    file.write_text(one.to_json())
    read = reporting.earlier_assessments
    for path in (folder, file):
        (found,) = read([path], [one.alteration])
        np.testing.assert_array_equal(found.values, one.values)
        with pytest.raises(ValueError, match=str(path)):
            read([path], ["another"])
    assert len(read([folder, file], [one.alteration])) == 2
    assert read([], ["blur"]) == []
    with pytest.raises(ValueError, match="nowhere.json: No such file"):
        read([tmp_path / "nowhere.json"], ["blur"])
    file.write_text("{}")
    with pytest.raises(ValueError, match="one.json: "):
        read([file], ["blur"])


def test_each_measure_and_range_has_its_own_regressions():
    good, bad = assess(1.0), assess(0.45)
    other = dataclasses.replace(good, measure="effectiveness")
    assert regressions([good, other], [good, other]) == []
    found = regressions([other, bad], [good, other])
    assert len(found) == 1 and found[0].startswith("dim: robustness is 0")
    for new, old in (([bad, good], [good]), ([good], [good, bad])):
        with pytest.raises(ValueError, match="two of 'dim'"):
            regressions(new, old)
