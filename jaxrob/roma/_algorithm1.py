"""Algorithm 1 of Levy and Katz (2022): a normal distribution of confidences."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from jaxrob.roma._count import observe_hits
from jaxrob.roma._normality import NORMAL_BELOW, anderson_darling, resolved, sort
from jaxrob.roma._scores import log_hic
from jaxrob.roma._transform import boxcox, boxcox_lambda


class NormalFit(NamedTuple):
    """What Algorithm 1 finds for each input; arrays `[N]`.

    Attributes:
      status: "normal" (as drawn), "transformed" (normal after Box and Cox's transform),
        "failed" (neither), "constant" (all draws give the same confidence) or
        "unresolved" (the confidences vary by little more than float32's rounding, so
        that the test would see the rounding).
      statistic: Anderson and Darling's, of the confidences where they are normal and
        of the transformed ones elsewhere.
      boxcox_lambda: maximum-likelihood lambda; NaN where nothing was transformed.
      mean: the mean that the normal distribution was given.
      std: its standard deviation.
      log_probability: log of the probability of a distinct misclassification; NaN but
        for "normal" and "transformed".
    """

    status: np.ndarray
    statistic: np.ndarray
    boxcox_lambda: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    log_probability: np.ndarray


class Confidences(NamedTuple):
    """Of each draw, `[..., m]`.

    Attributes:
      log_hic: the logarithm of the highest incorrect confidence (section 3.2).
      magnitude: the size of the largest number it was computed from, whose rounding
        it shares.
      hit: whether it is distinctly misclassified.
    """

    log_hic: jax.Array
    magnitude: jax.Array
    hit: jax.Array


def observe_hic(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> Confidences:
    """The confidences of m draws at one input, from `[m, K]` log-probabilities."""
    return Confidences(
        log_hic(log_p, excluded),
        -log_p.min(axis=-1),
        observe_hits(log_p, excluded, logit_delta),
    )


def examine_normality(observed: Confidences) -> dict[str, Any]:
    """What lines 5 to 12 need of b inputs, from `[b, n]`.

    Both are taken of multiples, `hic / max` and `hic / exp(mean log)`, for neither
    statistic nor standard score depends on the unit, and hic may underflow.
    """
    # Both transforms keep the order: one sort serves.
    ascending = sort(observed.log_hic)
    largest = ascending[:, -1]
    centre = ascending.mean(axis=1)
    centred = ascending - centre[:, None]
    lmbda = boxcox_lambda(ascending)
    raw = anderson_darling(jnp.exp(ascending - largest[:, None]), ascending=True)
    transformed = anderson_darling(boxcox(centred, lmbda[:, None]), ascending=True)
    return {
        "log_unit": _pair(largest, centre),
        "lambda": lmbda,
        "statistic": _pair(raw.statistic, transformed.statistic),
        "mean": _pair(raw.mean, transformed.mean),
        "std": _pair(raw.standard_deviation, transformed.standard_deviation),
        "constant": ascending[:, 0] == largest,
        "resolved": resolved(observed.magnitude.max(axis=1), centred.std(axis=1)),
        "hits": observed.hit.sum(axis=1, dtype=jnp.int32),
    }


def fit_normal(found: dict[str, np.ndarray], delta: float) -> NormalFit:
    """Lines 5 to 14, by what `examine_normality` returned for N inputs."""
    found = {
        name: np.asarray(value, bool if value.dtype == bool else np.float64).T
        for name, value in found.items()
    }
    is_normal, is_transformed = found["statistic"] < NORMAL_BELOW
    usable = ~found["constant"] & found["resolved"]
    status = np.select(
        [found["constant"], ~found["resolved"], is_normal, is_transformed],
        ["constant", "unresolved", "normal", "transformed"],
        "failed",
    )
    largest, centre = found["log_unit"]
    lmbda = found["lambda"]
    # Line 13 prints Box-Cox(delta) for both cases, but where nothing was transformed
    # delta is not either. In the units of `examine_normality`:
    with np.errstate(all="ignore"):
        bound = np.stack(
            [
                np.exp(np.log(delta) - largest),
                _boxcox(np.log(delta) - centre, lmbda),
            ]
        )
        score = (bound - found["mean"]) / found["std"]
        # The paper's units again.
        grown = np.exp(lmbda * centre)
        mean = [np.exp(largest) * found["mean"][0]]
        mean.append(grown * found["mean"][1] + _boxcox(centre, lmbda))
        std = [np.exp(largest) * found["std"][0], grown * found["std"][1]]
        log_probability = special.log_ndtr(-np.where(is_normal, *score))
    answered = usable & (is_normal | is_transformed)
    return NormalFit(
        status,
        np.where(usable, np.where(is_normal, *found["statistic"]), np.nan),
        np.where(usable & ~is_normal, lmbda, np.nan),
        np.where(usable, np.where(is_normal, *mean), np.nan),
        np.where(usable, np.where(is_normal, *std), np.nan),
        np.where(answered, log_probability, np.nan),
    )


def _pair(as_drawn, transformed):
    return jnp.stack([as_drawn, transformed], axis=1)


def _boxcox(log_x, lmbda):
    exponent = lmbda * log_x
    return log_x * special.exprel(exponent)
