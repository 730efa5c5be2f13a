"""Posteriors and classifiers in files."""

import io
import json
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._runtime.bound import Bound
from jaxrob._runtime.checks import checked_path
from jaxrob._runtime.digest import host_array
from jaxrob._runtime.naming import named
from jaxrob._runtime.npz import DAMAGE
from jaxrob.bayes._classifier import apply_draws, from_draws
from jaxrob.bayes._dropout import apply_passes, dropout_apply_fn, from_passes
from jaxrob.bayes._ensemble import apply_members, from_members
from jaxrob.bayes._head import checked_head
from jaxrob.bayes._model import Likelihood
from jaxrob.bayes._network import params_apply_fn, variables_apply_fn
from jaxrob.bayes._posterior import Posterior

_FORMAT = "jaxrob.bayes 1"
_HEADER = "header"
_FIELDS = ("location", "scale", "factor", "samples", "fixed", "elbo")


def save(path: str | os.PathLike[str], value: Posterior | Classifier) -> None:
    """Writes a posterior, or a classifier made by this package, to an npz file.

    The module is not part of the file.

    Args:
      path: the file, written whole or not at all.
      value: what to write.

    Raises:
      TypeError: if it is neither, or its variables are no nested dictionaries.
    """
    path = checked_path("path", path)

    if isinstance(value, Posterior):
        kind, head = "posterior", value.likelihood.head
        tree = {name: getattr(value, name) for name in _FIELDS}
        settings = {"head": head}
    else:
        kind, settings = _settings(value)
        tree = {"variables": value.variables}
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays, described = {}, []
    for keys, leaf in leaves:
        if not all(isinstance(key, jax.tree_util.DictKey) for key in keys):
            raise TypeError(
                "value must have variables in nested dictionaries to be written; got "
                f"{jax.tree_util.keystr(keys)}"
            )
        location = [key.key for key in keys]
        array, dtype = _to_numpy(leaf)
        arrays["/".join(map(str, location))] = array
        described.append([location, dtype])
    header = {"format": _FORMAT, "kind": kind, "arrays": described, **settings}
    contents = io.BytesIO()
    np.savez(contents, **{_HEADER: np.array(json.dumps(header))}, **arrays)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(contents.getvalue())
    os.replace(temporary, path)


def load(path: str | os.PathLike[str], module: Any) -> Posterior | Classifier:
    """Reads what `save` wrote; nothing is ever unpickled.

    Args:
      path: the file.
      module: the module that the posterior or classifier is of; for an ensemble of a
        function, that function.

    Returns:
      The posterior or the classifier.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file is damaged, or `save` did not write it.
      TypeError: if `module` is no module.
    """
    path = checked_path("path", path)
    with open(path, "rb") as file:
        contents = io.BytesIO(file.read())
    try:
        header, tree = _read(contents)
    except DAMAGE as error:
        raise ValueError(
            f"{path}: damaged, or not written by jaxrob.bayes.save: {error}"
        ) from None
    if header["kind"] == "posterior":
        head = checked_head(*header["head"])
        fields = {name: tree.get(name) for name in _FIELDS}
        fields["fixed"] = fields["fixed"] or {}
        if fields["elbo"] is not None:
            fields["elbo"] = np.asarray(fields["elbo"])
        return Posterior(Likelihood(params_apply_fn(module), head), **fields)
    variables = tree["variables"]
    if header["kind"] == "draws":
        head = checked_head(*header["head"])
        return from_draws({"fixed": {}} | variables, params_apply_fn(module), head)
    outputs = header["outputs"]
    if header["kind"] == "members":
        return from_members(variables, variables_apply_fn(module), outputs)
    apply_fn = dropout_apply_fn(module)
    return from_passes(variables, apply_fn, header["num_samples"], outputs)


def _settings(classifier: Any) -> tuple[str, dict[str, Any]]:
    """The kind of a classifier, and what apart from the module defines it."""
    apply_fn = getattr(classifier, "apply_fn", None)
    if not isinstance(apply_fn, Bound) or apply_fn.function not in _KINDS:
        raise TypeError(
            "value must be a jaxrob.bayes.Posterior or a classifier made by "
            f"jaxrob.bayes; got {named(classifier)}"
        )
    kind, settings = _KINDS[apply_fn.function], dict(apply_fn.keywords)
    del settings["apply_fn"]
    if kind == "draws":
        return kind, settings
    return kind, settings | {"outputs": classifier.outputs}


def _read(contents: io.BytesIO) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header, and the arrays in nested dictionaries."""
    tree: dict[str, Any] = {}
    with np.load(contents, allow_pickle=False) as archive:
        header = json.loads(str(archive[_HEADER]))
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']!r}, not {_FORMAT!r}")
        for location, dtype in header["arrays"]:
            *parents, last = location
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = _from_numpy(archive["/".join(map(str, location))], dtype)
    return header, tree


def _to_numpy(leaf: Any) -> tuple[np.ndarray, str]:
    """An array that npz files can hold, and the name of its real type."""
    array = host_array(leaf)
    if jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key):
        return array, str(jax.random.key_impl(leaf))
    return array, array.dtype.name


def _from_numpy(array: np.ndarray, dtype: str) -> jax.Array:
    if dtype in _KEYS:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=dtype)
    # npz files do not know bfloat16 and its like, but keep their bytes.
    return jnp.asarray(array.view(dtype) if array.dtype.kind == "V" else array)


_KINDS = {apply_draws: "draws", apply_members: "members", apply_passes: "passes"}
_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")
