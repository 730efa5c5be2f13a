"""The numbers within a page, and the record of runs."""

import dataclasses

import numpy as np
import pytest

import jaxrob
from jaxrob.reporting import (
    File,
    Run,
    read_report,
    read_results,
    to_html,
    write_results,
)

from . import reports as made

RUN = Run(
    "jaxrob assess --images='a b'",
    "2026-03-01T10:00:00+00:00",
    "Linux-6.1-x86_64",
    "A. Tester",
    "Lab of Tests",
    (File("network", "net.onnx", "ab" * 32), File("pictures", "pets", None)),
    ("pets: 2 of 60 pictures were left out",),
)


def page_of(tmp_path, *found):
    path = tmp_path / "report.html"
    path.write_text(to_html(found), "utf-8")
    return path


def test_the_numbers_are_read_back_to_the_bit(tmp_path):
    one = made.assessment()
    page = page_of(tmp_path, made.results((one,)))
    data = read_report(page)
    (network,) = data["networks"]
    (stored,) = network["assessments"]
    assert stored["robustness"] == one.robustness
    assert stored["confidence_interval"] == list(one.confidence_interval)
    np.testing.assert_array_equal(stored["levels"], one.levels)
    np.testing.assert_array_equal(stored["values"], one.values)
    assert network["requirements"][0]["quantity"] == "robustness"


def test_names_cannot_end_the_data(tmp_path):
    name = "</script><b><!--<script>]]>&lt;\u2028\x00"
    run = RUN._replace(command=name, tester=name, machine=name, warnings=(name,))
    page = page_of(tmp_path, made.results(network=name, runs=(run,)))
    assert page.read_text("utf-8").count("<script") == 1
    (network,) = read_report(page)["networks"]
    assert network["name"] == network["runs"][0]["tester"] == name
    for text in ("<p>hello</p>", "\0\xff"):
        page.write_text(text, "utf-8")
        with pytest.raises(ValueError, match="has no data"):
            read_report(page)


def test_runs_are_kept_beside_the_results(tmp_path):
    alone, known = tmp_path / "alone", tmp_path / "known"
    write_results(alone, made.results())
    write_results(known, made.results(runs=(RUN,)))
    assert read_results(known).runs == (RUN,)
    same = {one.name: one.read_bytes() for one in alone.iterdir()}
    there = {one.name: one.read_bytes() for one in known.iterdir()}
    (runs,) = there.keys() - same.keys()
    assert runs.startswith("runs-") and there.pop(runs) and there == same
    write_results(known, made.results())
    assert {one.name for one in known.iterdir()} == same.keys()


def test_ranks_keep_their_warnings():
    one, other = made.assessment(), made.other(made.assessment())
    keys = [
        dataclasses.replace(
            each, provenance=each.provenance | {"stochastic": True, "key": [0, at]}
        )
        for at, each in enumerate((one, other))
    ]
    pair = [made.results((each,), network=str(at)) for at, each in enumerate(keys)]
    with pytest.warns(jaxrob.RobustnessWarning, match="from other keys"):
        forms = made.both(pair)
    for form in forms:
        assert "Warning: the two assessments of gaussian blur drew" in form
