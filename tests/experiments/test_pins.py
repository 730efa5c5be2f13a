"""Kept results of calls: equal runs show no difference, and planted ones are found.

A few cases are run here; `experiments/pins.py` runs all.
"""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest
from pinned import kept
from pinned.differences import Intended, compared, report

import jaxrob

FEW = ("assessing.thresholds", "comparing.measures")


def all_few():
    return {name: kept.result(kept.cases(name)[name]) for name in FEW}


@pytest.fixture(scope="module")
def before():
    return all_few()


def found(before, intended=()):
    return compared(before, all_few(), intended)


@pytest.mark.slow
def test_another_run_gives_the_same(before, tmp_path):
    kept.write(tmp_path / "kept", before)
    again = kept.read(tmp_path / "kept")
    assert not any(kept.RAISED in one for one in again.values())
    verdict = found(again)
    assert not verdict.found, report(verdict, 9)
    assert before["assessing.thresholds"]["warnings"]


@pytest.mark.slow
def test_a_number_that_moves_by_one_bit_is_found(before, monkeypatch):
    exact = jaxrob.compare

    def other(*assessments):
        found = exact(*assessments)
        moved = math.nextafter(found.mean_difference, 1)
        return dataclasses.replace(found, mean_difference=moved)

    monkeypatch.setattr(jaxrob, "compare", other)
    differences = found(before).found
    assert {(one.case, one.path) for one in differences} == {
        ("comparing.measures", f"value.{measure}.{place}")
        for measure in ("f1", "recall", "effectiveness")
        for place in ("mean_difference", "to_json.mean_difference", "to_json.digest")
    }
    # An entry of the list covers them; an entry that covers nothing is reported.
    stale = Intended("assessing.*", "value.*.levels.*", "other levels")
    elsewhere = Intended("training.*", "*", "of cases that are not run")
    digest = Intended("comparing.*", "*.digest", "of it")
    intended = [Intended("comparing.*", "*.mean_difference", "one bit"), digest, stale]
    verdict = found(before, [*intended, elsewhere])
    assert not verdict.found and verdict.unused == [stale]
    assert verdict.intended[intended[0]] == 6
    assert "intended: one bit: 6 differences" in report(verdict, 9)


@pytest.mark.parametrize(
    "one, other",
    [
        (0.0, -0.0),
        (1, True),
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
        given = [json.loads(json.dumps(kept.kept(each))) for each in (first, second)]
        return compared({"case": given[0]}, {"case": given[1]}, ()).found

    assert differences(one, other)
    assert not differences(one, one) and not differences(other, other)


@pytest.mark.slow
def test_the_script(run, tmp_path):
    path = tmp_path / "kept"
    asked = "--only=measuring.[cu]*", "--most=3"
    code, out, err = run("pins.py", f"--keep={path}", *asked)
    assert code == 0 and "2 cases" not in err, err
    document = json.loads(path.read_text())
    value = document["cases"]["measuring.calibration"]["value"]
    value["area"]["digest"] = "another"
    path.write_text(json.dumps(document))
    code, out, err = run("pins.py", f"--compare={path}", *asked)
    assert code == 1 and "measuring.calibration: 1 differences" in out
    assert "value.area.digest" in out
    code, out, err = run("pins.py", *asked)
    assert code == 1 and "give either --keep or --compare" in out + err
