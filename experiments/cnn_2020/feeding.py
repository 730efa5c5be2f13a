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
    """An attack's results on patches that the network classifies correctly."""

    num_inputs: int  # the number of these patches
    # The share of them that is misclassified unaltered, as the network is fed. The
    # script takes these as their own adversarial examples.
    already_wrong: float
    attackable: float  # the share for which the attack finds an adversarial example
    # The mean similarity of these examples; None if there are none.
    similarity: float | None
    # The mean similarity over all these patches, 1 for those that are misclassified
    # unaltered and 0 where no example is found.
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
    """Returns the attack's results."""
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
