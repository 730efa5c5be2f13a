"""The scores by which a class is predicted, and by how much one leads."""

import jax
import jax.numpy as jnp

from jaxrob._classifier import Classifier
from jaxrob._log_probabilities import mean_over_samples

# A class that leads by more than this share of the scores' range also leads in blocks
# of other sizes, which round differently.
LEAD = 1e-5


def ranking_scores(
    classifier: Classifier, images: jax.Array, keys: jax.Array | None
) -> jax.Array:
    """The scores by which the classifier ranks the classes."""
    # They are the logarithms of the mean probabilities over its samples or, of a
    # classifier without probabilities, the mean scores.
    if classifier.outputs == "scores":
        return classifier.raw_outputs(images, keys).mean(axis=0)
    return mean_over_samples(classifier.log_probabilities(images, keys))


def lead(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """By how much a class leads the best other, as a share of the scores' range."""
    chosen = jax.nn.one_hot(classes, scores.shape[-1], dtype=bool)
    rival = jnp.where(chosen, -jnp.inf, scores).max(axis=-1)
    own = jnp.where(chosen, scores, -jnp.inf).max(axis=-1)
    return (own - rival) / (scores.max(axis=-1) - scores.min(axis=-1))
