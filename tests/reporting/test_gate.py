import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import reporting, strategies
from jaxrob.reporting import Requirement, quantities, regressions, requirement, unmet
from jaxrob.reporting._adjusted import adjusted
from jaxrob.reporting._joint import joint_interval
from jaxrob.roma import RomaResult

ALLOWED = ("robustness", "robustness.low")


@pytest.mark.parametrize("text", ["robustness>=0.9", " robustness >= 9e-1 "])
def test_requirements_are_read(text):
    assert requirement(text, ALLOWED) == Requirement("robustness", 0.9)
    of_phrase = requirement("BNN, unknown>=1", ("BNN, unknown",))
    assert of_phrase == Requirement("BNN, unknown", 1.0)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "written \"robustness>=0.9\".*; got ''"),
        ("robustness", "is written"),
        ("robustness=0.9", "is written"),
        ("robustness>0.9", "is written"),
        ("robustness>=", "is written"),
        (">=0.9", "is written"),
        ("robustness>=0.9>=0.8", "is written|not a number"),
        ("robustness>=0.9 0.8", "is written"),
        ("robust>=0.9", r"one of \('robustness', 'robustness.low'\); got 'robust'"),
        ("plr>=0.9", "got 'plr'"),
        ("blur.robustness>=0.9", "got 'blur.robustness'"),
        ("robustness>=high", "'high' in 'robustness>=high' is not a number"),
        ("robustness>=0,9", "'0,9'"),
        ("robustness>=0_9", "not a number"),
        ("robustness>=nan", "not a number"),
        ("robustness>=90%", "not a number"),
        ("robustness>=90", r"must lie in \[0, 1\]; got 90"),
        ("robustness>=-0.1", r"must lie in \[0, 1\]"),
    ],
)
def test_others_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        requirement(text, ALLOWED)


def test_what_is_unmet_is_said():
    found = {
        "zoom": {"robustness": 0.8, "robustness.low": 0.7},
        "blur": {"robustness": math.nan, "robustness.low": 0.7},
    }
    assert unmet([], found) == []
    # What is on the threshold is good enough.
    assert unmet([requirement("robustness.low>=0.7", ALLOWED)], found) == []
    assert unmet([Requirement("robustness", 0.8)], found) == [
        "blur: robustness is not known, at least 0.8 is required"
    ]
    just = np.nextafter(0.7, 1)
    lines = unmet([Requirement("robustness.low", just)], {"zoom": found["zoom"]})
    assert len(lines) == 1 and lines[0].startswith("zoom: robustness.low is 0.7")


def roma(**changes):
    number = 4
    fields = {
        "estimator": "count",
        "perturbation": "ball",
        "epsilon": 0.1,
        "delta": 0.6,
        "num_samples": 10,
        "excluded": np.zeros(number, np.int32),
        "labels": None,
        "status": np.full(number, "counted"),
        "log_adversarial_probability": np.log([0.1, 0.2, 0.3, 0.4]),
        "log_low": np.log([0.05, 0.1, 0.2, 0.3]),
        "log_high": np.log([0.2, 0.4, 0.4, 0.6]),
        "hits": np.array([1, 2, 3, 10]),
        "evaluations": np.full(number, 10),
    }
    return RomaResult(**(fields | changes))


def test_quantities_of_roma():
    assert quantities(roma()) == pytest.approx({"plr": 0.75, "plr.low": 0.6})
    # Without an answer the draws count.
    found = quantities(
        roma(
            log_adversarial_probability=np.log([0.1, 0.2, 0.3, np.nan]),
            log_high=np.full(4, np.nan),
        )
    )
    assert found["plr"] == pytest.approx((0.9 + 0.8 + 0.7 + 0) / 4)
    assert math.isnan(found["plr.low"])
    with pytest.raises(TypeError, match="RomaResult; got dict"):
        quantities({})


# A classifier is right on image i of n at levels up to (i + 1) / n times a factor.
NUM_IMAGES = 400
LIMITS = (np.arange(NUM_IMAGES, dtype=np.float32) + 1) / NUM_IMAGES
DATASET = jaxrob.Dataset(
    np.stack([LIMITS, 0 * LIMITS], axis=-1)[:, None, None], np.zeros(NUM_IMAGES, int)
)
DIM = jaxrob.Alteration("dim", lambda image, x: image.at[..., 1].set(x), 0.0, 1.0)


def logits(factor, images):
    limit, level = jnp.moveaxis(images[:, 0, 0], -1, 0)
    return jnp.stack([factor * limit - level, jnp.zeros_like(level)], axis=-1)


def assess(factor, **settings):
    classifier = jaxrob.Classifier(logits, jnp.float32(factor))
    settings = {"strategy": strategies.Uniform(41)} | settings
    return jaxrob.assess(classifier, DATASET, DIM, 0.5, **settings)


def test_worse_means_surely_worse():
    old, same, slightly, much = (assess(f) for f in (1.0, 1.0, 0.99, 0.8))
    assert (
        regressions(same, old) == regressions(old, much) == regressions(old, old) == []
    )
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
    levels, labels = np.linspace(0, 1, 5), np.zeros(1000, int)
    old, new = (
        dataclasses.replace(
            assess(1.0),
            threshold=0.5,
            curve=jaxrob.Curve(
                levels,
                np.broadcast_to(np.arange(1000) < wrong, (5, 1000)).astype(np.int16),
                None,
                None,
                labels,
                2,
                None,
            ),
        )
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


def test_a_verdict_is_one_line():
    needed = [Requirement("robustness", 0.9)]
    found = {"blur": {"robustness": 0.5}, "zoom": {"robustness": 0.95}}
    assert reporting.verdict(needed, found, ["zoom: it was better"]) == (
        "not good enough: blur: robustness is 0.5, at least 0.9 is required; "
        "zoom: it was better"
    )
    assert reporting.verdict(needed, {"zoom": {"robustness": 0.95}}) == ""
    assert reporting.verdict([], found) == ""


@pytest.mark.parametrize("least", [0.3, 0.45, 0.5, 0.55, 0.9])
@pytest.mark.parametrize("quantity", ["robustness", "robustness.low"])
def test_the_line_begins_as_the_headline_of_a_report_does(quantity, least):
    one, needed = assess(1.0), [Requirement(quantity, least)]
    line = reporting.verdict(needed, {"dim": one})
    page = reporting.to_markdown(
        [reporting.Results("net", None, (one,), requirements=needed)]
    ).lower()
    beginnings = ("not shown to be good enough: ", "not good enough: ")
    assert [line.startswith(one) for one in beginnings] == [
        one in page for one in beginnings
    ]
    assert ("good enough: the one check is met" in page) == (not line)
    interval = one.confidence_interval
    if quantity == "robustness.low" and interval.low < least:
        assert line.startswith(beginnings[int(interval.high < least)])


def test_that_one_of_many_falls_short_is_said_if_it_is_sure_for_all():
    """What one interval alone misses, one of eight may miss by chance."""
    one = assess(1.0)
    others = [dataclasses.replace(one, alteration=f"dim {k}") for k in range(7)]
    every = {each.alteration: each for each in (one, *others)}
    alone, at_once = one.confidence_interval.high, joint_interval(one, 8)[1]
    assert alone < at_once
    for least, sure in (((alone + at_once) / 2, False), (at_once + 1e-3, True)):
        needed = [Requirement("robustness.low", least)]
        line = reporting.verdict(needed, {one.alteration: one})
        assert line.startswith("not good enough: ")
        line = reporting.verdict(needed, every)
        assert line.startswith("not good enough: ") == sure
        page = reporting.to_markdown(
            [reporting.Results("net", None, tuple(every.values()), requirements=needed)]
        )
        assert ("Not good enough: 8 of 8" in page) == sure
        assert ("Not shown to be good enough: 8 of 8" in page) != sure


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
    one = assess(1.0)
    folder, file = tmp_path / "folder", tmp_path / "one.json"
    reporting.write_results(folder, reporting.Results("net", None, (one,)))
    file.write_text(one.to_json())
    read = reporting.earlier_assessments
    for path in (folder, file):
        (found,) = read([path], [one.alteration])
        np.testing.assert_array_equal(found.values, one.values)
        with pytest.raises(ValueError, match=str(path)):
            read([path], ["another"])
    assert len(read([folder, file], [one.alteration, "other"][:1])) == 2
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
