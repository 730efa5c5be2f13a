"""Journals: what is there is taken, what is not is computed, nothing twice."""

import base64
import contextlib
import json
import os
import resource

import numpy as np
import pytest

import jaxrob
from jaxrob import strategies
from jaxrob._engine.journal import Journal

from ..assessment.documents import journal_line
from . import interrupted
from .interrupted import assess, roma, steps


def same(first, second):
    for one, other in zip(first, second, strict=True):
        for name in ("levels", "predicted", "confidence", "uncertainty"):
            np.testing.assert_array_equal(
                getattr(one.curve, name), getattr(other.curve, name)
            )


@pytest.mark.slow
def test_cut_anywhere_it_goes_on_and_computes_nothing_twice(tmp_path):
    whole = tmp_path / "whole"
    expected = assess(strategies.Uniform(5), None)
    same(assess(strategies.Uniform(5), whole), expected)
    content = whole.read_bytes()
    same(assess(strategies.Uniform(5), whole), expected)
    assert whole.read_bytes() == content
    random = np.random.default_rng(0)
    for number, length in enumerate(random.integers(0, len(content), 4)):
        path = tmp_path / str(number)
        path.write_bytes(content[:length])
        in_header = 0 < length <= content.index(b"\n")
        seen = pytest.warns(jaxrob.RobustnessWarning, match="was damaged")
        with seen if in_header else contextlib.nullcontext():
            same(assess(strategies.Uniform(5), path), expected)
        assert path.read_bytes() == content
    found = steps(whole)
    assert len(found) == len(set(found)) == 2 * 5 * 20


@pytest.mark.slow
def test_killed_it_goes_on(tmp_path):
    interrupted.check_kills(tmp_path, kills=1, seed=0, few=True)


@pytest.mark.slow
def test_strategies_and_counts_share_levels(tmp_path):
    path = tmp_path / "journal"
    assess(strategies.Uniform(9), path)
    # ASAP's first levels are among these.
    assess(strategies.ASAP(n=8, concavity=128.0), path)
    found = steps(path)
    assert len(found) == len(set(found)) == 2 * 9 * 20
    plain = assess(strategies.Uniform(9), None, reduced=True)
    for one, other in zip(assess(strategies.Uniform(9), path, reduced=True), plain):
        np.testing.assert_array_equal(one.curve.confusion, other.curve.confusion)
    assert len(steps(path)) == len(found)


@pytest.mark.slow
def test_other_runs_are_rejected_and_distinguished(tmp_path):
    path = tmp_path / "journal"
    assess(strategies.Uniform(3), path)
    written = path.read_bytes()
    with pytest.raises(ValueError, match=r"key was \[0, 0\], is \[0, 1\]"):
        assess(strategies.Uniform(3), path, key=1)
    other = jaxrob.Classifier(interrupted.apply, interrupted.weights + 1)
    with pytest.raises(ValueError, match="classifier was"):
        assess(strategies.Uniform(3), path, classifier=other)
    with pytest.raises(ValueError, match="kind was 'answers', is 'roma'"):
        roma(path)
    assert path.read_bytes() == written


def test_damage_before_the_end_is_refused(tmp_path):
    path = tmp_path / "journal"
    assess(strategies.Uniform(3), path)
    whole = path.read_bytes()
    content = bytearray(whole)
    content[len(content) // 2] ^= 1
    for wrong, message in ((content, "damaged at byte"), (2 * whole, "another journ")):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            assess(strategies.Uniform(3), path)
        assert path.read_bytes() == wrong


def test_one_run_writes_at_a_time(tmp_path, monkeypatch):
    path, header = tmp_path / "journal", {"kind": "answers"}
    with Journal(path, header) as first:
        first.append({"number": 1})
        before = path.read_bytes()
        with pytest.raises(OSError, match="journal"):
            Journal(path, header)
        assert path.read_bytes() == before
        # Without locks, lines of another run are noticed; none is cut.
        monkeypatch.setattr("jaxrob._files.fcntl", None)
        with Journal(path, header) as second:
            second.append({"number": 2})
        with pytest.raises(OSError, match="journal"):
            first.append({"number": 3})
    with Journal(path, header) as last:
        assert last.records == [{"number": 1}, {"number": 2}]


@pytest.mark.parametrize("torn", [5, 2000, 5000])
def test_a_long_header_may_be_torn(tmp_path, torn):
    path = tmp_path / "journal"
    with Journal(path, {"kind": "answers", "name": "n" * 5000}):
        whole = path.read_bytes()
    path.write_bytes(whole[:-torn])
    # There may have been results behind it.
    with pytest.warns(jaxrob.RobustnessWarning, match="bytes end within the first"):
        journal = Journal(path, {"kind": "answers", "name": "n" * 5000})
    with journal:
        assert journal.records == []
    assert path.read_bytes() == whole


@pytest.mark.parametrize("text", ["hello", "hello\nworld\n", "x" * 10000])
def test_other_files_are_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no journal"):
        assess(strategies.Uniform(3), path)
    assert path.read_text() == text


def test_full_disk_leaves_what_was_written(tmp_path):
    path = tmp_path / "journal"
    expected = assess(strategies.Uniform(41), None)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(OSError, match=f"journal cannot be written.*{path}"):
            assess(strategies.Uniform(41), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 20_000 < path.stat().st_size <= 30_000
    before = steps(path)
    same(assess(strategies.Uniform(41), path), expected)
    after = steps(path)
    assert after[: len(before)] == before and len(after) == len(set(after))


def test_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        assess(strategies.Uniform(3), tmp_path / "nowhere" / "journal")
    if os.geteuid() != 0:  # root may write everywhere
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError, match="journal"):
            assess(strategies.Uniform(3), tmp_path / "journal")


@pytest.mark.slow
def test_roma_goes_on(tmp_path):
    path = tmp_path / "journal"
    expected = roma(None).to_json()
    assert roma(path).to_json() == expected
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert roma(path).to_json() == expected
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match=r"settings.epsilon was 0.3, is 0.4"):
        roma(path, epsilon=0.4)


def with_record(path, change, number=1):
    """Writes the journal anew with one record changed, and its checksum right."""
    lines = path.read_bytes().splitlines(keepends=True)
    changed = change(json.loads(lines[number].partition(b" ")[2]))
    text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    lines[number] = journal_line(text)
    path.write_bytes(b"".join(lines))


def without(name):
    return lambda record: {k: v for k, v in record.items() if k != name}


def array(values, dtype=None):
    values = np.asarray(values, dtype)
    data = base64.b64encode(values.tobytes()).decode()
    return {"dtype": values.dtype.str, "shape": list(values.shape), "data": data}


def entry(**changes):
    return lambda record: record | changes


def of(name, **changes):
    return lambda record: record | {name: record[name] | changes}


WRONG = {
    "no object": lambda record: [],
    "no JSON": lambda record: b'{"alteration": ',
    "deep": lambda record: b"[" * 100_000,
    "a level NaN": entry(levels=array([np.nan], "<f8")),
    "levels as numbers": entry(levels=[0.0]),
    "start negative": entry(start=-20),
    "alteration number": entry(alteration=3),
    "class beyond": of("predicted", data=array([[9] * 20] * 3, "<i4")["data"]),
    "confidence above 1": entry(confidence=array([[2.0] * 20], "<f4")),
    "uncertainty NaN": entry(uncertainty=array([[np.nan] * 20], "<f4")),
    "fewer answers": entry(uncertainty=array([[0.5] * 19], "<f4")),
    "no base64": of("confidence", data="?!"),
    "objects": of("confidence", dtype="|O"),
    "shape huge": of("confidence", shape=[10**9, 10**9]),
} | {f"{name} missing": without(name) for name in ("levels", "start", "confidence")}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("journals") / "journal"
    assess(strategies.Uniform(3), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_contents_with_a_right_checksum(tmp_path, written, name):
    path = tmp_path / "journal"
    path.write_bytes(written)
    with_record(path, WRONG[name])
    before = path.read_bytes()
    with pytest.raises(ValueError, match="(?s)journal: record 1 is wrong: "):
        assess(strategies.Uniform(3), path)
    assert path.read_bytes() == before


ROMA_WRONG = {
    "indices of fewer": entry(indices=array([7], "<u4")),
    "indices below 0": entry(indices=array([-1] * 256, "<i4")),
    "indices missing": without("indices"),
    "fields missing": without("fields"),
    "fields list": entry(fields=[]),
    "another field": of("fields", beauty=array([1.0], "<f8")),
    "too few": of("fields", log_low=array([-1.0], "<f8")),
    "no status": of("fields", status=array([""] * 256, "<U4")),
    "status of objects": of("fields", status={"dtype": "|O", "shape": [256]}),
    "infinite": of("fields", log_low=array([np.inf] * 256, "<f8")),
    "negative hits": of("fields", hits=array([-1] * 256, "<i8")),
}


@pytest.mark.slow
def test_romas_wrong_contents_with_a_right_checksum(tmp_path):
    path = tmp_path / "journal"
    roma(path)
    content = path.read_bytes()
    for change in ROMA_WRONG.values():
        path.write_bytes(content)
        with_record(path, change)
        with pytest.raises(ValueError, match="journal: record 1 is wrong: .*move it"):
            roma(path)
    path.write_bytes(content)
    with_record(path, of("fields", mean=array([0.0] * 256, "<f8")))
    with pytest.raises(ValueError, match="journal: some records have other fields"):
        roma(path)
