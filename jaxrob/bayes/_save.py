"""Posteriors and classifiers in files."""

import io
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.naming import wrong_type
from jaxrob._classifier import Classifier
from jaxrob._codec import from_json, to_json
from jaxrob._files.npz import DAMAGE, read_npz
from jaxrob._files.writing import write_file
from jaxrob._identity.digest import host_array
from jaxrob._identity.hashable_partial import HashablePartial
from jaxrob.bayes._check_saved import (
    FIELDS,
    Described,
    Header,
    check_arrays,
    check_known,
    check_module,
)
from jaxrob.bayes._classifier import apply_draws, from_draws
from jaxrob.bayes._dropout import apply_passes, dropout_apply_fn, from_passes
from jaxrob.bayes._ensemble import apply_members, from_members
from jaxrob.bayes._model import Likelihood
from jaxrob.bayes._network import params_apply_fn, variables_apply_fn
from jaxrob.bayes._posterior import Posterior

_HEADER = "header"


def save(path: str | os.PathLike[str], value: Posterior | Classifier) -> None:
    """Writes a posterior, or a classifier made by this package, to an npz file.

    The module is not part of the file.

    Args:
      path: the file, written whole or not at all.
      value: what to write.

    Raises:
      TypeError: if it is neither, or its variables are not nested dictionaries.
      ValueError: if names of its variables are no texts or integers, or joined by "/"
        are the same, as of `{"a/b": x, "a": {"b": y}}`.
      OSError: if the file cannot be written, for instance on a full disk; the message
        names the file.
    """
    path = checked_path("path", path)

    if isinstance(value, Posterior):
        kind = "posterior"
        tree = {name: getattr(value, name) for name in FIELDS}
        settings: dict[str, Any] = {"head": value.likelihood.head}
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
        name = "/".join(map(str, location))
        if name in arrays or "\0" in name or not all(map(_is_name, location)):
            raise ValueError(
                "value must have variables whose names are texts or integers, and "
                f"differ when joined by '/'; got {name!r} {'again' * (name in arrays)}"
            )
        arrays[name] = array
        described.append(Described(tuple(location), dtype))
    header = to_json(Header(kind, tuple(described), **settings))
    contents = io.BytesIO()
    np.savez(contents, **{_HEADER: np.array(header)}, **arrays)
    write_file(path, contents.getvalue())


def load(path: str | os.PathLike[str], module: Any) -> Posterior | Classifier:
    """Reads a file that `save` wrote; nothing is ever unpickled.

    Args:
      path: the file.
      module: the module of the posterior or classifier; for an ensemble of a function,
        that function.

    Returns:
      The posterior or the classifier.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file is damaged, compressed, or not written by `save`: a part
        is missing, unknown or NaN, or its type or shape does not fit the others or, for
        an NNX module, the module. Never more is unpacked than the file's size.
      TypeError: if `module` is not a module.
    """
    path = checked_path("path", path)
    try:
        header, tree = _read(read_npz(path))
        check_arrays(header.kind, tree)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise ValueError(
            f"{path}: damaged, or not written by jaxrob.bayes.save: {error}"
        ) from None
    value = _made(header, tree, module)
    try:
        check_module(header.kind, tree, module)
    except ValueError as error:
        raise ValueError(f"{path}: does not fit the module: {error}") from None
    return value


def _made(header: Header, tree: dict[str, Any], module: Any) -> Posterior | Classifier:
    # `Header` has checked that the fields of this kind are present.
    head: Any = header.head
    outputs: Any = header.outputs
    if header.kind == "posterior":
        fields = {name: tree.get(name) for name in FIELDS}
        fields["fixed"] = fields["fixed"] or {}
        if fields["elbo"] is not None:
            fields["elbo"] = np.asarray(fields["elbo"])
        return Posterior(Likelihood(params_apply_fn(module), head), **fields)
    variables = tree["variables"]
    if header.kind == "draws":
        return from_draws({"fixed": {}} | variables, params_apply_fn(module), head)
    if header.kind == "members":
        return from_members(variables, variables_apply_fn(module), outputs)
    apply_fn = dropout_apply_fn(module)
    num_samples: Any = header.num_samples
    return from_passes(variables, apply_fn, num_samples, outputs)


def _settings(classifier: Any) -> tuple[str, dict[str, Any]]:
    """Returns the kind of a classifier, and its settings apart from the module."""
    apply_fn = getattr(classifier, "apply_fn", None)
    if not isinstance(apply_fn, HashablePartial) or apply_fn.function not in _KINDS:
        wanted = "a jaxrob.bayes.Posterior or a classifier made by jaxrob.bayes"
        raise wrong_type("value", wanted, classifier)
    kind, settings = _KINDS[apply_fn.function], dict(apply_fn.keywords)
    del settings["apply_fn"]
    if kind == "draws":
        return kind, settings
    return kind, settings | {"outputs": classifier.outputs}


def _read(arrays: dict[str, np.ndarray]) -> tuple[Header, dict[str, Any]]:
    """Returns the header, and the arrays in nested dictionaries."""
    text = arrays.get(_HEADER)
    if text is None or text.dtype.kind != "U" or text.shape:
        raise ValueError(f"{_HEADER!r}, a text, is missing")
    header = from_json(str(text), Header)
    tree: dict[Any, Any] = {}
    for location, dtype in header.arrays:
        name = "/".join(map(str, location))
        if name not in arrays:
            raise ValueError(f"the array {name!r} is missing")
        node = tree
        for parent in location[:-1]:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ValueError(f"{name!r} lies within another array")
        if location[-1] in node:
            raise ValueError(f"{name!r} is there twice")
        try:
            node[location[-1]] = _from_numpy(arrays[name], dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r}: {error}") from None
    described = {"/".join(map(str, location)) for location, _ in header.arrays}
    if len(described) < len(header.arrays):
        raise ValueError("an array is in two places")
    check_known(arrays, "", described | {_HEADER})
    return header, tree


def _is_name(key: Any) -> bool:
    return isinstance(key, str | int) and not isinstance(key, bool)


def _to_numpy(leaf: Any) -> tuple[np.ndarray, str]:
    """Returns an array that npz files can hold, and the name of its original type."""
    array = host_array(leaf)
    if jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key):
        return array, str(jax.random.key_impl(leaf))
    return array, array.dtype.name


def _from_numpy(array: np.ndarray, dtype: str) -> jax.Array:
    if dtype in _KEYS:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=dtype)
    wanted = jnp.dtype(dtype)
    is_number = jnp.issubdtype(wanted, jnp.number) or wanted.kind == "b"
    if not is_number or wanted.name != dtype:
        raise ValueError(f"its type is {dtype!r}, which holds no numbers")
    # npz files have no bfloat16 and similar types, but keep their bytes.
    found = array.view(wanted) if array.dtype == f"V{wanted.itemsize}" else array
    if found.dtype.name != dtype:
        raise ValueError(f"it holds {array.dtype}, not {dtype}")
    if np.isnan(found).any():
        raise ValueError("it holds NaN")
    return jnp.asarray(found)


_KINDS = {apply_draws: "draws", apply_members: "members", apply_passes: "passes"}
_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")
