"""Any bytes give a clear error or a valid object; see `fuzzing/run.py`."""

import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("fuzzing") / "run.py"
READERS = (
    "JSON",
    "few images' JSON",
    "journal",
    "scores' journal",
    "RoMA's journal",
    "npz",
    "weights",
    "idx",
    "tar",
    "image folder",
    "RoMA's JSON",
    "attack",
    "plan",
    "results",
    "pictures",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory, cases):
    """The outcomes of the mutated files, by reader."""
    folder = tmp_path_factory.mktemp("fuzz")
    process = subprocess.run(
        [sys.executable, PROGRAM, folder, str(cases), "0"],
        capture_output=True,
        text=True,
        # For hangs that ignore signals.
        timeout=120 + cases,
    )
    assert process.returncode == 0, process.stderr
    return {
        one["name"]: one for one in map(json.loads, process.stdout.splitlines())
    } | {"cases": cases}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_any_bytes_are_refused_or_valid(found, reader):
    one = found[reader]
    assert not one["failures"], "\n".join(f"{p}: {why}" for p, why in one["failures"])
    assert one["refused"] + one["read"] == found["cases"]
    assert one["refused"] > one["read"] / 4
