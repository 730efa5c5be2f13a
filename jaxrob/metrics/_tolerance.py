"""Robustness with tolerance and penalization, weighted by the levels' probability."""

import contextlib
import functools
import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import (
    as_written,
    check_choice,
    check_type,
    checked_array,
    checked_share,
)
from jaxrob.metrics._counts import checked_curve, range_around

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


# From a value and a threshold, both in [0, 1], to a number in [0, 1].
Score = Callable[[float, float], float]

# How far rounding may put a user's function outside its range.
_SLACK = 1e-9


def tolerance_robustness(
    levels: np.ndarray,
    values: np.ndarray,
    threshold: float,
    tolerance: str | Score | None = None,
    penalization: str | Score | None = None,
    *,
    nominal: float | None = None,
    level_distribution: "Distribution | None" = None,
    bounds: tuple[float, float] | None = None,
) -> float:
    """Robustness that rewards accepted values and penalizes the others.

    2024 paper, Definition 8, for a measure x(i) at level i and the probability p(i) of
    that level::

        1/2 + 1/2 int (tol(x(i), threshold) - dep(x(i), threshold)) p(i) di

    Three choices of values give the paper's definitions:

    * the accuracy (of the decided inputs): the robustness, Definition 8;
    * the `decided_ratio`, 1 - indecision, with the threshold gamma: the robustness
      against indecision, Definition 9;
    * the effectiveness with the threshold `beta(theta, gamma)`: the augmented
      robustness, Definition 11.

    The integral is computed by the trapezoidal rule over the given levels: each weighs
    half the mass of the distribution between it and either neighbour, the outermost
    ones all the mass beyond them, divided by the mass of the range. With both steps,
    the defaults, it is the 2020 paper's Definition 4.

    Args:
      levels: `[n]` distinct levels, in any order.
      values: `[n]`, the measure at each level, in [0, 1].
      threshold: the lowest value accepted, in [0, 1].
      tolerance: the reward of accepted values: "linear" or "step" (the default), see
        `linear_tolerance` and `step_tolerance`; or any function of one value and the
        threshold, with results in [0, 1], that is 0 below the threshold (Definition 6).
      penalization: the penalty of the others, likewise: `linear_penalization`,
        `step_penalization` (the default), or a function that is 0 above the threshold
        (Definition 7). With one that is 0 everywhere the robustness is at least 1/2.
      nominal: the measure's value where nothing is altered, in [0, 1]; the x_max of
        the linear tolerance, and needed only for it. For another x_max give
        `functools.partial(linear_tolerance, x_max=...)`.
      level_distribution: the alteration probability (Definition 3), a continuous
        NumPyro distribution of one number that has a CDF; by default uniform.
      bounds: the range's lower and upper ends; by default the outermost levels. Beyond
        these the measure is assumed constant.

    Returns:
      The robustness, in [0, 1].

    Raises:
      TypeError: if tolerance or penalization is neither a name nor a function, or the
        level distribution is not one of NumPyro's.
      ValueError: as `heaviside_robustness`; if a number leaves its range, a level lies
        outside the bounds, a name is unknown, a function leaves its range, nominal is
        missing, or the distribution is discrete or multivariate, has no CDF, or no mass
        in the range.
    """
    threshold = checked_share("threshold", threshold)
    min_length = 1 if bounds is not None else 2
    levels, values = checked_curve(levels, values, min_length)
    scores = level_scores(values, threshold, tolerance, penalization, nominal=nominal)
    return scored_robustness(scores, level_weights(levels, level_distribution, bounds))


def level_scores(
    values: np.ndarray,
    threshold: float,
    tolerance: str | Score | None = None,
    penalization: str | Score | None = None,
    *,
    nominal: float | None = None,
) -> np.ndarray:
    """The reward minus the penalty at each level, `tol(x, th) - dep(x, th)`."""
    reward = _function("tolerance", tolerance, tolerances)
    if nominal is not None:
        nominal = checked_share("nominal", nominal)
    if reward is linear_tolerance:
        if nominal is None:
            raise ValueError(
                "nominal, the value where nothing is altered, is the linear "
                "tolerance's x_max; got None"
            )
        reward = functools.partial(linear_tolerance, x_max=nominal)
    penalty = _function("penalization", penalization, penalizations)
    holding = "numbers or booleans"
    values = checked_array("values", values, "n", holding, at_least=0, at_most=1)
    values = as_written(values)
    rewards = _applied("tolerance", reward, values, threshold)
    return rewards - _applied("penalization", penalty, values, threshold)


def scored_robustness(scores: np.ndarray, weights: np.ndarray) -> float:
    """Of scored levels: `1/2 + 1/2 sum(scores weights) / sum(weights)`."""
    if not weights.any():
        raise ValueError(f"weights must not all be 0; got {len(weights)} times 0")
    # Divided by the sum of the weights, so that equal scores give exactly their value.
    mean = math.fsum(weights * scores) / math.fsum(weights)
    return float(np.clip((1 + mean) / 2, 0, 1))


def linear_tolerance(value: np.ndarray, threshold: float, x_max: float) -> np.ndarray:
    """The tolerance that grows from 0 on the threshold to 1 at x_max.

    2024 paper, section 4::

        max(min(value, x_max) - threshold, 0) / (x_max - threshold)

    If x_max does not exceed the threshold, every accepted value has reached it: the
    tolerance is 1 for all accepted values except 0.

    Args:
      value: the measure, in [0, 1], of any shape.
      threshold: the lowest value accepted, in [0, 1].
      x_max: the value from which on the tolerance is 1, in [0, 1]: for instance the
        nominal value, that of unaltered inputs.

    Returns:
      float64 in [0, 1], of the same shape.

    Raises:
      ValueError: if an argument lies outside [0, 1].
    """
    threshold = checked_share("threshold", threshold)
    x_max = checked_share("x_max", x_max)
    value = _checked_value(value)
    if x_max <= threshold:
        return step_tolerance(value, threshold) * (value > 0)
    return np.maximum(np.minimum(value, x_max) - threshold, 0) / (x_max - threshold)


def step_tolerance(value: np.ndarray, threshold: float) -> np.ndarray:
    """The tolerance that is 1 for every value at or above the threshold, otherwise 0.

    It is the 2020 paper's H. Arguments, result and errors are as for
    `linear_tolerance`.
    """
    threshold = checked_share("threshold", threshold)
    return np.where(_checked_value(value) >= threshold, 1.0, 0.0)


def linear_penalization(value: np.ndarray, threshold: float) -> np.ndarray:
    """The penalization that grows from 0 on the threshold to 1 at a value of 0.

    `max(threshold - value, 0) / threshold`, the mirror image of the linear tolerance;
    the 2024 paper gives no formula. Nothing is penalized at a threshold of 0.
    Arguments, result and errors are as for `linear_tolerance`.
    """
    threshold = checked_share("threshold", threshold)
    below = np.maximum(threshold - _checked_value(value), 0)
    return below / threshold if threshold > 0 else np.zeros_like(below)


def step_penalization(value: np.ndarray, threshold: float) -> np.ndarray:
    """The penalization that is 1 for every value below the threshold, and 0 on it.

    Arguments, result and errors are as for `linear_tolerance`.
    """
    return 1 - step_tolerance(value, threshold)


tolerances: dict[str, Callable] = {"linear": linear_tolerance, "step": step_tolerance}
penalizations = {"linear": linear_penalization, "step": step_penalization}


def check_scoring(
    threshold: float,
    tolerance: str | Score | None,
    penalization: str | Score | None,
    level_distribution: "Distribution | None",
    bounds: tuple[float, float],
) -> None:
    """Rejects arguments that `tolerance_robustness` would reject, before evaluation."""
    threshold = checked_share("threshold", threshold)
    some = np.array([0.0, threshold / 2, threshold, (1 + threshold) / 2, 1.0])
    reward = _function("tolerance", tolerance, tolerances)
    if reward is not linear_tolerance:
        _applied("tolerance", reward, some, threshold)
    penalty = _function("penalization", penalization, penalizations)
    _applied("penalization", penalty, some, threshold)
    masses(np.array(bounds, np.float64), level_distribution)


def beta(theta: float, gamma: float) -> float:
    """The effectiveness threshold for given accuracy and decided-ratio thresholds.

    The effectiveness (2024 paper, Definition 10) at accuracy theta and indecision
    1 - gamma, `theta gamma / (2 - gamma)`: a classifier just good enough by Definitions
    8 and 9 is just good enough by Definition 11. The paper prints gamma + 2, which
    contradicts its Definition 10.

    Args:
      theta: the lowest accuracy accepted, in [0, 1], otherwise a ValueError.
      gamma: the lowest ratio of decided inputs accepted, likewise.

    Returns:
      In [0, 1], rounded once from the decimals given, so that counts exactly on both
      thresholds are exactly on this one.
    """
    theta, gamma = checked_share("theta", theta), checked_share("gamma", gamma)
    # By the shortest decimals, the float 0.8 means 4/5.
    least, decided = Fraction(repr(theta)), Fraction(repr(gamma))
    return float(least * decided / (2 - decided))


def _function(
    name: str, function: str | Score | None, table: dict[str, Callable]
) -> Callable:
    if function is None:
        function = "step"
    if isinstance(function, str):
        check_choice(name, function, table)
        return table[function]
    wanted = f"one of {tuple(table)}, or a function of a value and the threshold"
    check_type(name, function, Callable, wanted)
    return function


def _checked_value(value: np.ndarray) -> np.ndarray:
    return as_written(checked_array("value", value, "...", at_least=0, at_most=1))


def _applied(
    name: str, function: Callable, values: np.ndarray, threshold: float
) -> np.ndarray:
    """Applies a function to each value, since a user's need not take arrays."""
    scores = np.array([float(function(v, threshold)) for v in values.tolist()])
    zero = values < threshold if name == "tolerance" else values > threshold
    largest = np.where(zero, 0, 1)
    wrong = ~((scores >= -_SLACK) & (scores <= largest + _SLACK))
    if wrong.any():
        i = np.flatnonzero(wrong)[0]
        side = "below" if name == "tolerance" else "above"
        raise ValueError(
            f"{name} must give numbers in [0, 1], and 0 {side} the threshold; got "
            f"{scores[i]} for the value {values[i]} and the threshold {threshold}"
        )
    return np.clip(scores, 0, largest)


# A range must hold more than this share of the mass below its upper end; otherwise
# differences of the CDF are mostly rounding errors.
_LEAST_SHARE = 1e-12


def level_weights(
    levels: np.ndarray,
    level_distribution: "Distribution | None" = None,
    bounds: tuple[float, float] | None = None,
) -> np.ndarray:
    # Masses are differences of the CDF, since a density may be infinite at an end. They
    # are divided by the mass of the range, beyond which the distribution may reach.
    ascending = np.sort(levels)
    lower, upper = range_around(ascending, bounds)
    ends = np.concatenate([[lower], ascending, [upper]])
    # Twice the weights, because half of the smallest subnormal number is 0.
    mass = masses(ends, level_distribution)
    weights = mass[:-1] + mass[1:]
    weights[0] += mass[0]
    weights[-1] += mass[-1]
    placed = np.empty_like(weights)
    placed[np.argsort(levels)] = weights / math.fsum(weights)
    return placed


def masses(ends: np.ndarray, distribution: "Distribution | None") -> np.ndarray:
    if distribution is None:
        return np.diff(ends)
    below = _cdf(distribution, ends)
    if not np.isfinite(below).all():
        bad = np.flatnonzero(~np.isfinite(below))[0]
        raise ValueError(
            f"level_distribution's CDF must be finite; got {below[bad]} at {ends[bad]}"
        )
    if below[-1] - below[0] <= _LEAST_SHARE * below[-1]:
        raise ValueError(
            "level_distribution must have mass in the range; got none in "
            f"[{ends[0]:g}, {ends[-1]:g}] from {type(distribution).__name__}"
        )
    return np.maximum(np.diff(below), 0)


def _cdf(distribution: "Distribution", at: np.ndarray) -> np.ndarray:
    # Imported here: a caller with a distribution has imported NumPyro already.
    from numpyro.distributions import Distribution

    wanted = "a NumPyro distribution, such as Normal(0, 1)"
    check_type("level_distribution", distribution, Distribution, wanted)
    made = type(distribution)
    if made.__module__.startswith("numpyro."):
        # Anew, because it keeps parts made of the attributes that it first had.
        names = inspect.signature(made).parameters
        given = {n: getattr(distribution, n) for n in names if hasattr(distribution, n)}
        with contextlib.suppress(TypeError):  # Where it lacks an argument.
            distribution = made(**given)
    shape = distribution.shape()
    if shape or distribution.is_discrete:
        raise ValueError(
            "level_distribution must be a continuous distribution of one number; got "
            f"{made.__name__} of the shape {shape}"
            f"{', discrete' if distribution.is_discrete else ''}"
        )
    # Beyond the support some CDFs are NaN or negative.
    support = distribution.support
    first = float(getattr(support, "lower_bound", -np.inf))
    last = float(getattr(support, "upper_bound", np.inf))
    # A power of two, because JAX compiles each operation for each length; float32's
    # rounding would swallow close levels' masses.
    room = max(64, 1 << (len(at) - 1).bit_length())
    inside = np.pad(np.clip(at, first, last), (0, room - len(at)), mode="edge")
    with jax.enable_x64(True):
        try:
            below = distribution.cdf(jnp.asarray(inside))
        except (AttributeError, NotImplementedError):
            raise ValueError(
                f"level_distribution must have a CDF; {made.__name__} has none"
            ) from None
        return np.asarray(below, np.float64)[: len(at)]
