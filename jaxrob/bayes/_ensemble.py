"""Deep ensembles."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_choice, check_type, checked_sequence
from jaxrob._arguments.warnings import warn
from jaxrob._classifier import OUTPUTS, Classifier
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob.bayes._network import as_dicts, variables_apply_fn


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
      ValueError: if there are no members, or their structures or shapes differ.

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
            kinds = jax.Array | np.ndarray
            check_type(f"members[{number}]", leaf, kinds, "a tree of arrays")
    shapes = [jax.tree.map(jnp.shape, member) for member in members]
    for number, other in enumerate(shapes):
        if other != shapes[0]:
            raise ValueError(
                "members must have variables of the same structure and shapes; those "
                f"of member {number} differ from those of member 0"
            )
    _warn_of_repeated(members)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    return from_members(stacked, apply_fn, outputs)


def _warn_of_repeated(members: list[Any]) -> None:
    """Warns of members with the same arrays, usually one module's state taken twice."""
    seen: dict[tuple[int, ...], int] = {}
    for number, member in enumerate(members):
        first = seen.setdefault(tuple(map(id, jax.tree.leaves(member))), number)
        if first != number:
            warn(
                f"members {first} and {number} are the same arrays, so that they agree "
                "in all answers. Of an NNX module that is trained further, take a copy "
                "each time: jaxrob.Classifier.from_nnx(module).variables"
            )


def from_members(
    variables: Any, apply_fn: Callable[..., Any], outputs: str
) -> Classifier:
    """Returns the classifier of members stacked along a leading axis."""
    return Classifier(
        hashable_partial(apply_members, apply_fn=apply_fn), variables, outputs
    )


def apply_members(
    variables: Any, images: jax.Array, *, apply_fn: Callable[..., Any]
) -> jax.Array:
    """Computes outputs `[S, B, K]`."""
    # Members are sequential, like the draws of a posterior.
    return jax.lax.map(lambda member: apply_fn(member, images), variables)
