"""Values, folders and files that cannot be meant are refused before any work."""

import os
import shutil

import pytest

from jaxrob import reporting
from jaxrob._command.define import Refused
from jaxrob._command.results import held

from .outcomes import check, only, succeeded


@pytest.mark.parametrize("flag", ["output", "classifier", "report"])
def test_an_empty_value_is_refused_by_name(assess, tmp_path, flag):
    for value in ("", " "):
        check(assess(f"--{flag}={value}"), 2, f"--{flag}: its value is empty")
    check(assess(f"--{flag}", "--dry_run"), 2, f"--{flag}: its value is missing")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--seed=99999999999999999999999", "seed"),
        ("--seed=4294967296", "seed"),
        ("--channels_first=maybe", "--channels_first=maybe: expected true or false"),
        ("--output=net.py/x", "net.py/x: Not a directory"),
        ("--output=/proc/xx", "cannot be written, /proc/xx"),
        ("--report=net.py/x.html", "cannot be written, net.py"),
        ("--journal=net.py/x", "--journal=net.py/x: it cannot be written"),
        (f"--output={'x' * 300}", "File name too long"),
    ],
)
def test_what_cannot_be_used_is_2_and_one_line(assess, argument, says):
    status, _, err = assess(argument)
    assert status == 2 and says in err, err
    assert len(err.splitlines()) == 1 and "[Errno" not in err and "('" not in err


def test_trying_a_place_leaves_nothing(assess, tmp_path):
    report = tmp_path / "old.html"
    report.write_text("as it was")
    arguments = (f"--report={report}", f"--report={tmp_path / 'a' / 'new.md'}")
    status, _, _ = assess(*arguments, "--dry_run", f"--journal={tmp_path / 'j'}")
    assert status == 0 and report.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["old.html"]


def test_another_networks_results_are_not_replaced(assess, tmp_path):
    folder = tmp_path / "results"
    assert assess()[0] == 0
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    check(assess("--classifier=net.py:worse"), 2, "it holds results of another network")
    assert before == {one.name: one.read_bytes() for one in folder.iterdir()}
    said = "from the same file or weights, but with other --outputs"
    check(assess("--outputs=probabilities"), 2, said)
    # Its own are replaced.
    assert assess("--levels=5")[0] == 0
    assert len(only(folder).levels) == 5


@pytest.mark.slow
def test_what_else_is_known_of_the_network_stays(assess, roma, tmp_path):
    assert assess()[0] == 0
    succeeded(roma("--require=plr>=0"))
    assert assess("--levels=4", "--require=robustness>=0")[0] == 0
    found = reporting.read_results(tmp_path / "results")
    assert [len(one.levels) for one in found.assessments] == [4]
    assert len(found.roma.plr) == 40
    assert {one.quantity for one in found.requirements} == {"plr", "robustness"}


def test_nothing_of_the_same_network_is_lost(assess, roma, tmp_path):
    """Neither another alteration's results nor a gate that failed."""
    folder = tmp_path / "results"
    both = "--alterations=brightness", "--alterations=contrast"
    assert assess(*both, "--require=robustness>=1")[0] == 1
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    says = "drop the results of contrast and the requirement robustness >= 1, which"
    check(assess(), 2, says)
    check(assess(*both), 2, "would drop the requirement robustness >= 1, which")
    assert before == {one.name: one.read_bytes() for one in folder.iterdir()}
    # What replaces it may be another number, which the report then shows.
    assert assess(*both, "--require=robustness>=0")[0] == 0
    # One that is met is not needed any more.
    assert assess(*both)[0] == 0
    assert roma("--require=plr.low>=1")[0] == 1
    check(roma(), 2, "would drop the requirement plr.low >= 1, which")


def test_two_runs_do_not_write_into_one_folder(assess, tmp_path):
    folder = tmp_path / "results"
    with held(folder):
        check(assess(), 2, "another run writes there")
        with pytest.raises(Refused), held(folder):
            pass
    assert not folder.exists()
    assert assess()[0] == 0


def test_a_class_folder_too_many_is_named(assess, place, tmp_path):
    folder = tmp_path / "pictures"
    shutil.copytree(place / "pictures", folder)
    shutil.copytree(folder / "3", folder / "spare")
    says = "it has no output for 'spare'", "--class_names", "--labels=none"
    check(assess(f"--images={folder}"), 2, *says)
    shutil.rmtree(folder / "spare")
    shutil.rmtree(folder / "9")
    ran = assess(f"--images={folder}")
    check(ran, 2, "returns 10 classes, but pictures has 9")


def test_a_file_with_a_mistake_names_the_flag(assess, tmp_path):
    (tmp_path / "bad.py").write_text("x = 1\ndef net(:\n")
    for flag in ("classifier", "alterations"):
        ran = assess(f"--{flag}={tmp_path / 'bad.py'}:net")
        check(ran, 2, f"--{flag}=", "in line 2")


def test_an_interruption_says_what_is_kept(assess, tmp_path, interrupted):
    journal = f"--journal={tmp_path / 'journal'}"
    both = ("--alterations=brightness", "--alterations=contrast")
    status, _, err = assess(*both)
    done = f"interrupted; 1 of 2 alterations are finished, in {tmp_path / 'results'}/"
    assert status == 3 and done in err and "rerun" not in err
    assert only(tmp_path / "results").alteration == "brightness"
    ran = assess(both[1], journal, f"--output={tmp_path / 'none'}")
    check(ran, 3, "no alteration is finished; a rerun")
    assert not (tmp_path / "none").exists()


def test_an_interruption_between_alterations_loses_none(assess, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reporting, "pictures", stop)
    both = ("--alterations=brightness", "--alterations=contrast", "--pictures=3")
    status, _, err = assess(*both)
    assert status == 3 and "1 of 2 alterations are finished" in err
    assert only(tmp_path / "results").alteration == "brightness"
