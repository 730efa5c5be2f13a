"""Journals: what is there is taken, what is not is computed, nothing twice."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jaxrob
from jaxrob import strategies

from . import interrupted
from .interrupted import assess, roma, steps

PROGRAM = interrupted.__file__


def same(first, second):
    for one, other in zip(first, second, strict=True):
        for name in ("levels", "predicted", "confidence", "uncertainty"):
            np.testing.assert_array_equal(
                getattr(one.curve, name), getattr(other.curve, name)
            )


def test_result_is_that_without_a_journal(tmp_path):
    path = tmp_path / "journal"
    plain = assess(strategies.Uniform(5), None)
    same(assess(strategies.Uniform(5), path), plain)
    written = path.read_bytes()
    same(assess(strategies.Uniform(5), path), plain)
    assert path.read_bytes() == written


def test_cut_anywhere_it_goes_on_and_computes_nothing_twice(tmp_path):
    whole = tmp_path / "whole"
    expected = assess(strategies.Uniform(5), whole)
    content = whole.read_bytes()
    random = np.random.default_rng(0)
    for number, length in enumerate(random.integers(0, len(content), 20)):
        path = tmp_path / str(number)
        path.write_bytes(content[:length])
        same(assess(strategies.Uniform(5), path), expected)
        assert path.read_bytes() == content
    found = steps(whole)
    assert len(found) == len(set(found)) == 2 * 5 * 20


@pytest.mark.slow
def test_killed_it_goes_on(tmp_path):
    interrupted.check_kills(tmp_path, kills=3, seed=0)


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


def test_other_runs_are_refused_and_told_apart(tmp_path):
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
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged at byte"):
        assess(strategies.Uniform(3), path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("text", ["hello", "hello\nworld\n", "x" * 10000])
def test_other_files_are_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no journal"):
        assess(strategies.Uniform(3), path)
    assert path.read_text() == text


@pytest.mark.slow
def test_full_disk_leaves_what_was_written(tmp_path):
    path = tmp_path / "journal"

    full = subprocess.run(
        [sys.executable, PROGRAM, f"--journal={path}", "--largest_file=30000"],
        capture_output=True,
        text=True,
    )
    assert full.returncode != 0
    assert "the journal cannot be written" in full.stderr and str(path) in full.stderr
    assert 20_000 < path.stat().st_size <= 30_000
    before = steps(path)
    assess(strategies.Uniform(41), path)
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
