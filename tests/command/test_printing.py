"""Outputs that are closed, full or read in part, and signals that end the process."""

import os
import signal
import sys

import pytest

import jaxrob
from jaxrob._command.ending import plain

from .outcomes import process, succeeded

SMALL = (
    "assess --classifier=net.py:net --images=pictures --channels=grey "
    "--alterations=brightness --levels=2"
)


def shell(place, command):
    """The status of a line of bash, what it printed, and what it said."""
    defined = f"jaxrob() {{ '{sys.executable}' -m jaxrob \"$@\"; }}"
    ran = process(["bash", "-c", f"{defined}; {command}"], cwd=place)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.slow
def test_help_and_lists_that_nobody_reads(place):
    assert shell(place, "jaxrob --help >&-") == (0, "", "")
    piped = shell(place, "set -o pipefail; jaxrob assess --help | true")
    assert piped == (0, "", "")
    assert shell(place, "jaxrob assess --bogus 2>&-")[:2] == (2, "")
    if os.path.exists("/dev/full"):
        assert shell(place, "jaxrob assess --bogus 2>/dev/full")[0] == 2
        status, _, err = shell(place, "jaxrob --help >/dev/full")
        assert status == 3 and "No space left" in err and len(err.splitlines()) == 1


@pytest.mark.slow
def test_the_status_is_that_of_the_work_if_nobody_reads_it(place, tmp_path):
    asked = (
        f"jaxrob {SMALL} --output={tmp_path} --require='robustness>=1' --threshold=1"
    )
    assert shell(place, f"set -o pipefail; {asked} | true")[0] == 1


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_signal_to_end_is_3_and_said(assess, name):
    known, number = jaxrob.assess, getattr(signal, f"SIG{name}")

    def ended(*arguments, **named):
        os.kill(os.getpid(), number)
        return known(*arguments, **named)

    before = signal.signal(number, signal.SIG_DFL)  # nohup has SIGHUP ignored
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxrob, "assess", ended)
        status, _, err = assess()
    assert status == 3
    assert f"ended by SIG{name}; no alteration is finished" in err
    assert len(err.splitlines()) == 1
    assert signal.signal(number, before) == signal.SIG_DFL


def test_control_characters_do_not_reach_the_terminal(assess, tmp_path):
    (tmp_path / "red.py").write_text(
        "def net(images):\n    raise ValueError('\\x1b[31mred\\x07\\x9b1m')\n"
    )
    status, _, err = assess(f"--classifier={tmp_path / 'red.py'}:net")
    assert status == 3 and not {"\x1b", "\x07", "\x9b"} & set(err)
    assert r"\x1b[31mred\x07\x9b1m" in err.splitlines()[-1]
    assert plain("a\tb\nÄ\x1b") == "a\tb\nÄ\\x1b"
    out = succeeded(assess("--name=a\x1b[2Jb"))
    assert "\x1b" not in out and r"a\x1b[2Jb on pictures" in out
