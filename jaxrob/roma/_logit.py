"""Extrapolation from the logit of each class's probability."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob.roma._draws import Statistic, summarise_draws
from jaxrob.roma._estimate import Answers
from jaxrob.roma._margins import LARGEST_MARGIN, distinct_margins
from jaxrob.roma._transform import yeojohnson, yeojohnson_lambda
from jaxrob.roma._work import Array, Inputs, Settings, Work


class Extrapolation(NamedTuple, Generic[Array]):
    """What plain draws around N inputs say of each class; arrays `[N, K]`.

    Attributes:
      bound: the standard score of a margin of 0, after Yeo and Johnson's transform.
      share: the share of margins of at least 0.
      constant: whether all margins are equal, or the class is the one predicted at the
        unperturbed input; `share` is the answer then.
      hits: `[N]` draws with a margin of at least 0.
    """

    bound: Array
    share: Array
    constant: Array
    hits: Array


def logit(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "logit": extrapolates from the margins of plain draws."""
    found = summarise_draws(work, inputs, settings, CLASSES)
    number = len(inputs.images)
    none = np.full(number, np.nan)
    return Answers(
        status=np.full(number, "extrapolated"),
        log_adversarial_probability=sum_classes(found),
        log_low=none,
        log_high=none,
        hits=found.hits,
        evaluations=np.full(number, settings.num_samples, np.int64),
    )


def observe_classes(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m, K]` margins, -inf for the class predicted at the unperturbed input."""
    # The others lie within a limit, so that their squares have a mean in float32.
    margins = distinct_margins(log_p, logit_delta)
    margins = jnp.clip(margins, -LARGEST_MARGIN, LARGEST_MARGIN)
    return jnp.where(jnp.arange(log_p.shape[-1]) == excluded, -jnp.inf, margins)


def extrapolate(margins: jax.Array) -> Extrapolation[jax.Array]:
    """Fits Yeo and Johnson's transform to each class's margins."""
    # Margins are nearly linear in the perturbation. So they are nearly normal, with
    # tails that the transform mends. It is fitted to standardised margins.
    possible = margins[:, 0] > -jnp.inf
    margins = jnp.where(possible[:, None], margins, 0).swapaxes(1, 2)
    mean = margins.mean(axis=2, keepdims=True)
    std = margins.std(axis=2, keepdims=True)
    constant = margins.min(axis=2) == margins.max(axis=2)
    std = jnp.where(constant[..., None], 1.0, std)
    standard = (margins - mean) / std
    lmbda = yeojohnson_lambda(standard)[..., None]
    transformed = yeojohnson(standard, lmbda)
    centre = transformed.mean(axis=2)
    spread = transformed.std(axis=2, ddof=1)
    bound = yeojohnson(-mean / std, lmbda)[..., 0]
    return Extrapolation(
        bound=(bound - centre) / jnp.where(constant, 1.0, spread),
        share=jnp.where(possible, (margins >= 0).mean(axis=2), 0.0),
        constant=constant | ~possible,
        hits=((margins >= 0) & possible[..., None]).any(axis=1).sum(axis=1),
    )


#: The transformed margins of plain draws, by class.
CLASSES = Statistic(observe_classes, extrapolate)


def sum_classes(found: Extrapolation[np.ndarray]) -> np.ndarray:
    """`[N]` log-probabilities of a distinct misclassification as any class."""
    with np.errstate(divide="ignore"):
        certain = np.log(found.share.astype(np.float64))
    each = special.log_ndtr(-found.bound.astype(np.float64))
    each = np.where(found.constant, certain, each)
    return np.asarray(special.logsumexp(each, axis=1))
