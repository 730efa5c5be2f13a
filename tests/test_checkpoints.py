"""Modified checkpoints: rejected by name, or harmless."""

import pathlib
import shutil

import jax
import numpy as np
import optax
import pytest

from jaxrob.training._fit import open_checkpoints, restore, save
from jaxrob.training._step import TrainingState

# Files that orbax leaves behind when it fails.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SETTINGS = {"module": "some", "key": [0, 1], "batch_size": 16}


def state(seed):
    rng = np.random.default_rng(seed)
    params = {
        "Dense_0": {"kernel": rng.normal(size=(40, 30)), "bias": rng.normal(size=30)}
    }
    params = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, np.float32), params)
    statistics = {"batch_stats": {"mean": jax.numpy.ones(30)}}
    return TrainingState(params, statistics, optax.adam(0.1).init(params))


def restored(path, like, **changes):
    checkpoints = open_checkpoints(path, **(SETTINGS | changes))
    try:
        return restore(checkpoints, like)
    finally:
        checkpoints.manager.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Folders of two trainings of the same settings."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for seed in range(2):
        checkpoints = open_checkpoints(folder / str(seed), **SETTINGS)
        save(checkpoints, 4, state(seed))
        checkpoints.manager.close()
    return folder


def flipped(at):
    """The only damage that orbax does not detect: it gave other weights."""

    def change(data):
        damaged = bytearray(data)
        damaged[int(at * len(data))] ^= 0x10
        return damaged

    return change


DAMAGE = {
    "flipped": flipped(0.1),
    "flipped in the middle": flipped(0.5),
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "deleted": None,
    "random": lambda data: np.random.default_rng(0).bytes(len(data)),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_found(tmp_path, kept, how):
    whole, _ = restored(kept / "0", state(2))
    jax.tree.map(np.testing.assert_array_equal, whole, state(0))
    path = tmp_path / "a"
    shutil.copytree(kept / "0", path)
    largest = max(path.rglob("d/*"), key=lambda path: path.stat().st_size)
    data = largest.read_bytes()
    largest.unlink()
    if DAMAGE[how]:
        largest.write_bytes(DAMAGE[how](data))
    with pytest.raises(ValueError, match=f"checkpoint {path} is damaged"):
        restored(path, state(2))


def test_a_checkpoint_of_another_number_of_steps(tmp_path, kept):
    shutil.copytree(kept / "0", tmp_path / "a")
    (tmp_path / "a" / "4").rename(tmp_path / "a" / "400")
    with pytest.raises(ValueError, match="a is damaged: .* step 400"):
        restored(tmp_path / "a", state(2))


def test_other_settings_and_missing_folders(tmp_path, kept):
    with pytest.raises(ValueError, match="0 is of another batch_size"):
        restored(kept / "0", state(0), batch_size=17)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="checkpoint .*file is no folder"):
        restored(tmp_path / "file", state(0))
    with pytest.raises(ValueError, match="checkpoint /dev/null is no folder"):
        restored(pathlib.Path("/dev/null"), state(0))
