import re

import numpy as np
import pytest

from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob.reporting import table

from .reports import counted


def assessment(correct=(160, 200, 120), levels=(-1.0, 0.0, 1.0), **changes):
    """Right answers of 200 images at each level."""
    return counted(correct, 200, levels, **changes)


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_row_for_each_assessment():
    other = assessment(
        (200,) * 41, np.linspace(0, 0.003, 41), alteration="x", unit="", upper=1 / 3
    )
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
    row = table([assessment(identity=0.5)]).split("\n")[2]
    assert cells(row)[2] == "-"
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
