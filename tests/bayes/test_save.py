import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import jaxrob
from jaxrob import bayes

KEY = jax.random.key(0)


class Dropping(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dropout(0.5, deterministic=True)(x.reshape(len(x), -1))
        return linen.Dense(3, param_dtype=jnp.bfloat16)(x)


@pytest.fixture(scope="module")
def saved(posteriors, sampled_posterior, nnx_posterior, modules, nnx_module, images):
    """By name: something to save, and its module."""
    plain, dropping = modules["plain"], Dropping()
    members = [plain.init(jax.random.key(seed), images) for seed in range(2)]
    states = [nnx.state(nnx_module)] * 2
    factor = jnp.tril(jnp.ones((107, 107)))
    found = {
        "full rank": (dataclasses.replace(posteriors["plain"], factor=factor), plain),
        "samples": (sampled_posterior, plain),
        "nnx": (nnx_posterior, nnx_module),
        "nnx draws": (bayes.classifier(nnx_posterior, 4, key=KEY), nnx_module),
        "ensemble": (bayes.ensemble(plain, members), plain),
        "nnx ensemble": (bayes.ensemble(nnx_module, states), nnx_module),
        "dropout": (bayes.mc_dropout(dropping, dropping.init(KEY, images)), dropping),
        "nnx dropout": (bayes.mc_dropout(nnx_module), nnx_module),
    }
    for head, posterior in posteriors.items():
        draws = bayes.classifier(posterior, 4, key=KEY)
        found[head], found[f"{head} draws"] = (
            (value, modules[head]) for value in (posterior, draws)
        )
    return found


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        assert a.dtype == b.dtype and (a == b).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "plain draws",
        "heteroscedastic draws",
        "nnx draws",
        "ensemble",
        "nnx ensemble",
        "dropout",
        "nnx dropout",
    ],
)
def test_classifiers_come_back(tmp_path, saved, images, name):
    classifier, module = saved[name]
    bayes.save(tmp_path / "file.npz", classifier)
    loaded = bayes.load(tmp_path / "file.npz", module)
    # Equal structures: the same function, outputs and so on.
    same(classifier, loaded)
    assert loaded.num_classes(images.shape[1:]) == classifier.num_classes(
        images.shape[1:]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["plain", "heteroscedastic", "full rank", "nnx", "samples"]
)
def test_posteriors_come_back(tmp_path, saved, name):
    posterior, module = saved[name]
    bayes.save(tmp_path / "file.npz", posterior)
    loaded = bayes.load(tmp_path / "file.npz", module)
    for field in ("location", "scale", "factor", "samples", "fixed", "elbo"):
        same(getattr(posterior, field), getattr(loaded, field))
    assert loaded.likelihood == posterior.likelihood
    same(*(bayes.classifier(p, 2, key=KEY) for p in (posterior, loaded)))


@pytest.mark.slow
def test_files_need_no_pickle(tmp_path, saved):
    bayes.save(tmp_path / "file.npz", saved["plain draws"][0])
    with np.load(tmp_path / "file.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    assert arrays["variables/params/Dense_0/kernel"].shape == (4, 9, 8)


@pytest.mark.slow
def test_damaged_files(tmp_path, saved):
    path = tmp_path / "file.npz"
    classifier, module = saved["plain draws"]
    bayes.save(path, classifier)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="file.npz: damaged, or not written by"):
            bayes.load(path, module)
    # A changed byte is found, unless it is one of the archive's that do not matter.
    refused = 0
    for position in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            same(bayes.load(path, module), classifier)
        except ValueError:
            refused += 1
    assert refused > 0.8 * len(whole) / 37


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
        with pytest.raises(ValueError, match="file.npz: damaged, or not written by"):
            bayes.load(path, modules["plain"])
    with pytest.raises(FileNotFoundError):
        bayes.load(tmp_path / "none.npz", modules["plain"])


def test_what_cannot_be_saved(tmp_path, modules, images):
    path, module = tmp_path / "file.npz", modules["plain"]
    plain = jaxrob.Classifier.from_linen(module, module.init(KEY, images))
    for value, name in ((plain, "Classifier"), ("posterior", "str")):
        with pytest.raises(TypeError, match=f"value must be .*; got {name}"):
            bayes.save(path, value)
    listed = bayes.ensemble(lambda variables, images: variables[0], [[np.eye(3)]])
    with pytest.raises(TypeError, match="nested dictionaries"):
        bayes.save(path, listed)
    assert not path.exists()


@pytest.mark.slow
def test_what_is_no_module(tmp_path, saved):
    bayes.save(tmp_path / "file.npz", saved["plain"][0])
    with pytest.raises(TypeError, match="module must be a Flax module.*; got NoneType"):
        bayes.load(tmp_path / "file.npz", None)
