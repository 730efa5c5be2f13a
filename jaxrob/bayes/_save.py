"""Posteriors and classifiers in files."""

import copy
import io
import os
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.messages import wrong_type
from jaxrob._classifiers.classifier import OUTPUTS, Classifier
from jaxrob._codec import Integer, Layout, Row, Text, document, from_json, to_json
from jaxrob._files import damage_of, read_npz, write_file
from jaxrob._identity.identity import (
    HashablePartial,
    digest,
    hashable_partial,
    host_array,
)
from jaxrob._keys import is_key
from jaxrob.bayes._model import (
    MOST_SAMPLES,
    Head,
    Likelihood,
    as_dicts,
    params_apply_fn,
    variables_apply_fn,
)
from jaxrob.bayes._posterior import (
    Posterior,
    apply_draws,
    apply_members,
    apply_passes,
    dropout_apply_fn,
)

_KINDS = {apply_draws: "draws", apply_members: "members", apply_passes: "passes"}
_FIELDS = ("location", "scale", "factor", "samples", "fixed", "elbo")
_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")
# Places without an array, which a network may ask for.
_EMPTY = {"None": None, "{}": {}}
_LEAF = jax.tree.structure(0)
_MAY_LACK = Layout(may_lack=True)


class _Described(NamedTuple):
    """An array: its place in nested dictionaries, its type's name, and its digest."""

    place: tuple[str | int, ...]
    dtype: str
    digest: str


@document("jaxrob.bayes 3")
class _Header(NamedTuple):
    """All but the arrays: `head` of a posterior and its draws, `outputs` of others."""

    kind: Annotated[str, Text(allowed=("posterior", *_KINDS.values()))]
    arrays: tuple[Annotated[_Described, Row()], ...]
    head: Annotated[Head | None, Row(), _MAY_LACK] = None
    outputs: Annotated[str | None, Text(allowed=OUTPUTS), _MAY_LACK] = None
    num_samples: Annotated[int | None, Integer(1, MOST_SAMPLES), _MAY_LACK] = None
    name: str | None = None
    class_names: tuple[str, ...] | None = None


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
        tree = {name: getattr(value, name) for name in _FIELDS}
        settings: dict[str, Any] = {"head": value.likelihood.head}
    else:
        kind, settings = _settings(value)
        tree = {"variables": value.variables}
    _check_dicts(tree)
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_empty)
    arrays, described = {}, []
    for keys, leaf in leaves:
        location: Any = tuple(
            int(key.key) if isinstance(key.key, np.integer) else key.key for key in keys
        )
        name = "/".join(map(str, location))
        are_names = all(
            isinstance(one, str | int) and not isinstance(one, bool) for one in location
        )
        # UTF-8 has no half of a surrogate pair.
        is_held = name.replace("\0", "").encode(errors="ignore").decode() == name
        if name in arrays or not (are_names and is_held):
            raise ValueError(
                "value must have variables whose names are texts or integers, and "
                f"differ when joined by '/'; got {name!r} {'again' * (name in arrays)}"
            )
        if _is_empty(leaf):
            described.append(_Described(location, "{}" if leaf == {} else "None", ""))
            continue
        array = host_array(leaf)
        if array.dtype.kind in "fc":  # As the network takes it.
            array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        # NumPy cannot read its own file of float8, but bytes.
        is_own = array.dtype.isbuiltin == 1
        arrays[name] = array if is_own else array.view(f"V{array.itemsize}")
        dtype = str(jax.random.key_impl(leaf)) if is_key(leaf) else array.dtype.name
        described.append(_Described(location, dtype, digest([array])))
    header = to_json(_Header(kind, tuple(described), **settings))
    contents = io.BytesIO()
    np.savez(contents, **{_HEADER: np.array(header)}, **arrays)
    write_file(path, contents.getvalue())


def load(path: str | os.PathLike[str], module: Any) -> Posterior | Classifier:
    """Reads a file that `save` wrote; nothing is ever unpickled.

    Args:
      path: the file.
      module: the module of the posterior or classifier; for an ensemble of a function,
        that function. Weights that a Linen module does not use are not noticed.

    Returns:
      The posterior or the classifier.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file is damaged, compressed, edited, or not written by `save`,
        needs `jax_enable_x64`, or does not fit an NNX module. Never more is unpacked
        than the file's size.
      TypeError: if `module` is not a module.
    """
    path = checked_path("path", path)
    with damage_of(f"{path}: damaged, or not written by jaxrob.bayes.save"):
        header, tree = _read(read_npz(path))
    value = _made(header, tree, module)
    with damage_of(f"{path}: does not fit the module"):
        _check_module(header.kind, tree, module)
    return value


def _made(header: _Header, tree: dict[str, Any], module: Any) -> Posterior | Classifier:
    head: Any = header.head
    if header.kind == "posterior":
        fields = {name: tree.get(name) for name in _FIELDS}
        if fields["elbo"] is not None:
            fields["elbo"] = np.asarray(fields["elbo"])
        return Posterior(Likelihood(params_apply_fn(module), head), **fields)
    settings: dict[str, Any] = {}
    if header.kind == "draws":
        apply_fn, settings["head"] = params_apply_fn(module), head
    elif header.kind == "members":
        apply_fn = variables_apply_fn(module)
    else:
        apply_fn = dropout_apply_fn(module)
        settings["num_samples"] = header.num_samples
    (function,) = (apply for apply, kind in _KINDS.items() if kind == header.kind)
    return Classifier(
        hashable_partial(function, apply_fn=apply_fn, **settings),
        tree["variables"],
        header.outputs or "logits",
        stochastic=header.kind == "passes" or bool(head and head.stochastic),
        name=header.name,
        class_names=header.class_names,
    )


def _settings(classifier: Any) -> tuple[str, dict[str, Any]]:
    apply_fn = getattr(classifier, "apply_fn", None)
    if not isinstance(apply_fn, HashablePartial) or apply_fn.function not in _KINDS:
        wanted = "a jaxrob.bayes.Posterior or a classifier made by jaxrob.bayes"
        raise wrong_type("value", wanted, classifier)
    kind, settings = _KINDS[apply_fn.function], dict(apply_fn.keywords)
    del settings["apply_fn"]
    fields = ("outputs", "name", "class_names")
    return kind, settings | {name: getattr(classifier, name) for name in fields}


def _read(arrays: dict[str, np.ndarray]) -> tuple[_Header, dict[str, Any]]:
    text = arrays.pop(_HEADER, None)
    if text is None or text.dtype.kind != "U" or text.shape:
        raise ValueError(f"{_HEADER!r}, a text, is missing")
    header = from_json(str(text), _Header)
    tree: dict[Any, Any] = {}
    for place, dtype, digest_of_array in header.arrays:
        name = "/".join(map(str, place))
        node = tree
        for parent in place[:-1]:
            node = node.setdefault(parent, {})
        if dtype in _EMPTY:
            node[place[-1]] = copy.copy(_EMPTY[dtype])
            continue
        array = arrays.pop(name, None)
        if array is not None and array.dtype.kind == "V":
            array = array.view(jnp.dtype(dtype))
        if array is None or digest([array]) != digest_of_array:
            raise ValueError(f"the array {name!r} is not what was written")
        found = jnp.asarray(array)
        if found.dtype != array.dtype and not np.array_equal(found, array):
            raise ValueError(f"{name!r} needs jax_enable_x64")
        if dtype in _KEYS:
            found = jax.random.wrap_key_data(found, impl=dtype)
        node[place[-1]] = found
    if arrays:
        raise ValueError(f"it holds unknown arrays: {sorted(arrays)!a:.80}")
    return header, tree


def _check_module(kind: str, tree: dict[str, Any], module: Any) -> None:
    """A Linen module has no parameters before it is initialised."""
    if not isinstance(module, nnx.Module):
        return
    top = {"posterior": "location", "draws": "variables/params"}.get(kind, "variables")
    found, wanted = _flat(tree), _flat(as_dicts(nnx.state(module, nnx.Param)))
    lead = 1 if kind in ("draws", "members") else 0
    for name, array in wanted.items():
        name = f"{top}/{name}"
        shape = found[name].shape[lead:] if name in found else None
        if shape != array.shape:
            raise ValueError(f"{name!r} has shape {shape}, not {array.shape}")


def _flat(node: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(node)
    return {"/".join(str(key.key) for key in keys): leaf for keys, leaf in leaves}


def _is_empty(node: Any) -> bool:
    return node is None or isinstance(node, Mapping) and not node


def _check_dicts(node: Any) -> None:
    """Others come back as plain dictionaries, whose order or type a network may use."""
    if type(node) is dict:
        for one in node.values():
            _check_dicts(one)
    elif node is not None and jax.tree.structure(node) != _LEAF:
        raise TypeError(
            "value must have variables in nested dictionaries of Python's own kind "
            f"(flax.core.unfreeze) to be written; got a {type(node).__name__}"
        )
