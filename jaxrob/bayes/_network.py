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
    """A module taken apart.

    Attributes:
      apply_fn: `apply_fn(params, fixed, images)`, in evaluation mode; equal for equal
        modules.
      params: nested dictionaries of the parameters as initialised.
      fixed: nested dictionaries of all other variables, such as batch statistics.
    """

    apply_fn: HashablePartial
    params: Any
    fixed: Any


def network(module: Any, image: jax.Array, key: jax.Array) -> Network:
    """Takes a module apart; a Linen one is initialised, an NNX one is not changed.

    Args:
      module: a Linen or NNX module.
      image: one input.
      key: a random key, for a Linen module.

    Raises:
      TypeError: if it is no module.
      ValueError: if it has no parameters.
    """
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
    """`apply_fn(params, fixed, images)` of a module, as `Network` has it.

    Raises:
      TypeError: if it is no module.
    """
    if isinstance(module, linen.Module):
        return hashable_partial(_apply_linen, module=module)
    check_type("module", module, nnx.Module, "a Flax module, Linen or NNX")
    return hashable_partial(_apply_nnx, graph=nnx.split(module, nnx.Param, ...)[0])


def variables_apply_fn(module: Any) -> Callable[..., Any]:
    """`apply_fn(variables, images)` of a module, or a function that is one already.

    Raises:
      TypeError: if it is neither.
    """
    if isinstance(module, linen.Module):
        return Classifier.from_linen(module, {}).apply_fn
    if isinstance(module, nnx.Module):
        return Classifier.from_nnx(module).apply_fn
    wanted = "a Flax module, or a function of variables and images"
    check_type("module", module, Callable, wanted)
    return module


def as_dicts(variables: Any) -> Any:
    """Variables with an NNX state as nested dictionaries of arrays."""
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
