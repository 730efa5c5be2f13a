import dataclasses
import json
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from flax.core import FrozenDict

import jaxrob
from jaxrob import bayes

from ..reporting.test_folder import room_for

KEY = jax.random.key(0)


class Dropping(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dropout(0.5, deterministic=True)(x.reshape(len(x), -1))
        return linen.Dense(3, param_dtype=jnp.bfloat16)(x)


@pytest.fixture(scope="module")
def saved(
    posterior, learnt, sampled_posterior, nnx_posterior, modules, nnx_module, images
):
    plain, dropping = modules["plain"], Dropping()
    states = [nnx.state(type(nnx_module)(nnx.Rngs(seed))) for seed in range(2)]
    factor = jnp.asarray(np.tril(np.ones((107, 107), np.float32)))
    found = {
        "full rank": (dataclasses.replace(posterior, factor=factor), plain),
        "samples": (sampled_posterior, plain),
        "nnx": (nnx_posterior, nnx_module),
        "nnx draws": (bayes.classifier(nnx_posterior, 4, key=KEY), nnx_module),
        "nnx ensemble": (bayes.ensemble(nnx_module, states), nnx_module),
        "dropout": (
            bayes.mc_dropout(dropping, jax.jit(dropping.init)(KEY, images)),
            dropping,
        ),
        "nnx dropout": (bayes.mc_dropout(nnx_module), nnx_module),
    }
    head = "heteroscedastic"
    found[head] = learnt, modules[head]
    found[f"{head} draws"] = bayes.classifier(learnt, 4, key=KEY), modules[head]
    return found


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        assert a.dtype == b.dtype
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = np.asarray(a), np.asarray(b)  # Comparing compiles nothing.
        assert (a == b).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["heteroscedastic draws", "nnx draws", "nnx ensemble", "dropout", "nnx dropout"],
)
def test_classifiers_come_back(tmp_path, saved, images, name):
    classifier, module = saved[name]
    bayes.save(tmp_path / "file.npz", classifier)
    loaded = bayes.load(tmp_path / "file.npz", module)
    # Equal structures: the same function, outputs and so on.
    same(classifier, loaded)
    shape = images.shape[1:]
    assert loaded.num_classes(shape) == classifier.num_classes(shape)
    assert [path.name for path in tmp_path.iterdir()] == ["file.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heteroscedastic", "full rank", "nnx", "samples"])
def test_posteriors_come_back(tmp_path, saved, name):
    posterior, module = saved[name]
    bayes.save(tmp_path / "file.npz", posterior)
    loaded = bayes.load(tmp_path / "file.npz", module)
    for field in ("location", "scale", "factor", "samples", "fixed", "elbo"):
        same(getattr(posterior, field), getattr(loaded, field))
    assert loaded.likelihood == posterior.likelihood
    same(*(bayes.classifier(p, 2, key=KEY) for p in (posterior, loaded)))


def test_files_need_no_pickle_and_come_back(tmp_path, made, written, modules):
    path = tmp_path / "file.npz"
    for kind, whole in written.items():
        path.write_bytes(whole)
        loaded, whole = bayes.load(path, modules["plain"]), made[kind]
        if kind == "posterior":
            loaded, whole = (vars(one).copy() for one in (loaded, whole))
            assert loaded.pop("likelihood") == whole.pop("likelihood")
        same(loaded, whole)


def test_names_and_places_without_arrays_come_back(tmp_path):
    def flipped_if_asked(variables, images):
        scores = images.reshape(len(images), -1) @ variables["kernel"]
        return -scores if "flip" in variables["asked"] else scores

    variables = {
        "kernel": np.eye(3, dtype=np.float32),
        "asked": {"flip": {}, "x": None},
        "by label": {np.int64(7): np.ones(2, np.float32)},
    }
    plain = bayes.ensemble(flipped_if_asked, [variables], "scores")
    named = dataclasses.replace(plain, name="flipped", class_names=("c", "b", "a"))
    bayes.save(tmp_path / "file.npz", named)
    same(named, bayes.load(tmp_path / "file.npz", flipped_if_asked))


def test_damaged_files(tmp_path, made, written, modules):
    path = tmp_path / "file.npz"
    classifier, module, whole = made["draws"], modules["plain"], written["draws"]
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="file.npz: damaged, or not written by"):
            bayes.load(path, module)
    # The first array's size in the archive's table of contents.
    at = whole.index(b"PK\x01\x02") + 20
    path.write_bytes(whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :])
    with pytest.raises(ValueError, match="file.npz: "):
        bayes.load(path, module)
    # A changed byte is found, unless it is one of the archive's that do not matter.
    refused = 0
    for position in range(0, len(whole), 137):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            same(bayes.load(path, module), classifier)
        except ValueError:
            refused += 1
    assert refused > 0.8 * len(whole) / 137


def test_foreign_files(tmp_path, modules):
    path = tmp_path / "file.npz"
    for write in (
        lambda: path.write_text("weights"),
        lambda: np.save(path.open("wb"), np.zeros(3)),
        lambda: np.savez(path, kernel=np.zeros(3)),
        lambda: np.savez(path, header=np.array('{"format": "jaxrob.bayes 9"}')),
        lambda: np.savez(path, header=np.array([{}], dtype=object)),
    ):
        write()
        with pytest.raises(ValueError, match="file.npz: damaged"):
            bayes.load(path, modules["plain"])
    with pytest.raises(FileNotFoundError):
        bayes.load(tmp_path / "none.npz", modules["plain"])


def test_what_cannot_be_saved(tmp_path, modules, images):
    path, module = tmp_path / "file.npz", modules["plain"]
    plain = jaxrob.Classifier.from_linen(module, jax.jit(module.init)(KEY, images))
    for value in (plain, "posterior"):
        with pytest.raises(TypeError, match="value"):
            bayes.save(path, value)
    frozen = {"a": FrozenDict(a=np.eye(3))}
    for tree in ([np.eye(3)], OrderedDict(a=np.eye(3)), frozen):
        other = bayes.ensemble(lambda variables, images: images, [tree])
        with pytest.raises(TypeError, match="nested dictionaries"):
            bayes.save(path, other)
    one, two = np.eye(3), np.ones(3)
    for tree in ({"a/b": one, "a": {"b": two}}, {1.5: one}, {"\ud800": one}):
        with pytest.raises(ValueError, match="value"):
            bayes.save(path, bayes.ensemble(lambda variables, images: images, [tree]))
    assert not path.exists()
    for wide in (2**31, 0.1):
        with jax.enable_x64(True):
            bayes.save(path, bayes.ensemble(module, [{"wide": jnp.asarray(wide)}]))
        with pytest.raises(ValueError, match="x64"):
            bayes.load(path, module)
    bayes.save(path, bayes.ensemble(module, [{"w": jnp.ones(3, jnp.float8_e5m2)}]))
    assert bayes.load(path, module).variables["w"].dtype == jnp.float8_e5m2


def test_what_is_no_module(tmp_path, written):
    (tmp_path / "file.npz").write_bytes(written["posterior"])
    with pytest.raises(TypeError, match="module"):
        bayes.load(tmp_path / "file.npz", None)


def rewritten(path, change, save=np.savez):
    """The file with its arrays changed, as a program without jaxrob would."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    with path.open("wb") as file:
        save(file, header=np.array(json.dumps(header)), **arrays)


KERNEL = "Dense_0/kernel"
LOCATION = f"location/{KERNEL}"
# By what is changed: the change, and what is named.
WRONG = {
    "array dropped": (lambda header, arrays: arrays.pop(LOCATION), LOCATION),
    "a number": (
        lambda header, arrays: np.add.at(arrays[LOCATION], (3, 3), 1e-3),
        LOCATION,
    ),
    "shape": (
        lambda header, arrays: arrays.update({LOCATION: arrays[LOCATION].T}),
        LOCATION,
    ),
    "an array more": (
        lambda header, arrays: arrays.update(temperature=np.float32([2])),
        "temperature",
    ),
    "kind": (lambda header, arrays: header.update(kind="x"), "kind"),
    "another kind": (lambda header, arrays: header.update(kind="draws"), "written"),
    "head": (lambda header, arrays: header.update(head=["plain", "1"]), r"head\[1\]"),
    "place": (lambda header, arrays: header["arrays"].reverse(), "written"),
}


@pytest.fixture(scope="module")
def made(posterior, modules):
    location = jax.device_get(posterior.location)
    members = [
        {"params": jax.tree.map(lambda leaf, i=i: leaf + i, location)}
        for i in np.float32(range(3))
    ]
    return {
        "posterior": posterior,
        "draws": bayes.classifier(posterior, 4, key=KEY),
        "members": bayes.ensemble(modules["plain"], members),
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("saved")
    for kind, value in made.items():
        bayes.save(folder / kind, value)
    return {kind: (folder / kind).read_bytes() for kind in made}


@pytest.mark.parametrize("name", WRONG)
def test_what_was_changed_is_named(tmp_path, written, modules, name):
    path = tmp_path / "file.npz"
    path.write_bytes(written["posterior"])
    change, what = WRONG[name]
    rewritten(path, change)
    with pytest.raises(ValueError, match=f"(?s)file.npz: .*{what}"):
        bayes.load(path, modules["plain"])


def test_a_module_of_another_width_is_named(tmp_path, nnx_module):
    path = tmp_path / "file.npz"
    bayes.save(path, bayes.mc_dropout(nnx_module))
    bayes.load(path, nnx_module)
    other = type(nnx_module)(nnx.Rngs(0))
    other.layers[0] = nnx.Linear(9, 5, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"file.npz: .*\(5,\)"):
        bayes.load(path, other)


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, modules, written):
    path = tmp_path / "file.npz"
    path.write_bytes(written["posterior"])
    value = bayes.load(path, modules["plain"])
    for room in (0, 100):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            bayes.save(path, value)
        assert error.value.filename == str(path)
        assert [one.name for one in tmp_path.iterdir()] == ["file.npz"]
        assert path.read_bytes() == written["posterior"]
    with pytest.raises(FileNotFoundError) as error:
        bayes.save(tmp_path / "none" / "file.npz", value)
    assert error.value.filename == str(tmp_path / "none" / "file.npz")


def test_a_compressed_file_is_refused(tmp_path, written, modules):
    path = tmp_path / "file.npz"
    path.write_bytes(written["posterior"])
    rewritten(path, lambda header, arrays: None, np.savez_compressed)
    with pytest.raises(ValueError, match="file.npz: .*claim"):
        bayes.load(path, modules["plain"])
