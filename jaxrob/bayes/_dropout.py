"""Monte-Carlo dropout."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx

from jaxrob._arguments.checks import check_choice, check_type, checked_integer
from jaxrob._classifier import OUTPUTS, Classifier
from jaxrob._identity.hashable_partial import HashablePartial, hashable_partial
from jaxrob.bayes._network import as_dicts


def mc_dropout(
    module: Any,
    variables: Any = None,
    num_samples: int = 10,
    outputs: str = "logits",
) -> Classifier:
    """Makes a classifier with uncertainty from a network with dropout (Monte Carlo).

    Its samples are passes through the network with dropout active and all other layers
    in evaluation mode. The units dropped depend on the image and the sample, never on
    the level, so that levels are comparable.

    Example::

        module = jaxrob.networks.IdcCNN()
        trained = jaxrob.training.fit(
            module, jaxrob.data.load("idc"), key=jax.random.key(0), outputs="sigmoid"
        )
        classifier = jaxrob.bayes.mc_dropout(module, trained.variables, 20, "sigmoid")

    Args:
      module: a Flax module with dropout layers, Linen or NNX.
      variables: all collections of a Linen module, as `module.init` returns them; None
        takes those of an NNX module.
      num_samples: the number of passes, S.
      outputs: the kind of the module's outputs, see `jaxrob.Classifier`.

    Returns:
      A stochastic classifier, `[S, B, K]`.

    Raises:
      TypeError: if `module` is not a Flax module.
      ValueError: if `num_samples` is below 1, or the module has no dropout layer (for a
        Linen module, in the first call).

    Source: Gal and Ghahramani, Dropout as a Bayesian approximation, 2016.
    """
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    check_choice("outputs", outputs, OUTPUTS)
    if variables is None and isinstance(module, nnx.Module):
        variables = nnx.state(module)
    if variables is not None or isinstance(module, linen.Module):
        check_type("variables", variables, Mapping | nnx.State, _VARIABLES)
    apply_fn = dropout_apply_fn(module)
    return from_passes(as_dicts(variables), apply_fn, num_samples, outputs)


def from_passes(
    variables: Any, apply_fn: Callable[..., Any], num_samples: int, outputs: str
) -> Classifier:
    """Returns the classifier of a function of variables, images and one key."""
    apply = hashable_partial(
        apply_passes, apply_fn=apply_fn, num_samples=int(num_samples)
    )
    return Classifier(apply, variables, outputs, stochastic=True)


def dropout_apply_fn(module: Any) -> HashablePartial:
    """Returns a module's `apply_fn(variables, images, key)`, with dropout active."""
    if isinstance(module, linen.Module):
        return hashable_partial(_apply_linen, module=module)
    check_type("module", module, nnx.Module, "a Flax module, Linen or NNX")
    graph, state = nnx.split(module)
    if not _dropout_layers(nnx.merge(graph, state)):
        raise ValueError(_NO_DROPOUT.format(type(module).__name__))
    return hashable_partial(_apply_nnx, graph=graph)


def apply_passes(
    variables: Any,
    images: jax.Array,
    keys: jax.Array,
    *,
    apply_fn: Callable[..., Any],
    num_samples: int,
) -> jax.Array:
    """Computes outputs `[S, B, K]`."""

    def one(key: jax.Array, image: jax.Array) -> jax.Array:
        return apply_fn(variables, image[None], key)[0]

    def sample(number: jax.Array) -> jax.Array:
        # By image, because a mask must not depend on the batch.
        return jax.vmap(one)(
            jax.vmap(jax.random.fold_in, (0, None))(keys, number), images
        )

    return jax.vmap(sample)(jnp.arange(num_samples))


_VARIABLES = "what module.init returns, or None with an NNX module"
_NO_DROPOUT = "module must have dropout layers; {} has none"


def _apply_linen(
    variables: Any, images: jax.Array, key: jax.Array, *, module: linen.Module
) -> Any:
    layers = []

    def drop(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        layer = context.module
        if not isinstance(layer, linen.Dropout) or context.method_name != "__call__":
            return call(*args, **kwargs)
        layers.append(layer)
        inputs = args[0] if args else kwargs["inputs"]
        # Not the layer's own dropout, which evaluation mode (`deterministic`) disables.
        shape = list(inputs.shape)
        for axis in layer.broadcast_dims:
            shape[axis] = 1
        share = jnp.float32(1 - layer.rate)
        kept = jax.random.bernoulli(layer.make_rng("dropout"), share, shape)
        return jnp.where(kept, inputs / (1 - layer.rate), 0)

    with linen.intercept_methods(drop):
        outputs = module.apply(variables, images, rngs={"dropout": key})
    if not layers:
        raise ValueError(_NO_DROPOUT.format(type(module).__name__))
    return outputs


def _apply_nnx(
    state: Any, images: jax.Array, key: jax.Array, *, graph: nnx.GraphDef
) -> Any:
    module = nnx.merge(graph, state)
    module.eval()
    for number, layer in enumerate(_dropout_layers(module)):
        layer.deterministic = False
        layer.rngs = nnx.RngStream(jax.random.fold_in(key, number), tag="dropout")
    return module(images)


def _dropout_layers(module: Any) -> list[nnx.Dropout]:
    return [node for _, node in nnx.iter_graph(module) if isinstance(node, nnx.Dropout)]
