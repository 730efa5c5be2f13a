"""A classifier whose rare mistakes have exact probabilities, for several files."""

import jax
import jax.numpy as jnp
import numpy as np
from common.known_modes import linear_log_probability, threshold
from scipy import special

import jaxrob

EPSILON, DELTA = 0.1, 0.6
LOGIT = float(special.logit(DELTA))
# So many components that particles are nudged.
SHAPE, DIM = (8, 8, 1), 64
WEIGHTS = np.random.default_rng(0).standard_normal(DIM)
EVEN, ODD = (np.where(np.arange(DIM) % 2 == n, WEIGHTS, 0) for n in (0, 1))
# Of a class. As many for all tests, so that they share what is compiled.
PLANES = 3


def apply(variables, images):
    """Three classes: 0, and two with the greatest of several margins linear in u."""
    weights, offsets, blind = variables
    u = (images.reshape(len(images), -1) - 0.5) / EPSILON
    u = jnp.where(blind, jax.lax.stop_gradient(u), u)
    margins = jnp.matmul(u, weights.T, precision="highest") + offsets
    wrong = margins.reshape(len(images), 2, PLANES).max(axis=2) + LOGIT
    return jnp.pad(wrong, ((0, 0), (1, 0)))


def log_probability(direction, t, norm="linf"):
    if norm == "l1":
        # Of one component.
        return DIM * np.log1p(-t / np.abs(direction).max()) - np.log(2)
    return linear_log_probability(direction, t, norm) if t else np.log(0.5)


def plane(probability, direction=WEIGHTS, steep=6.0, norm="linf"):
    """A margin that is above 0 with this probability, so steep in each deviation."""
    size = np.linalg.norm(direction, 2 if norm == "l2" else 1)
    far = threshold(
        lambda t: log_probability(direction, t, norm), np.log(probability), 0.999 * size
    )
    variance = {"linf": 1 / 3, "l2": 1 / (DIM + 2), "l1": 2 / (DIM + 1) / (DIM + 2)}
    scale = steep / np.linalg.norm(direction) / np.sqrt(variance[norm])
    return scale * direction, -scale * far


def classifier(first, second=(), blind=False):
    """Of the planes of two classes; those that lack are never above 0."""
    never = np.zeros(DIM), -1e3
    planes = [[*some, *[never] * (PLANES - len(some))] for some in (first, second)]
    weights, offsets = zip(*planes[0], *planes[1])
    variables = np.float32(weights), np.float32(offsets), np.bool_(blind)
    return jaxrob.Classifier(apply, variables)
