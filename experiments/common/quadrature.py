"""Numerical integration, the 2022 paper's RQ2.1: `scipy.integrate.quad`, replayed.

QUADPACK's dqagse (Piessens et al. 1983) of H(value - threshold), with scipy's default
tolerances, from values at known levels. Where quad gives up the integral is NaN: the
paper's "timeout". The bisection that would make `limit` intervals never runs, because
quad reports a failure there even if that bisection was sufficient.
"""

import dataclasses
import math

import numpy as np
import scipy

from jaxrob.strategies import Found, History, Request, Task, all_images

# Levels evaluated before each decision: first the nodes of the 21-point Gauss-Kronrod
# rule, then those of both halves of an interval.
_FIRST, _BISECTION = 21, 42
# How far a known level may lie from its node, as a share of the range: alterations move
# levels next to the identity to the identity.
_TOLERANCE = 2e-9

# Levels that quad asked for together, each with its distance to the nearest known one.
_Nodes = list[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """Samples where quad would: 21 levels, then 42 for each bisection."""

    # At most 987 evaluations, the largest number below the paper's 1,024.

    limit: int = 24  # scipy's, intervals at most, at least 2
    rule = "count"
    rules = ("count",)

    def init(self, task: Task) -> History:
        """Returns nothing known; see `Strategy`."""
        return History()

    def ask(
        self, task: Task, state: History, history: History
    ) -> tuple[list[Request], History]:
        """Returns the levels of quad's next bisection; see `Strategy`."""
        accepted = history.values >= task.threshold
        bounds = task.lower, task.upper
        levels = _replay(history.levels, accepted, bounds, self.limit)[1]
        return all_images(levels), history

    def result(self, task: Task, state: History) -> Found:
        """Returns no error bound: quad only estimates its error."""
        return Found()


def robustness_by_quad(
    levels: np.ndarray,
    values: np.ndarray,
    threshold: float,
    bounds: tuple[float, float],
) -> float:
    """Returns quad's share of the range, NaN if it fails or lacks a level."""
    # Each interval takes levels, so they run out before this limit is reached. If a
    # smaller limit was enough, quad's value is the same (measured: always for limits up
    # to 60; at 100 for all but 1 function in 1,000).
    integral, _ = _replay(levels, values >= threshold, bounds, len(levels) + 2)
    # Rounding, or quad's extrapolation, may leave [0, 1].
    return float(np.clip(integral / (bounds[1] - bounds[0]), 0, 1))


class _Stop(Exception):
    """Raised by the integrand to end quad early."""


def _replay(
    levels: np.ndarray, accepted: np.ndarray, bounds: tuple[float, float], limit: int
) -> tuple[float, np.ndarray]:
    """Returns the length of the accepted part, and the levels needed to continue."""
    tolerance = _TOLERANCE * (bounds[1] - bounds[0])
    groups: list[_Nodes] = [[]]

    def integrand(level: float) -> float:
        if len(groups[-1]) == (_FIRST if len(groups) == 1 else _BISECTION):
            if len(groups) == limit - 1 or _missing(groups[-1], tolerance):
                raise _Stop
            groups.append([])
        distances = np.abs(levels - level)
        groups[-1].append((level, distances.min(initial=np.inf)))
        # A missing level's value is arbitrary: quad decides nothing within a group.
        return float(accepted[distances.argmin()]) if len(levels) else 0.0

    integral, converged = math.nan, False
    try:
        integral, _, _, *message = scipy.integrate.quad(
            integrand, *bounds, limit=limit, full_output=1
        )
        converged = not message
    except _Stop:
        pass
    missing = _missing(groups[-1], tolerance)
    return math.nan if missing or not converged else integral, np.unique(missing)


def _missing(group: _Nodes, tolerance: float) -> list[float]:
    # In narrow intervals nodes are closer than the tolerance, so a neighbour must not
    # pass for the node. Groups are evaluated whole: if one node is known exactly, the
    # others were evaluated too, and only moved.
    if all(distance > 0 for _, distance in group):
        tolerance = 0
    return [level for level, distance in group if distance > tolerance]
