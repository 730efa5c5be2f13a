"""Kept results of calls: equal runs show no difference, and planted ones are found.

A few cases are run here; `experiments/pins.py` runs all.
"""

import dataclasses
import json
import math
import warnings

import jax
import numpy as np
import pytest
from absl import app
from pinned import files, running
from pinned.differences import Intended, compared, report
from pinned.kept import kept

import jaxrob

FEW = ("assessing.thresholds", "measuring.of_counts", "comparing.measures")


def all_few():
    return {name: running.result(running.cases(name)[name]) for name in FEW}


@pytest.fixture(scope="module")
def before():
    return all_few()


def found(before, intended=()):
    return compared(before, all_few(), intended)


def test_every_room_has_cases_and_names_fit_patterns():
    every = running.cases()
    assert len(every) > 60
    assert {name.partition(".")[0] for name in every} == set(running.ROOMS)
    assert [*running.cases("assessing.*")] == [
        name for name in every if name.startswith("assessing.")
    ]


def test_another_run_gives_the_same(before, tmp_path):
    files.write(tmp_path / "kept", before)
    again = files.read(tmp_path / "kept")
    assert not any(running.RAISED in one for one in again.values())
    verdict = found(again)
    assert not verdict.found, report(verdict, 9)
    assert before["assessing.thresholds"]["warnings"]


def test_a_number_that_moves_by_one_bit_is_found(before, monkeypatch):
    exact = jaxrob.compare

    def other(*assessments):
        found = exact(*assessments)
        moved = math.nextafter(found.mean_difference, 1)
        return dataclasses.replace(found, mean_difference=moved)

    monkeypatch.setattr(jaxrob, "compare", other)
    differences = found(before).found
    assert {(one.case, one.path) for one in differences} == {
        ("comparing.measures", f"value.{measure}.{place}mean_difference")
        for measure in ("f1", "recall", "effectiveness")
        for place in ("", "to_json.", "to_json.digests.")
    }
    # An entry of the list covers them; an entry that covers nothing is reported.
    stale = Intended("assessing.*", "value.*.levels.*", "other levels")
    elsewhere = Intended("training.*", "*", "of cases that are not run")
    intended = [Intended("comparing.*", "*.mean_difference", "one bit"), stale]
    verdict = found(before, [*intended, elsewhere])
    assert not verdict.found and verdict.unused == [stale]
    assert verdict.intended[intended[0]] == 9
    assert "intended: one bit: 9 differences" in report(verdict, 9)


def test_a_word_of_a_warning_is_found(before, monkeypatch):
    plain = warnings.warn

    def other(message, *rest, **named):
        named["stacklevel"] = named.get("stacklevel", 1) + 1
        return plain(f"{message}".replace("threshold", "limit"), *rest, **named)

    monkeypatch.setattr(warnings, "warn", other)
    differences = found(before).found
    assert differences and all("limit" in one.now for one in differences)
    assert all(one.path.startswith("warnings.") for one in differences)


def test_a_case_that_fails_differs(before, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(jaxrob, "compare", broken)
    differences = found(before).found
    assert {one.case for one in differences} == {"comparing.measures"}
    assert ("raised", "nothing", "'ZeroDivisionError: a mistake'") in {
        one[1:] for one in differences
    }


@dataclasses.dataclass
class Thing:
    """An object like the results: with private fields, and unknown values."""

    value: float
    seconds: float = 1.0
    _private: int = 0

    @property
    def twice(self):
        return 2 * self.value

    @property
    def unknown(self):
        raise ValueError("is not known")


def test_only_what_is_public_is_kept():
    assert kept(Thing(1.5, seconds=2.0, _private=3)) == {
        "value": 1.5,
        "twice": 3.0,
        "unknown": "ValueError: is not known",
    }


@pytest.mark.parametrize(
    "one, other",
    [
        (0.0, -0.0),
        (0.1 + 0.2, 0.3),
        (1, True),
        (1, 1.0),
        (np.float32(1), np.float64(1)),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(500), np.r_[np.zeros(100), 1e-300, np.zeros(399)]),
        (jax.random.key(0), jax.random.key(1)),
        ([1, 2], [1, 2, 3]),
        ({"a": None}, {}),
        ("a\nb\nc", "a\nB\nc"),
    ],
)
def test_what_is_another_value(one, other):
    def differences(first, second):
        given = [json.loads(json.dumps(kept(each))) for each in (first, second)]
        return compared({"case": given[0]}, {"case": given[1]}, ()).found

    assert differences(one, other)
    assert not differences(one, one) and not differences(other, other)


def test_nan_is_nan_and_a_line_is_named():
    assert not compared({"case": kept(math.nan)}, {"case": kept(np.nan)}, ()).found
    (one,) = compared({"case": "a\nb\nc"}, {"case": "a\nx\nb\nc"}, ()).found
    assert (one.path, one.before, one.now) == ("line 2", "''", "'x'")


def test_a_file_of_elsewhere_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    files.write(path, {})
    here = files.where()
    monkeypatch.setattr(files, "where", lambda: here | {"cores": 1000})
    with pytest.raises(app.UsageError, match="kept elsewhere.*cores was .* is 1000"):
        files.read(path)
    path.write_text("{}")
    with pytest.raises(app.UsageError, match="is not what --keep writes"):
        files.read(path)


@pytest.mark.slow
def test_the_script(run, tmp_path):
    path = tmp_path / "kept"
    asked = "--only=measuring.[cu]*", "--most=3"
    code, out, err = run("pins.py", f"--keep={path}", *asked)
    assert code == 0 and "2 cases" not in err, err
    code, out, err = run("pins.py", f"--compare={path}", *asked)
    assert code == 0 and "0 differences in 0 cases" in out, out + err
    document = json.loads(path.read_text())
    value = document["cases"]["measuring.calibration"]["value"]
    value["area"]["digest"] = "another"
    path.write_text(json.dumps(document))
    code, out, err = run("pins.py", f"--compare={path}", *asked)
    assert code == 1 and "measuring.calibration: 1 differences" in out
    assert "value.area.digest" in out
    code, out, err = run("pins.py", *asked)
    assert code == 1 and "give either --keep or --compare" in out + err
