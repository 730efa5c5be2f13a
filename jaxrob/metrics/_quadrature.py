"""Adaptive quadrature of a step function, replayed from known levels."""

import bisect
import math
from typing import NamedTuple

import numpy as np
import scipy

# Levels that QUADPACK's dqagse evaluates before each decision: first the nodes of the
# 21-point Gauss-Kronrod rule, then those of both halves of an interval.
_FIRST = 21
_BISECTION = 2 * _FIRST
# How far a known level may lie from its node, as a share of the range: alterations move
# levels next to the identity to the identity.
_TOLERANCE = 2e-9


# Levels that quad asked for together, each with its distance to the nearest known one.
_Nodes = list[tuple[float, float]]


class Replay(NamedTuple):
    """The result of `scipy.integrate.quad` on known levels.

    Attributes:
      integral: the length of the accepted part; NaN unless `converged`.
      converged: whether quad finished and trusts its result.
      missing: the levels that it needs to continue, ascending; empty if it finished.
    """

    integral: float
    converged: bool
    missing: np.ndarray


def replay(
    levels: np.ndarray,
    accepted: np.ndarray,
    lower: float,
    upper: float,
    limit: int,
) -> Replay:
    """Integrates `H(value - threshold)` over a range by `scipy.integrate.quad`."""
    # Adaptive Gauss-Kronrod quadrature (QUADPACK, Piessens et al. 1983) with scipy's
    # default tolerances, the method of the 2022 paper's RQ2.1. The bisection that would
    # make `limit` intervals never runs, because quad reports a failure there even if
    # that bisection was sufficient.
    known, tolerance = levels.tolist(), _TOLERANCE * (upper - lower)
    groups: list[_Nodes] = [[]]

    def integrand(level: float) -> float:
        if len(groups[-1]) == (_FIRST if len(groups) == 1 else _BISECTION):
            if len(groups) == limit - 1 or _missing(groups[-1], tolerance):
                raise _Stop
            groups.append([])
        nearest, distance = _nearest(known, level)
        groups[-1].append((level, distance))
        # A missing level's value is arbitrary: quad decides nothing within a group.
        return 0.0 if nearest is None else float(accepted[nearest])

    integral, converged = math.nan, False
    try:
        integral, _, _, *message = scipy.integrate.quad(
            integrand, lower, upper, limit=limit, full_output=1
        )
        converged = not message
    except _Stop:
        pass
    missing = _missing(groups[-1], tolerance)
    if missing or not converged:
        return Replay(math.nan, False, np.unique(missing))
    return Replay(integral, True, np.array([]))


class _Stop(Exception):
    """Raised by the integrand to end quad early."""


def _nearest(levels: list[float], level: float) -> tuple[int | None, float]:
    """Returns the index of the known level nearest to `level`, and its distance."""
    if not levels:
        return None, np.inf
    right = bisect.bisect_left(levels, level)
    around = range(max(right - 1, 0), min(right + 1, len(levels)))
    distance, nearest = min((abs(levels[i] - level), i) for i in around)
    return nearest, distance


def _missing(group: _Nodes, tolerance: float) -> list[float]:
    """Returns the levels of a group of nodes that have not been evaluated."""
    # In narrow intervals nodes are closer than the tolerance, so a neighbour must not
    # pass for the node. Groups are evaluated whole: if one node is known exactly, the
    # others were evaluated too, and only moved.
    if all(distance > 0 for _, distance in group):
        tolerance = 0
    return [level for level, distance in group if distance > tolerance]
