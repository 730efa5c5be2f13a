"""Monte-Carlo dropout."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx

from jaxrob._classifier import Classifier
from jaxrob._runtime.bound import bind
from jaxrob.bayes._model import check_positive
from jaxrob.bayes._network import pure


def mc_dropout(
    module: Any,
    variables: Any = None,
    num_samples: int = 10,
    outputs: str = "logits",
) -> Classifier:
    """A classifier whose samples are passes through a network with dropout active.

    All else is in evaluation mode. The units dropped depend on the image and the
    sample, never on the level, so that levels compare.

    Args:
      module: a Flax module with dropout layers, Linen or NNX.
      variables: all collections of a Linen module, as `module.init` returns them; an
        NNX module brings its own, None.
      num_samples: passes, S.
      outputs: what the module returns, see `jaxrob.Classifier`.

    Returns:
      A stochastic classifier, `[S, B, K]`.

    Raises:
      TypeError: if `module` is no Flax module.
      ValueError: if `num_samples` is below 1, or the module has no dropout layer (a
        Linen one when it is first called).

    Source: Gal and Ghahramani, Dropout as a Bayesian approximation, 2016.
    """
    check_positive(num_samples=num_samples)
    if variables is None and isinstance(module, nnx.Module):
        variables = nnx.state(module)
    return from_passes(pure(variables), dropping(module), num_samples, outputs)


def from_passes(
    variables: Any, apply_fn: Any, num_samples: int, outputs: str
) -> Classifier:
    """The classifier of a function of variables, images and one key."""
    apply = bind(apply_passes, apply_fn=apply_fn, num_samples=int(num_samples))
    return Classifier(apply, variables, outputs, stochastic=True)


def dropping(module: Any) -> Any:
    """`apply_fn(variables, images, key)` of a module, with dropout active."""
    if isinstance(module, linen.Module):
        return bind(_apply_linen, module=module)
    if not isinstance(module, nnx.Module):
        raise TypeError(
            f"module must be a Flax module, Linen or NNX; got {type(module).__name__}"
        )
    graph, state = nnx.split(module)
    if not _dropout_layers(nnx.merge(graph, state)):
        raise ValueError(_NO_DROPOUT.format(type(module).__name__))
    return bind(_apply_nnx, graph=graph)


def apply_passes(variables, images, keys, *, apply_fn, num_samples):
    """Outputs `[S, B, K]`."""

    def one(key, image):
        return apply_fn(variables, image[None], key)[0]

    def sample(number):
        # Image by image, for a mask must not depend on the batch.
        return jax.vmap(one)(
            jax.vmap(jax.random.fold_in, (0, None))(keys, number), images
        )

    return jax.vmap(sample)(jnp.arange(num_samples))


_NO_DROPOUT = "module must have dropout layers; {} has none"


def _apply_linen(variables, images, key, *, module):
    layers = []

    def drop(call, args, kwargs, context):
        layer = context.module
        if not isinstance(layer, linen.Dropout) or context.method_name != "__call__":
            return call(*args, **kwargs)
        layers.append(layer)
        inputs = args[0] if args else kwargs["inputs"]
        # The layer would heed the `deterministic` that evaluation mode gives it.
        shape = list(inputs.shape)
        for axis in layer.broadcast_dims:
            shape[axis] = 1
        kept = jax.random.bernoulli(layer.make_rng("dropout"), 1 - layer.rate, shape)
        return jnp.where(kept, inputs / (1 - layer.rate), 0)

    with linen.intercept_methods(drop):
        outputs = module.apply(variables, images, rngs={"dropout": key})
    if not layers:
        raise ValueError(_NO_DROPOUT.format(type(module).__name__))
    return outputs


def _apply_nnx(state, images, key, *, graph):
    module = nnx.merge(graph, state)
    module.eval()
    for number, layer in enumerate(_dropout_layers(module)):
        layer.deterministic = False
        layer.rngs = nnx.RngStream(jax.random.fold_in(key, number), tag="dropout")
    return module(images)


def _dropout_layers(module):
    return [node for _, node in nnx.iter_graph(module) if isinstance(node, nnx.Dropout)]
