"""Linen and NNX modules as the functions that a training needs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrob._adapters.network import snapshot
from jaxrob._classifier import Classifier
from jaxrob._identity.digest import digest, host_array, stable_repr
from jaxrob._keys import is_key


class Network(NamedTuple):
    """A module as pure functions of parameters and other variables.

    Attributes:
      start: `start(key, images)` returns the initial parameters and other variables.
      train: `train(params, others, images, key)` returns the module's outputs in
        training mode, and the new other variables; the key is for dropout.
      evaluate: `evaluate(params, others, images)` returns its outputs in evaluation
        mode.
      classifier: `classifier(params, others, outputs)` returns a classifier.
      description: a text that identifies the module.
    """

    start: Callable[..., tuple[Any, Any]]
    train: Callable[..., tuple[jax.Array, Any]]
    evaluate: Callable[..., jax.Array]
    classifier: Callable[..., Classifier]
    description: str


def network_of(module: Any) -> Network:
    """Returns the functions of a Flax Linen or NNX module, which is not changed."""
    from flax import linen

    return _of_linen(module) if isinstance(module, linen.Module) else _of_nnx(module)


def _of_linen(module: Any) -> Network:
    def start(key: jax.Array, images: jax.Array) -> tuple[Any, Any]:
        variables = jax.jit(module.init)(key, images)
        params = variables["params"]
        return params, {k: value for k, value in variables.items() if k != "params"}

    def train(
        params: Any, others: dict[str, Any], images: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, Any]:
        return module.apply(
            {"params": params, **others},
            images,
            train=True,
            rngs={"dropout": key},
            mutable=list(others),
        )

    def evaluate(params: Any, others: dict[str, Any], images: jax.Array) -> jax.Array:
        return module.apply({"params": params, **others}, images)

    def classifier(params: Any, others: dict[str, Any], outputs: str) -> Classifier:
        return Classifier.from_linen(module, {"params": params, **others}, outputs)

    return Network(start, train, evaluate, classifier, stable_repr(module))


def _of_nnx(module: Any) -> Network:
    from flax import nnx

    own = nnx.clone(module)
    own.train()
    training, *states = nnx.split(own, nnx.Param, nnx.RngState, ...)
    own.eval()
    evaluating, *_ = nnx.split(own, nnx.Param, nnx.RngState, ...)
    (params, params_tree), (rngs, rngs_tree), (others, others_tree) = (
        _by_path(snapshot(state)) for state in states
    )

    def merge(graph: Any, params: Any, rngs: Any, others: Any) -> Any:
        trees = params_tree, rngs_tree, others_tree
        values = params, rngs, others
        # Dictionaries may come back in another order.
        parts = [
            jax.tree.unflatten(tree, [some[path] for path in paths])
            for (tree, paths), some in zip(trees, values)
        ]
        return nnx.merge(graph, *parts)

    def train(
        params: Any, others: Any, images: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, Any]:
        merged = merge(training, params, _reseeded(rngs, key), others)
        returned = merged(images)
        *_, after = nnx.split(merged, nnx.Param, nnx.RngState, ...)
        return returned, _by_path(after)[0]

    def evaluate(params: Any, others: Any, images: jax.Array) -> jax.Array:
        return merge(evaluating, params, rngs, others)(images)

    def classifier(params: Any, others: Any, outputs: str) -> Classifier:
        return Classifier.from_nnx(merge(evaluating, params, rngs, others), outputs)

    initial = [
        part for one in (params, others) for pair in one.items() for part in pair
    ]
    return Network(
        lambda key, images: (params, others),
        train,
        evaluate,
        classifier,
        # Training starts from these weights, so they are part of its identity.
        stable_repr(type(module))
        + digest(
            part if isinstance(part, str) else host_array(part) for part in initial
        ),
    )


def _by_path(state: Any) -> tuple[dict[str, jax.Array], tuple[Any, list[str]]]:
    """Returns the arrays of a state by their paths, and the structure to rebuild it."""
    # All optimisers and checkpoints can handle plain dictionaries.
    leaves, tree = jax.tree_util.tree_flatten_with_path(state)
    paths = [jax.tree_util.keystr(path) for path, _ in leaves]
    return dict(zip(paths, (leaf for _, leaf in leaves))), (tree, paths)


def _reseeded(rngs: dict[str, jax.Array], key: jax.Array) -> dict[str, jax.Array]:
    """Returns the states of random streams, reseeded from a key."""
    return {
        path: jax.random.split(jax.random.fold_in(key, number), value.shape)
        if is_key(value)
        else jnp.zeros_like(value)
        for number, (path, value) in enumerate(rngs.items())
    }
