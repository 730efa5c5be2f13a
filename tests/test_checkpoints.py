"""Modified checkpoints: rejected by name, or harmless."""

import pathlib
import random
import shutil

import jax
import numpy as np
import optax
import pytest

from jaxrob.training._checkpoints import open_checkpoints, restore, save
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


def same(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other))
    return all(np.array_equal(a, b) for a, b in leaves)


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


def by_size(folder):
    """Returns the files by size; some names are random, so they give no order."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(found, key=lambda path: (path.stat().st_size, path.name))


def mutated(folder, others, rng):
    """Changes one file of a folder; returns what was done."""
    files = by_size(folder)
    path = rng.choice(files)
    what = rng.choice(["delete", "truncate", "flip", "flip", "flip", "swap", "random"])
    data = bytearray(path.read_bytes())
    if what == "delete":
        path.unlink()
    elif what == "truncate":
        path.write_bytes(data[: rng.randrange(len(data))])
    elif what == "random":
        path.write_bytes(rng.randbytes(len(data)))
    elif what == "swap":
        pool = files + by_size(others)
        path.write_bytes(rng.choice(pool).read_bytes())
    else:
        position = rng.randrange(8 * len(data))
        data[position // 8] ^= 1 << position % 8
        path.write_bytes(data)
    return f"{what} {path.relative_to(folder)}"


@pytest.mark.slow
def test_checkpoints_that_were_tampered_with(tmp_path, kept, cases):
    rng = random.Random(0)
    expected, like = state(0), state(2)
    assert same(restored(kept / "0", like)[0], expected)
    refused = 0
    for number in range(cases // 5):
        path = tmp_path / str(number)
        shutil.copytree(kept / "0", path)
        what = mutated(path, kept / "1", rng)
        try:
            found, count = restored(path, like)
        except ValueError as error:
            assert f"checkpoint {path} is" in str(error), (what, error)
            refused += 1
        else:
            # Without its completion mark, a checkpoint counts as never written.
            assert (count == 4 and same(found, expected)) or (
                count == 0 and same(found, like)
            ), what
        shutil.rmtree(path)
    assert 0.2 < refused / (cases // 5) < 1


def test_flipped_bits_of_the_numbers_are_found(tmp_path, kept):
    """The only damage that orbax does not detect: it gave other weights."""
    expected, like = state(0), state(2)
    whole = max((kept / "0").rglob("d/*"), key=lambda path: path.stat().st_size)
    place = whole.relative_to(kept / "0")
    data = whole.read_bytes()
    for number, position in enumerate(range(100, len(data), len(data) // 8)):
        path = tmp_path / str(number)
        shutil.copytree(kept / "0", path)
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        (path / place).write_bytes(damaged)
        try:
            assert same(restored(path, like)[0], expected)
        except ValueError as error:
            assert f"checkpoint {path} is damaged" in str(error)


def test_a_checkpoint_of_another_number_of_steps(tmp_path, kept):
    shutil.copytree(kept / "0", tmp_path / "a")
    (tmp_path / "a" / "4").rename(tmp_path / "a" / "400")
    with pytest.raises(ValueError, match="a is damaged: .* after 400 steps"):
        restored(tmp_path / "a", state(2))


def test_other_settings_and_missing_folders(tmp_path, kept):
    with pytest.raises(ValueError, match="0 is of a training with another batch_size"):
        restored(kept / "0", state(0), batch_size=17)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="checkpoint .*file is no folder"):
        restored(tmp_path / "file", state(0))
    with pytest.raises(ValueError, match="checkpoint /dev/null is no folder"):
        restored(pathlib.Path("/dev/null"), state(0))
