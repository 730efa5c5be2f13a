"""Files that the command is given: what cannot be meant, and whose network it is."""

import os
import shutil
import sys

import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob._command import user_code
from jaxrob._command.define import Refused
from jaxrob._command.flow import held
from jaxrob._command.network import identified, load_network
from jaxrob._command.run import _COMMANDS

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
    check(assess(f"--images={folder}"), 2, "returns 10 classes, but pictures has 9")


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


CODE = '''
"""Linear networks whose weights come from files, in several ways."""
import pathlib
import jax.numpy as jnp
import numpy as np
import jaxrob
from its_helper import SCALE

HERE = pathlib.Path(__file__).parent
loaded = np.load(HERE / "loaded.npy")
with open(HERE / "log.txt", "a") as log:
    log.write("loaded")
(HERE / ".cache" / "state.txt").read_text()


def linear(images):
    return SCALE * images.reshape(len(images), -1) @ loaded


def lazy(images):
    return images.reshape(len(images), -1) @ np.load(HERE / "lazy.npy")


def made():
    weights = np.load(HERE / "made.npy")
    return lambda images: images.reshape(len(images), -1) @ weights


def in_jax():
    weights = jnp.asarray(np.load(HERE / "in_jax.npy"))

    def apply(_, images):
        return images.reshape(len(images), -1) @ weights

    return jaxrob.Classifier(apply, ())


def random(images):
    return np.random.default_rng().normal(size=(len(images), 3))
'''
NAMES = ("loaded", "lazy", "made", "in_jax")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "one"
    (folder / ".cache").mkdir(parents=True)
    (folder / ".cache" / "state.txt").write_text("1")
    (folder / "net.py").write_text(CODE)
    (folder / "its_helper.py").write_text("SCALE = 2.0\n")
    for name in NAMES:
        np.save(folder / f"{name}.npy", weights(0))
    return folder


def weights(seed):
    return np.random.default_rng(seed).normal(size=(16, 3)).astype(np.float32)


def identity(folder, name):
    """The digest in results of a network, loaded as by a new process."""
    user_code._modules.clear()
    user_code._read.clear()
    sys.modules.pop("its_helper", None)
    values = _COMMANDS["assess"].flags
    values(["assess", f"--classifier={folder / 'net.py'}:{name}"])
    images = np.zeros((2, 4, 4, 1), np.float32)
    found = load_network(values, None)
    found = identified(found, values.classifier, images.shape[1:])
    found = jaxrob.provenance(found, jaxrob.Dataset(images))
    assert found["classifier"] is not None
    return found["classifier"]


def test_the_same_network_is_the_same_in_each_process_and_folder(folder):
    for name in ("linear", "lazy", "made", "in_jax", "random"):
        first = identity(folder, name)
        # What is compiled now, logged and cached is not the network's.
        (folder / ".cache" / "state.txt").write_text("2")
        assert identity(folder, name) == first
        other = shutil.copytree(folder, folder.parent / f"{name}s")
        assert identity(other, name) == first


@pytest.mark.parametrize("name", ["linear", "lazy", "made", "in_jax"])
def test_other_weights_are_another_network(folder, name):
    first = identity(folder, name)
    np.save(folder / f"{name}.npy".replace("linear", "loaded"), weights(1))
    assert identity(folder, name) != first


def test_weights_that_hardly_change_answers_are_noticed_in_files_that_are_loaded(
    folder,
):
    for name, file in (("linear", "loaded"), ("made", "made")):
        first = identity(folder, name)
        np.save(folder / f"{file}.npy", weights(0) + np.float32(1e-6))
        assert identity(folder, name) != first


def test_an_imported_module_counts(folder):
    first = identity(folder, "linear")
    (folder / "its_helper.py").write_text("SCALE = 2.000001  # Hardly more.\n")
    assert identity(folder, "linear") != first


def test_neither_journal_nor_results_answer_for_another_network(
    place, assess, tmp_path
):
    shutil.copy(place / "net.py", tmp_path / "net.py")
    means = np.load(place / "means.npy")

    def assessed(means, output):
        np.save(tmp_path / "means.npy", means)
        user_code._modules.clear()
        user_code._read.clear()
        named = f"--classifier={tmp_path / 'net.py'}:net"
        kept = f"--journal={tmp_path / 'journal'}", f"--output={tmp_path / output}"
        return assess(named, *kept)

    assert assessed(means, "first")[0] == 0
    for output, says in (
        ("first", "it holds results of another network"),
        ("second", "is the journal of another run"),
    ):
        status, _, said = assessed(means[::-1], output)
        assert status == 2 and says in said
    assert assessed(means, "first")[0] == 0
