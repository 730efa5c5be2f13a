"""The published network, fed as it was trained and as its authors' attack feeds it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import adversarial

# The authors' attack script subtracts these means from bytes, here in the order RGB.
# Unlike their training, it does not divide them by 255.
_SUBTRACTED = (123.0, 116.0, 104.0)


class AttackResult(NamedTuple):
    """An attack's results on patches classified correctly as the network was trained.

    Attributes:
      num_inputs: the number of these patches.
      already_wrong: the share of them that is misclassified unaltered, as the network
        is fed. The script takes these as their own adversarial examples.
      attackable: the share for which the attack finds an adversarial example.
      similarity: the mean similarity of these examples; None if there are none.
      adversariability: the mean similarity over all these patches, 1 for those that are
        misclassified unaltered and 0 where no example is found.
    """

    num_inputs: int
    already_wrong: float
    attackable: float
    similarity: float | None
    adversariability: float


def as_the_script_feeds_it(classifier: jaxrob.Classifier) -> jaxrob.Classifier:
    """Feeds the network bytes less the means of other pictures, instead of [0, 1]."""
    trained = classifier.apply_fn

    def apply(variables: Any, images: jax.Array) -> jax.Array:
        return trained(variables, 255 * images - jnp.float32(_SUBTRACTED))

    return jaxrob.Classifier(apply, classifier.variables, classifier.outputs)


def attacked(
    fed: jaxrob.Classifier,
    images: np.ndarray,
    labels: np.ndarray,
    attack: Callable[..., adversarial.Attack],
) -> AttackResult:
    """Returns the attack's results.

    Args:
      fed: the network, as it is fed.
      images: `[N, H, W, C]`, classified correctly with the training's inputs.
      labels: `[N]`, their classes.
      attack: the attack.
    """
    found = attack(fed, images, labels)
    worth = np.where(found.correct, np.maximum(found.similarity, 0), 1)
    similar = found.similarity[found.success]
    return AttackResult(
        len(labels),
        float(np.mean(~found.correct)),
        float(np.mean(found.success)),
        float(similar.mean()) if len(similar) else None,
        float(worth.mean()),
    )
