import dataclasses
import re

import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, reporting
from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob.metrics import ALEXNET, ReferenceErrors
from jaxrob.reporting import table, to_markdown
from jaxrob.reporting._words import corruptions

from . import reports as made
from .reports import counted


def assessment(correct=(160, 200, 120), levels=(-1.0, 0.0, 1.0), **changes):
    return counted(correct, 200, levels, **changes)


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_row_for_each_assessment():
    levels = np.linspace(0, 0.003, 41)
    other = assessment((200,) * 41, levels, alteration="x", unit="", upper=1 / 3)
    lines = table([assessment(), other]).split("\n")
    assert cells(lines[0]) == [
        "alteration", "range", "unaltered", "worst", "at", "robustness",
        "error bound", "95 % interval", "levels", "seconds",
    ]  # fmt: skip
    assert cells(lines[2]) == [
        "brightness", "[-1, 1] px", "1.0000", "0.6000", "1", "66.67%", "-",
        "{:.1%} - {:.1%}".format(*assessment().confidence_interval), "3", "1.3",
    ]  # fmt: skip
    assert cells(lines[3])[1:4] == ["[-1, 0.3333]", "1.0000", "1.0000"]
    assert cells(lines[3])[5] == "100.00%" and cells(lines[3])[8] == "41"
    assert len(set(map(len, lines[:4]))) == 1 and set(lines[1]) == {"-", " "}
    assert lines[2].index("[") == lines[3].index("[")


def test_what_may_lie_between_levels_holds_for_every_row():
    seen = assessment().diagnostics
    changes = {}, {"widest_interval": 0.5}, {"half_met": 0.1}
    several = [assessment(diagnostics=seen._replace(**each)) for each in changes]
    (line,) = re.findall("^between levels.*", table(several), re.MULTILINE)
    assert "over 50.0 % of the range" in line and "over 10.0 % in half" in line


def test_cells_of_what_is_not_known():
    assert cells(table([assessment(identity=0.5)]).split("\n")[2])[2] == "-"
    with pytest.raises(ValueError, match="empty"):
        table([])


def test_where_thresholds_differ_each_row_has_its_own():
    other = assessment(threshold=0.75, measure="effectiveness")
    lines = table([assessment(), other]).split("\n")
    assert len(lines) == 5
    said = ["accepted", "accuracy >= 0.8", "effectiveness >= 0.75"]
    assert [cells(line)[-1] for line in (lines[0], *lines[2:4])] == said


def test_a_name_from_a_file_begins_no_line_and_steers_no_terminal():
    name = "a\x1b[2J\x07\u202e\ngaussian blur: 55.00% -> 95.00%"
    hostile = {"alteration": name, "unit": "\r", "warnings": (f"{name}: \n beware",)}
    plain = assessment(warnings=("brightness: beware",))
    found = table([assessment(**hostile)])
    assert len(found.split("\n")) == len(table([plain]).split("\n"))
    assert all(one.isprintable() for one in found.split("\n"))
    assert "a(U+001B)[2J(U+0007)(U+202E) gaussian blur" in found


def test_levels_chosen_are_set_beside_even_grids():
    # Two crossings within 1/100 of the range each: a grid of 100 steps has them too.
    chosen = assessment(error_bound=0.02, correct=(100, 200, 100))
    # Nothing to save where nothing crosses.
    flat = assessment(error_bound=0.0, correct=(200, 200, 200))
    lines = table([chosen, flat]).split("\n")
    assert [cells(line)[6] for line in lines[2:4]] == ["± 2.0%", "± 0.0%"]
    assert lines[-3] == (
        "levels: 6 were chosen, 1,200 altered images; even grids that leave as little "
        "open have 104 levels, 20,800 images: 17.3 times as many"
    )
    assert "grids" not in table([flat]) and "grids" not in table([assessment()])


def test_the_worst_of_a_sign_is_shown():
    seen = Diagnostics(9, 1, 0.1, 1.0, 0.0, 0.5, 0.0, 0.0, 0.05)
    changes = {
        "In 22.3 % of": [{"plateau": 0.047}, {"plateau": 0.223}, {"plateau": 0.1}],
        "An interval of 40.0 %": [
            {"widest_interval": share} for share in (0.3, 0.4, 0.25)
        ],
        "jagged.*by up to 30 perc.*within 50": [
            {"bend": 0.9},
            {"roughness": 0.3},
            {"roughness": 0.2, "bend": 1e9},
        ],
        "bends 1.1 times": [{"bend": 0.5}, {"bend": 0.9}, {"bend": 0.7}],
    }
    for words, three in changes.items():
        several = [
            assessment(alteration=name, diagnostics=seen._replace(**each))
            for name, each in zip("abc", three)
        ]
        last = table(several).split("\n")[-1]
        assert re.search(words, last) and last.endswith("(Numbers of b, the worst.)")


LEVELS = np.arange(6.0)
PLAIN = "mean error over 15 corruptions, severities 1 to 5"


def corruption(name, accuracies, num_classes=3, number=100):
    """Counts of images of class 0, of so many classes."""
    right = np.arange(number) < np.rint(np.array(accuracies) * number)[:, None]
    predicted, labels = (~right).astype(np.int16), np.zeros(number, np.int32)
    curve = jaxrob.Curve(LEVELS, predicted, None, None, labels, num_classes)
    ends = {"lower": 0.0, "upper": 5.0, "unit": "severity"}
    return made.assessment(name=name, answers=curve.reduced(), **ends)


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


def test_mean_error_and_failing_severity():
    # (.1 + .15 + .25 + .4 + .6) / 5; 80 % is crossed in the middle of 2 and 3.
    assert f"{PLAIN}: 30.0 % (a curve keeps only counts" in table(fifteen())
    text = reporting.to_html([made.results(fifteen(), class_names=None)])
    assert PLAIN in text and "30.0 %" in text and "AlexNet" not in text
    assert len(re.findall(r"2\.50, [\d.]+ to [\d.]+", text)) == 15
    (row, *_) = reporting.to_frame(fifteen()).to_dict("records")
    assert row["corruption_error"] == pytest.approx(0.3) and row["mce"] is None
    assert "'fog' twice" in table([*fifteen(), fifteen()[9]])
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
    assert "99.9 % interval" in table([sure]) and "95 %" not in table([sure])
