"""Extrapolation from the logit of each class's probability."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob.roma._scores import class_scores
from jaxrob.roma._transform import yeojohnson, yeojohnson_lambda


def observe_classes(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m, K]` scores, -inf for the class predicted at the unperturbed input."""
    scores = class_scores(log_p, logit_delta)
    return jnp.where(jnp.arange(log_p.shape[-1]) == excluded, -jnp.inf, scores)


def extrapolate(scores: jax.Array) -> dict[str, jax.Array]:
    """Each class's standard score of 0 after Yeo and Johnson's transform, `[b, K]`.

    Scores are nearly linear in the perturbation and hence nearly normal, with tails
    that the transform mends. It is fitted to standardised scores.

    Args:
      scores: `[b, n, K]`, as `observe_classes` returns them.

    Returns:
      "bound", the standard score of 0; "share", the share of scores of at least 0,
      which is the answer where all scores are equal; "constant", where they are;
      `[b]` "hits", draws with a score of at least 0.
    """
    possible = scores[:, 0] > -jnp.inf
    scores = jnp.where(possible[:, None], scores, 0).swapaxes(1, 2)
    mean = scores.mean(axis=2, keepdims=True)
    std = scores.std(axis=2, keepdims=True)
    constant = scores.min(axis=2) == scores.max(axis=2)
    std = jnp.where(constant[..., None], 1.0, std)
    standard = (scores - mean) / std
    lmbda = yeojohnson_lambda(standard)[..., None]
    transformed = yeojohnson(standard, lmbda)
    centre = transformed.mean(axis=2)
    spread = transformed.std(axis=2, ddof=1)
    bound = yeojohnson(-mean / std, lmbda)[..., 0]
    return {
        "bound": (bound - centre) / jnp.where(constant, 1.0, spread),
        "share": jnp.where(possible, (scores >= 0).mean(axis=2), 0.0),
        "constant": constant | ~possible,
        "hits": ((scores >= 0) & possible[..., None]).any(axis=1).sum(axis=1),
    }


def sum_classes(found: dict[str, np.ndarray]) -> np.ndarray:
    """`[N]` log-probabilities of a distinct misclassification as any class."""
    with np.errstate(divide="ignore"):
        certain = np.log(found["share"].astype(np.float64))
    each = special.log_ndtr(-found["bound"].astype(np.float64))
    each = np.where(found["constant"], certain, each)
    return special.logsumexp(each, axis=1)
