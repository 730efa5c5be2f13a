"""Classifiers with samples: draws of posteriors, dropout, and ensembles."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_sequence,
)
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import OUTPUTS, Classifier
from jaxrob._identity.identity import HashablePartial, hashable_partial, text
from jaxrob._keys import checked_key
from jaxrob.bayes._model import (
    Head,
    Likelihood,
    as_dicts,
    log_probabilities,
    normals,
    variables_apply_fn,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """A network and the distribution of its parameters.

    Attributes:
      likelihood: the network and its head.
      location: nested dictionaries of the parameters' means.
      scale: nested dictionaries of their standard deviations.
      factor: `[D, D]`, with a full-rank guide: the lower Cholesky factor of the
        covariance of the D parameters, raveled in the order of `jax.tree.leaves`.
      samples: nested dictionaries, with NUTS: the draws along a leading axis.
      fixed: nested dictionaries of the module's other variables.
      elbo: `[epochs]`, with SVI: the mean of the evidence lower bound over the steps
        of each epoch, in nats for the whole data set.
    """

    likelihood: Likelihood = dataclasses.field(repr=False)
    location: Any = dataclasses.field(repr=False)
    scale: Any = dataclasses.field(repr=False)
    factor: jax.Array | None = dataclasses.field(default=None, repr=False)
    samples: Any = dataclasses.field(default=None, repr=False)
    fixed: Any = dataclasses.field(default_factory=dict, repr=False)
    elbo: np.ndarray | None = None

    @property
    def num_parameters(self) -> int:
        """Trainable parameters: of the guide with SVI, of the network with NUTS."""
        count = sum(leaf.size for leaf in jax.tree.leaves(self.location))
        if self.samples is not None:
            return count
        if self.factor is not None:
            return count + count * (count + 1) // 2
        return 2 * count


def draw(posterior: Posterior, num_samples: int, key: jax.Array) -> Any:
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    key = checked_key(key)
    if posterior.samples is not None:
        available = len(jax.tree.leaves(posterior.samples)[0])
        if num_samples > available:
            raise ValueError(
                f"num_samples must be at most {available}, the samples that NUTS drew; "
                f"got {num_samples}"
            )
        return _chosen(posterior.samples, key, num_samples)
    location, scale, factor = posterior.location, posterior.scale, posterior.factor
    return _drawn(location, scale, factor, key, num_samples)


# One program each: an operation on its own is compiled for itself.
@functools.partial(jax.jit, static_argnames="num_samples")
def _chosen(samples: Any, key: jax.Array, num_samples: int) -> Any:
    available = len(jax.tree.leaves(samples)[0])
    chosen = jax.random.choice(key, available, (num_samples,), replace=False)
    return jax.tree.map(lambda leaf: leaf[chosen], samples)


@functools.partial(jax.jit, static_argnames="num_samples")
def _drawn(
    location: Any,
    scale: Any,
    factor: jax.Array | None,
    key: jax.Array,
    num_samples: int,
) -> Any:
    location, unravel = ravel_pytree(location)
    normal = jax.random.normal(key, (num_samples, len(location)), jnp.float32)
    if factor is not None:
        deviation = jnp.matmul(normal, factor.T, precision="highest")
    else:
        deviation = normal * ravel_pytree(scale)[0]
    return jax.vmap(unravel)(location + deviation)


def classifier(
    posterior: Posterior, num_samples: int = 10, *, key: jax.Array
) -> Classifier:
    """Makes a classifier from a posterior; its samples are draws from the posterior.

    The draws w_t, t = 1 ... T, are made once. With a heteroscedastic head, p_t is the
    average over draws of the logits' noise at fixed w_t. The noise of an image is the
    same at every level, so that levels are comparable. It is also the same for every
    w_t: each p_t is as accurate as with independent noise, and their differences, the
    epistemic uncertainty, contain less noise.

    Args:
      posterior: the posterior.
      num_samples: number of draws, T.
      key: a random key for the draws.

    Returns:
      A classifier of log-probabilities `[T, B, K]`, stochastic if the head is
      heteroscedastic.

    Raises:
      ValueError: if `num_samples` is below 1, or above the number of NUTS's samples.
    """
    check_type("posterior", posterior, Posterior, "a jaxrob.bayes.Posterior")
    variables = {"params": draw(posterior, num_samples, key), "fixed": posterior.fixed}
    apply_fn, head = posterior.likelihood
    applied = hashable_partial(apply_draws, apply_fn=apply_fn, head=head)
    return Classifier(applied, variables, stochastic=head.stochastic)


def apply_draws(
    variables: dict[str, Any],
    images: jax.Array,
    keys: jax.Array | None = None,
    *,
    apply_fn: Callable[..., Any],
    head: Head,
) -> jax.Array:
    """Computes logits `[T, B, K]`."""
    params, fixed = variables["params"], variables["fixed"]

    def outputs(params: Any) -> jax.Array:
        return apply_fn(params, fixed, images)

    # Sequential: batched weights make grouped convolutions, several times slower.
    if not head.stochastic:
        return jax.lax.map(outputs, params)
    num_outputs = jax.eval_shape(outputs, jax.tree.map(lambda leaf: leaf[0], params))
    shape = (num_outputs.shape[-1] // 2,)
    bits = jax.vmap(lambda key: jax.random.bits(key, shape, jnp.uint32))(keys)
    noise = normals(bits, head.noise_draws)
    return jax.lax.map(lambda params: log_probabilities(outputs(params), noise), params)


def mc_dropout(
    module: Any, variables: Any = None, num_samples: int = 10, outputs: str = "logits"
) -> Classifier:
    """Makes a classifier with uncertainty from a network with dropout (Monte Carlo).

    Its samples are passes through the network with its dropout layers, and the dropout
    inside Flax's attention, active and all else in evaluation mode. The units dropped
    depend on the image and the sample, never on the level, so that levels are
    comparable.

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
        Linen module, in the first call), or an NNX module disables one.

    Source: Gal and Ghahramani, Dropout as a Bayesian approximation, 2016.
    """
    num_samples = checked_integer("num_samples", num_samples, at_least=1)
    check_choice("outputs", outputs, OUTPUTS)
    if variables is None and isinstance(module, nnx.Module):
        variables = nnx.state(module)
    if variables is not None or isinstance(module, linen.Module):
        check_type("variables", variables, Mapping | nnx.State, _VARIABLES)
    applied = hashable_partial(
        apply_passes, apply_fn=dropout_apply_fn(module), num_samples=num_samples
    )
    return Classifier(applied, as_dicts(variables), outputs, stochastic=True)


def dropout_apply_fn(module: Any) -> HashablePartial:
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
_INACTIVE = "module must let its dropout be active; {} disables or skips {} of rate {}"


def _apply_linen(
    variables: Any, images: jax.Array, key: jax.Array, *, module: linen.Module
) -> Any:
    layers = []

    def drop(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name != "__call__" or not _drops(layer):
            return call(*args, **kwargs)
        layers.append(layer)
        if not isinstance(layer, linen.Dropout):
            # Its own `deterministic` beside the argument is an error of Flax.
            object.__setattr__(layer, "deterministic", None)
            return call(*args, **kwargs | {"deterministic": False})
        inputs = args[0] if args else kwargs["inputs"]
        # Evaluation mode (`deterministic`) disables a layer's own dropout.
        if type(layer).__call__ is not linen.Dropout.__call__:
            object.__setattr__(layer, "deterministic", False)
            return call(inputs)
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
    begun = []
    for number, layer in enumerate(_dropout_layers(module)):
        layer.deterministic = False
        stream = nnx.RngStream(jax.random.fold_in(key, number), tag="dropout")
        layer.rngs = stream
        begun.append((layer, stream, stream.count[...]))
    outputs = module(images)
    for layer, stream, count in begun:
        rate = layer.rate if isinstance(layer, nnx.Dropout) else layer.dropout_rate
        # A caller's `deterministic=True` comes before the layer's own.
        if 0 < rate < 1 and stream.count[...] is count:
            layer_name = type(layer).__name__
            raise ValueError(_INACTIVE.format(type(module).__name__, layer_name, rate))
    return outputs


def _dropout_layers(module: Any) -> list[Any]:
    return [node for _, node in nnx.iter_graph(module) if _drops(node)]


def _drops(layer: Any) -> bool:
    if isinstance(layer, linen.MultiHeadDotProductAttention | nnx.MultiHeadAttention):
        return layer.dropout_rate > 0
    return isinstance(layer, linen.Dropout | nnx.Dropout)


def ensemble(
    module: Any | Callable[[Any, jax.Array], jax.Array],
    members: Sequence[Any],
    outputs: str = "logits",
) -> Classifier:
    """Makes one classifier, with uncertainty, from several networks trained alike.

    Example::

        train = jaxrob.data.load("digits", "train")
        module = jaxrob.networks.MLP()
        members = [
            jaxrob.training.fit(module, train, key=jax.random.key(seed)).variables
            for seed in range(5)
        ]
        classifier = jaxrob.bayes.ensemble(module, members)

    Args:
      module: a Flax module, Linen or NNX, or a function of variables and images; it
        is applied in evaluation mode.
      members: the variables of each member: those that `module.init` returns for a
        Linen module, ``jaxrob.Classifier.from_nnx(module).variables`` for an NNX
        module. The latter is a copy; `nnx.state(module)` changes with further training.
      outputs: the kind of the module's outputs, see `jaxrob.Classifier`.

    Returns:
      A classifier whose samples are the members, `[S, B, K]`.

    Raises:
      TypeError: if `module` is neither module nor function.
      ValueError: if there are no members, or their structures, shapes or types differ.

    Source: Lakshminarayanan, Pritzel and Blundell, Simple and scalable predictive
    uncertainty estimation using deep ensembles, 2017.
    """
    apply_fn = variables_apply_fn(module)
    check_choice("outputs", outputs, OUTPUTS)
    members = checked_sequence("members", members, object, "members' variables")
    members = [as_dicts(member) for member in members]
    for number, member in enumerate(members):
        leaves = jax.tree.leaves(member)
        # A tree without leaves, such as None, is rejected too.
        for leaf in leaves or [member]:
            arrays = jax.Array | np.ndarray
            check_type(f"members[{number}]", leaf, arrays, "a tree of arrays")
    # Without weak types.
    kinds = [
        jax.tree.map(lambda leaf: f"{jax.typeof(leaf)}".strip("~"), member)
        for member in members
    ]
    for number, other in enumerate(kinds):
        if other != kinds[0]:
            raise ValueError(
                "members must have variables of the same structure, shapes and types; "
                f"those of member {number} differ from those of member 0"
            )
    _warn_of_repeated(members)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    applied = hashable_partial(apply_members, apply_fn=apply_fn)
    return Classifier(applied, stacked, outputs)


def _warn_of_repeated(members: list[Any]) -> None:
    seen: dict[tuple[str | int, ...], int] = {}
    for number, member in enumerate(members):
        leaves = jax.tree.leaves(member)
        # By their values, once known: one buffer has any number of views.
        own = (id(a) if isinstance(a, Tracer) else text(a) for a in leaves)
        first = seen.setdefault(tuple(own), number)
        if first != number:
            warn(
                f"members {first} and {number} are the same arrays, so that they agree "
                "in all answers. Of an NNX module that is trained further, take a copy "
                "each time: jaxrob.Classifier.from_nnx(module).variables"
            )


def apply_members(
    variables: Any, images: jax.Array, *, apply_fn: Callable[..., Any]
) -> jax.Array:
    """Computes outputs `[S, B, K]`."""
    # Members are sequential, like the draws of a posterior.
    return jax.lax.map(lambda member: apply_fn(member, images), variables)
