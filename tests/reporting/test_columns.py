"""Frames, CSV and LaTeX: the same numbers, and names that do no harm."""

import csv
import dataclasses
import io
import itertools
import json
import math
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxrob
from jaxrob import reporting
from jaxrob.reporting._columns import cell, escaped, latex, log_name

from . import reports

quick = settings(deadline=None, max_examples=30)
HOSTILE = (
    *("=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "'=1", 'a";=1'),
    *("\t=1", "\r=1", "  =1", "＝1", "a  b", "a b"),
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "https://example.org/?a=b&c",
    "\x00\x07\x1b[31m",
    *("abc\u202efdp.exe", "a\nb", "a\\nb", "\\u000a"),
    r"\input{/etc/passwd}",
    r"\write18{touch x}",
    "50 % of $x_1^2$ & #3 ~ {y}",
    "[2cm] * -- ``fi'' ?` !`",
    *("\ud800", "\ufdd0", "x" * 10_000, "日本語 é ß"),
)
# Of all kinds of characters, and texts that are likely to meet the rules.
RANGES = (0, 0x300), (0x2000, 0x2070), (0xD800, 0xD808), (0xFDD0, 0xFF20)
ALPHABET = [*map(chr, itertools.chain(*itertools.starmap(range, RANGES))), "\U0010ffff"]
TEXTS = st.one_of(
    st.text(alphabet=ALPHABET, max_size=20),
    st.text(alphabet="=+-@'\"\t\r\n ;,＝＋\\uU0a5c\x07\u202e", max_size=12),
    st.sampled_from(HOSTILE),
)
NAMES = st.one_of(
    TEXTS, st.text(alphabet="abf0123456789 _/A", max_size=24), st.just("a" * 300)
)


def named(text):
    """An assessment that has the text wherever a name may stand."""
    provenance = {
        "classifier": "c1a5",
        "network": {"name": text, "class_names": None},
        "dataset": {"name": text, "fingerprint": "da7a", "labels": "given"},
        "alteration": None,
    }
    return reports.assessment(name=text, unit=text, provenance=provenance)


def read(text):
    import pandas

    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    precision = {"float_precision": "round_trip"} if version < (3, 1) else {}
    return pandas.read_csv(io.StringIO(text), **precision)


def test_csv_read_by_pandas_has_the_same_numbers_to_the_bit():
    odd = reports.assessment(
        upper=math.pi + 1, threshold=0.1 + 0.2, seconds=1e-300, error_bound=1 / 3
    )
    for rows in ("results", "levels"):
        frame = reporting.to_frame([reports.assessment(), odd], rows=rows)
        found = read(reporting.to_csv([reports.assessment(), odd], rows=rows))
        assert list(found) == list(frame) and len(found) == len(frame)
        for column in frame:
            ours, theirs = frame[column], found[column]
            if ours.dtype.kind in "fi":
                assert (
                    ours.to_numpy(float).tobytes() == theirs.to_numpy(float).tobytes()
                )
            else:
                assert ours.dropna().tolist() == theirs.dropna().tolist()


def test_a_line_of_a_result_and_of_a_level_says_what_the_assessment_says():
    one = reports.assessment()
    (row,) = reporting.to_frame(reports.results([one])).to_dict("records")
    assert row["network"] == "net" and row["alteration"] == "gaussian blur"
    assert row["robustness"] == one.robustness and row["status"] == "known"
    assert (row["interval_low"], row["interval_high"]) == one.confidence_interval
    assert (row["images"], row["levels"], row["evaluations"]) == (60, 9, 540)
    levels = one.to_frame()
    np.testing.assert_array_equal(levels["level"], one.levels)
    np.testing.assert_array_equal(levels["value"], one.values)
    # Images 0, 3, 6 and so on fail first at 1; those of class 2 one level before.
    assert levels["right"].tolist() == (60 * one.curve.accuracy).round().tolist()
    assert (levels["right"] + levels["wrong"] + levels["unknown"] == 60).all()
    assert (levels["value_low"] <= levels["value"]).all()
    assert (levels["value"] <= levels["value_high"]).all()
    assert levels["accepted"].tolist() == (one.values >= 0.8).tolist()
    assert one.to_csv() == reporting.to_csv(one, rows="levels")


def test_what_is_not_known_is_empty_and_has_a_status():
    answers = reports.curve(np.full(60, 4.0), uncertainty=0.9, alpha=0.5)
    undecided = reports.assessment(answers=answers)
    (row,) = csv.DictReader(io.StringIO(reporting.to_csv(undecided)))
    assert row["robustness"] == "" and row["status"] == "undecided"
    assert reporting.to_frame(undecided)["robustness"].isna().all()
    assert "undecided" in reporting.to_latex(undecided)
    assert undecided.to_dict()["robustness"] is None


def test_comparisons_and_roma_have_rows_of_their_own():
    roma_result = reports.roma()
    one = reports.assessment()
    found = jaxrob.compare(one, reports.other(one))
    frame = reporting.to_frame([found, found], rows="comparisons")
    assert frame["difference"].tolist() == [0.0, 0.0]
    (row,) = reporting.to_frame(roma_result, rows="roma").to_dict("records")
    assert row["mean_plr"] == roma_result.mean_plr
    assert row["inputs"] == len(roma_result.status)
    results = reports.results(roma=roma_result)
    assert read(reporting.to_csv(results, rows="roma"))["network"].tolist() == ["net"]
    with pytest.raises(ValueError, match="rows of 'results'; got Comparison"):
        reporting.to_csv(found)


def test_wrong_arguments_and_a_missing_package(hide):
    for wrong in (None, [reports.assessment(), 3]):
        with pytest.raises(TypeError, match="results"):
            reporting.to_csv(wrong)
    with pytest.raises(ValueError, match="got none"):
        reporting.to_latex([])
    with pytest.raises(ValueError, match="rows"):
        reporting.to_csv(reports.assessment(), rows="images")
    hide("pandas")
    with pytest.raises(ImportError, match=r"pip install .*\[frames\]"):
        reports.assessment().to_frame()


def test_dict_is_the_document_without_answers():
    one = reports.assessment()
    found = one.to_dict()
    text = json.dumps(found, allow_nan=False)
    again = jaxrob.Assessment.from_json(text)
    assert again.robustness == one.robustness == found["robustness"]
    assert found["unit"] == "px" and found["values"] == one.values.tolist()
    assert "answers" not in found and isinstance(again.curve, jaxrob.ReducedCurve)
    assert json.loads(text) == found


@quick
@given(TEXTS)
def test_no_cell_begins_a_formula_or_a_line(text):
    found = cell(text)
    start = unicodedata.normalize("NFKC", found.strip())[:1]
    assert start not in tuple("=+-@") and found[:1] not in ("\t", "\r")
    assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs") for one in found)
    # It is undone by rules of its own: so no two texts become one.
    undone = re.sub(
        r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})",
        lambda one: chr(int(one[1] or one[2], 16)),
        found.removeprefix("'"),
    )
    assert undone == text


def test_hostile_names_through_csv():
    written = reporting.to_csv([named(text) for text in HOSTILE])
    written.encode()
    assert written.count("\n") == len(HOSTILE) + 1
    rows = csv.DictReader(io.StringIO(written))
    for text, row in zip(HOSTILE, rows, strict=True):
        assert row["alteration"] == row["network"] == cell(text)
        assert float(row["robustness"]) == reports.assessment().robustness


@quick
@given(st.lists(NAMES, unique=True, min_size=2, max_size=4))
def test_names_for_loggers_are_allowed_and_distinct(texts):
    found = [log_name(text) for text in texts]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch("[a-z][a-z0-9_]{0,80}", one) for one in found)


def test_usual_names_keep_their_words():
    assert log_name("gaussian blur") == "gaussian_blur"
    # What another name becomes is no name of its own.
    other = log_name("Gaussian blur")
    assert log_name(other.replace("_", " ")) != other != "gaussian_blur"
    # Nor are escapes a text of their own.
    assert escaped("a\nb") == r"a\u000ab" != escaped(r"a\u000ab")
    assert escaped("C:\\folder é 日本") == "C:\\folder é 日本"


@quick
@given(TEXTS)
def test_latex_holds_no_command_of_a_name(text):
    """Without what the escapes are written with, nothing special is left."""
    found = latex(text)
    commands = r"\\text[a-z]+\{\}|\\[{}$&#%_]|\{[\[\]*\-,?! ]?\}"
    assert not re.search(r"[\\{}$&#%_^~`\[\]]", re.sub(commands, "", found))


def test_latex_has_a_row_for_each_and_networks_if_there_are_several():
    one = reports.assessment()
    alone = reporting.to_latex(one)
    assert r"gaussian blur & {}[$0$, $4$] px & accuracy $\geq 0.8$" in alone
    assert "Network" not in alone and alone.count(r"\\") == 2
    named = one.provenance | {"network": {"name": "a_b"}}
    other = dataclasses.replace(reports.other(one), provenance=named)
    both = reporting.to_latex([one, other])
    assert "Network" in both and r"a\_b & gaussian blur" in both
