"""A Flax module as a pure function of its parameters."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import linen, nnx

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.failures import failed_on_images
from jaxrob._classifier import Classifier
from jaxrob._identity.hashable_partial import HashablePartial, hashable_partial
from jaxrob._pixels import as_floats


class Network(NamedTuple):
    """A module split into a function and its variables.

    Attributes:
      apply_fn: `apply_fn(params, fixed, images)`, in evaluation mode; equal for equal
        modules.
      params: nested dictionaries of the initial parameters.
      fixed: nested dictionaries of all other variables, such as batch statistics.
    """

    apply_fn: HashablePartial
    params: Any
    fixed: Any


def network(module: Any, image: jax.Array, key: jax.Array) -> Network:
    """Splits a module; a Linen module is initialised, an NNX module is not changed."""
    apply_fn = params_apply_fn(module)
    if isinstance(module, linen.Module):
        try:
            fixed = dict(_init(key, image, module=module))
        except Exception as error:  # The user's code may raise anything.
            raise failed_on_images("the module", image.shape, error) from error
        params = fixed.pop("params", {})
    else:
        _, params, fixed = nnx.split(module, nnx.Param, ...)
        params, fixed = as_dicts(params), as_dicts(fixed)
    if not jax.tree.leaves(params):
        raise ValueError(
            f"module must have parameters; {type(module).__name__} has none"
        )
    return Network(apply_fn, params, fixed)


def params_apply_fn(module: Any) -> HashablePartial:
    """Returns a module's `apply_fn(params, fixed, images)`, see `Network`."""
    if isinstance(module, linen.Module):
        return hashable_partial(_apply_linen, module=module)
    check_type("module", module, nnx.Module, "a Flax module, Linen or NNX")
    return hashable_partial(_apply_nnx, graph=nnx.split(module, nnx.Param, ...)[0])


def variables_apply_fn(module: Any) -> Callable[..., Any]:
    """A module's `apply_fn(variables, images)`; a function is returned as is."""
    if isinstance(module, linen.Module):
        return Classifier.from_linen(module, {}).apply_fn
    if isinstance(module, nnx.Module):
        return Classifier.from_nnx(module).apply_fn
    wanted = "a Flax module, or a function of variables and images"
    check_type("module", module, Callable, wanted)
    return module


def as_dicts(variables: Any) -> Any:
    """Converts an NNX state to nested dictionaries; other variables are unchanged."""
    return (
        nnx.to_pure_dict(variables) if isinstance(variables, nnx.State) else variables
    )


@functools.partial(jax.jit, static_argnames="module")
def _init(key: jax.Array, image: jax.Array, *, module: linen.Module) -> Any:
    return module.init(key, as_floats(image)[None])


def _apply_linen(
    params: Any, fixed: Any, images: jax.Array, *, module: linen.Module
) -> Any:
    return module.apply({"params": params, **fixed}, images)


def _apply_nnx(
    params: Any, fixed: Any, images: jax.Array, *, graph: nnx.GraphDef
) -> Any:
    module = nnx.merge(graph, params, fixed)
    module.eval()
    return module(images)
