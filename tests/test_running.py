"""How tests run: their share of a machine, and deprecations that they cause."""

import importlib
import os
import sys

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


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A package that warns in three ways, with any caller, and a user of it."""
    (tmp_path / "warner").mkdir()
    (tmp_path / "warner" / "__init__.py").write_text(
        "import warnings\n"
        "from warner import inner\n"
        "def called():\n"
        "    warnings.warn('no more called', DeprecationWarning)\n"
        "def deep():\n"
        "    inner.warn()\n"
        "def __getattr__(name):\n"
        "    warnings.warn(f'no more {name}', FutureWarning, stacklevel=2)\n"
        "    return 3\n"
    )
    (tmp_path / "warner" / "inner.py").write_text(
        "import warnings\n"
        "def warn():\n"
        "    warnings.warn(PendingDeprecationWarning('no more deep'))\n"
    )
    (tmp_path / "user.py").write_text(
        "import warner\ndef use():\n    warner.called(), warner.deep(), warner.name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("warner"), importlib.import_module("user")
    for name in ("warner", "warner.inner", "user"):
        sys.modules.pop(name)


def test_what_the_project_causes_is_an_error(packages):
    warner, _ = packages
    with pytest.raises(DeprecationWarning, match="no more called"):
        warner.called()
    with pytest.raises(PendingDeprecationWarning, match="no more deep"):
        warner.deep()
    with pytest.raises(FutureWarning, match="no more other"):
        __import__("warner", fromlist=["other"])  # as `from warner import other`


@pytest.mark.filterwarnings("ignore:no more called:DeprecationWarning")
def test_what_a_test_ignores_by_its_words_is_none(packages):
    warner, _ = packages
    warner.called()
    with pytest.raises(PendingDeprecationWarning):
        warner.deep()


@pytest.mark.filterwarnings("always")
def test_what_packages_cause_among_themselves_stays_a_warning(packages):
    _, user = packages
    with pytest.warns() as found:
        user.use()
    assert len(found) == 3
