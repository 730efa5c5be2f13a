"""Checks that a file holds what `save` writes, before it is used."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxrob._classifier import OUTPUTS
from jaxrob._codec import Integer, Layout, Row, Text, document, refuse
from jaxrob._files.strict_json import short
from jaxrob._identity.digest import host_array
from jaxrob.bayes._head import MOST_SAMPLES, Head
from jaxrob.bayes._network import as_dicts

#: The fields of a posterior that hold arrays or dictionaries of arrays.
FIELDS = ("location", "scale", "factor", "samples", "fixed", "elbo")
# By kind, the header's fields beside the arrays.
_SETTINGS = {
    "posterior": {"head"},
    "draws": {"head"},
    "members": {"outputs"},
    "passes": {"outputs", "num_samples"},
}


_MAY_LACK = Layout(may_lack=True)


class Described(NamedTuple):
    """An array of the file: its place in nested dictionaries, and its type's name."""

    place: tuple[str | int, ...]
    dtype: str


@document("jaxrob.bayes 1")
class Header(NamedTuple):
    """The header of a file: everything except the arrays.

    Attributes:
      kind: "posterior", "draws", "members" or "passes".
      arrays: descriptions of the arrays.
      head: for a posterior and its draws.
      outputs: the classifier's outputs, for members and passes.
      num_samples: for passes.
    """

    kind: Annotated[str, Text(allowed=tuple(_SETTINGS))]
    arrays: tuple[Annotated[Described, Row()], ...]
    head: Annotated[Head | None, Row(), _MAY_LACK] = None
    outputs: Annotated[str | None, Text(allowed=OUTPUTS), _MAY_LACK] = None
    num_samples: Annotated[int | None, Integer(1, MOST_SAMPLES), _MAY_LACK] = None

    def _check_together(self) -> None:
        given = {name for name, one in self._asdict().items() if one is not None}
        given -= {"kind", "arrays"}
        differing = sorted(given ^ _SETTINGS[self.kind])
        refuse(
            bool(differing),
            f"the header lacks, or has unknown parts: {', '.join(differing)}",
        )
        refuse(not all(one.place for one in self.arrays), "arrays must have places")


def check_arrays(kind: str, tree: dict[str, Any]) -> None:
    """Rejects inconsistent arrays.

    Args:
      kind: the header's kind.
      tree: the arrays in nested dictionaries.

    Raises:
      ValueError: if an array is missing or unknown, or its type or shape does not fit
        the others. The message names it.
    """
    known = FIELDS if kind == "posterior" else ("variables",)
    check_known(tree, "", known)
    if kind == "posterior":
        _check_posterior(tree)
    elif kind == "draws":
        _flat(tree.get("variables"), "variables")
        variables = tree["variables"]
        check_known(variables, "variables/", ("params", "fixed"))
        _check_fixed(variables, "variables/fixed")
        draws = _flat(variables.get("params"), "variables/params")
        _check_leading_axis(draws, "variables/params")
    elif kind == "members":
        _check_leading_axis(_flat(tree.get("variables"), "variables"), "variables")
    else:
        _flat(tree.get("variables"), "variables")


def check_module(kind: str, tree: dict[str, Any], module: Any) -> None:
    """Rejects parameters whose shapes differ from those of an NNX module.

    A Linen module has no parameters before it is initialised.

    Raises:
      ValueError: if a parameter is missing, or has another shape; the message names it.
    """
    if not isinstance(module, nnx.Module):
        return
    prefix = {"posterior": "location", "draws": "variables/params"}.get(
        kind, "variables"
    )
    node: Any = tree
    for name in prefix.split("/"):
        node = node[name]
    found = _flat(node, prefix)
    # Draws and members have a leading axis.
    lead = 1 if kind in ("draws", "members") else 0
    wanted = as_dicts(nnx.state(module, nnx.Param))
    for name, array in _flat(wanted, "module").items():
        if name not in found:
            raise ValueError(f"'{prefix}/{name}' is missing")
        shape = found[name].shape[lead:]
        if shape != array.shape:
            raise ValueError(
                f"'{prefix}/{name}' has the shape {shape}; the module's is "
                f"{array.shape}"
            )


def check_known(node: Mapping[str, Any], place: str, known: Collection[str]) -> None:
    """Raises an error if a node holds other names than the known ones."""
    if unknown := sorted(f"{place}{name}" for name in node.keys() - set(known)):
        raise ValueError(f"the file has unknown arrays: {short(unknown)}")


def _check_posterior(tree: dict[str, Any]) -> None:
    location, scale = (_flat(tree.get(name), name) for name in ("location", "scale"))
    _check_numbers(location, "location")
    _check_numbers(scale, "scale")
    _check_same_shapes(scale, "scale", location)
    for name, array in scale.items():
        if (array < 0).any():
            raise ValueError(f"'scale/{name}' holds negative numbers")
    _check_fixed(tree, "fixed")
    if "samples" in tree:
        samples = _flat(tree["samples"], "samples")
        _check_numbers(samples, "samples")
        _check_leading_axis(samples, "samples")
        of_one = {name: array[0] for name, array in samples.items()}
        _check_same_shapes(of_one, "samples", location)
    size = sum(array.size for array in location.values())
    for name, shape in (("factor", (size, size)), ("elbo", (None,))):
        if name not in tree:
            continue
        array = _flat({name: tree[name]}, name)[name]
        if array.ndim != len(shape) or (None not in shape and array.shape != shape):
            raise ValueError(f"{name!r} has the shape {array.shape}, not {shape}")
        _check_numbers({name: array}, name)


def _flat(node: Any, name: str) -> dict[str, np.ndarray]:
    """Returns the arrays of nested dictionaries, on the host, by their paths."""
    if not isinstance(node, dict):
        raise ValueError(f"{name!r}, arrays in dictionaries, is missing")
    leaves = jax.tree_util.tree_leaves_with_path(node)
    if not leaves:
        raise ValueError(f"{name!r} is empty")
    return {
        "/".join(str(key.key) for key in keys): host_array(leaf)
        for keys, leaf in leaves
    }


def _check_numbers(arrays: dict[str, np.ndarray], name: str) -> None:
    for place, array in arrays.items():
        if not jnp.issubdtype(array.dtype, jnp.floating) or not array.size:
            raise ValueError(f"'{name}/{place}' holds no floating numbers")
        if not np.isfinite(array).all():
            raise ValueError(f"'{name}/{place}' holds infinity")


def _check_same_shapes(
    arrays: dict[str, np.ndarray], name: str, wanted: dict[str, np.ndarray]
) -> None:
    if differing := sorted(arrays.keys() ^ wanted.keys()):
        raise ValueError(f"{name!r} and 'location' do not both hold {differing}")
    for place, array in arrays.items():
        if array.shape != wanted[place].shape:
            raise ValueError(
                f"'{name}/{place}' has the shape {array.shape} where that of the "
                f"location is {wanted[place].shape}"
            )


def _check_leading_axis(arrays: dict[str, np.ndarray], name: str) -> None:
    lengths = {place: array.shape[:1] for place, array in arrays.items()}
    first = next(iter(lengths.values()))
    for place, length in lengths.items():
        if length != first or length in ((), (0,)):
            raise ValueError(
                f"'{name}/{place}' must have as many samples, along its first axis, as "
                f"the others; it has the shape {arrays[place].shape}"
            )


def _check_fixed(node: dict[str, Any], name: str) -> None:
    if not isinstance(node.get("fixed", {}), dict):
        raise ValueError(f"{name!r} must be arrays in dictionaries")
