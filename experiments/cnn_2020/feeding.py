"""The published network, fed as it was trained and as its authors' attack feeds it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import adversarial

# What the authors' script of the attack subtracts from bytes, here in the order RGB.
# It does not divide them by 255, which their training does.
_SUBTRACTED = (123.0, 116.0, 104.0)


class Fed(NamedTuple):
    """What an attack finds among patches that are right as the network was trained.

    Attributes:
      num_inputs: these patches.
      already_wrong: the share of them that is wrong unaltered, as the network is fed.
        The script takes these as their own adversarial examples.
      attackable: the share for which the attack finds an adversarial example.
      similarity: the mean similarity of these examples; None if there are none.
      adversariability: the mean similarity over all these patches, 1 for those that are
        wrong unaltered and 0 where no example is found.
    """

    num_inputs: int
    already_wrong: float
    attackable: float
    similarity: float | None
    adversariability: float


def as_the_script_feeds_it(classifier: jaxrob.Classifier) -> jaxrob.Classifier:
    """The network on bytes less the means of other pictures, instead of on [0, 1]."""
    trained = classifier.apply_fn

    def apply(variables: Any, images: jax.Array) -> jax.Array:
        return trained(variables, 255 * images - jnp.float32(_SUBTRACTED))

    return jaxrob.Classifier(apply, classifier.variables, classifier.outputs)


def attacked(
    fed: jaxrob.Classifier,
    images: np.ndarray,
    labels: np.ndarray,
    attack: Callable[..., adversarial.Attack],
) -> Fed:
    """What an attack finds.

    Args:
      fed: the network, as it is fed.
      images: `[N, H, W, C]`, those that are right as the network was trained.
      labels: `[N]`, their classes.
      attack: the attack.
    """
    found = attack(fed, images, labels)
    worth = np.where(found.correct, np.maximum(found.similarity, 0), 1)
    similar = found.similarity[found.success]
    return Fed(
        len(labels),
        float(np.mean(~found.correct)),
        float(np.mean(found.success)),
        float(similar.mean()) if len(similar) else None,
        float(worth.mean()),
    )
