"""Files of arrays: npz."""

import io
import json
import zipfile

import jax
import numpy as np
from mutations import Seed, Target

import jaxrob
from jaxrob import bayes
from jaxrob.bayes._head import Head
from jaxrob.bayes._model import Likelihood
from jaxrob.bayes._network import params_apply_fn
from jaxrob.networks import MLP, _idc_cnn, load_idc_weights


def npz_target(folder):
    module = MLP(features=(4,), num_classes=3)
    params = jax.jit(module.init)(jax.random.key(0), np.zeros((1, 2, 2, 1)))["params"]
    scale = jax.tree.map(lambda leaf: np.full_like(leaf, 0.1), params)
    likelihood = Likelihood(params_apply_fn(module), Head("plain", 1))
    posterior = bayes.Posterior(likelihood, params, scale, elbo=np.float32([-2, -1]))
    values = (
        posterior,
        bayes.classifier(posterior, 2, key=jax.random.key(1)),
        bayes.ensemble(module, [{"params": params}] * 2),
    )
    seeds = []
    for value in values:
        bayes.save(folder / "seed.npz", value)
        data = (folder / "seed.npz").read_bytes()
        seeds.append(Seed(data, is_protected=True))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for name, member in members.items():
            seeds.append(Seed(member, rezipped(members, name)))
        with np.load(io.BytesIO(data)) as arrays:
            header = json.loads(str(arrays["header"]))
        seeds += [Seed(header, rezipped_header(members))] * len(members)

    def check(value):
        for leaf in leaves(value):
            assert not np.isnan(leaf).any()

    def leaves(value):
        if isinstance(value, jaxrob.Classifier):
            tree = value.variables
        else:
            tree = value.location, value.scale, value.factor, value.samples, value.elbo
        return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]

    def same(one, other):
        pairs = zip(leaves(one), leaves(other), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    return Target("npz", seeds, lambda path: bayes.load(path, module), check, same)


def rezipped(members, name):
    def wrap(content):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for other, data in (members | {name: content}).items():
                archive.writestr(other, data)
        return buffer.getvalue()

    return wrap


def rezipped_header(members):
    def wrap(header):
        buffer = io.BytesIO()
        # A lone surrogate is no text for NumPy.
        np.save(buffer, np.array(json.dumps(header)))
        return rezipped(members, "header.npy")(buffer.getvalue())

    return wrap


def weights_target(folder):
    """The other reader of npz files."""
    arrays = {
        name: np.full(shape, 0.1, np.float32)
        for name, (*_, shape) in _idc_cnn._keras_arrays().items()
    }
    np.savez(folder / "weights.npz", **arrays)
    data = (folder / "weights.npz").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    seeds = [Seed(data, is_protected=True)]
    for name in list(members)[:6]:
        seeds.append(Seed(members[name], rezipped(members, name)))

    def check(variables):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(variables))

    def same(one, other):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    return Target("weights", seeds, load_idc_weights, check, same)
