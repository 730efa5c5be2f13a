"""Weights of levels: the integrated probability of the levels."""

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_type
from jaxrob.metrics._checks import checked_levels, range_around

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

# A range must hold more than this share of the mass below its upper end; otherwise
# differences of the CDF are mostly rounding errors.
_LEAST_SHARE = 1e-12


def level_weights(
    levels: np.ndarray,
    level_distribution: "Distribution | None" = None,
    bounds: tuple[float, float] | None = None,
) -> np.ndarray:
    """The weight of each level in a mean over the range."""
    # The trapezoidal rule for the probability of the levels (2024 paper, Definition 3):
    # each level gets half the mass between it and either neighbour, and the outermost
    # ones all the mass beyond them. Masses are differences of the CDF, since a density
    # may be infinite at an end. They are divided by the mass of the range, so that the
    # distribution may reach beyond it.
    levels = checked_levels(levels, 2 if bounds is None else 1)
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
    """Returns the mass between neighbours of `ends`, not normalised."""
    # Without a distribution the mass is uniform.
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
    kind = type(distribution).__name__
    shape = distribution.shape()
    if shape or distribution.is_discrete:
        raise ValueError(
            "level_distribution must be a continuous distribution of one number; got "
            f"{kind} of the shape {shape}"
            f"{', discrete' if distribution.is_discrete else ''}"
        )
    # Beyond the support some CDFs are NaN or negative.
    support = distribution.support
    first = float(getattr(support, "lower_bound", -np.inf))
    last = float(getattr(support, "upper_bound", np.inf))
    # Padded to a power of two, because JAX compiles each operation for each length.
    room = max(64, 1 << (len(at) - 1).bit_length())
    inside = np.pad(np.clip(at, first, last), (0, room - len(at)), mode="edge")
    # In float32 the masses of close levels are mostly rounding errors.
    with jax.enable_x64(True):
        try:
            below = distribution.cdf(jnp.asarray(inside))
        except (AttributeError, NotImplementedError):
            raise ValueError(
                f"level_distribution must have a CDF; {kind} has none"
            ) from None
        return np.asarray(below, np.float64)[: len(at)]
