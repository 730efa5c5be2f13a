"""The tests' share of a machine: small, large, and limited ones."""

import os

import pytest

from . import machine

GIB = 2**30


@pytest.fixture
def limits(tmp_path, monkeypatch):
    """Writes files of control groups; the machine has 64 cores and much memory."""
    monkeypatch.setattr(machine, "_CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 1e12}.get)

    def write(membership, files):
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


@pytest.mark.parametrize(
    "membership, files, number",
    [
        ("", {}, 64),
        # Version 2: a group has its parents' limits too.
        ("0::/a/b\n", {"a/memory.max": f"{8 * GIB}\n", "a/b/memory.max": "max"}, 2),
        ("0::/a\n", {"a/cpu.max": "250000 100000\n"}, 3),
        ("0::/a\n", {"a/cpu.max": "max 100000\n", "a/memory.max": "max"}, 64),
        # Version 1.
        ("9:memory:/a\n", {"memory/a/memory.limit_in_bytes": str(13 * GIB)}, 4),
        (
            "2:cpu,cpuacct:/\n",
            {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"},
            1,
        ),
    ],
)
def test_processes_follow_the_machine(limits, membership, files, number):
    limits(membership, files)
    found, words = machine.processes()
    assert found == number and words.startswith(f"{number} process")


def test_old_files_make_room(tmp_path):
    current, other = tmp_path / "new", tmp_path / "old"
    for folder in (current, other):
        folder.mkdir()
        for age in range(4):
            path = folder / f"{age}"
            path.write_bytes(bytes(10))
            os.utime(path, (1000 - age, 1000 - age))
    machine.bound_size(tmp_path, current, 80)
    assert len(list(tmp_path.rglob("?"))) == 8
    machine.bound_size(tmp_path, current, 25)
    assert sorted(path.name for path in current.iterdir()) == ["0", "1"]
    assert not other.exists()
