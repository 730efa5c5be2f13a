"""Networks of Python files are told apart by their code, what it reads, and answers."""

import shutil
import sys

import numpy as np
import pytest

import jaxrob
from jaxrob._command import user_code
from jaxrob._command.network import identified, load_network
from jaxrob._command.run import _COMMANDS

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
    """A folder with the code and its files."""
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
    place, jaxrob_command, tmp_path
):
    shutil.copy(place / "net.py", tmp_path / "net.py")
    means = np.load(place / "means.npy")

    def assessed(means, output):
        np.save(tmp_path / "means.npy", means)
        user_code._modules.clear()
        user_code._read.clear()
        return jaxrob_command(
            "assess", f"--classifier={tmp_path / 'net.py'}:net", "--images=pictures",
            "--channels=grey", "--alterations=brightness", "--levels=3", "--pictures=0",
            "--noprogress", f"--journal={tmp_path / 'journal'}",
            f"--output={tmp_path / output}",
        )  # fmt: skip

    assert assessed(means, "first")[0] == 0
    for output, says in (
        ("first", "it holds results of another network"),
        ("second", "is the journal of another run"),
    ):
        status, _, said = assessed(means[::-1], output)
        assert status == 2 and says in said
    assert assessed(means, "first")[0] == 0
