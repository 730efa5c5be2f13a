"""The numbers within a page, the record of runs, and the check of a page."""

import dataclasses
import re

import numpy as np
import pytest

import jaxrob
from jaxrob.reporting import (
    File,
    Run,
    check_report,
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


def changed(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_the_numbers_are_read_back_to_the_bit(tmp_path):
    one = made.assessment()
    page = page_of(tmp_path, made.results((one,)))
    assert check_report(page, [made.results((one,))]) == () == check_report(page)
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


def test_a_changed_number_is_found_wherever_it_is(tmp_path):
    one = made.assessment()
    found = made.results((one,))
    shown = f"{100 * one.robustness:.1f} %"
    # Only where it is read.
    page = page_of(tmp_path, found)
    changed(page, f"<b>{shown}</b>", "<b>99.9 %</b>")
    (damaged,) = check_report(page)
    assert "its digest is another" in damaged
    told = check_report(page, [found])
    assert any("99.9 %" in each and shown in each for each in told)
    # Only in the data.
    page = page_of(tmp_path, found)
    changed(page, f'"robustness":{one.robustness}', '"robustness":0.999')
    assert any(
        "robustness: the page has 0.999" in t for t in check_report(page, [found])
    )
    # A forged digest hides it from the page alone, not from the results.
    page = page_of(tmp_path, found)
    better = dataclasses.replace(one, threshold=0.5)
    page.write_text(to_html([made.results((better,))]), "utf-8")
    assert check_report(page) == ()
    assert check_report(page, [found])


def test_a_page_of_other_versions_is_compared_by_its_data_alone(tmp_path):
    found = made.results()
    page = page_of(tmp_path, found)
    text = page.read_text("utf-8")
    blank = re.sub(r'"digest":"\w{64}"', f'"digest":"{"0" * 64}"', text)
    blank = re.sub(r'"jaxrob":"[^"]+"', '"jaxrob":"0.0.9"', blank, count=1)
    from jaxrob.reporting._report.data import with_digest

    page.write_text(with_digest(blank), "utf-8")
    with pytest.raises(ValueError, match=r"text cannot be compared.*0\.0\.9"):
        check_report(page, [found])
    other = made.results((made.assessment(np.full(60, 9.0)),))
    assert any("robustness" in each for each in check_report(page, [other]))


def test_runs_are_kept_beside_the_results(tmp_path):
    alone, known = tmp_path / "alone", tmp_path / "known"
    write_results(alone, made.results())
    write_results(known, made.results(runs=(RUN,)))
    assert read_results(known).runs == (RUN,)
    same = {one.name: one.read_bytes() for one in alone.iterdir()}
    there = {one.name: one.read_bytes() for one in known.iterdir()}
    assert there.pop("runs.json") and there == same
    write_results(known, made.results())
    assert not (known / "runs.json").exists()


def test_a_report_says_who_when_and_how():
    for form in made.both([made.results(runs=(RUN,))]):
        wanted = (RUN.tester, RUN.organisation, "2026-03-01", RUN.command, "Linux-6.1")
        left_out = "2 of 60 pictures were left out"
        shown = form.replace("&#39;", "'")
        assert not made.lacking(shown, *wanted, "ab" * 32, left_out)
    for form in made.both([made.results()]):
        assert "not recorded" in form and "No run of the command was recorded" in form


def test_the_networks_that_could_be_best_are_named():
    low, high = made.assessment(), made.assessment(np.full(60, 9.0))
    first = made.results((low,))
    second = made.results((made.other(high),), network="robust net")
    for form in made.both([first, second]):
        said = " ".join(form.split())
        assert "of gaussian blur: robust net. Ranks" in said
        assert re.search(r"robust net 1 \(mean [\d.]+ %\), net 2 \(mean", said)
        assert "share, where equal ones all count: net for 0, robust net for 1." in said
        assert "Beyond what chance explains, robust net is more robust than net" in said
    alike = made.results((made.other(low),), network="twin")
    page = to_html([first, alike])
    assert "of gaussian blur: net, twin. Ranks" in page
    assert "No difference is beyond what chance explains." in page


def test_ranks_keep_their_warnings_and_say_why_there_are_none():
    one, other = made.assessment(), made.other(made.assessment())
    bare = [dataclasses.replace(each, provenance={}) for each in (one, other)]
    pair = [made.results((each,), network=str(at)) for at, each in enumerate(bare)]
    for form in made.both(pair):
        assert "There are no ranks" in form and "provenance" in form
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
