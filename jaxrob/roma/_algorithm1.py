"""Algorithm 1 of Levy and Katz (2022): a normal distribution of confidences."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from jaxrob._arguments.warnings import warn
from jaxrob.roma._count import observe_hits
from jaxrob.roma._draws import Statistic, summarise_draws
from jaxrob.roma._estimate import Answers
from jaxrob.roma._margins import log_hic
from jaxrob.roma._normality import NORMAL_BELOW, anderson_darling, resolved, sort
from jaxrob.roma._transform import boxcox, boxcox_lambda
from jaxrob.roma._work import Array, Inputs, Settings, Work

# A fit is contradicted by hits that it makes less probable than this.
_IMPOSSIBLE = 1e-4


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


class Moments(NamedTuple, Generic[Array]):
    """What lines 5 to 12 need of N inputs.

    Where there are two columns, the first is of the confidences as drawn, in units of
    the largest, `hic / max`. The second is of the transformed ones, in units of the
    geometric mean, `hic / exp(mean log)`.

    Attributes:
      log_unit: `[N, 2]`, the logarithms of these units.
      boxcox_lambda: `[N]`, the maximum-likelihood lambda.
      statistic: `[N, 2]`, Anderson and Darling's.
      mean: `[N, 2]`.
      std: `[N, 2]`.
      constant: `[N]`, whether all draws give the same confidence.
      resolved: `[N]`, whether float32 resolves the confidences.
      hits: int32 `[N]`, draws that are distinctly misclassified.
    """

    log_unit: Array
    boxcox_lambda: Array
    statistic: Array
    mean: Array
    std: Array
    constant: Array
    resolved: Array
    hits: Array


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
      log_probability: log of the probability of a distinct misclassification; NaN
        except where "normal" or "transformed".
    """

    status: np.ndarray
    statistic: np.ndarray
    boxcox_lambda: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    log_probability: np.ndarray


def roma(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    """Estimator "roma": Algorithm 1."""
    found = summarise_draws(work, inputs, settings, NORMALITY)
    fit = fit_normal(found, settings.delta)
    none = np.full(len(fit.status), np.nan)
    return Answers(
        status=fit.status,
        log_adversarial_probability=fit.log_probability,
        log_low=none,
        log_high=none,
        hits=found.hits,
        evaluations=np.full(len(fit.status), settings.num_samples, np.int64),
        statistic=fit.statistic,
        boxcox_lambda=fit.boxcox_lambda,
        mean=fit.mean,
        std=fit.std,
    )


def warn_of_contradictions(
    log_probability: np.ndarray, hits: np.ndarray, number: int
) -> None:
    """Warns of fits that make the hits among the same draws next to impossible."""
    p = np.exp(log_probability)
    with np.errstate(invalid="ignore"):
        least = np.fmin(
            stats.binom.cdf(hits, number, p), stats.binom.sf(hits - 1, number, p)
        )
    answered = np.count_nonzero(~np.isnan(p))
    # Of true fits, one is so improbable once in 10,000 calls.
    impossible = np.count_nonzero(least < _IMPOSSIBLE / max(answered, 1))
    if impossible:
        worst = np.nanargmin(least)
        warn(
            f"the plain draws contradict the normal fit of {impossible} of {answered} "
            f"answers: at input {worst} it gives the probability {p[worst]:.2g}, but "
            f"{hits[worst]} of {number} draws are distinctly misclassified. Take "
            'estimator="auto"'
        )


def observe_hic(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> Confidences:
    """The confidences of m draws at one input, from `[m, K]` log-probabilities."""
    return Confidences(
        log_hic(log_p, excluded),
        -log_p.min(axis=-1),
        observe_hits(log_p, excluded, logit_delta),
    )


def examine_normality(observed: Confidences) -> Moments[jax.Array]:
    """What lines 5 to 12 need of b inputs, from `[b, n]`."""
    # Neither statistic nor standard score depends on the unit, so both are taken of
    # multiples of hic, which may itself underflow.
    # Both transforms keep the order: one sort serves.
    ascending = sort(observed.log_hic)
    largest = ascending[:, -1]
    centre = ascending.mean(axis=1)
    centred = ascending - centre[:, None]
    lmbda = boxcox_lambda(ascending)
    raw = anderson_darling(jnp.exp(ascending - largest[:, None]), ascending=True)
    transformed = anderson_darling(boxcox(centred, lmbda[:, None]), ascending=True)
    return Moments(
        log_unit=_pair(largest, centre),
        boxcox_lambda=lmbda,
        statistic=_pair(raw.statistic, transformed.statistic),
        mean=_pair(raw.mean, transformed.mean),
        std=_pair(raw.standard_deviation, transformed.standard_deviation),
        constant=ascending[:, 0] == largest,
        resolved=resolved(observed.magnitude.max(axis=1), centred.std(axis=1)),
        hits=observed.hit.sum(axis=1, dtype=jnp.int32),
    )


#: How normal the confidences of plain draws are.
NORMALITY = Statistic(observe_hic, examine_normality)


def fit_normal(found: Moments[np.ndarray], delta: float) -> NormalFit:
    """Lines 5 to 14, by what `examine_normality` returned for N inputs."""
    largest, centre = found.log_unit.astype(np.float64).T
    lmbda = found.boxcox_lambda.astype(np.float64)
    statistic, in_unit_mean, in_unit_std = (
        a.astype(np.float64).T for a in (found.statistic, found.mean, found.std)
    )
    is_normal, is_transformed = statistic < NORMAL_BELOW
    usable = ~found.constant & found.resolved
    status = np.select(
        [found.constant, ~found.resolved, is_normal, is_transformed],
        ["constant", "unresolved", "normal", "transformed"],
        "failed",
    )
    # Line 13 prints Box-Cox(delta) for both cases, but where nothing was transformed
    # delta is not either.
    with np.errstate(all="ignore"):
        bound = np.stack(
            [
                np.exp(np.log(delta) - largest),
                _boxcox(np.log(delta) - centre, lmbda),
            ]
        )
        score = (bound - in_unit_mean) / in_unit_std
        # The paper's units again.
        grown = np.exp(lmbda * centre)
        mean = [np.exp(largest) * in_unit_mean[0]]
        mean.append(grown * in_unit_mean[1] + _boxcox(centre, lmbda))
        std = [np.exp(largest) * in_unit_std[0], grown * in_unit_std[1]]
        log_probability = special.log_ndtr(-np.where(is_normal, *score))
    answered = usable & (is_normal | is_transformed)
    return NormalFit(
        status,
        np.where(usable, np.where(is_normal, *statistic), np.nan),
        np.where(usable & ~is_normal, lmbda, np.nan),
        np.where(usable, np.where(is_normal, *mean), np.nan),
        np.where(usable, np.where(is_normal, *std), np.nan),
        np.where(answered, log_probability, np.nan),
    )


def _pair(as_drawn: jax.Array, transformed: jax.Array) -> jax.Array:
    return jnp.stack([as_drawn, transformed], axis=1)


def _boxcox(log_x: np.ndarray, lmbda: np.ndarray) -> np.ndarray:
    exponent = lmbda * log_x
    return log_x * special.exprel(exponent)
